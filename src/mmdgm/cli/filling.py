"""The options of the commands that fill missing values."""

from typing import Annotated, Any

import typer

from mmdgm.errors import InputError
from mmdgm.inference.imputation import METHODS

Rounds = Annotated[
    int | None,
    typer.Option(min=1, help="With --method draw: rounds of the iterative inference [default: 100]."),
]


def way_to_impute(method: str, rounds: int | None) -> dict[str, Any]:
    """--method and --rounds as arguments of `impute`."""
    if method not in METHODS:
        raise InputError(f"--method {method}: use {' or '.join(METHODS)}")
    if rounds is not None and method != "draw":
        raise InputError("--rounds is for --method draw; add that, or leave --rounds out")
    return {"method": method, "rounds": rounds or 100}
