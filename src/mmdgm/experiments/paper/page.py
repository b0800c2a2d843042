"""The page of a folder of results: the paper's tables and figures beside ours. It trains nothing."""

import base64
import io
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from PIL import Image

from mmdgm.experiments.paper.runner import lay_out, read_results
from mmdgm.experiments.paper.sheets import MISSING, RUNS, Table
from mmdgm.experiments.paper.tables import TABLES
from mmdgm.report.page import Block, Grid, Picture, Section, Text, render

WIDTH, PICTURES = 900, 2 * 2**20  # largest width of a picture in pixels, and bytes of all pictures


def holds_results(folder: Path) -> bool:
    """Return whether a folder holds results of `mmdgm reproduce`."""
    return any(any(folder.glob(f"{kind}/*/seed-*/result.json")) for kind in (RUNS, MISSING))


def paper_report(folder: Path) -> bytes:
    """Return the page of all tables that have results in the folder, and of its pictures."""
    sections = [section for table in TABLES.values() if (section := _table(folder, table))]
    if drawn := list(_pictures(folder)):
        sections.append(Section("Figures", drawn))
    count = sum(1 for _ in folder.glob(f"{RUNS}/*/seed-*/result.json"))
    lead = f"The paper's figures beside ours, from the {count:,} runs in {folder.resolve().name}."
    return render("The paper's tables and ours", lead, [], sections)


def _table(folder: Path, table: Table) -> Section | None:
    results = read_results(folder, table)
    if not any(results.values()):
        return None
    blocks: list[Block] = []
    for sheet in lay_out(folder, table):
        blocks.append(Grid(sheet.title, sheet.header, sheet.rows))
        blocks += [Text(note) for note in sheet.notes]
    if table.draw:
        with TemporaryDirectory() as place:
            file = Path(place) / f"{table.name}.png"
            table.draw(file, results)
            blocks.append(Picture(_source(file), f"chart of {table.name}: its numbers are in the table", table.name))
    return Section(table.title, blocks)


def _pictures(folder: Path) -> Iterator[Block]:
    """Yield the pictures in the folder, apart from those of single runs."""
    size = 0
    for file in sorted(folder.glob("figures-*/*.png")):
        source = _source(file)
        size += len(source)
        if size > PICTURES:
            yield Text("There are more pictures in the folder than this page holds.")
            return
        name = f"{file.parent.name}: {file.stem}"
        yield Picture(source, f"picture {name}", name)


def _source(file: Path) -> str:
    """Return a picture as a data URI with few colours."""
    buffer = io.BytesIO()
    with Image.open(file) as picture:
        picture.thumbnail((WIDTH, 4 * WIDTH))
        picture.convert("RGB").quantize(128).save(buffer, "PNG", optimize=True)
    return "data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode()
