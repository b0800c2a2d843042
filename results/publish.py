"""Fill the pages with tables and figures of the result.json files here. `make tables` runs this.

A table stands between `<!-- table1 -->` and `<!-- /table1 -->`. docs/reproduction.md shows all tables, the README
some.

A figure in a sentence stands between `<!-- =PRESET KIND -->` and `<!-- / -->`. It is the mean ± standard deviation
over the runs in `runs/PRESET` or `runs-aside/PRESET`. KIND is `error` (%), `bound` (nats), `seconds` or `seeds`.
`mean`, `min` or `max` after KIND gives one number, and so does `PRESET/seed-N` in place of PRESET.
"""

import re
from pathlib import Path

import numpy as np

from mmdgm.experiments.paper.runner import DONE, lay_out, results_by_seed
from mmdgm.experiments.paper.sheets import RUNS, markdown, mean_and_deviation, number
from mmdgm.experiments.paper.tables import TABLES
from mmdgm.files import write_whole

RESULTS = Path(__file__).parent
ROOT = RESULTS.parent
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), RESULTS / "DEVIATIONS.md")
KINDS = {"error": ("error_percent", 2), "bound": ("elbo", 2), "seconds": ("seconds", 0)}  # key, digits
CHOICES = {"mean": np.mean, "min": min, "max": max}
FIGURE = re.compile(r"(<!-- =(\S+) (\S+)(?: (\S+))? -->)[^<]*(<!-- / -->)")
FIRST = re.compile(r"^[ \t]*(?:[-*+>]|\d+\.)?[ \t]*<!-- (?:=|/ -->).*$", flags=re.MULTILINE)  # in a line or an item


def published() -> dict[str, str]:
    """All tables as markdown, by name."""
    return {name: markdown(lay_out(RESULTS, table)) for name, table in TABLES.items()}


def figure(name: str, kind: str, choice: str | None = None) -> str:
    """A figure of the runs with this name that reached their end; `name` is PRESET or PRESET/seed-N."""
    preset, _, seed = name.partition("/")
    runs = [
        result
        for folder in (RUNS, "runs-aside")
        for n, result in results_by_seed(RESULTS / folder / preset).items()
        if result["status"] == DONE and seed in ("", f"seed-{n}")
    ]
    if not runs:
        raise ValueError(f"there are no results of {name}")
    if kind == "seeds":
        return str(len(runs))
    if kind not in KINDS or choice not in (None, *CHOICES):
        raise ValueError(f"there is no figure {kind} {choice or ''} of {name}")
    key, digits = KINDS[kind]
    values = [run[key] for run in runs]
    return number(CHOICES[choice](values), digits) if choice else mean_and_deviation(values, digits)


def filled(page: str, tables: dict[str, str]) -> str:
    """The page with the tables and figures between its marks replaced."""
    for name, text in tables.items():
        begin, end = f"<!-- {name} -->\n", f"<!-- /{name} -->"
        if begin not in page and end not in page:
            continue
        before, _, rest = page.partition(begin)
        _, found, after = rest.partition(end)
        if not found:
            raise ValueError(f"there is no {begin.strip()} with {end} after it")
        page = f"{before}{begin}\n{text}\n{end}{after}"
    return with_figures(page)


def with_figures(page: str) -> str:
    """The page with the figures in its sentences replaced."""
    if page.count("<!-- =") != page.count("<!-- / -->") or page.count("<!-- =") != len(FIGURE.findall(page)):
        raise ValueError("a mark is not of the form <!-- =PRESET KIND -->…<!-- / -->")
    if line := FIRST.search(page):
        raise ValueError(f"Markdown takes a line that begins with a mark for HTML: {line[0]}")
    return FIGURE.sub(lambda mark: f"{mark[1]}{figure(*mark.group(2, 3, 4))}{mark[5]}", page)


if __name__ == "__main__":
    tables = published()
    for page in PAGES:
        write_whole(page, filled(page.read_text("utf-8"), tables).encode())
