"""The filler that is trained on a table predicts its missing values, and says how far it errs."""

import numpy as np
import pytest
import torch
from scipy.optimize import nnls

from mmdgm.data import deadline
from mmdgm.data.tables import Column
from mmdgm.devices import Machine, make_fabric
from mmdgm.inference.filling import draw_by, fill_by
from mmdgm.models.filler import Filler
from mmdgm.training.filling import (
    BATCH,
    HIDDEN,
    PRIOR,
    STEPS,
    learn_spread,
    learn_weights,
    nonnegative_weights,
    plan_of,
    train_filler,
)

COLUMNS = tuple(Column(name=name, kind="number", low=-4.0, high=4.0) for name in "abc")
PLANS = ((20, None), (5 * BATCH, None), (20, 3), (10 * BATCH, 5))  # rows, and the largest number of epochs
COLUMNS += (Column(name="sign", kind="category", values=("minus", "plus"), high=1.0),)


def table(n, seed=0):
    """b is nearly a, c is a² and the category is the sign of a; complete rows `(n, 5)`."""
    rng = np.random.default_rng(seed)
    a = rng.standard_normal(n)
    columns = [a, a + 0.3 * rng.standard_normal(n), a**2 - 1, a < 0, a >= 0]
    return np.stack(columns, axis=1).astype(np.float32)


def holes(x, rate, seed=1):
    hidden = np.random.default_rng(seed).random((len(x), 4)) < rate
    return np.where(hidden[:, [0, 1, 2, 3, 3]], np.float32(np.nan), x)


def trained(x, seed=0, **more):
    return train_filler(x, COLUMNS, seed=seed, fabric=make_fabric(Machine("cpu"), precision="32-true"), **more)


@pytest.fixture(name="filler", scope="module")
def make_filler():
    return trained(holes(table(600), 0.2))


def test_fills_are_better_than_means_also_where_the_relation_is_curved(filler):
    whole = table(300, seed=5)
    given = holes(whole, 0.3, seed=6)
    filled = fill_by(filler, given[:, :, None, None])[:, :, 0, 0]
    missing = np.isnan(given)
    assert np.array_equal(filled[~missing], given[~missing])

    def error(j):
        return np.sqrt(np.square((filled - whole)[missing[:, j], j]).mean()) / whole[:, j].std()

    assert error(0) < 0.7
    assert error(1) < 0.7
    assert error(2) < 0.8  # a line through a and a² explains nothing
    right = (filled[:, 4] > 0.5) == (whole[:, 4] > 0.5)
    assert right[missing[:, 4]].mean() > 0.85
    assert np.allclose(filled[:, 3] + filled[:, 4], 1, atol=1e-5)


def test_intervals_of_draws_cover_the_truth(filler):
    whole = table(400, seed=7)
    given = holes(whole, 0.3, seed=8)[:, :, None, None]
    draws = np.stack([draw_by(filler, given, seed=seed)[:, :, 0, 0] for seed in range(60)])
    low, high = np.quantile(draws, [0.05, 0.95], axis=0)
    missing = np.isnan(given[:, :, 0, 0])
    inside = ((whole >= low) & (whole <= high))[:, :3]
    assert 0.88 < inside[missing[:, :3]].mean() < 0.96


@pytest.mark.parametrize(("n", "most"), [(60, 0.97), (1000, 0.93)])
def test_intervals_of_draws_cover_nine_tenths_of_a_gaussian_table(n, most):
    """And a little more if the table is small, when a column has a handful of values to tell its spread by."""
    root = np.random.default_rng(0).normal(size=(6, 6)) / 2
    columns = tuple(Column(name=str(i), kind="number", low=-20.0, high=20.0) for i in range(6))

    def rows(count, seed):
        rng = np.random.default_rng(seed)
        whole = (rng.normal(size=(count, 6)) @ root + 0.4 * rng.normal(size=(count, 6))).astype(np.float32)
        return whole, np.where(rng.random(whole.shape) < 0.3, np.float32(np.nan), whole)

    fabric = make_fabric(Machine("cpu"), precision="32-true")
    filler = train_filler(rows(n, 1)[1], columns, seed=0, fabric=fabric)
    whole, given = rows(500, 2)
    draws = np.stack([draw_by(filler, given[:, :, None, None], seed=seed)[:, :, 0, 0] for seed in range(100)])
    low, high = np.quantile(draws, [0.05, 0.95], axis=0)
    assert 0.87 < ((whole >= low) & (whole <= high))[np.isnan(given)].mean() < most


def test_a_column_with_few_hidden_values_has_the_spread_of_all_columns():
    filler = Filler(COLUMNS)
    normal = 1.6449  # the 90 % quantile of |N(0, 1)|
    learn_spread(filler, {0: np.full(500, 2.0), 1: np.full(5, 0.1), 2: np.full(500, 0.5)})
    assert filler.spread.tolist() == pytest.approx([2 / normal, 2 / normal, 0.5 / normal, 1], rel=1e-3)
    learn_spread(filler, {0: np.empty(0)})
    assert float(filler.spread[0]) == pytest.approx(1, abs=0.25)


def test_a_draw_is_a_function_of_the_row_and_the_seed(filler):
    given = holes(table(50, seed=9), 0.4)[:, :, None, None]
    first = draw_by(filler, given, seed=3)
    assert np.allclose(draw_by(filler, given[::-1], seed=3)[::-1], first, atol=1e-5)
    assert not np.allclose(draw_by(filler, given, seed=4), first)


def test_training_is_a_function_of_the_seed_and_leaves_the_random_state():
    x = holes(table(80), 0.2)
    torch.manual_seed(5)
    before = torch.random.get_rng_state()
    first, again, other = trained(x, 1), trained(x, 1), trained(x, 2)
    assert torch.equal(torch.random.get_rng_state(), before)
    for name, value in first.state_dict().items():
        assert torch.equal(value, again.state_dict()[name])
    assert not torch.equal(first.network.out.weight, other.network.out.weight)


def test_training_ends_when_time_is_over():
    with deadline.ends_at(0):
        filler = trained(holes(table(80), 0.2), stride=5)
    assert np.isfinite(fill_by(filler, holes(table(9), 0.5)[:, :, None, None])).all()


def test_fewer_steps_for_few_rows_and_for_short_fits():
    filler = Filler(COLUMNS)
    steps = [plan_of(filler, n, most).stages()[0].epochs * max(1, n // BATCH) for n, most in PLANS]
    assert steps == [200, STEPS, 3, 5 * 10]


def test_weights_go_to_the_model_that_predicts_hidden_values(monkeypatch):
    filler = Filler(COLUMNS[:2])
    truth = torch.randn(500, 2)
    known = torch.ones(500, 2)
    kept = (torch.rand(500, 2) >= HIDDEN).float()
    predicted = torch.stack([truth + 0.01 * torch.randn(500, 2), torch.randn(500, 2)])
    monkeypatch.setattr(Filler, "predictions", lambda self, x, observed: predicted)
    learn_weights(filler, truth, known, kept)
    assert (filler.weights[0] > 0.85).all()
    assert (filler.weights[1] < 0.15).all()
    assert (filler.spread < 0.3).all()


def test_weights_are_those_of_nonnegative_least_squares():
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(2, 50, 40))
    truth = rng.normal(size=(50, 40)) + a * rng.normal(size=40) + b * rng.normal(size=40)
    b[:, :3] = a[:, :3]  # a network that stands in for the Gaussian
    gram = np.stack([[(p * q).sum(axis=0) for q in (a, b)] for p in (a, b)])
    found = nonnegative_weights(gram, np.stack([(p * truth).sum(axis=0) for p in (a, b)]))
    kinds = set()
    for j in range(40):
        penalty = PRIOR**0.5 * np.eye(2)
        design = np.vstack([np.stack([a[:, j], b[:, j]], axis=1), penalty])
        expected, _ = nnls(design, np.concatenate([truth[:, j], penalty.sum(axis=1) / 2]))
        np.testing.assert_allclose(found[:, j], expected, atol=1e-9)
        kinds.add(tuple(expected > 0))
    assert len(kinds) == 4
