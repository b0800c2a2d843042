"""Commands that are imported only when they are called, because importing torch and scikit-learn takes seconds."""

from importlib import import_module
from typing import Any, NamedTuple

import typer
from typer.core import TyperGroup

from mmdgm.cli.common import MARKUP


class Place(NamedTuple):
    """The place where a command is defined, and its line in the list of commands."""

    module: str
    attribute: str
    line: str


COMMANDS = {
    "list": Place("presets", "list_", "Show the presets, or the settings of one."),
    "train": Place(
        "train", "train", "Train one of the paper's presets, and write model, figures and result.json to a folder."
    ),
    "suggest": Place(
        "suggest", "suggest", "Choose the rows to label next: a CSV file to fill in, and a picture of the images."
    ),
    "fit": Place(
        "fit", "fit", "Train a model on your own data, and write model, figures and result.json to a folder."
    ),
    "evaluate": Place("evaluate", "evaluate", "Print a run's error and bound on labeled rows, or on its test set."),
    "predict": Place(
        "predict",
        "predict",
        "Classify your own images or rows; write a CSV file with prediction and scores.",
    ),
    "sample": Place("sample", "sample", "Generate rows like the training data: an npz or CSV file, and a PNG grid."),
    "impute": Place(
        "impute", "impute", "Fill missing values; write an npz or CSV file, and a picture of images before and after."
    ),
    "export": Place(
        "export", "export", "Write a run's classifier as a file that other programs can run, and check its scores."
    ),
    "report": Place("report", "report", "Write a page to look at: of one run, or of several side by side."),
    "app": Place("pages", "app", "Open a page in the browser: play with a trained model, or label data."),
    "reproduce": Place(
        "reproduce",
        "reproduce",
        "Train the models of one of the paper's tables, and show our figures beside the paper's.",
    ),
    "data": Place("data", "data", "See, fetch and check the data sets."),
}


def load(name: str) -> Any:
    """Return a command, or a group of commands, with all its options."""
    place = COMMANDS[name]
    found = getattr(import_module(f"mmdgm.cli.{place.module}"), place.attribute)
    if isinstance(found, typer.Typer):
        return typer.main.get_command(found)
    alone = typer.Typer(add_completion=False, rich_markup_mode=MARKUP)
    alone.command(name)(found)
    return typer.main.get_command(alone)


class LazyCommands(TyperGroup):
    """A group that lists commands by name and line, and imports only the called command."""

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        name, listed, rest = super().resolve_command(ctx, args)
        return name, load(name) if name in COMMANDS else listed, rest


def add_commands(app: typer.Typer) -> None:
    """Add all commands to the list without importing them."""
    for name, place in COMMANDS.items():
        app.command(name, help=place.line)(_listed)


def _listed() -> None:
    """Placeholder in the list for a command that is not imported yet."""
