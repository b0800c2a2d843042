"""Imputation: what is observed stays, what is hidden is never looked at, and the fill is the model's."""

import numpy as np
import pytest
import torch

from mmdgm.data.masks import rect
from mmdgm.errors import InputError
from mmdgm.inference.imputation import impute, missing_mse
from mmdgm.networks.likelihoods import BernoulliPixels


class Doubler(torch.nn.Module):
    """A stand-in model: reconstructs every pixel as half of itself plus a quarter."""

    def __init__(self):
        super().__init__()
        self.unused = torch.nn.Parameter(torch.zeros(()))
        self.modes = []
        self.generates, self.likelihood = True, BernoulliPixels()

    def reconstruct(self, x):
        self.modes.append(self.training)
        return x / 2 + 0.25


@pytest.fixture(name="images")
def make_images():
    return np.random.default_rng(0).random((6, 1, 8, 8), dtype=np.float32)


def test_rounds_iterate_the_reconstruction_of_the_missing_entries(images):
    missing = rect(images.shape, 4, 4)
    start = impute(Doubler(), images, missing, rounds=0, seed=3)
    third = impute(Doubler(), images, missing, rounds=3, seed=3)
    # the map x/2 + 1/4 taken three times
    np.testing.assert_allclose(third[missing], start[missing] / 8 + 7 / 16, rtol=1e-5)
    assert ((start[missing] >= 0) & (start[missing] <= 1)).all()
    assert np.ptp(start[missing]) > 0.5


def test_observed_entries_stay_and_hidden_ones_do_not_matter(images):
    missing = rect(images.shape, 4, 4)
    spoiled = np.where(missing, np.nan, images).astype(np.float32)
    filled = impute(Doubler(), spoiled, missing, rounds=5)
    assert np.array_equal(filled[~missing], images[~missing])
    assert np.array_equal(filled, impute(Doubler(), images, missing, rounds=5))
    assert np.isnan(spoiled[missing]).all()  # the caller's array is unchanged


def test_model_is_asked_in_evaluation_mode_and_comes_back_as_it_was(images):
    model = Doubler().train()
    state = torch.get_rng_state()
    impute(model, images, rect(images.shape, 2, 2), rounds=2)
    assert model.modes == [False, False]
    assert model.training
    assert torch.equal(state, torch.get_rng_state())


def test_values_off_the_scale_and_other_shapes_are_refused(images):
    missing = rect(images.shape, 4, 4)
    with pytest.raises(InputError, match="divide them by the data set's scale"):
        impute(Doubler(), 16 * images, missing)
    with pytest.raises(InputError, match="divide them by the data set's scale"):
        impute(Doubler(), np.full_like(images, np.nan), missing)
    with pytest.raises(InputError, match=r"not \(6, 64\)"):
        impute(Doubler(), images.reshape(6, 64), missing.reshape(6, 64))


def test_mse_counts_missing_entries_alone():
    truth, filled = np.zeros((2, 2), np.float32), np.array([[0.5, 9], [9, 0.1]], np.float32)
    assert missing_mse(truth, filled, np.eye(2, dtype=bool)) == pytest.approx((0.25 + 0.01) / 2)


def test_double_precision_arrays_are_taken(images):
    missing = rect(images.shape, 4, 4)
    assert impute(Doubler(), images.astype(np.float64), missing, rounds=1).dtype == np.float32
