"""Imputation: what is observed stays, what is missing is the model's, and a row's result is its own."""

import logging
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from scipy.stats import kstest, norm

from mmdgm.data.masks import rand_drop, rect
from mmdgm.errors import InputError
from mmdgm.inference.imputation import METHODS, impute, missing_mse, rounds_of_draws
from mmdgm.inference.per_row import row_noise
from mmdgm.models import MarginalConditionalVAEConfig, MaxMarginConditionalVAEConfig, MaxMarginVAEConfig, VAEConfig
from mmdgm.networks.likelihoods import BernoulliPixels, GaussianPixels


class Halver(torch.nn.Module):
    """A stand-in model: reconstructs every pixel as half of itself plus a quarter."""

    def __init__(self, likelihood=None):
        super().__init__()
        self.unused = torch.nn.Parameter(torch.zeros(()))
        self.modes, self.noise = [], []
        self.generates, self.likelihood = True, likelihood or BernoulliPixels()
        self.encoder = SimpleNamespace(z=3)

    def reconstruct(self, x, *, labels=None, noise=None):
        self.modes.append(self.training)
        self.noise.append(noise)
        return x / 2 + 0.25


@pytest.fixture(name="images")
def make_images():
    return np.random.default_rng(0).random((6, 1, 8, 8), dtype=np.float32)


def with_holes(images, missing):
    return np.where(missing, np.nan, images).astype(np.float32)


def test_a_draw_is_the_last_round_of_reconstructing_the_missing_entries(images):
    missing = rect(images.shape, 4, 4)
    x = with_holes(images, missing)
    third = impute(Halver(), x, method="draw", rounds=3, seed=3)
    normal = row_noise(x, 3 * 3 + 64, seed=3)[:, 3 * 3 :].reshape(x.shape)
    start = norm.cdf(normal)[missing]
    # the map x/2 + 1/4 taken three times
    np.testing.assert_allclose(third[missing], start / 8 + 7 / 16, rtol=1e-5)


@pytest.mark.parametrize(("rounds", "kept"), [(1, [1]), (2, [2]), (5, [3, 4, 5]), (6, [4, 5, 6])])
def test_rounds_average_their_second_half(images, rounds, kept):
    missing = rect(images.shape, 4, 4)
    x = with_holes(images, missing)
    start = np.full(images.shape[1:], 0.9, np.float32)
    found = impute(Halver(), x, rounds=rounds, start=start)
    expected = np.mean([0.9 / 2**i + 0.5 * (1 - 1 / 2**i) for i in kept])
    np.testing.assert_allclose(found[missing], expected, rtol=1e-5)
    assert np.array_equal(found[~missing], images[~missing])


def test_entries_start_as_noise_on_the_scale_of_the_likelihood():
    x = np.full((40, 1, 10, 10), np.nan, np.float32)
    x[:, 0, 0, 0] = np.linspace(0, 1, 40)  # a row's noise is that of its values
    missing = np.isnan(x)
    uniform = impute(Halver(), x, method="draw", rounds=0)[missing]
    assert kstest(uniform, "uniform").pvalue > 0.01
    normal = impute(Halver(GaussianPixels()), x, method="draw", rounds=0)[missing]
    assert kstest(normal, "norm").pvalue > 0.01
    again = impute(Halver(), x, method="draw", rounds=0, seed=1)[missing]
    assert abs(np.corrcoef(uniform, again)[0, 1]) < 0.1


def test_noise_is_standard_normal_and_that_of_each_row(images):
    x = with_holes(images, rect(images.shape, 4, 4))
    model = Halver()
    impute(model, x, rounds=4, seed=7)
    expected = row_noise(x, 4 * 3 + 64, seed=7)[:, : 4 * 3].reshape(6, 4, 3)
    for i, noise in enumerate(model.noise):
        np.testing.assert_array_equal(noise[:6].numpy(), expected[:, i])


def test_the_caller_s_array_is_unchanged_and_rows_without_holes_are_not_touched(images):
    missing = rect(images.shape, 4, 4)
    missing[2] = False
    x = with_holes(images, missing)
    before = x.copy()
    filled = impute(Halver(), x, rounds=5)
    np.testing.assert_array_equal(x, before)
    assert np.array_equal(filled[~missing], images[~missing])
    whole = Halver()
    assert np.array_equal(impute(whole, images, rounds=5), images)
    assert not whole.modes


def test_model_is_asked_in_evaluation_mode_and_comes_back_as_it_was(images):
    model = Halver().train()
    state = torch.get_rng_state()
    impute(model, with_holes(images, rect(images.shape, 2, 2)), rounds=2)
    assert model.modes == [False, False]
    assert model.training
    assert torch.equal(state, torch.get_rng_state())


CONFIGS = {
    "VA": VAEConfig(hidden=(8,), z=3),
    "MMVA": MaxMarginVAEConfig(hidden=(8,), z=3),
    "MMCVA": MaxMarginConditionalVAEConfig(z=3),
    "M2": MarginalConditionalVAEConfig(network="mlp", hidden=(8,), z=3),
}


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", CONFIGS)
def test_a_row_s_result_is_its_own(monkeypatch, images, name, method):
    torch.manual_seed(0)
    model = CONFIGS[name].build((1, 8, 8), n_classes=3, n_rows=10)
    x = with_holes(images, rand_drop(images.shape, 0.4, seed=1))
    together = impute(model, x, method=method, rounds=6, seed=2)
    np.testing.assert_array_equal(impute(model, x[3:4], method=method, rounds=6, seed=2), together[3:4])
    backwards = impute(model, x[::-1], method=method, rounds=6, seed=2)
    np.testing.assert_array_equal(backwards[::-1], together)
    monkeypatch.setattr("mmdgm.inference.imputation.PORTION", 2)
    np.testing.assert_array_equal(impute(model, x, method=method, rounds=6, seed=2), together)
    torch.manual_seed(99)  # nothing hangs on the process's own random state
    np.testing.assert_array_equal(impute(model, x, method=method, rounds=6, seed=2), together)
    other = impute(model, x, method=method, rounds=6, seed=3)
    assert not np.array_equal(other, together)
    observed = ~np.isnan(x)
    np.testing.assert_array_equal(together[observed], images[observed])
    assert ((together >= 0) & (together <= 1)).all()


def test_rows_of_many_chunks_are_those_of_one(images):
    torch.manual_seed(0)
    model = CONFIGS["VA"].build((1, 8, 8), n_classes=0, n_rows=1)
    many = np.random.default_rng(2).random((150, 1, 8, 8), dtype=np.float32)  # chunks of 64
    x = with_holes(many, rect(many.shape, 4, 4))
    whole = impute(model, x, rounds=4)
    np.testing.assert_array_equal(
        np.concatenate([impute(model, x[:70], rounds=4), impute(model, x[70:], rounds=4)]), whole
    )


def test_what_cannot_be_imputed_is_refused(images):
    missing = rect(images.shape, 4, 4)
    with pytest.raises(InputError, match="scale"):
        impute(Halver(), with_holes(16 * images, missing))
    with pytest.raises(InputError, match="finite"):
        impute(Halver(GaussianPixels()), np.where(images > 0.9, np.inf, images))
    with pytest.raises(InputError, match=r"\(6, 64\)"):
        impute(Halver(), images.reshape(6, 64))
    with pytest.raises(InputError, match="'median'"):
        impute(Halver(), images, method="median")
    alone = MaxMarginVAEConfig(hidden=(8,), z=3, generative_weight=0.0).build((1, 8, 8), n_classes=3, n_rows=1)
    with pytest.raises(InputError, match="generative"):
        impute(alone, with_holes(images, missing))


def test_values_that_have_no_limit_are_told(images, caplog):
    class Diverging(Halver):
        def reconstruct(self, x, *, labels=None, noise=None):
            return x * torch.inf

    missing = rect(images.shape, 2, 2)
    with caplog.at_level(logging.WARNING, logger="mmdgm"):
        filled = impute(Diverging(), with_holes(images, missing), rounds=1)
    assert not np.isfinite(filled[missing]).any()
    assert str(missing.sum()) in caplog.text


def test_mse_counts_missing_entries_alone():
    truth, filled = np.zeros((2, 2), np.float32), np.array([[0.5, 9], [9, 0.1]], np.float32)
    assert missing_mse(truth, filled, np.eye(2, dtype=bool)) == pytest.approx((0.25 + 0.01) / 2)


def test_double_precision_arrays_are_taken(images):
    x = with_holes(images, rect(images.shape, 4, 4)).astype(np.float64)
    assert impute(Halver(), x, rounds=1).dtype == np.float32


def test_rounds_of_draws_end_with_the_draws_and_halve_the_way(images):
    x = with_holes(images, rect(images.shape, 4, 4))
    found = rounds_of_draws(Halver(), x, rounds=3, draws=2, seed=5)
    assert found.shape == (4, 2, *x.shape)
    for i in range(2):
        np.testing.assert_array_equal(found[3, i], impute(Halver(), x, method="draw", rounds=3, seed=5 + i))
    np.testing.assert_allclose(found[1:], np.where(np.isnan(x), found[:-1] / 2 + 0.25, x), rtol=1e-6)
    alone = rounds_of_draws(Halver(), x[2:3], rounds=3, draws=2, seed=5)
    np.testing.assert_array_equal(alone[:, :, 0], found[:, :, 2])
