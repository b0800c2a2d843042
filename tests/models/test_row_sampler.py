"""The sampler of a table's rows, with tensors set by hand."""

import pytest
import torch

from mmdgm.data.tables import Column
from mmdgm.models.filler import WIDE
from mmdgm.models.row_sampler import GRID, RowSampler, place_in, place_of, score_of

COLUMNS = (
    Column(name="length", kind="number", low=-4.0, high=4.0),
    Column(name="colour", kind="category", values=("blue", "green", "red"), high=1.0),
    Column(name="rooms", kind="number", low=-4.0, high=4.0),
    Column(name="alive", kind="binary", values=(0, 1), high=1.0),
)


@pytest.fixture(name="sampler")
def make_sampler():
    """Errors of class 1 are correlated by 0.8, and quantiles are those of the uniform distribution on [-4, 4]."""
    torch.manual_seed(0)
    sampler = RowSampler(COLUMNS, z=2, n_classes=2).eval()
    sampler.error_root[1] = torch.tensor([[1.0, 0.0], [0.8, 0.6]])
    sampler.generated[:] = sampler.observed[:] = torch.linspace(-4, 4, GRID)
    return sampler


def test_codes_have_the_mean_and_the_covariance_of_their_class(sampler):
    sampler.code_mean[1] = torch.tensor([3.0, -1.0])
    sampler.code_root[1] = torch.tensor([[2.0, 0.0], [1.0, 0.5]])
    y = torch.arange(20_000) % 2
    codes = sampler.codes(y, torch.randn(20_000, 2))
    assert torch.allclose(codes[y == 0].mean(dim=0), torch.zeros(2), atol=0.05)
    assert torch.allclose(codes[y == 1].mean(dim=0), torch.tensor([3.0, -1.0]), atol=0.08)
    assert torch.allclose(torch.cov(codes[y == 1].T), torch.tensor([[4.0, 2.0], [2.0, 1.25]]), atol=0.15)


def test_numbers_are_means_plus_joint_errors_where_quantiles_agree(sampler):
    means = torch.tensor([0.5, 0.2, 0.3, 0.5, -0.5, 0.7]).expand(20_000, 6)
    sampler.error_scale[:] = torch.tensor([0.3, 0.5])
    rows = sampler(means, torch.ones(20_000, dtype=torch.int64), torch.randn(20_000, 12))
    numbers = rows[:, [0, 4]]
    assert torch.allclose(numbers.mean(dim=0), torch.tensor([0.5, -0.5]), atol=0.02)
    assert torch.allclose(torch.cov(numbers.T), torch.tensor([[0.09, 0.12], [0.12, 0.25]]), atol=0.01)


def test_categories_are_drawn_by_tilted_chances(sampler):
    sampler.tilt[1, 5] = 1.0
    chances = torch.tensor([0.0, 0.2, 0.3, 0.5, 0.0, 0.5])
    y = torch.arange(20_000) % 2
    rows = sampler(chances.expand(20_000, 6), y, torch.randn(20_000, 12))
    assert torch.equal(rows[:, 1:4].sum(dim=1), torch.ones(20_000))
    assert torch.allclose(rows[:, 1:4].mean(dim=0), chances[1:4], atol=0.02)
    assert set(rows[:, 5].tolist()) == {0.0, 1.0}
    assert float(rows[y == 0, 5].mean()) == pytest.approx(0.5, abs=0.02)
    assert float(rows[y == 1, 5].mean()) == pytest.approx(1 / (1 + 2.71828**-1), abs=0.02)


def test_values_get_the_observed_value_of_their_quantile(sampler):
    sampler.observed[0, 0] = torch.linspace(0, 1, GRID) ** 2
    sampler.observed[0, 1] = (torch.arange(GRID) >= 150).float()  # three quarters are 0
    sampler.stepped[1] = True
    values = torch.tensor([[-9.0, -9.0], [0.0, 1.9], [0.01, 2.03], [4.0, 9.0]])
    found = sampler.by_quantile(values, 0)
    assert torch.allclose(found[:, 0], torch.tensor([0.0, 0.25, (0.5 + 0.01 / 8) ** 2, 1.0]), atol=1e-5)
    assert found[:, 1].tolist() == [0.0, 0.0, 1.0, 1.0]


def test_turned_scores_give_the_correlation(sampler):
    """W = [[1, 0], [0.6, 0.8]] makes independent scores correlate by 0.6."""
    sampler.rotation[0] = torch.tensor([[1.0, 0.0], [0.6, 0.8]])
    normal = torch.special.ndtri((torch.arange(GRID) + 0.5) / GRID)
    sampler.generated[:] = sampler.observed[:] = normal
    found = sampler.by_quantile(torch.randn(20_000, 2), 0)
    assert float(torch.corrcoef(found.T)[0, 1]) == pytest.approx(0.6, abs=0.02)
    assert torch.allclose(found.std(dim=0), torch.ones(2), atol=0.02)


def test_places_and_scores_are_inverse():
    places = torch.tensor([0.0, 3.7, 100.0, 200.0])
    assert torch.allclose(place_of(score_of(places)), places, atol=1e-3)
    assert float(score_of(places[2])) == pytest.approx(0, abs=1e-6)
    assert place_of(torch.tensor([-9.0, 9.0])).tolist() == [0, GRID - 1]


def test_places_are_found_between_quantiles():
    quantiles = torch.arange(GRID).float()[None] * 2
    values = torch.tensor([[-5.0, 0.0, 1.0, 7.0, 400.0, 999.0]])
    assert place_in(quantiles, values).tolist() == [[0.0, 0.0, 0.5, 3.5, 200.0, 200.0]]


def test_errors_of_very_wide_tables_are_independent():
    columns = tuple(Column(name=str(i), kind="number", low=-4.0, high=4.0) for i in range(WIDE + 1))
    sampler = RowSampler(columns, z=2, n_classes=2)
    assert sampler.error_root.numel() == 0
    sampler.error_scale[1] = 2.0
    noise = torch.randn(3, WIDE + 1)
    assert torch.equal(sampler.with_errors(torch.ones(3, WIDE + 1), 1, noise), 1 + 2 * noise)
