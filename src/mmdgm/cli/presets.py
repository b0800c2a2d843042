"""The command `mmdgm list`."""

from typing import Annotated

import typer
from rich.table import Column, Table

from mmdgm.cli.common import Json, out, print_json
from mmdgm.experiments.presets import PRESETS, find_preset
from mmdgm.settings import settings_of


def list_(
    preset: Annotated[str | None, typer.Argument(help="Show this preset's settings.")] = None,
    as_json: Json = False,
) -> None:
    """Show the presets, or the settings of one.

    Example: `mmdgm list mnist-mmva`
    """
    if preset is None:
        rows = [
            {
                "preset": p.name,
                "dataset": p.config.data.dataset,
                "labels": p.config.data.labels,
                "model": p.model_name,
                "cell": p.cell,
                "paper": p.paper,
                "time": p.time,
            }
            for p in PRESETS
        ]
        if as_json:
            print_json(rows)
            return
        table = Table(
            Column("preset", min_width=max(len(p.name) for p in PRESETS)),  # users type the whole name
            "data set",
            "labels",
            "model",
            "where in the paper",
            "its figure",
            "on one H200; on 2 CPU cores",
            box=None,
        )
        for row in rows:
            cells = {**row, "labels": row["labels"] or "all"}
            table.add_row(*(str(cell) for cell in cells.values()))
        out.print(table)
        return
    settings = settings_of(find_preset(preset).config)
    if as_json:
        print_json({key: s.value for key, s in settings.items()})
        return
    table = Table("setting", "value", "takes", "what it is", box=None)
    for key, s in settings.items():
        value = ",".join(map(str, s.value)) if isinstance(s.value, tuple) else str(s.value).lower()
        table.add_row(key, value, s.allowed, s.help)
    out.print(table)
