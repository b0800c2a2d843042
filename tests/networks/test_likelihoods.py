"""Densities of pixels against the formulas written out."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.distributions import Bernoulli, Normal, constraints

from mmdgm.inference.imputation import impute
from mmdgm.models import MaxMarginConditionalVAEConfig, VAEConfig
from mmdgm.networks.likelihoods import LIKELIHOODS, GaussianPixels, MixedColumns


def test_bernoulli_log_probability_of_grey_values():
    logits, x = torch.tensor([[0.3, -2.0]]), torch.tensor([[0.25, 1.0]])
    mean = torch.sigmoid(logits)
    expected = x * mean.log() + (1 - x) * (1 - mean).log()
    torch.testing.assert_close(LIKELIHOODS["bernoulli"].distribution(logits).log_prob(x), expected)


def test_gaussian_log_density():
    mean, free, x = 0.4, -1.2, 1.1
    parameters = torch.tensor([mean, free]).reshape(1, 2, 1, 1)
    pixel = LIKELIHOODS["gaussian"].distribution(parameters)
    log_variance = -8 + math.log1p(math.exp(free + 8))
    expected = -0.5 * (math.log(2 * math.pi) + log_variance + (x - mean) ** 2 / math.exp(log_variance))
    assert pixel.log_prob(torch.tensor(x)).item() == pytest.approx(expected, rel=1e-5)
    assert pixel.mean.item() == pytest.approx(mean)


def test_the_variance_has_a_floor_that_still_has_a_gradient():
    free = torch.tensor([-20.0], requires_grad=True)
    pixel = GaussianPixels().distribution(torch.stack([torch.zeros(1), free], dim=1))
    assert pixel.scale.item() == pytest.approx(math.exp(-4), rel=1e-3)
    pixel.scale.sum().backward()
    assert free.grad.item() > 0


@pytest.mark.parametrize("shape", [(1, 8, 8), (1, 28, 28), (3, 32, 32)])
@pytest.mark.parametrize("config", [VAEConfig(network="conv", z=4), MaxMarginConditionalVAEConfig(z=4)])
def test_networks_return_the_numbers_that_a_gaussian_needs(config, shape):
    model = replace(config, likelihood="gaussian").build(shape, n_classes=3, n_rows=1)
    labels = torch.eye(3)[:2] if isinstance(config, MaxMarginConditionalVAEConfig) else None
    assert model.decode(torch.randn(2, 4), labels).mean.shape == (2, *shape)


def test_missing_values_start_as_the_likelihood_says():
    """Uniform where pixels lie in [0, 1], normal where they are any numbers, at the mean for a table's columns."""
    normal = torch.randn(10_000, generator=torch.Generator().manual_seed(0))
    uniform = LIKELIHOODS["bernoulli"].noise(normal)
    expected = [0.5 * (1 + math.erf(value / math.sqrt(2))) for value in normal[:100].tolist()]
    assert uniform[:100].tolist() == pytest.approx(expected, abs=1e-6)
    assert (uniform.mean().item(), uniform.var().item()) == pytest.approx((1 / 2, 1 / 12), abs=0.01)
    assert uniform.min() >= 0
    assert uniform.max() <= 1
    assert torch.equal(LIKELIHOODS["gaussian"].noise(normal), normal)
    assert not MixedColumns([False], [0.0], [1.0], [1.0]).noise(normal).any()


def test_values_lie_where_the_likelihood_says():
    x = torch.tensor([-0.1, 0.0, 0.5, 1.0, 1.1])
    assert LIKELIHOODS["bernoulli"].support.check(x).tolist() == [False, True, True, True, False]
    assert LIKELIHOODS["gaussian"].support is constraints.real


def test_a_gaussian_model_imputes_values_beyond_the_unit_interval():
    torch.manual_seed(0)
    model = VAEConfig(hidden=(8,), z=2, likelihood="gaussian").build((1, 4, 4), n_classes=2, n_rows=1)
    x = 5 * np.random.default_rng(0).standard_normal((3, 1, 4, 4)).astype(np.float32)
    missing = np.zeros(x.shape, bool)
    missing[:, :, 1] = True
    filled = impute(model, np.where(missing, np.nan, x).astype(np.float32), rounds=3)
    assert (filled[~missing] == x[~missing]).all()
    assert np.isfinite(filled).all()
    assert (filled[missing] < 0).any()
    x[0, 0, 0, 0] = np.inf
    with pytest.raises(ValueError, match="finite"):
        impute(model, x, rounds=3)


def test_mixed_columns_are_normal_and_bernoulli_ones():
    columns = MixedColumns([False, True], [-2.0, 0.0], [2.0, 1.0], [0.5, 1.0])
    with torch.no_grad():
        columns.log_variance.copy_(torch.tensor([0.7, 0.0])[:, None, None])
    parameters = torch.tensor([[0.3, -1.2], [9.0, 0.4]])[:, :, None, None]
    x = torch.tensor([[1.1, 1.0], [0.2, 0.0]])[:, :, None, None]
    found = columns.distribution(parameters)
    b = columns.least_log_variance
    scale = math.exp(0.5 * (b + math.log1p(math.exp(0.7 - b))))
    normal = Normal(0.5 * parameters[:, 0], 0.5 * scale).log_prob(x[:, 0])
    bernoulli = Bernoulli(logits=parameters[:, 1]).log_prob(x[:, 1])
    torch.testing.assert_close(found.log_prob(x), torch.stack([normal, bernoulli], dim=1))
    torch.testing.assert_close(found.mean[:, 0].flatten(), torch.tensor([0.15, 2.0]))  # 4.5: never seen
    torch.testing.assert_close(found.mean[:, 1], torch.sigmoid(parameters[:, 1]))
