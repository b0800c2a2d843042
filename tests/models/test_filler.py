"""The model of a table's missing values, against closed forms and literal sums."""

import numpy as np
import pytest
import torch

from mmdgm.data.batches import Batch
from mmdgm.data.tables import Column
from mmdgm.models.filler import RIDGE, WIDE, ColumnGroups, Filler, FillerNetwork, ShrunkGaussian

MIXED = (
    Column(name="length", kind="number", low=-2.0, high=2.0),
    Column(name="colour", kind="category", values=("blue", "green", "red"), high=1.0),
    Column(name="alive", kind="binary", values=(0, 1), high=1.0),
    Column(name="pixel", kind="number", low=-1.0, high=1.0, deviation=0.5),
)


def numbers(n):
    return tuple(Column(name=str(i), kind="number", low=-10.0, high=10.0) for i in range(n))


@pytest.fixture(name="gaussian")
def make_gaussian():
    torch.manual_seed(0)
    gaussian = ShrunkGaussian(4)
    root = torch.randn(4, 4)
    gaussian.mean, gaussian.covariance = torch.randn(4), root @ root.T + 0.5 * torch.eye(4)
    return gaussian


def test_the_conditional_mean_is_that_of_the_textbook(gaussian):
    x, observed = torch.randn(6, 4), torch.tensor([[1, 0, 1, 0]] * 5 + [[0, 0, 0, 0]]).float()
    filled = gaussian(x, observed)
    o, m = [0, 2], [1, 3]
    s = gaussian.covariance.double() + RIDGE * torch.eye(4)
    expected = gaussian.mean[m].double() + (x[:5][:, o] - gaussian.mean[o]).double() @ torch.linalg.solve(
        s[np.ix_(o, o)], s[np.ix_(o, m)]
    )
    assert torch.allclose(filled[:5][:, m].double(), expected, atol=1e-4)
    assert torch.equal(filled[:5][:, o], x[:5][:, o])
    assert torch.allclose(filled[5], gaussian.mean)


def test_deviations_are_those_of_the_gaussians_own_errors(gaussian):
    filler = Filler(numbers(4)).eval()
    filler.gaussian = gaussian
    observed = torch.tensor([[1, 0, 1, 0], [0, 0, 0, 0]]).float()
    m, o = [1, 3], [0, 2]
    s = gaussian.covariance
    rest = s[m][:, m] - s[m][:, o] @ torch.linalg.solve(s[o][:, o], s[o][:, m])
    found = filler.deviations(observed)
    assert torch.allclose(found[0, m].square(), rest.diagonal(), rtol=1e-3)
    assert torch.allclose(found[1].square(), s.diagonal(), rtol=1e-3)
    torch.manual_seed(0)
    errors = filler.errors(observed[:1].expand(20_000, 4), torch.randn(20_000, 4))
    assert torch.allclose(errors.std(dim=0)[m], found[0, m], rtol=0.03)


def test_on_complete_rows_em_gives_the_shrunk_covariance():
    torch.manual_seed(1)
    x = torch.randn(50, 3) @ torch.tensor([[1.0, 0.8, 0.0], [0.0, 0.6, 0.3], [0.0, 0.0, 1.0]])
    gaussian = ShrunkGaussian(3)
    gaussian.fit(x, torch.ones(50, 3), rounds=1)
    whole = torch.cov(x.T, correction=0)
    shrunk = whole * 50 / (50 + 3 + 5)
    assert torch.allclose(gaussian.mean, x.mean(dim=0), atol=1e-6)
    assert torch.allclose(gaussian.covariance.diagonal(), whole.diagonal(), atol=1e-5)
    assert gaussian.covariance[0, 1] == pytest.approx(float(shrunk[0, 1]), abs=1e-5)


def test_a_round_of_em_adds_the_conditional_covariance_of_what_is_missing(gaussian):
    x, observed = torch.randn(5, 4), (torch.rand(5, 4) < 0.6).float()
    filled, missing = gaussian._moments(x, observed)
    literal = torch.zeros(4, 4)
    for row in observed.bool():
        o, m = row.nonzero()[:, 0], (~row).nonzero()[:, 0]
        s = gaussian.covariance + RIDGE * torch.eye(4)
        rest = gaussian.covariance[m][:, m]
        if len(o):
            cross = gaussian.covariance[m][:, o]
            rest = rest - cross @ torch.linalg.solve(s[o][:, o], cross.T)
        literal[m[:, None], m] += rest
    assert torch.allclose(missing, literal, atol=1e-4)
    assert torch.allclose(filled, gaussian(x, observed))


def test_em_finds_the_correlation_of_rows_with_holes():
    torch.manual_seed(2)
    z = torch.randn(2000, 1)
    x = torch.cat([z, 0.9 * z + 0.19**0.5 * torch.randn(2000, 1)], dim=1)
    observed = (torch.rand(2000, 2) < 0.7).float()
    gaussian = ShrunkGaussian(2)
    gaussian.fit(x * observed, observed, rounds=5)
    assert float(gaussian.covariance[0, 1]) == pytest.approx(0.9, abs=0.05)


def test_chances_of_a_category_are_a_softmax_within_the_column():
    groups = ColumnGroups(MIXED)
    outputs = torch.randn(3, 6)
    found = groups.log_chances(outputs)
    assert torch.allclose(found[:, 1:4], outputs[:, 1:4].log_softmax(dim=1), atol=1e-6)
    bounded = groups.bounded(torch.tensor([[5.0, 0.2, -0.1, 0.2, 0.4, -3.0]]))
    assert torch.allclose(bounded, torch.tensor([[2.0, 0.5, 0.0, 0.5, 0.4, -1.0]]))


def test_the_loss_counts_hidden_observed_values_only(monkeypatch):
    groups = ColumnGroups(MIXED)
    network = FillerNetwork(groups)
    x = torch.tensor([[0.5, 0.0, 1.0, 0.0, 1.0, 0.25], [1.0, 1.0, 0.0, 0.0, 0.0, -0.5]])
    known = torch.tensor([[1, 1, 1, 1, 1, 0], [1, 1, 1, 1, 0, 1]]).float()
    shown = torch.tensor([[True, False, False, True], [False, True, True, False]])
    draws = iter([torch.full((2, 1), 0.5), torch.where(shown, 0.9, 0.1)])
    monkeypatch.setattr(torch, "rand", lambda *size, **more: next(draws))
    outputs = network.outputs(x, known * groups.of_each(shown.float()))
    entropy = torch.nn.functional.cross_entropy
    logistic = torch.nn.functional.binary_cross_entropy_with_logits
    literal = [
        entropy(outputs[0, 1:4], torch.tensor(1)),
        logistic(outputs[0, 4], torch.tensor(1.0)),
        0.5 * (outputs[1, 0] - 1.0) ** 2,
        0.5 * (outputs[1, 5] + 0.5 / 0.5) ** 2,
    ]
    batch = Batch(x[:, :, None, None], torch.empty(0, dtype=torch.int64), observed=known[:, :, None, None])
    assert network(batch).loss.item() == pytest.approx(sum(literal).item() / 4, rel=1e-5)


def test_draws_have_the_gaussians_conditional_distribution():
    torch.manual_seed(3)
    filler = Filler(numbers(2)).eval()
    filler.gaussian.covariance = torch.tensor([[1.0, 0.8], [0.8, 1.0]])
    filler.weights = torch.tensor([[1.0, 1.0], [0.0, 0.0]])
    x, observed = torch.tensor([[1.5, 0.0]]).expand(4000, 2), torch.tensor([[1.0, 0.0]]).expand(4000, 2)
    with torch.no_grad():
        drawn = filler.draw(x, observed, torch.randn(4000, 4))
    assert torch.equal(drawn[:, 0], x[:, 0])
    assert float(drawn[:, 1].mean()) == pytest.approx(0.8 * 1.5, abs=0.04)
    assert float(drawn[:, 1].std()) == pytest.approx(0.6, abs=0.03)


def test_draws_of_categories_and_of_two_values_follow_their_chances():
    torch.manual_seed(4)
    filler = Filler(MIXED).eval()
    chances = torch.tensor([0.0, 0.2, 0.3, 0.5, 0.7, 0.0])
    filler.means = chances
    filler.weights = torch.zeros(2, 4)
    with torch.no_grad():
        drawn = filler.draw(torch.zeros(5000, 6), torch.zeros(5000, 6), torch.randn(5000, 12))
    assert torch.equal(drawn[:, 1:4].sum(dim=1), torch.ones(5000))
    assert torch.allclose(drawn[:, 1:5].mean(dim=0), chances[1:5], atol=0.03)


def test_tilted_chances_have_raised_logits():
    groups = ColumnGroups(MIXED)
    chances = torch.tensor([[0.0, 0.5, 0.3, 0.2, 0.6, 0.0]])
    tilt = torch.tensor([9.0, np.log(2.0), 0.0, 0.0, np.log(3.0), 9.0], dtype=torch.float32)
    found = groups.tilted(chances, tilt)[0, 1:5]
    assert torch.allclose(found, torch.tensor([1 / 1.5, 0.3 / 1.5, 0.2 / 1.5, 1.8 / 2.2]), atol=1e-5)


def test_very_wide_tables_have_the_network_alone():
    filler = Filler(numbers(WIDE + 1)).eval()
    assert filler.gaussian is None
    x, observed = torch.randn(2, WIDE + 1), torch.ones(2, WIDE + 1)
    observed[:, 0] = 0
    with torch.no_grad():
        both = filler.predictions(x, observed)
        assert torch.equal(both[0], both[1])
        assert torch.equal(filler(x, observed)[:, 1:], x[:, 1:])
