"""Hook of mkdocs: turn notebooks, with their stored outputs, into pages. It needs no Jupyter, and adds no script."""

import json
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files


def on_files(files: Files, config: Any) -> Files:
    """Add a page for each notebook, which itself stays to be downloaded."""
    for file in list(files):
        if file.src_uri.endswith(".ipynb") and file.abs_src_path:
            name = file.src_uri.removesuffix(".ipynb") + ".md"
            text = markdown(json.loads(Path(file.abs_src_path).read_text(encoding="utf-8")))
            note = f"\n\n[Download this notebook]({Path(file.src_uri).name}){{ download }}\n"
            files.append(File.generated(config, name, content=text + note))
    return files


def on_page_markdown(text: str, **_: Any) -> str:
    """Return a page whose links to notebooks lead to their pages."""
    return text.replace(".ipynb)", ".md)").replace(".md){ download }", ".ipynb){ download }")


def markdown(notebook: dict[str, Any]) -> str:
    """Return a notebook as Markdown: its text, its code, and below each piece of code what it printed and showed."""
    parts = []
    for cell in notebook["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(source)
        else:
            parts.append(f"```python\n{source}\n```")
            parts += map(output, cell["outputs"])
    return "\n\n".join(parts)


def output(found: dict[str, Any]) -> str:
    """Return one output of a cell: HTML, a picture, or text."""
    if found["output_type"] == "stream":
        return "```text\n" + "".join(found["text"]).rstrip() + "\n```"
    data = found["data"]
    if "text/html" in data:
        html = "\n".join(line for line in "".join(data["text/html"]).splitlines() if line.strip())
        return f'<div class="cell-output">\n{html}\n</div>'
    if "image/png" in data:
        picture = f'<img alt="figure of the code above" src="data:image/png;base64,{data["image/png"]}">'
        return f'<div class="cell-output">{picture}</div>'
    return "```text\n" + "".join(data["text/plain"]).rstrip() + "\n```"
