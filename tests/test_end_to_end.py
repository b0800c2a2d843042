"""The main job on real data that ships with scikit-learn, with floors that a broken model does not reach."""

import numpy as np
import pytest

from mmdgm.data import datasets
from mmdgm.data.masks import rand_drop, rect
from mmdgm.experiments import run_folder, training_runs
from mmdgm.experiments.presets import find_preset
from mmdgm.inference.evaluation import error_percent
from mmdgm.inference.imputation import impute, missing_mse
from mmdgm.inference.sampling import sample_grid

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module", name="run")
def make_run(tmp_path_factory, quiet):
    folder = run_folder.RunFolder(tmp_path_factory.mktemp("digits") / "run")
    config = find_preset("digits-mmcva-50").config
    training_runs.train_runs(config, [(0, folder)], overrides={}, console=quiet, device="cpu")
    return run_folder.load_run(folder.path, device="cpu")


@pytest.fixture(scope="module", name="images")
def make_images():
    digits = datasets.load("digits")
    return (digits.x_test / digits.scale).astype(np.float32)


def test_50_labels_reach_5_percent(run):
    dataset = datasets.load("digits")
    figures = run_folder.evaluate(run.model, dataset, run_folder.split_rows(dataset, run.config, run.seed))
    assert figures["error_percent"] < 5
    assert figures["elbo"] > -25.5  # the class means alone, log p(y) included, give −24.3; all-grey images −46


def test_generated_images_are_of_the_class_that_was_asked_for(run):
    grid = sample_grid(run.model, columns=20, rows=10)
    pixels = np.round(16 * grid["x"].reshape(-1, 1, 8, 8)).astype(np.uint8)
    assert error_percent(run.model, pixels, grid["y"].ravel(), scale=16.0) < 5


@pytest.mark.parametrize("holes", ["rect", "rand-drop"])
def test_imputation_beats_the_mean_image(run, images, holes):
    missing = rect(images.shape, 3, 3) if holes == "rect" else rand_drop(images.shape, 0.2, seed=0)
    mean_image = np.broadcast_to(datasets.load("digits").x_train.mean(0) / 16, images.shape).astype(np.float32)
    filled = impute(run.model, images, missing, rounds=50)
    assert missing_mse(images, filled, missing) < 0.9 * missing_mse(images, mean_image, missing)
