"""Class-conditional samples beside the labels that they were learned from, and what they are worth in numbers.

agreement      samples that a classifier trained on real images puts into the class that was asked for
trained on     test error of a classifier that has seen samples alone
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from mmdgm.data.batches import Batches
from mmdgm.data.datasets import Dataset
from mmdgm.experiments.paper.runner import Reproduction
from mmdgm.experiments.run_folder import TrainedRun, load_run, split_rows
from mmdgm.files import write_json
from mmdgm.inference.evaluation import error_percent, inference, predict_scores
from mmdgm.inference.sampling import sample_grid
from mmdgm.models import ConditionalVAE, MaxMarginConditionalVAEConfig
from mmdgm.report import plots
from mmdgm.training.plan import Training
from mmdgm.training.trainer import Trainer

FIGURES = "figures-ssl-mnist"
PRESETS = ("mnist-mmcva-100", "mnist-mmcva-100-modern")
JUDGE = "mnist-cnn"
SAMPLES = 1000  # of each class
CHUNK = 500
CLASSIFIER = MaxMarginConditionalVAEConfig(dropout=0.3, generative_weight=0.0, hat_weight=0.0, balance_weight=0.0)
TRAINING = Training(epochs=20, batch=100, learning_rate=1e-3)


def make_conditional_figures(work: Reproduction) -> list[Path]:
    """Draw and measure; the models are trained first where they are not there."""
    dataset = work.dataset()
    per_class = SAMPLES // 20 if work.quick else SAMPLES
    training = replace(TRAINING, epochs=2) if work.quick else TRAINING
    judge = trained(work, JUDGE).model
    folder, files, figures = work.out / FIGURES, [], {}
    for preset in PRESETS:
        run = trained(work, preset)
        files.append(folder / f"samples-{preset}.png")
        draw_samples(files[-1], run, dataset)
        x, y = class_samples(run.model, per_class)
        with work.console.status(f"{preset}: a classifier on its samples"):
            learner = learn_from_samples(x, y, training, device=work.device)
        judged = predict_scores(judge, x, scale=1).argmax(1)
        figures[preset] = {
            "agreement_percent": 100 * float((judged == y).mean()),
            "trained_on_samples_error_percent": error_percent(
                learner, dataset.x_test, dataset.y_test, scale=dataset.scale
            ),
        }
    numbers = {
        **work.about(FIGURES, 0),
        "samples": per_class * dataset.n_classes,
        "judge": JUDGE,
        "judge_error_percent": error_percent(judge, dataset.x_test, dataset.y_test, scale=dataset.scale),
        "models": figures,
    }
    write_json(folder / "samples.json", numbers)
    return [*files, folder / "samples.json"]


def trained(work: Reproduction, preset: str) -> TrainedRun:
    """The run of seed 0."""
    work.train(preset, [0])
    return load_run(work.run_folder(preset, 0).path, device=work.device)


def draw_samples(path: Path, run: TrainedRun, dataset: Dataset) -> None:
    """The labeled images, a row for each class; samples, a row for each class and a code for each column."""
    rows = split_rows(dataset, run.config, run.seed)
    order = np.argsort(rows.y, kind="stable")
    labeled = (rows.x[order] / dataset.scale).reshape(dataset.n_classes, -1, *dataset.shape)
    sampled = sample_grid(run.model, columns=labeled.shape[1], rows=dataset.n_classes)["x"]
    titles = (f"all {len(order)} labeled images", "samples: a row is a class, a column is a code")
    pictures = (plots.image_grid(labeled), plots.image_grid(sampled))
    plots.save_panels(path, dict(zip(titles, pictures, strict=True)))


def class_samples(model: Any, per_class: int, *, seed: int = 0) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Decoder means for codes from N(0, I), so many of each class, and the classes."""
    assert isinstance(model, ConditionalVAE)
    parts = []
    with inference(model, seed=seed) as device:
        y = torch.arange(model.n_classes, device=device).repeat_interleave(per_class)
        for classes in y.split(CHUNK):
            z = torch.randn(len(classes), model.encoder.z, device=device)
            parts.append(model.generate(z, classes).float().cpu())
    return torch.cat(parts).numpy(), y.cpu().numpy()


def learn_from_samples(x: NDArray[np.float32], y: NDArray[np.int64], training: Training, *, device: str) -> Any:
    """Conv-MMCVA's classifier, trained by the hinge loss on these images alone."""
    torch.manual_seed(0)
    model = CLASSIFIER.build(x.shape[1:], n_classes=int(y.max()) + 1, n_rows=len(x))
    trainer = Trainer(model, training, device=device)
    images, classes = (torch.from_numpy(array).to(trainer.device) for array in (x, y))
    batches = Batches(
        images, classes, images[:0], scale=1.0, labeled_batch=training.batch, unlabeled_batch=0, seed=0
    )
    trainer.fit(batches)
    return model
