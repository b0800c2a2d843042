"""Hook of mkdocs: turn the formulas of a page into MathML, so that the site needs no script from elsewhere."""

import html
import re
from typing import Any

from latex2mathml.converter import convert

# what pymdownx.arithmatex (generic: true) leaves: <div class="arithmatex">\[ … \]</div>, or a <span> with \( … \)
FORMULA = re.compile(r'<(div|span) class="arithmatex">\s*\\[\[(](.*?)\\[\])]\s*</\1>', flags=re.DOTALL)


def on_page_content(content: str, **_: Any) -> str:
    """Return the page's HTML with every formula as MathML."""
    return FORMULA.sub(_mathml, content)


def _mathml(found: re.Match[str]) -> str:
    tag, latex = found.groups()
    display = "block" if tag == "div" else "inline"
    return f'<{tag} class="formula">{convert(html.unescape(latex), display=display)}</{tag}>'
