"""The page that shows several runs side by side."""

from collections.abc import Mapping, Sequence
from typing import Any

from mmdgm.data.codecs import ImageCodec
from mmdgm.report import charts
from mmdgm.report.figures import sample_grid
from mmdgm.report.image_sections import CLASSES, COLUMNS, pictures
from mmdgm.report.page import Charts, Grid, Section, Strips, Text, render, strip, svg
from mmdgm.report.sections import FIGURES, terms_of
from mmdgm.report.subject import ABSENT, Run, errors_of


def comparison(runs: Sequence[Run]) -> bytes:
    """Return the page of several runs."""
    names = ", ".join(run.name for run in runs)
    tiles = []
    for run in runs:
        errors = errors_of(run)
        value, remark = (errors.percent, errors.interval) if errors else (ABSENT, "not measured")
        tiles.append((f"Error of {run.name}", value, remark))
    parts = [figures(runs), settings(runs), samples(runs), curves(runs)]
    return render("Comparison of runs", f"{len(runs)} runs: {names}.", tiles, [part for part in parts if part])


def figures(runs: Sequence[Run]) -> Section:
    """The figures of each run, a column per run."""
    lines: dict[str, list[str]] = {
        "model": [run.model for run in runs],
        "data": [run.data for run in runs],
        "seed": [str(run.about.get("seed", ABSENT)) for run in runs],
    }
    for name in ("labeled", "unlabeled", "test"):
        lines[f"{name} rows"] = [f"{run.counts[name]:,}" if name in run.counts else ABSENT for run in runs]
    found = [errors_of(run) for run in runs]
    lines["error"] = [errors.percent if errors else ABSENT for errors in found]
    lines["95 % interval"] = [f"{each.low:.2f} to {each.high:.2f} %" if each else ABSENT for each in found]
    for key, (name, text) in FIGURES.items():
        values = [run.result.get(key) for run in runs]
        lines[name] = [ABSENT if value is None else text(value) for value in values]
    lines["commit"] = [str(run.result.get("git_commit") or ABSENT)[:12] for run in runs]
    rows = [[name, *cells] for name, cells in lines.items() if set(cells) != {ABSENT}]
    return Section("Side by side", [Grid("Figures of the runs", ["figure", *(run.name for run in runs)], rows)])


def settings(runs: Sequence[Run]) -> Section:
    """The settings that are not the same in all runs: of presets, or else the parameters of the estimators."""
    presets = all("config" in run.about for run in runs)
    flat = [flattened(run.about["config"] if presets else run.estimator.get_params()) for run in runs]
    keys = sorted(set().union(*flat))
    rows = [[key, *(each.get(key, ABSENT) for each in flat)] for key in keys]
    rows = [row for row in rows if len(set(row[1:])) > 1]
    if not rows:
        return Section("Settings that differ", [Text("All settings are the same.")])
    return Section("Settings that differ", [Grid("Settings that differ", ["setting", *(r.name for r in runs)], rows)])


def flattened(values: Mapping[str, Any], prefix: str = "") -> dict[str, str]:
    """Return nested settings as text, by keys such as `config.training.epochs`."""
    flat: dict[str, str] = {}
    for key, value in values.items():
        inside = flattened(value, f"{prefix}{key}.") if isinstance(value, Mapping) else {f"{prefix}{key}": str(value)}
        flat |= inside
    return flat


def samples(runs: Sequence[Run]) -> Section | None:
    """A line of generated images per run; of conditional models, one of each class."""
    rows = []
    for run in runs:
        estimator = run.estimator
        if not isinstance(estimator.codec_, ImageCodec) or not estimator.model_.generates:
            continue
        found = sample_grid(estimator, columns=COLUMNS, rows=1)
        images = found["x"][:CLASSES, 0] if "y" in found else found["x"][0]
        rows.append((run.name, strip(pictures(estimator, images)), f"{len(images)} generated images of {run.name}"))
    note = "Of a conditional model, one image per class with the same code"
    return Section("Generated images", [Strips(note, rows)]) if rows else None


def curves(runs: Sequence[Run]) -> Section | None:
    """A chart for each term of the objective, with a line per run."""
    found = []
    for term in dict.fromkeys(name for run in runs for name in terms_of(run.history)):
        lines = {
            run.name: ([row["step"] for row in run.history], [row[term] for row in run.history])
            for run in runs
            if run.history and term in run.history[0]
        }
        title = term.replace("_", " ")
        last = ", ".join(f"{name} {values[-1]:.4g}" for name, (_, values) in lines.items())
        found.append((svg(charts.curves(lines, title=title), f"{title} against the step; last values: {last}"), ""))
    return Section("Terms of the objective", [Charts(found)]) if found else None
