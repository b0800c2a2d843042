"""What encoders say: q(z|x) and its divergence from the prior, against the formulas."""

import pytest
import torch
from torch.distributions import Normal, kl_divergence

from mmdgm.networks.base import Encoding, GaussianHead, linear_classifier


def test_the_divergence_is_that_of_two_normal_distributions():
    generator = torch.Generator().manual_seed(0)
    mean, log_variance = (torch.randn(5, 3, generator=generator) for _ in range(2))
    encoding = Encoding(mean, log_variance, ())
    assert encoding.kl.shape == (5,)
    expected = kl_divergence(encoding.qz, Normal(0.0, 1.0)).sum(dim=1)
    torch.testing.assert_close(encoding.kl, expected)
    torch.testing.assert_close(encoding.qz.scale.square().log(), log_variance)
    assert torch.equal(encoding.qz.loc, mean)


def test_the_divergence_of_a_tiny_variance_is_finite():
    encoding = Encoding(torch.zeros(1, 1), torch.full((1, 1), -300.0), ())
    assert encoding.kl.item() == pytest.approx(149.5)


def test_half_precision_is_made_single_before_exponentials():
    encoding = Encoding(torch.full((1, 1), 3.0).bfloat16(), torch.full((1, 1), 1.0).bfloat16(), ())
    assert encoding.qz.loc.dtype == encoding.qz.scale.dtype == encoding.kl.dtype == torch.float32
    assert encoding.kl.item() == pytest.approx(0.5 * (9 + torch.e - 1 - 1), rel=1e-6)


def test_the_head_is_two_linear_layers():
    torch.manual_seed(0)
    head, hidden = GaussianHead(6, 4), torch.randn(5, 6)
    torch.nn.init.normal_(head.mean.bias)
    torch.nn.init.normal_(head.log_variance.bias)
    torch.testing.assert_close(head(hidden), (head.mean(hidden), head.log_variance(hidden)))
    mean, log_variance = GaussianHead(6, 4, zero_log_variance=True)(hidden)
    assert mean.abs().min() > 0
    assert (log_variance == 0).all()


def test_classifiers_start_small():
    torch.manual_seed(0)
    layer = linear_classifier(1000, 50)
    assert layer.weight.std().item() == pytest.approx(0.01, rel=0.02)
    assert layer.weight.mean().item() == pytest.approx(0, abs=2e-4)
    assert not layer.bias.any()
