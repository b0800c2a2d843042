"""The paper's pictures on MNIST, from the runs of the four models with seed 0."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.manifold import TSNE
from sklearn.model_selection import cross_val_score
from sklearn.neighbors import KNeighborsClassifier

from mmdgm.data.codecs import ImageCodec
from mmdgm.data.datasets import Dataset, channels_last
from mmdgm.experiments.paper.patterns import mask_of, unit_images
from mmdgm.experiments.paper.runner import Reproduction
from mmdgm.experiments.paper.sheets import generative_name
from mmdgm.experiments.run_folder import Estimator
from mmdgm.files import write_json
from mmdgm.inference.imputation import impute
from mmdgm.models import VAE
from mmdgm.report import plots
from mmdgm.report.figures import as_pictures, sample_grid

FIGURES = "figures-mnist"
PRESETS = ("mnist-va", "mnist-mmva", "mnist-conv-va", "mnist-conv-mmva")
ROUNDS = 20
EMBEDDED = 2000  # test images
NEIGHBOURS = 10


def make_figures(work: Reproduction) -> list[Path]:
    """Draw all figures; train the models first if they do not exist; return the files."""
    dataset = work.dataset()
    models = {generative_name(preset): work.trained(preset) for preset in PRESETS}
    folder = work.out / FIGURES
    files = [folder / "samples.png"]
    plots.save_panels(files[0], {name: plots.image_grid(samples(model)) for name, model in models.items()})
    for pattern in ("Rand-Drop 0.6", "Rect 12"):
        files.append(folder / f"rounds-mmva-{pattern.split()[0].lower()}.png")
        plots.save_grid(files[-1], rounds(models["MMVA"].model_, dataset, pattern))
    for name in ("Conv-VA", "Conv-MMVA"):
        files.append(folder / f"completions-{name.lower()}.png")
        plots.save_grid(files[-1], completions(models[name].model_, dataset))
    files += draw_embeddings(folder, {name: models[name] for name in ("VA", "MMVA")}, dataset)
    return files


def samples(estimator: Estimator) -> NDArray[Any]:
    """Return a grid of a hundred decoder means."""
    assert isinstance(estimator.codec_, ImageCodec)
    return as_pictures(estimator.codec_, sample_grid(estimator, columns=10, rows=10)["x"])


def rounds(model: VAE, dataset: Dataset, pattern: str, *, images: int = 8) -> NDArray[Any]:
    """Return one line per image: the original, with a hole, and after each round of the iterative inference."""
    x = unit_images(dataset, images)
    holes = np.where(mask_of(pattern, x.shape), np.float32(np.nan), x)
    # with one seed, n + 1 rounds continue the state after n rounds
    after = [impute(model, holes, method="draw", rounds=n) for n in range(1, ROUNDS + 1)]
    return np.stack([x, holes, *after], axis=1)


def completions(model: VAE, dataset: Dataset, *, images: int = 20) -> NDArray[Any]:
    """Return four lines: images, with holes of 12×12, filled by a sample, and filled by the posterior mean."""
    x = unit_images(dataset, images)
    holes = np.where(mask_of("Rect 12", x.shape), np.float32(np.nan), x)
    filled = [impute(model, holes, method=method) for method in ("draw", "posterior")]
    return np.stack([x, holes, *filled])


def draw_embeddings(folder: Path, models: dict[str, Estimator], dataset: Dataset) -> list[Path]:
    """Draw t-SNE of the features of the same test images, and measure how well neighbours predict the class."""
    x, y = channels_last(dataset.x_test[:EMBEDDED]), dataset.y_test[:EMBEDDED]
    panels, figures = {}, {}
    for name, estimator in models.items():
        features = estimator.transform(x, features=True)
        plane = TSNE(init="pca", random_state=0).fit_transform(features)
        figures[name] = {"in the plane": accuracy(plane, y), "in the features": accuracy(features, y)}
        panels[f"{name}: {100 * figures[name]['in the plane']:.1f} % by {NEIGHBOURS} neighbours"] = plane
    picture, numbers = folder / "tsne.png", folder / "tsne.json"
    plots.save_scatter(picture, panels, y)
    write_json(numbers, {"images": EMBEDDED, "neighbours": NEIGHBOURS, "accuracy": figures})
    return [picture, numbers]


def accuracy(points: NDArray[Any], y: NDArray[Any]) -> float:
    """Return the accuracy of a nearest-neighbour classifier, by tenfold cross-validation."""
    return float(cross_val_score(KNeighborsClassifier(NEIGHBOURS), points, y, cv=10).mean())
