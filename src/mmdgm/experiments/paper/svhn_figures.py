"""The paper's pictures on SVHN: samples and imputed images of Conv-VA and Conv-MMVA, after contrast normalisation."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from mmdgm.data.codecs import ImageCodec
from mmdgm.data.contrast import local_contrast
from mmdgm.experiments.paper.conditional_figures import SVHN, make_conditional_figures
from mmdgm.experiments.paper.figures import samples
from mmdgm.experiments.paper.patterns import mask_of
from mmdgm.experiments.paper.runner import Reproduction
from mmdgm.experiments.run_folder import Estimator
from mmdgm.files import write_json
from mmdgm.inference.evaluation import mean_reconstruction_error
from mmdgm.inference.imputation import METHODS, impute, missing_mse
from mmdgm.report import plots
from mmdgm.report.figures import as_pictures

MODELS = {
    "Conv-VA": "svhn-conv-va",
    "Conv-MMVA, C = 1,000": "svhn-conv-mmva-C1000",
    "Conv-MMVA, C = 10,000": "svhn-conv-mmva",
}
SIDE, PATTERN = 10, "Rect 12"
IMPUTED = 1000  # test images with a hole that are measured


def make_svhn_figures(work: Reproduction) -> list[Path]:
    """Draw and measure all figures; train the models first if they do not exist; return the files."""
    dataset = work.dataset("svhn")
    models = {name: work.trained(preset) for name, preset in MODELS.items()}
    first = next(iter(models.values()))
    folder = work.out / SVHN.name
    data = plots.image_grid(pictures(first, local_contrast(dataset.x_train[: SIDE * SIDE]), columns=SIDE))
    panels = {"training images after LCN": data}
    panels |= {f"samples of {name}": plots.image_grid(samples(model)) for name, model in models.items()}
    files = [folder / "samples-lcn.png", folder / "imputations-lcn.png"]
    plots.save_panels(files[0], panels)
    truth = local_contrast(dataset.x_test)
    holes = np.where(mask_of(PATTERN, truth.shape), np.float32(np.nan), truth)
    shown, rounds = slice(2 * SIDE), 10 if work.quick else 100
    lines = [
        truth[shown],
        holes[shown],
        *(impute(model.model_, holes[shown], method="draw", rounds=rounds) for model in models.values()),
    ]
    plots.save_grid(files[1], np.concatenate([pictures(first, line, columns=2 * SIDE) for line in lines]))
    some = slice(IMPUTED // 20 if work.quick else IMPUTED)
    missing = np.isnan(holes[some])
    figures = {
        name: {
            "reconstruction_mse": mean_reconstruction_error(model.model_, truth),
            "imputation_mse": {
                method: missing_mse(
                    truth[some], impute(model.model_, holes[some], method=method, rounds=rounds), missing
                )
                for method in METHODS
                if method != "rounds"
            },
        }
        for name, model in models.items()
    }
    numbers = {**work.about(SVHN.name, 0), "pattern": PATTERN, "images_with_a_hole": int(some.stop), "models": figures}
    write_json(folder / "contrast-normalised.json", numbers)
    return [*files, folder / "contrast-normalised.json", *make_conditional_figures(SVHN, work)]


def pictures(estimator: Estimator, rows: NDArray[np.float32], *, columns: int) -> NDArray[np.float32]:
    """Return contrast-normalised images `(rows, channels, height, width)` as a grid of pictures in [0, 1]."""
    assert isinstance(estimator.codec_, ImageCodec)
    decoded = estimator.codec_.decode(rows)
    return as_pictures(estimator.codec_, decoded.reshape(-1, columns, *decoded.shape[1:]))
