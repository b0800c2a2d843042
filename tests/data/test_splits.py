"""Draws of labeled rows and of held-out rows: balanced, nested, disjoint, repeatable."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mmdgm.data.splits import group_split, labeled_draw, validation_split
from mmdgm.errors import InputError

SIZES = (100, 50, 30, 20)
Y = np.random.default_rng(0).permutation(np.repeat(np.arange(4), SIZES))


@settings(deadline=None)
@given(n=st.integers(1, 20).map(lambda k: 4 * k), seed=st.integers(0, 2**32))
def test_labeled_draw_has_the_same_number_of_each_class(n, seed):
    rows = labeled_draw(Y, n, seed=seed)
    assert np.bincount(Y[rows]).tolist() == [n // 4] * 4
    assert (np.diff(rows) > 0).all()


@settings(deadline=None)
@given(few=st.integers(1, 20), more=st.integers(1, 20), seed=st.integers(0, 2**32))
def test_labeled_draws_of_one_seed_are_nested(few, more, seed):
    few, more = sorted((few, more))
    assert set(labeled_draw(Y, 4 * few, seed=seed)) <= set(labeled_draw(Y, 4 * more, seed=seed))


def test_labeled_draw_is_a_function_of_the_seed():
    draws = [tuple(labeled_draw(Y, 40, seed=seed)) for seed in (0, 0, 1, 2)]
    assert draws[0] == draws[1]
    assert len(set(draws)) == 3


def test_labeled_draw_reaches_every_row():
    drawn = set().union(*(labeled_draw(Y, 80, seed=seed) for seed in range(100)))
    assert len(drawn) == len(Y)


@pytest.mark.parametrize("n", [0, -4, 1, 42])
def test_a_number_of_labels_that_is_no_multiple_is_refused(n):
    with pytest.raises(InputError, match=rf"labels={n}\b.*multiple.*\b4\b"):
        labeled_draw(Y, n, seed=0)


def test_more_labels_than_the_smallest_class_has_are_refused():
    with pytest.raises(InputError, match=r"\b21\b.*class 3 has 20\b.*at most 80\b"):
        labeled_draw(Y, 84, seed=0)


@pytest.mark.parametrize(("n", "per_class"), [(20, [10, 5, 3, 2]), (40, [20, 10, 6, 4]), (100, [50, 25, 15, 10])])
def test_validation_rows_are_in_proportion_to_the_classes(n, per_class):
    _, held_out = validation_split(Y, n)
    assert np.bincount(Y[held_out]).tolist() == per_class


@settings(deadline=None)
@given(n=st.integers(1, len(Y) - 1), seed=st.integers(0, 2**32))
def test_training_and_validation_rows_are_all_rows_once(n, seed):
    training, held_out = validation_split(Y, n, seed=seed)
    assert len(held_out) == n
    assert sorted([*training, *held_out]) == list(range(len(Y)))
    assert (np.diff(training) > 0).all()


def test_validation_split_is_the_same_on_every_call():
    for first, second in zip(validation_split(Y, 60), validation_split(Y, 60), strict=True):
        np.testing.assert_array_equal(first, second)
    assert set(validation_split(Y, 60)[1]) != set(validation_split(Y, 60, seed=1)[1])


def test_no_validation_rows_leave_all_for_training():
    training, held_out = validation_split(Y, 0)
    assert training.tolist() == list(range(len(Y)))
    assert len(held_out) == 0


@pytest.mark.parametrize("n", [-1, len(Y), len(Y) + 1])
def test_holding_out_all_rows_or_more_is_refused(n):
    with pytest.raises(InputError, match=rf"validation={n}\b.*\b200\b"):
        validation_split(Y, n)


def test_a_group_is_held_out_whole():
    groups = np.array([4, 6, 4, 7, 6, 6])
    training, held_out = group_split(groups, 6)
    assert (training.tolist(), held_out.tolist()) == ([0, 2, 3], [1, 4, 5])


@pytest.mark.parametrize(("groups", "words"), [(np.array([4, 6]), "there are: 4, 6"), (None, "small NORB")])
def test_a_group_that_is_not_there_is_refused(groups, words):
    with pytest.raises(InputError, match=words):
        group_split(groups, 5)
