"""Guesses while somebody labels: those of propagation, and questions that teach most."""

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits, load_wine

from mmdgm.propagation import guesses
from mmdgm.propagation.choose import of_points
from mmdgm.propagation.guesses import Guesser
from mmdgm.propagation.propagate import KAPPA, class_chances, class_strength
from mmdgm.propagation.suggest import suggest_rows
from mmdgm.propagation.table_guesses import FEWER_TREES, class_chances_of_tables


@pytest.fixture(name="digits", scope="module")
def make_digits():
    """600 digits of 16×16 pixels."""
    digits = load_digits()
    x = np.kron(digits.images[:600] / 16, np.ones((1, 2, 2))).astype(np.float32)[:, None]
    return x, digits.target[:600].astype(np.int64)


def given(y, rows):
    labels = np.full(len(y), -1, np.int64)
    labels[rows] = y[rows]
    return labels


def test_guesses_are_propagated_labels_and_questions_are_the_suggested_rows(digits):
    x, y = digits
    labels = given(y, np.arange(40))
    found = Guesser(x)(labels, labels < 0)
    graph = of_points(torch.from_numpy(x))
    expected = class_chances(class_strength(graph, labels, kappa=KAPPA), labels)
    np.testing.assert_allclose(found.chances, expected, atol=1e-6)
    assert found.order[:10] == suggest_rows(graph, 10, labels)
    assert sorted(found.order) == list(range(40, 600))


def test_no_label_and_one_class_are_enough_to_go_on(digits):
    x, _ = digits
    guesser, free = Guesser(x), np.ones(600, bool)
    none = guesser(np.full(600, -1), free)
    assert none.chances.shape == (600, 0)
    labels = np.full(600, -1)
    labels[none.order[0]] = 0
    one = guesser(labels, labels < 0)
    assert one.chances.shape == (600, 1)
    assert none.order[0] not in one.order


def test_rows_that_are_not_free_are_not_asked(digits):
    x, _ = digits
    free = np.arange(600) % 2 == 0
    assert sorted(Guesser(x)(np.full(600, -1), free).order) == np.flatnonzero(free).tolist()


def test_rows_beyond_the_graph_take_the_guess_of_the_nearest(digits, monkeypatch):
    x, y = digits
    monkeypatch.setattr(guesses, "ROWS", 400)
    guesser = Guesser(x)
    outside = np.setdiff1d(np.arange(600), guesser.rows)
    labels = given(y, guesser.rows[:60])
    labels[outside[0]] = 10  # a class that has no label in the graph
    found = guesser(labels, labels < 0)
    assert found.chances.shape == (600, 11)
    assert (found.chances.argmax(axis=1) == y)[outside[1:]].mean() > 0.7
    assert sorted(found.order) == np.flatnonzero(labels < 0).tolist()
    assert set(found.order[: len(guesser.rows) - 60]) <= set(guesser.rows)


def test_tables_are_guessed_by_classifiers_until_the_graph_is_better():
    x, y = load_wine(return_X_y=True)
    x = ((x - x.mean(axis=0)) / x.std(axis=0)).astype(np.float32)
    labels = given(y.astype(np.int64), np.arange(0, 178, 9))
    guesser = Guesser(x)
    expected = class_chances_of_tables(x, labels, x, trees=FEWER_TREES)
    np.testing.assert_array_equal(guesser(labels, labels < 0).chances, expected)


def test_the_graph_takes_over_where_it_predicts_labels_better(digits):
    _, y = digits
    x = load_digits(return_X_y=True)[0][:600].astype(np.float32) / 16
    guesser, labels = Guesser(x), given(y, np.arange(60))
    before = guesser(labels, labels < 0).chances.argmax(axis=1)
    assert guesser.decide(labels)
    after = guesser(labels, labels < 0).chances.argmax(axis=1)
    assert (after == y).mean() > (before == y).mean() + 0.02
    assert not guesser.decide(given(y, np.arange(80)))  # not due before the labels have doubled
