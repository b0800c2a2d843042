"""Lay the paper's tables out from the result.json files here, and put them into the pages that show them.

A page shows a table between `<!-- table1 -->` and `<!-- /table1 -->`; docs/reproduction.md shows all of them, the
README some. `make tables` runs this.
"""

from pathlib import Path

from mmdgm.experiments.paper.runner import lay_out
from mmdgm.experiments.paper.sheets import markdown
from mmdgm.experiments.paper.tables import TABLES
from mmdgm.files import write_whole

RESULTS = Path(__file__).parent
PAGES = (RESULTS.parent / "README.md", RESULTS.parent / "docs" / "reproduction.md")


def published() -> dict[str, str]:
    """The tables that there are results of, as markdown, by name."""
    tables = {name: table for name, table in TABLES.items() if (RESULTS / table.folder).is_dir()}
    return {name: markdown(lay_out(RESULTS, table)) for name, table in tables.items()}


def filled(page: str, tables: dict[str, str]) -> str:
    """The page with what stands between its marks replaced."""
    for name, text in tables.items():
        begin, end = f"<!-- {name} -->\n", f"<!-- /{name} -->"
        if begin not in page and end not in page:
            continue
        before, _, rest = page.partition(begin)
        _, found, after = rest.partition(end)
        if not found:
            raise ValueError(f"there is no {begin.strip()} with {end} after it")
        page = f"{before}{begin}\n{text}\n{end}{after}"
    return page


if __name__ == "__main__":
    tables = published()
    for page in PAGES:
        write_whole(page, filled(page.read_text("utf-8"), tables).encode())
