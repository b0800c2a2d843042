"""Table 6, the ablations and the label curve: MNIST with few labels."""

from pathlib import Path

from mmdgm.experiments.paper import printed as paper
from mmdgm.experiments.paper.sheets import (
    ABSENT,
    Results,
    Sheet,
    Table,
    costs,
    errors,
    marked,
    mean_and_deviation,
    quick_note,
)
from mmdgm.report import plots

WITH_GRAPH, NO_GRAPH = "mnist-mmcva-100-modern", "mnist-mmcva-100-no-graph"
GRAPH_ALONE = "labels propagated along the graph alone, no network"
# our rows of Table 6, with the presets of its three columns
TABLE_6 = {
    "Conv-MMCVA": ("mnist-mmcva-100", "mnist-mmcva-1000", "mnist-mmcva-all"),
    "Conv-MMCVA, the authors' schedule": ("mnist-mmcva-100-authors", None, None),
    "Conv-MMCVA with distortions, averaged weights and its own guesses on shifted images": (NO_GRAPH, None, None),
    "Conv-MMCVA with distortions, averaged weights and, for 100 labels, labels propagated along the graph": (
        WITH_GRAPH,
        "mnist-mmcva-1000-modern",
        "mnist-mmcva-all-modern",
    ),
}
TABLE_6_PRESETS = tuple(preset for presets in TABLE_6.values() for preset in presets if preset)
TABLE_6_SEEDS = {
    "mnist-mmcva-100": 10,
    "mnist-mmcva-1000": 10,
    "mnist-mmcva-100-authors": 1,
    NO_GRAPH: 10,
    WITH_GRAPH: 10,
    "mnist-mmcva-1000-modern": 10,
}
FULL = "mnist-mmcva-100"
ABLATIONS = {
    FULL: "Conv-MMCVA, α_U = 0.3",
    "mnist-mmcva-100-hat3": "α_U = 3",
    "mnist-mmcva-100-no-hat": "no hat loss",
    "mnist-mmcva-100-classifier": "classifier alone: no generative model",
    "mnist-mmcva-100-no-balance": "no label balance",
    "mnist-mmcva-100-no-straight-through": "no straight-through gradient",
    "mnist-mmcva-100-labels-alone": "classifier on the labels alone",
    "mnist-conv-mmva-100": "naive: Conv-MMVA, unlabeled rows in the bound alone",
    "mnist-m2-100": "M2: sums over labels, cross entropy",
}
# ten seeds, because these two differ much in half of the seeds and little in the others
ABLATION_SEEDS = {FULL: 10, "mnist-mmcva-100-classifier": 10}
CURVE = {
    100: FULL,
    200: "mnist-mmcva-200",
    400: "mnist-mmcva-400",
    800: "mnist-mmcva-800",
    1000: "mnist-mmcva-1000-wide",
}


def table_6(results: Results) -> list[Sheet]:
    """Return Table 6: error by the number of labels, and the costs of a run."""
    rows = [[name, *figures, "quoted by the paper"] for name, figures in paper.TABLE_6_QUOTED.items()]
    rows.append(["Conv-MMCVA", *paper.TABLE_6, "the paper"])
    for name, presets in TABLE_6.items():
        cells = [
            mean_and_deviation(errors(results, preset), 2) + marked(results.get(preset, [])) if preset else ABSENT
            for preset in presets
        ]
        rows.append([name, *cells, "ours"])
    alone = [run["graph_error_percent"] for run in results.get(WITH_GRAPH, []) if "graph_error_percent" in run]
    rows.append([GRAPH_ALONE, mean_and_deviation(alone, 2), ABSENT, ABSENT, "ours"])
    return [
        Sheet(
            title="Table 6. MNIST with few labels, test error %",
            header=["model", "100 labels", "1,000 labels", "all labels", "from"],
            rows=rows,
            notes=quick_note(results),
        ),
        costs("Table 6, continued. What a seed of ours takes", results, TABLE_6_PRESETS),
    ]


def ablations(results: Results) -> list[Sheet]:
    """Return the ablations: the effect of each part of the objective, on the same labeled images as the full model."""
    full = {run["seed"]: run["error_percent"] for run in results.get(FULL, [])}
    rows = []
    for preset, words in ABLATIONS.items():
        runs = results.get(preset, [])
        same_seeds = [full[run["seed"]] for run in runs if run["seed"] in full]
        printed = paper.ABLATIONS.get(preset, ABSENT)
        ours = [mean_and_deviation(values, 2) for values in (errors(results, preset), same_seeds)]
        rows.append([words + marked(runs), *ours, printed, str(len(runs))])
    return [
        Sheet(
            title="Ablations: MNIST, 100 labels",
            header=["model", "test error %", "full model, same seeds", "paper", "seeds"],
            rows=rows,
            notes=[
                "A seed means the same labeled images in all rows, and in all but the naive model's the same "
                "initial weights. The paper's text has α_U = 3, its authors' code 0.3. Whether the paper's 0.2 is "
                "of the full model or of the classifier alone is not clear.",
                *quick_note(results),
            ],
        )
    ]


def label_curve(results: Results) -> list[Sheet]:
    """Return the label curve: error by the number of labels, with the same settings for all."""
    rows = [
        [
            f"{n:,}" + marked(results.get(preset, [])),
            mean_and_deviation(found := errors(results, preset), 2),
            str(len(found)),
        ]
        for n, preset in CURVE.items()
    ]
    return [
        Sheet(
            title="Label curve: Conv-MMCVA on MNIST",
            header=["labels", "test error %", "seeds"],
            rows=rows,
            notes=[
                "Of one seed, the labeled images of a smaller number are among those of a larger one.",
                *quick_note(results),
            ],
        )
    ]


def draw_label_curve(path: Path, results: Results) -> None:
    """Draw one line per seed; horizontal lines are the errors of other models with all labels."""
    by_seed: dict[int, dict[int, float]] = {}
    for n, preset in CURVE.items():
        for run in results.get(preset, []):
            by_seed.setdefault(run["seed"], {})[n] = run["error_percent"]
    others = ("M1+M2 (Kingma et al. 2014)", "Conv-CatGAN (Springenberg 2016)")
    levels = {f"{name.split()[0]} with all labels": float(paper.TABLE_6_QUOTED[name][2]) for name in others}
    plots.save_lines(
        path,
        {f"seed {seed}": by_seed[seed] for seed in sorted(by_seed)},
        levels=levels,
        x="labeled images",
        y="test error %",
    )


TABLES = (
    Table(
        name="table6",
        presets=TABLE_6_PRESETS,
        lay_out=table_6,
        seeds=TABLE_6_SEEDS,
    ),
    Table(name="ablations", presets=tuple(ABLATIONS), lay_out=ablations, seeds=ABLATION_SEEDS),
    Table(
        name="label-curve",
        presets=tuple(CURVE.values()),
        lay_out=label_curve,
        seeds=dict.fromkeys(CURVE.values(), 3),  # the other tables use more seeds of mnist-mmcva-100
        draw=draw_label_curve,
    ),
)
