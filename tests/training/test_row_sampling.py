"""What the sampler of a table's rows learns from them, beside literal figures."""

import numpy as np
import pytest
import torch

from mmdgm.data.tables import Column
from mmdgm.models import VAEConfig
from mmdgm.models.row_sampler import RowSampler
from mmdgm.networks.likelihoods import MixedColumns
from mmdgm.training.row_sampling import (
    GRID,
    LEAST_VARIANCE,
    OTHERS,
    SHRINKAGE,
    are_stepped,
    covariance_of_scores,
    learn_codes,
    learn_errors,
    learn_quantiles,
    learn_rotation,
    learn_rows,
    learn_tilt,
)

NUMBERS = tuple(Column(name=name, kind="number", low=-9.0, high=9.0) for name in "ab")
CHOICES = (
    Column(name="alive", kind="binary", values=(0, 1), high=1.0),
    Column(name="colour", kind="category", values=("blue", "green", "red"), high=1.0),
)


def test_codes_of_a_class_are_shrunk_towards_those_of_all():
    torch.manual_seed(0)
    y = torch.tensor([0] * 30 + [1] * 10)
    codes = torch.randn(40, 2) + 3.0 * y[:, None]
    sampler = RowSampler(NUMBERS, z=2, n_classes=3)
    learn_codes(sampler, codes, y)
    mean = (codes[30:].sum(dim=0) + OTHERS * codes.mean(dim=0)) / (10 + OTHERS)
    assert torch.allclose(sampler.code_mean[1], mean)
    assert torch.allclose(sampler.code_mean[2], codes.mean(dim=0))  # no row is of class 2
    apart = codes - sampler.code_mean[y]
    pooled, own = apart.T @ apart / 40, apart[30:].T @ apart[30:]
    shrunk = (own + (SHRINKAGE + 2) * pooled) / (10 + SHRINKAGE + 2)
    assert torch.allclose(sampler.code_root[1] @ sampler.code_root[1].T, shrunk, atol=1e-3)
    assert torch.allclose(sampler.code_root[2] @ sampler.code_root[2].T, pooled, atol=1e-3)


def test_errors_have_the_covariance_of_their_class():
    torch.manual_seed(0)
    y = torch.arange(4000) % 2
    errors = torch.randn(4000, 2) @ torch.tensor([[0.5, 0.4], [0.0, 0.3]])
    errors[y == 1, 1] *= -1
    sampler = RowSampler(NUMBERS, z=2, n_classes=2)
    learn_errors(sampler, errors, y)
    for k, sign in ((0, 1), (1, -1)):
        root = sampler.error_root[k] * sampler.error_scale[k][:, None]
        assert torch.allclose(root @ root.T, torch.tensor([[0.25, sign * 0.2], [sign * 0.2, 0.25]]), atol=0.03)


def test_scores_of_generated_numbers_get_the_correlations_of_the_rows():
    """Also if a column has three values, and the decoder says nothing of the correlation."""
    torch.manual_seed(0)
    sampler = RowSampler(NUMBERS, z=2, n_classes=1)
    a = torch.randn(3000)
    b = (0.9 * a + 0.19**0.5 * torch.randn(3000)).clamp(-0.7, 0.7).div(0.5).round()
    rows, means = torch.stack([a.exp(), b], dim=1), torch.randn(3000, 2)
    sampler.stepped[1] = True
    known = torch.ones(3000, 2, dtype=torch.bool)
    learn_quantiles(sampler, 0, means, rows, known, known[:, 0])
    learn_rotation(sampler, 0, means, rows)
    y, noise = torch.zeros(4000, dtype=torch.int64), torch.randn(4000, 4)
    drawn = sampler(torch.randn(4000, 2), y, noise)
    expected, found = (float(covariance_of_scores(x)[0, 1]) for x in (rows, drawn))
    assert expected > 0.55
    assert found == pytest.approx(expected, abs=0.05)
    assert sorted(set(drawn[:, 1].tolist())) == [-1, 0, 1]


def test_equal_values_have_equal_scores():
    values = torch.tensor([[1.0], [3.0], [3.0], [9.0]])
    scores = np.array([-1.1503, 0, 0, 1.1503])  # at the ranks 1/8, 1/2, 1/2, 7/8
    assert float(covariance_of_scores(values)) == pytest.approx(np.mean(scores**2) + LEAST_VARIANCE, abs=1e-3)


def test_quantiles_are_those_of_the_class_if_it_has_observed_values():
    torch.manual_seed(0)
    sampler = RowSampler(NUMBERS, z=2, n_classes=2)
    rows = torch.stack([torch.arange(100.0), torch.arange(100.0) + 1000], dim=1)
    known, own = torch.ones(100, 2, dtype=torch.bool), torch.arange(100) < 51
    known[:48, 1] = False
    learn_quantiles(sampler, 0, torch.zeros(500, 2), rows, known, own)
    assert sampler.observed[0, 0, [0, GRID // 2, -1]].tolist() == [0, 25, 50]
    assert sampler.observed[0, 1, [0, -1]].tolist() == [1048, 1099]  # three values of the class: those of all rows
    assert float(sampler.generated[0].std()) == pytest.approx(1, abs=0.1)


def test_columns_with_repeated_values_are_stepped():
    rows = torch.stack([torch.arange(100.0), torch.arange(100.0) // 10], dim=1)
    assert are_stepped(rows, torch.ones(100, 2) > 0, torch.tensor([True, True])).tolist() == [False, True]


def test_tilted_chances_have_the_observed_shares_of_the_class():
    torch.manual_seed(0)
    sampler = RowSampler(CHOICES, z=2, n_classes=2)
    own = torch.arange(2000) < 1000
    chance = torch.where(own, 0.8, 0.3)
    colours = torch.eye(3)[torch.where(own, torch.arange(2000) % 2, 2)]  # in the class: blue and green, no red
    rows = torch.cat([(torch.rand(2000) < chance).float()[:, None], colours], dim=1)
    means = torch.cat([torch.rand(4000, 1), torch.rand(4000, 3).softmax(dim=1)], dim=1)
    learn_tilt(sampler, 0, means, rows, torch.ones(2000, 4) > 0, own)
    found = sampler.groups.tilted(means, sampler.tilt[0]).mean(dim=0)
    assert torch.allclose(found, torch.tensor([rows[own, 0].mean(), 0.5, 0.5, 0.0]), atol=0.002)


def test_the_sampler_is_a_function_of_the_seed_and_leaves_the_random_state():
    columns = NUMBERS + CHOICES[:1]
    likelihood = MixedColumns([False, False, True], [-9.0] * 3, [9.0] * 3, [1.0] * 3)
    model = VAEConfig(hidden=(8,), z=2).build((3, 1, 1), n_classes=2, likelihood=likelihood).eval()
    rng = np.random.default_rng(0)
    x, y = rng.integers(0, 2, (60, 3)).astype(np.float32), np.array([0] * 45 + [1] * 15)
    torch.manual_seed(5)
    before = torch.random.get_rng_state()
    first, again = (learn_rows(model, x, x == x, y, columns, seed=1).state_dict() for _ in range(2))
    assert torch.equal(torch.random.get_rng_state(), before)
    assert all(torch.equal(value, again[name]) for name, value in first.items())
    assert first["shares"].tolist() == [0.75, 0.25]
