"""The fitted posterior mean against closed forms."""

import numpy as np
import pytest
import torch
from torch import nn
from torch.distributions import MultivariateNormal, Normal

from mmdgm.data.masks import rect
from mmdgm.inference.imputation import impute
from mmdgm.inference.posterior import DRAWS, STARTS, count_starts, labels_of_starts, posterior_mean, prior_mean
from mmdgm.models import VAE, MaxMarginConditionalVAEConfig, VAEConfig
from mmdgm.networks.base import Encoder, Encoding
from mmdgm.networks.likelihoods import GaussianPixels

WIDTH, NOISE = 6, 0.5


class NoIdea(Encoder):
    """q(z|x) = N(0, I) whatever x is."""

    hidden_widths, z = (), 2

    def forward(self, x, labels=None, *, dropout=0.0):
        zeros = torch.zeros(len(x), self.z)
        return Encoding(zeros, zeros, ())


class Inverse(NoIdea):
    """q(z|x) of whole rows: the mean of the true posterior, and nearly its variance."""

    def __init__(self, w, b):
        super().__init__()
        self.precision = w.T @ w / NOISE**2 + torch.eye(2)
        self.w, self.b = w, b

    def forward(self, x, labels=None, *, dropout=0.0):
        mean = torch.linalg.solve(self.precision, self.w.T @ (x.flatten(1) - self.b).T / NOISE**2).T
        return Encoding(mean, -self.precision.diagonal().log().expand_as(mean), ())


class Linear(nn.Module):
    def __init__(self, w, b):
        super().__init__()
        self.w, self.b = nn.Parameter(w), b

    def forward(self, z, labels=None):
        shift = 0 if labels is None else 3 * labels[:, :1]
        return (z @ self.w.T + self.b + shift).reshape(-1, 1, 1, WIDTH)


class LinearGaussian(VAE):
    """x = W z + b + noise; of a labeled one, class 0 lies 3 higher in every entry."""

    def decode(self, z, labels=None):
        return Normal(self.decoder(z, labels), NOISE)


@pytest.fixture(name="linear")
def make_linear():
    torch.manual_seed(0)
    w, b = torch.randn(WIDTH, 2), torch.randn(WIDTH)
    exact = MultivariateNormal(b, w @ w.T + NOISE**2 * torch.eye(WIDTH))
    return w, b, exact.covariance_matrix, exact.sample((40,))


def noise(starts, rows, steps=100):
    return torch.randn(steps + DRAWS, starts * rows, 2, generator=torch.Generator().manual_seed(0))


def conditional_mean(x, mean, covariance, hole):
    """E[x_hole | the rest] of one Gaussian."""
    weights = torch.linalg.solve(covariance[~hole][:, ~hole], covariance[~hole][:, hole])
    return mean[hole] + (x[:, ~hole] - mean[~hole]) @ weights


def test_of_a_linear_gaussian_model_it_is_the_conditional_mean(linear):
    w, b, covariance, x = linear
    hole = torch.tensor([False, True, False, True, True, False])
    model = LinearGaussian(NoIdea(), Linear(w, b))
    guesses = torch.where(hole, torch.randn(3, len(x), WIDTH), x).reshape(3, len(x), 1, 1, WIDTH)
    missing = hole.expand(len(x), WIDTH).reshape(len(x), 1, 1, WIDTH)
    with torch.no_grad():
        found = posterior_mean(model, guesses, missing, noise(3, len(x), 400)).reshape(-1, WIDTH)
    expected = conditional_mean(x, b, covariance, hole)
    assert torch.equal(found[:, ~hole], x[:, ~hole])
    assert (found[:, hole] - expected).abs().max() < 0.4  # 20 draws; of 8 seeds the worst is 0.31
    assert (found[:, hole] - expected).square().mean().sqrt() < 0.08
    assert model.decoder.w.grad is None


def test_the_wrong_class_has_no_weight(linear):
    w, b, _, x = linear
    hole = torch.arange(WIDTH) == WIDTH - 1
    x = x + 3  # all of class 0
    model = LinearGaussian(NoIdea(), Linear(w / 10, b))
    guesses = torch.where(hole, 0.0, x).expand(2, len(x), WIDTH).reshape(2, len(x), 1, 1, WIDTH)
    missing = hole.expand(len(x), WIDTH).reshape(len(x), 1, 1, WIDTH)
    labels = torch.eye(2).repeat_interleave(len(x), dim=0)
    with torch.no_grad():
        found = posterior_mean(model, guesses, missing, noise(2, len(x)), labels).reshape(-1, WIDTH)[:, hole]
    assert (found - (b[hole] + 3)).abs().max() < 1  # class 1 would be 3 lower


def test_classes_are_weighed_as_by_bayes(linear):
    """Without a code that matters, p(y | observed) ∝ p(observed | y) has a closed form."""
    _, b, _, _ = linear
    hole = torch.arange(WIDTH) == WIDTH - 1
    model = LinearGaussian(NoIdea(), Linear(torch.zeros(WIDTH, 2), b))
    x = (b + torch.linspace(1.4, 1.6, 9)[:, None]).expand(9, WIDTH)  # half way between the classes
    to_class = [Normal(b + shift, NOISE).log_prob(x)[:, ~hole].sum(1) for shift in (3, 0)]
    of_class_0 = torch.stack(to_class).softmax(0)[0]
    assert of_class_0.min() < 0.1
    assert of_class_0.max() > 0.9
    missing = hole.expand(9, WIDTH).reshape(9, 1, 1, WIDTH)
    guesses = x.expand(2, 9, WIDTH).reshape(2, 9, 1, 1, WIDTH)
    with torch.no_grad():
        found = posterior_mean(model, guesses, missing, noise(2, 9), torch.eye(2).repeat_interleave(9, dim=0))
    torch.testing.assert_close(found.reshape(9, WIDTH)[:, -1], b[-1] + 3 * of_class_0)


def test_a_conditional_model_is_asked_about_every_class():
    model = MaxMarginConditionalVAEConfig(z=3).build((1, 8, 8), n_classes=4, n_rows=10)
    labels = labels_of_starts(model, 2)
    assert labels.argmax(1).tolist() == [0, 0, 1, 1, 2, 2, 3, 3]
    assert count_starts(model) == 4
    plain = VAEConfig(hidden=(8,), z=3).build((1, 8, 8), n_classes=0, n_rows=1)
    assert labels_of_starts(plain, 2) is None
    assert count_starts(plain) == STARTS


@pytest.mark.parametrize("config", [VAEConfig(hidden=(8,), z=3), MaxMarginConditionalVAEConfig(z=3)])
def test_impute_by_the_posterior_keeps_what_is_observed_and_repeats(config):
    torch.manual_seed(0)
    model = config.build((1, 8, 8), n_classes=4, n_rows=10)
    x = np.random.default_rng(0).random((5, 1, 8, 8), dtype=np.float32)
    missing = rect(x.shape, 4, 4)
    missing[3] = False
    spoiled = np.where(missing, np.nan, x).astype(np.float32)
    filled = impute(model, spoiled, method="posterior", seed=1)
    assert np.array_equal(filled[~missing], x[~missing])
    assert ((filled >= 0) & (filled <= 1)).all()
    assert np.array_equal(filled, impute(model, spoiled, method="posterior", seed=1))
    assert not np.array_equal(filled, impute(model, spoiled, method="posterior", seed=2))
    assert all(parameter.grad is None for parameter in model.parameters())
    assert model.training
    assert prior_mean(model).shape == (1, 8, 8)


def test_imputation_of_a_linear_gaussian_model_is_the_conditional_mean(linear):
    """The engine as a whole, with the model's own noise and starts."""
    w, b, covariance, x = linear
    hole = torch.tensor([False, True, False, True, True, False])
    model = LinearGaussian(Inverse(w, b), Linear(w, b), likelihood=GaussianPixels())
    rows = torch.where(hole, torch.nan, x).reshape(-1, 1, 1, WIDTH).numpy()
    found = torch.from_numpy(impute(model, rows, method="posterior")).reshape(-1, WIDTH)
    expected = conditional_mean(x, b, covariance, hole)
    assert torch.equal(found[:, ~hole], x[:, ~hole])
    error = (found[:, hole] - expected).square().mean().sqrt()
    assert error < 0.15  # 20 draws; 0.09 to 0.12 over 8 seeds
    draws = torch.from_numpy(impute(model, rows, method="draw", rounds=30)).reshape(-1, WIDTH)[:, hole]
    assert (draws - expected).square().mean().sqrt() > 2 * error
