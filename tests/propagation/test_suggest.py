"""Rows to label: against the literal formulas on dense matrices, and against random draws."""

import numpy as np
import pytest
import torch
from scipy.sparse.linalg import ArpackNoConvergence
from sklearn.datasets import load_digits

from mmdgm.propagation import suggest
from mmdgm.propagation.graph import neighbour_graph
from mmdgm.propagation.leave_one_out import leave_one_out
from mmdgm.propagation.propagate import class_chances, class_strength, lead_of
from mmdgm.propagation.suggest import DOUBT, KAPPA, Field, doubt, leading_part, suggest_rows


@pytest.fixture(name="small", scope="module")
def make_small():
    """A graph of 120 points, in full rank."""
    return neighbour_graph(torch.rand(120, 3, generator=torch.Generator().manual_seed(0)), neighbours=6)


@pytest.fixture(name="digits", scope="module")
def make_digits():
    x, y = load_digits(return_X_y=True)
    return neighbour_graph(torch.from_numpy(x).float() / 16), y


def test_the_field_has_the_covariance_of_the_graph(small):
    covariance = np.linalg.inv(np.eye(120) - KAPPA * small.toarray())
    z = leading_part(small)
    np.testing.assert_allclose(z @ z.T, covariance, rtol=1e-6, atol=1e-8)


def test_many_rows_have_the_leading_part(digits):
    graph, _ = digits
    values, vectors = np.linalg.eigh(graph.toarray())
    whole = (vectors[:, -150:] / (1 - KAPPA * values[-150:])) @ vectors[:, -150:].T
    z = leading_part(graph)
    assert z.shape == (len(values), 150)
    np.testing.assert_allclose(z @ z.T, whole, atol=0.02 * np.diag(whole).mean())


def test_eigenvectors_that_were_found_in_time_are_enough(digits, monkeypatch):
    graph, y = digits
    values, vectors = np.linalg.eigh(graph.toarray())

    def too_slow(*_, **__):
        raise ArpackNoConvergence("No convergence", values[-60:], vectors[:, -60:])

    monkeypatch.setattr(suggest, "eigsh", too_slow)
    assert leading_part(graph).shape == (len(y), 60)
    assert len(set(y[suggest_rows(graph, 20, np.full(len(y), -1))])) == 10


def test_rows_are_those_of_the_literal_formula(small):
    y = np.full(120, -1)
    y[[7, 30, 55]] = 0, 1, 0
    weights = DOUBT + 1 - lead_of(class_chances(class_strength(small, y, kappa=KAPPA), y))
    weights[y >= 0] = 0
    np.testing.assert_allclose(doubt(small, y), weights)
    c = np.linalg.inv(np.eye(120) - KAPPA * small.toarray())
    noise = np.diag(c).mean()

    def conditioned(c, row):
        return c - np.outer(c[:, row], c[row]) / (noise + c[row, row])

    for row in (7, 30, 55):
        c = conditioned(c, row)
    expected = []
    for _ in range(8):
        gains = (c @ weights) ** 2 / (noise + np.diag(c))
        gains[[7, 30, 55, *expected]] = -1
        expected.append(int(gains.argmax()))
        c = conditioned(c, expected[-1])
    assert suggest_rows(small, 8, y) == expected


def test_conditioning_twice_is_a_field_of_lower_variance(small):
    field = Field(leading_part(small), np.ones(120))
    before = field.variance.copy()
    field.condition(5)
    field.condition(80)
    assert (field.variance <= before + 1e-12).all()
    c = np.linalg.inv(np.eye(120) - KAPPA * small.toarray())
    rows = [5, 80]
    inside = np.linalg.inv(c[np.ix_(rows, rows)] + np.diag([np.diag(c).mean()] * 2))
    literal = c - c[:, rows] @ inside @ c[rows]
    np.testing.assert_allclose(field.variance, np.diag(literal), rtol=1e-6)
    np.testing.assert_allclose(field.sums, literal.sum(axis=1), rtol=1e-6)
    at_once = Field(leading_part(small), np.ones(120), rows)
    np.testing.assert_allclose(at_once.variance, field.variance, rtol=1e-8)
    np.testing.assert_allclose(at_once.sums, field.sums, rtol=1e-8)


def test_any_beginning_is_a_smaller_choice(digits):
    graph, y = digits
    none = np.full(len(y), -1)
    assert suggest_rows(graph, 30, none)[:12] == suggest_rows(graph, 12, none)


def test_no_more_rows_than_are_without_a_label(small):
    y = np.zeros(120, np.int64)
    y[[3, 8]] = -1
    assert sorted(suggest_rows(small, 10, y)) == [3, 8]
    assert suggest_rows(small, 10, np.zeros(120, np.int64)) == []


def wrong(graph, y, rows):
    given = np.full(len(y), -1)
    given[rows] = y[rows]
    chances = class_chances(class_strength(graph, given, kappa=0.95), given)
    return (chances.argmax(axis=1) != y)[given < 0].mean()


def test_suggested_rows_hold_all_classes_and_beat_random_draws(digits):
    graph, y = digits
    chosen = suggest_rows(graph, 20, np.full(len(y), -1))
    assert len(set(y[chosen[:13]])) == 10
    random = [wrong(graph, y, np.random.RandomState(seed).permutation(len(y))[:20]) for seed in range(5)]
    assert wrong(graph, y, chosen) < 0.08
    assert wrong(graph, y, chosen) < 0.4 * np.mean(random)


def test_labels_lead_to_doubtful_rows(digits):
    graph, y = digits
    given = np.full(len(y), -1)
    first = suggest_rows(graph, 10, given)
    given[first] = y[first]
    certain = lead_of(class_chances(class_strength(graph, given, kappa=KAPPA), given))
    after = suggest_rows(graph, 10, given)
    assert certain[after].mean() < certain[given < 0].mean() - 0.1
    assert wrong(graph, y, first + after) < wrong(graph, y, first)


@pytest.mark.parametrize("kappa", [0.5, 0.95])
def test_leave_one_out_is_propagation_without_the_label(digits, kappa):
    graph, y = digits
    given = np.full(len(y), -1)
    given[:60] = y[:60]
    literal = []
    for row in range(60):
        others = given.copy()
        others[row] = -1
        literal.append(class_chances(class_strength(graph, others, kappa=kappa), others)[row])
    np.testing.assert_allclose(leave_one_out(graph, given, kappa=kappa), literal, atol=1e-4)
