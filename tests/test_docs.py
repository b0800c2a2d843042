"""The documentation's code runs, page by page, and its links lead somewhere. Needs no mkdocs."""

import re
import shlex
from pathlib import Path
from urllib.parse import unquote

import pytest
from sklearn.datasets import load_digits

from mmdgm.cli import lazy

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
FENCE = re.compile(r"^(?P<indent>[ \t>]*)(?P<fence>`{3,}|~{3,})[ \t]*(?P<info>.*)$")
LINK = re.compile(r"\]\(<?([^)\s>]+)>?(?:\s+\"[^\"]*\")?\)")
PYTHON = ("python", "py", "python3", "pycon", "ipython")


def fenced(text):
    """(line, information string, content) of each fenced block, and the text without them."""
    blocks, outside, opened = [], [], None
    for number, line in enumerate(text.splitlines(), start=1):
        match = FENCE.match(line)
        if opened is None and match:
            opened = (number, match["indent"], match["fence"], match["info"].strip(), [])
        elif opened is None:
            outside.append(line)
        elif match and match["fence"].startswith(opened[2]) and not match["info"]:
            blocks.append((opened[0], opened[1], opened[3], "\n".join(opened[4]) + "\n"))
            opened = None
        else:
            opened[4].append(line)
    assert opened is None, f"the block of line {opened[0]} is not closed"
    return blocks, "\n".join(outside)


def language(info):
    return re.split(r"[\s{.,:]+", info.strip("{. "))[0].lower()


def anchors(text):
    """Headings as mkdocs names them, and what mkdocstrings describes."""
    headings = re.findall(r"^#{1,6}\s+(.+)$", fenced(text)[1], flags=re.MULTILINE)
    described = set(re.findall(r"^::: (\S+)$", text, flags=re.MULTILINE))
    return described | {
        re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", heading).strip().lower()) for heading in headings
    }


def name(page):
    return str(page.relative_to(DOCS))


def a_third_of_the_digits(*, return_X_y=False):
    """What a page shows with all digits it shows with fewer too, in less time."""
    digits = load_digits()
    digits |= {part: digits[part][:600] for part in ("data", "images", "target")}
    return (digits.data, digits.target) if return_X_y else digits


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_every_python_block_runs(page, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    if "load_digits" in page.read_text():
        monkeypatch.setattr("sklearn.datasets.load_digits", a_third_of_the_digits)
    names = {"__name__": "page"}
    for line, indent, info, content in fenced(page.read_text())[0]:
        if language(info) not in PYTHON:
            continue
        where = f"{name(page)}, line {line}"
        assert (indent, info) == ("", "python"), (
            f"{where}: write ```python without indent or options, so that it is run"
        )
        code = "\n" * line + content  # so that a traceback shows the page's line
        exec(compile(code, str(page), "exec"), names)


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_relative_links_lead_to_files(page):
    outside = re.sub(r"`[^`]*`", lambda code: code.group() if "](" not in code.group() else "", page.read_text())
    for link in LINK.findall(fenced(outside)[1]):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / unquote(path)).resolve() if path else page
        assert target.exists(), f"{name(page)}: {link}"
        assert target.is_relative_to(ROOT), f"{name(page)}: {link} leads out of the repository"
        if anchor and target.suffix == ".md":
            assert anchor in anchors(target.read_text()), f"{name(page)}: {link} has no such heading"


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_commands_have_the_options_they_are_shown_with(page):
    for _, _, info, content in fenced(page.read_text())[0]:
        for shown in content.splitlines() if language(info) == "sh" else []:
            words = shlex.split(shown, comments=True)
            if words[:1] != ["mmdgm"]:
                continue
            assert words[1] in lazy.COMMANDS, f"{name(page)}: {shown}"
            command, rest = lazy.load(words[1]), words[2:]
            while hasattr(command, "commands"):
                assert any(word in command.commands for word in rest[:1]), f"{name(page)}: {shown}"
                command, rest = command.commands[rest[0]], rest[1:]
            known = {option for each in command.params for option in (*each.opts, *each.secondary_opts)} | {"--help"}
            given = {word.partition("=")[0] for word in rest if word.startswith("-")}
            assert given <= known, f"{name(page)}: {shown}"


def test_every_page_is_in_the_navigation():
    listed = set(re.findall(r":\s+([\w-]+\.md)$", (ROOT / "mkdocs.yml").read_text(), flags=re.MULTILINE))
    assert listed == {name(page) for page in PAGES}
