"""The main job on real data that ships with scikit-learn, with floors that a broken model does not reach."""

import numpy as np
import pytest

from mmdgm.data import datasets
from mmdgm.data.datasets import channels_last
from mmdgm.data.masks import rand_drop, rect
from mmdgm.devices import Machine
from mmdgm.experiments.evaluation import evaluate
from mmdgm.experiments.presets import find_preset
from mmdgm.experiments.run_folder import RunFolder, load
from mmdgm.experiments.training_runs import train_runs
from mmdgm.inference.imputation import missing_mse
from mmdgm.report.figures import sample_grid

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module", name="model")
def make_model(tmp_path_factory, quiet):
    folder = RunFolder(tmp_path_factory.mktemp("digits") / "run")
    config = find_preset("digits-mmcva-50").config
    train_runs(config, [(0, folder)], overrides={}, console=quiet, machine=Machine("cpu"))
    return load(folder.path, device="cpu")


@pytest.fixture(scope="module", name="images")
def make_images():
    return channels_last(datasets.load("digits").x_test).astype(np.float64)


def test_50_labels_reach_5_percent(model, images):
    y = datasets.load("digits").y_test
    figures = evaluate(model, images, y)
    assert figures["error_percent"] < 5
    assert figures["elbo"] > -25.5  # the class means alone, log p(y) included, give −24.3; all-grey images −46


def test_generated_images_are_of_the_class_that_was_asked_for(model):
    grid = sample_grid(model, columns=20, rows=10)
    assert grid["y"].shape == (10, 20)
    assert model.score(np.round(grid["x"]).reshape(-1, 8, 8), grid["y"].ravel()) > 0.95


@pytest.mark.parametrize("pattern", ["rect", "rand-drop"])
@pytest.mark.parametrize("method", ["rounds", "posterior"])
def test_imputation_beats_the_mean_image(model, images, pattern, method):
    images = images[:100]
    missing = rect(images.shape, 3, 3) if pattern == "rect" else rand_drop(images.shape, 0.2, seed=0)
    mean_image = np.broadcast_to(datasets.load("digits").x_train[:, 0].mean(0), images.shape)
    filled = model.impute(np.where(missing, np.nan, images), n_iter=50, method=method)
    assert missing_mse(images, filled, missing) < 0.9 * missing_mse(images, mean_image, missing)
