"""Tables as values: their runs, their layout, and the words that all of them use.

A table reads only result.json files.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from mmdgm.experiments.presets import find_preset

Result = Mapping[str, Any]  # a result.json
Results = Mapping[str, Sequence[Result]]  # for each cell, in the order of seeds
ABSENT = "–"
SEEDS = 3
# folders of result.json files: training runs; trained models and baselines on images with missing pixels
RUNS, MISSING = "runs", "missing"
# cells that are not trained models, and their titles
BASELINES = {"nearest-images": "10 nearest", "one-gaussian": "one Gaussian"}


@dataclass(frozen=True, kw_only=True)
class Sheet:
    """A table as text."""

    title: str
    header: list[str]
    rows: list[list[str]]
    notes: list[str]

    def markdown(self) -> str:
        lines = ["| " + " | ".join(cells) + " |" for cells in (self.header, ["---"] * len(self.header), *self.rows)]
        return "\n".join([f"**{self.title}**", "", *lines, "", "\n\n".join(self.notes)]).rstrip() + "\n"


@dataclass(frozen=True, kw_only=True)
class Table:
    """A table of the paper, or of figures in the paper's text."""

    name: str
    presets: tuple[str, ...]
    lay_out: Callable[[Results], list[Sheet]]
    folder: str = RUNS  # of its results
    baselines: tuple[str, ...] = ()
    # Number of seeds of a preset to train and to show. Otherwise SEEDS are trained, and all that exist are shown
    seeds: Mapping[str, int] = field(default_factory=dict)
    draw: Callable[[Path, Results], None] | None = None  # its picture

    @property
    def title(self) -> str:
        """The name in words: Table 1, Label curve."""
        return self.name.replace("-", " ").capitalize().replace("Table", "Table ")


def markdown(sheets: Sequence[Sheet]) -> str:
    """Return the sheets as Markdown, one after the other."""
    return "\n".join(sheet.markdown() for sheet in sheets)


def number(value: Any, digits: int) -> str:
    """Return a number as text, with a minus sign and commas between thousands."""
    return f"{value:,.{digits}f}".replace("-", "−")


def mean_and_deviation(values: Sequence[float], digits: int) -> str:
    """Return the mean ± standard deviation over seeds as text."""
    if not values:
        return ABSENT
    mean = number(np.mean(values), digits)
    return mean if len(values) == 1 else f"{mean} ± {number(np.std(values, ddof=1), digits)}"


def model_name(preset: str) -> str:
    """Return the paper's name of a preset's model."""
    return find_preset(preset).model_name


def generative_name(preset: str) -> str:
    """Return the model's name without the classifier that was trained afterwards."""
    return model_name(preset).removesuffix("+Pegasos")


def errors(results: Results, preset: str) -> list[float]:
    """Return the test errors of a preset's runs, in percent."""
    return [run["error_percent"] for run in results.get(preset, [])]


def costs(title: str, results: Results, presets: Sequence[str]) -> Sheet:
    """Return a sheet with the bound and the costs of each preset's runs."""
    return Sheet(
        title=title,
        header=["preset", "seeds", "bound (nats)", "steps", "seconds", "images/s", "device"],
        rows=[_cost(preset, results.get(preset, [])) for preset in presets],
        notes=[
            "Seconds of training, without those of compiling and of looking for neighbours. Several runs may have "
            "shared the device."
        ],
    )


def _cost(preset: str, runs: Sequence[Result]) -> list[str]:
    if not runs:
        return [preset, "0", *[ABSENT] * 5]
    seconds, speed = (np.mean([run[what] for run in runs]) for what in ("seconds", "images_per_second"))
    devices = ", ".join(sorted({run["device"] for run in runs}))
    bounds = [run["elbo"] for run in runs if run["elbo"] is not None]
    took = [f"{runs[0]['steps']:,}", f"{seconds:,.0f}", f"{speed:,.0f}"]
    return [preset, str(len(runs)), mean_and_deviation(bounds, 2), *took, devices]


def origins(title: str, results: Results) -> Sheet:
    """Return a sheet with the seeds of each cell, and the commit that each seed was made with."""
    return Sheet(
        title=f"{title}, continued. Seeds and commits",
        header=["cell", "which seeds", "made with commit"],
        rows=[
            [cell, ranges([run["seed"] for run in runs]) or ABSENT, "; ".join(_by_commit(runs)) or ABSENT]
            for cell, runs in results.items()
        ],
        notes=[],
    )


def _by_commit(runs: Sequence[Result]) -> list[str]:
    """Return each commit with its seeds; of measured models, the commit of their training too."""
    seeds: dict[str, list[int]] = {}
    for run in runs:
        measured, trained = short_commit(run), short_commit(run.get("trained", run))
        name = measured if measured == trained else f"{measured}, trained with {trained}"
        seeds.setdefault(name, []).append(run["seed"])
    alone = len(seeds) == 1
    words = {name: f" (seed{'s' * (len(some) > 1)} {ranges(some)})" for name, some in seeds.items()}
    return [name + ("" if alone else words[name]) for name in seeds]


def short_commit(result: Result) -> str:
    """Return the first digits of a result's commit, with the mark of changes; results of older versions have none."""
    commit, plus, changes = (result.get("git_commit") or "unknown").partition("+")
    return f"{commit[:7]}{plus}{changes}"


def ranges(numbers: Sequence[int]) -> str:
    """Return numbers in order as text: 0–2, 4."""
    parts: list[list[int]] = []
    for n in sorted(numbers):
        if parts and n == parts[-1][-1] + 1:
            parts[-1].append(n)
        else:
            parts.append([n])
    return ", ".join(str(part[0]) if len(part) == 1 else f"{part[0]}–{part[-1]}" for part in parts)


def quick_note(results: Results) -> list[str]:
    """Return a note if some runs are shortened."""
    cells = [cell for cell, runs in results.items() if any(run.get("quick") for run in runs)]
    quick = sorted({BASELINES.get(cell) or model_name(cell) for cell in cells})
    return [f"Quick, that is shortened runs: {', '.join(quick)}."] if quick else []


def seeds_of(results: Results, presets: Sequence[str]) -> str:
    """Return a note with the number of runs of each model."""
    return "Seeds: " + ", ".join(f"{generative_name(p)} {len(results.get(p, []))}" for p in presets) + "."


def seeds_in(count: int) -> str:
    """Return a number of seeds in words."""
    return "1 seed" if count == 1 else f"{count} seeds"


def marked(results: Sequence[Result]) -> str:
    return " (quick)" if any(result.get("quick") for result in results) else ""
