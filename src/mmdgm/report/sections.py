"""The sections of a report that every kind of data has: training, errors, features, settings."""

import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from mmdgm.report import charts
from mmdgm.report.page import Block, Charts, Code, Facts, Grid, Section, Text, svg
from mmdgm.report.subject import ABSENT, Judgement, Run

NO_TERMS = {"stage", "step", "epoch", "learning_rate", "images_per_second", "seconds"}
LARGEST_MATRIX = 20  # classes
PAIRS = 20  # of classes that are confused most
POINTS = 600  # rows in the chart of features


def terms_of(history: list[dict[str, Any]]) -> list[str]:
    """Return the terms of the objective that are not always 0."""
    names = history[0] if history else {}
    return [name for name in names if name not in NO_TERMS and any(row[name] for row in history)]


def training(run: Run) -> Section:
    """What was trained on what."""
    counts, result = run.counts, run.result
    kind = type(run.estimator).__name__
    rows = [("Model", run.model), *([("Estimator", kind)] if kind != run.model else []), ("Trained on", run.data)]
    rows += [(name.capitalize(), f"{counts[key]:,} rows") for name, key in COUNTS.items() if counts.get(key)]
    if counts.get("columns") or counts.get("shape"):
        rows.append(("Shape", " × ".join(map(str, counts["shape"]))))
    if counts.get("missing_values"):
        rows.append(("Missing values", f"{counts['missing_values']:,}"))
    if result.get("overrides"):
        changes = ", ".join(f"{key}={value}" for key, value in result["overrides"].items())
        rows.append(("Changed settings", changes + (" (shortened)" if result.get("quick") else "")))
    rows += [(name, value(result[key])) for key, (name, value) in FIGURES.items() if result.get(key) is not None]
    blocks: list[Block] = [Facts(rows)]
    if per_class := counts.get("labeled_per_class"):
        names = run.estimator.classes_.tolist()
        numbers = per_class.values() if isinstance(per_class, Mapping) else per_class
        cells = [[str(name), f"{number:,}"] for name, number in zip(names, numbers, strict=True)]
        blocks.append(Grid("Labeled rows of each class", ["class", "labeled rows"], cells))
    return Section("What was trained", blocks)


COUNTS = {"labeled": "labeled", "unlabeled": "unlabeled", "held out for validation": "validation", "test": "test"}
FIGURES: dict[str, tuple[str, Any]] = {
    "elbo": ("Bound on test rows", lambda value: f"{value:.2f} nats"),
    "elbo_binarised": ("Bound on binarised test rows", lambda value: f"{value:.2f} nats"),
    "validation_error_percent": ("Error on validation rows", lambda value: f"{value:.2f} %"),
    "graph_error_percent": ("Error of the propagated labels alone", lambda value: f"{value:.2f} %"),
    "training_accuracy_on_labeled_rows": ("Accuracy on its own labeled rows", lambda value: f"{100 * value:.1f} %"),
    "epochs": ("Epochs", lambda value: f"{value:,}"),
    "seconds": ("Training took", lambda value: f"{value:,.1f} seconds"),
    "device": ("Device", str),
}


def curves(run: Run) -> Section | None:
    """A chart for each term of the objective."""
    found = []
    steps = [row["step"] for row in run.history]
    for name in terms_of(run.history):
        values = [row[name] for row in run.history]
        title = name.replace("_", " ")
        axes = charts.curves({name: (steps, values)}, title=title)
        found.append((svg(axes, f"{title} against the step; last value {values[-1]:.4g}"), ""))
    note = Text("Means since the line before. The first twentieth of the steps may leave the picture.")
    return Section("Terms of the objective", [note, Charts(found)]) if found else None


def confusion(judged: Judgement) -> Section | None:
    """Which classes were taken for which."""
    if judged.truth is None:
        return None
    counts, names = judged.confusion(), judged.names
    if len(names) <= LARGEST_MATRIX:
        shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
        rows = [[name, *(f"{n:,}" for n in line)] for name, line in zip(names, counts.tolist(), strict=True)]
        title = f"True class (lines) and predicted class (columns): {judged.rows.place}"
        return Section("Confusion matrix", [Grid(title, ["true class", *names], rows, shares.tolist())])
    wrong = counts - np.diag(np.diag(counts))
    order = np.argsort(-wrong, axis=None, kind="stable")[:PAIRS]
    pairs = [divmod(int(place), len(names)) for place in order if wrong.flat[place]]
    rows = [[names[true], names[said], f"{wrong[true, said]:,}"] for true, said in pairs]
    title = f"The pairs of classes confused most: {judged.rows.place}"
    return Section("Confusion of classes", [Grid(title, ["true class", "predicted class", "rows"], rows)])


def features(run: Run, judged: Judgement) -> Section | None:
    """The input of the classifier's last layer on two principal components."""
    chosen = np.random.default_rng(0).permutation(len(judged.rows.x))[:POINTS]
    if len(chosen) < 3:
        return None
    found = run.estimator.transform(judged.rows.x[chosen], features=True)
    points, shares = charts.principal_components(found)
    codes = judged.predicted if judged.truth is None else judged.truth
    what = "predicted" if judged.truth is None else "true"
    axes = charts.embedding(points, codes[chosen], judged.names)
    said = (
        f"Features of {len(chosen):,} rows on their first two principal components, "
        f"which hold {100 * shares.sum():.0f} % of the variance; colour and marker: {what} class"
    )
    return Section("Features", [Charts([(svg(axes, said), said)])])


def repeat(run: Run) -> Section:
    """How to make the run again: the command, versions, all settings."""
    result = run.result
    blocks: list[Block] = []
    if run.command:
        blocks.append(Code(run.command))
    versions = [(name, str(value)) for name, value in result.get("versions", {}).items()]
    more = {"git_commit": "commit", "source_tree": "source tree", "precision": "precision", "execution": "execution"}
    versions += [(name, str(result.get(key) or ABSENT)) for key, name in more.items() if key in result]
    for name, file in result.get("dataset", {}).get("files", {}).items():
        versions.append((name, f"SHA-256 {file['sha256']}{'' if file['official'] else ' (not the official file)'}"))
    if versions:
        blocks.append(Facts(versions))
    settings = {**run.about} if run.about else {"parameters": run.estimator.get_params()}
    blocks.append(Code(_json(settings), "All settings"))
    if result:
        blocks.append(Code(_json(result), "result.json"))
    return Section("How to repeat it", blocks)


def _json(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False, default=str)
