"""Class-conditional samples beside the labeled images of training, and two measures of their quality.

agreement      samples that a classifier trained on real images assigns to the wanted class
trained on     test error of a classifier that was trained on samples only
"""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from mmdgm.data.batches import Store
from mmdgm.data.codecs import ImageCodec
from mmdgm.data.datasets import Dataset
from mmdgm.experiments.paper.runner import Reproduction
from mmdgm.experiments.presets import find_preset
from mmdgm.experiments.rows import split_rows
from mmdgm.experiments.run_folder import Estimator
from mmdgm.files import write_json
from mmdgm.inference.evaluation import error_percent, predict_scores
from mmdgm.models import MaxMarginConditionalVAEConfig
from mmdgm.report import plots
from mmdgm.report.figures import as_pictures, sample_grid
from mmdgm.training.plan import Training
from mmdgm.training.trainer import Trainer

SAMPLES = 10_000  # of all classes
COLUMNS = 10  # images of a class in a picture
CLASSIFIER = MaxMarginConditionalVAEConfig(dropout=0.3, generative_weight=0.0, hat_weight=0.0, balance_weight=0.0)
TRAINING = Training(epochs=20, batch=100, learning_rate=1e-3)


@dataclass(frozen=True, kw_only=True)
class ConditionalFigures:
    """Which models' samples are drawn, and which classifier judges them."""

    name: str
    dataset: str
    presets: tuple[str, ...]
    judge: str


MNIST = ConditionalFigures(
    name="figures-ssl-mnist",
    dataset="mnist",
    presets=("mnist-mmcva-100", "mnist-mmcva-100-modern"),
    judge="mnist-cnn",
)
SVHN = ConditionalFigures(
    name="figures-svhn",
    dataset="svhn",
    presets=("svhn-mmcva-1000-modern",),
    judge="svhn-conv-mmva-modern",
)
NORB = ConditionalFigures(
    name="figures-norb",
    dataset="norb",
    presets=("norb-mmcva-1000-modern",),
    judge="norb-mmcva-all-modern",
)


def make_conditional_figures(what: ConditionalFigures, work: Reproduction) -> list[Path]:
    """Draw and measure samples; train the models first if they do not exist; return the files."""
    dataset = work.dataset(what.dataset)
    per_class = (SAMPLES // 20 if work.quick else SAMPLES) // dataset.n_classes
    training = replace(TRAINING, epochs=2) if work.quick else TRAINING
    judge, test = work.trained(what.judge).model_, (dataset.x_test / dataset.scale).astype(np.float32)
    folder, files, figures = work.out / what.name, [], {}
    for preset in what.presets:
        estimator = work.trained(preset)
        files.append(folder / f"samples-{preset}.png")
        draw_samples(files[-1], estimator, preset, dataset)
        x, y = class_samples(estimator, per_class)
        with work.console.status(f"{preset}: a classifier on its samples"):
            learner = learn_from_samples(x, y, training, device=work.device)
        figures[preset] = {
            "agreement_percent": 100 * float((predict_scores(judge, x).argmax(1) == y).mean()),
            "trained_on_samples_error_percent": error_percent(learner, test, dataset.y_test),
        }
    numbers = {
        **work.about(what.name, 0),
        "rows": len(test),
        "samples": per_class * dataset.n_classes,
        "judge": what.judge,
        "judge_error_percent": error_percent(judge, test, dataset.y_test),
        "models": figures,
    }
    write_json(folder / "samples.json", numbers)
    return [*files, folder / "samples.json"]


def draw_samples(path: Path, estimator: Estimator, preset: str, dataset: Dataset) -> None:
    """Save labeled images, one row per class, beside samples with one row per class and one code per column."""
    rows = split_rows(dataset, find_preset(preset).config, seed=0)
    order = [np.flatnonzero(rows.y == k)[:COLUMNS] for k in range(dataset.n_classes)]
    labeled = (rows.x[np.stack(order)] / dataset.scale).astype(np.float32)
    assert isinstance(estimator.codec_, ImageCodec)
    sampled = sample_grid(estimator, columns=COLUMNS, rows=dataset.n_classes)["x"]
    titles = ("labeled images: a row is a class", "samples: a row is a class, a column is a code")
    pictures = (plots.image_grid(labeled), plots.image_grid(as_pictures(estimator.codec_, sampled)))
    plots.save_panels(path, dict(zip(titles, pictures, strict=True)))


def class_samples(
    estimator: Estimator, per_class: int, *, seed: int = 0
) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Return samples as network inputs, `per_class` of each class, and their class numbers."""
    y = np.repeat(np.arange(len(estimator.classes_)), per_class)
    return estimator.inputs(estimator.sample(len(y), y=estimator.classes_[y], random_state=seed)), y


def learn_from_samples(x: NDArray[np.float32], y: NDArray[np.int64], training: Training, *, device: str) -> Any:
    """Return Conv-MMCVA's classifier, trained with the hinge loss on these images only."""
    torch.manual_seed(0)
    model = CLASSIFIER.build(x.shape[1:], n_classes=int(y.max()) + 1, n_rows=len(x))
    Trainer(model, training, device=device).fit(Store(torch.from_numpy(x), torch.from_numpy(y)), seed=0)
    return model.eval()
