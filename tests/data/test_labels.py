"""Users' labels: classes, markers, held-out rows and weights."""

import numpy as np
import pytest

from mmdgm.data.labels import (
    check_prior,
    class_factors,
    held_out_rows,
    holds_classes,
    is_unlabeled,
    minus_one_is_a_class,
    prior_ratio,
    read_labels,
    smoothed_shares,
)
from mmdgm.errors import InputError

NAN = np.nan


@pytest.mark.parametrize(
    ("y", "marker", "classes", "codes"),
    [
        ([3, 1, -1, 3], -1, [1, 3], [1, 0, -1, 1]),
        ([3, 1, -1, 3], None, [-1, 1, 3], [2, 1, 0, 2]),
        ([0.0, 1.0, NAN, 0.0], NAN, [0, 1], [0, 1, -1, 0]),
        (["b", "a", "-1", "b"], -1, ["a", "b"], [1, 0, -1, 1]),
        (["b", "a", "?", "b"], "?", ["a", "b"], [1, 0, -1, 1]),
        (np.array(["b", "a", -1, "-1"], object), -1, ["a", "b"], [1, 0, -1, -1]),
        (np.array(["b", "a", NAN], object), NAN, ["a", "b"], [1, 0, -1]),
        ([True, False, True], -1, [False, True], [1, 0, 1]),
        ([[3], [1]], -1, [1, 3], [1, 0]),
    ],
)
@pytest.mark.filterwarnings("ignore:A column-vector y")
def test_classes_are_sorted_and_rows_have_their_numbers(y, marker, classes, codes):
    found, numbers = read_labels(y, marker)
    assert found.tolist() == classes
    assert numbers.tolist() == codes
    assert numbers.dtype == np.int64


def test_minus_one_beside_one_is_a_class_and_that_is_told():
    assert minus_one_is_a_class(np.array([-1, 1, 1]), -1)
    assert not minus_one_is_a_class(np.array([-1, 1, 2]), -1)
    assert not minus_one_is_a_class(np.array([-1, 1]), 9)
    assert not minus_one_is_a_class(np.array([-1, 1]), NAN)
    with pytest.warns(UserWarning, match="-1"):
        classes, codes = read_labels([-1, 1, 1], -1)
    assert (classes.tolist(), codes.tolist()) == ([-1, 1], [0, 1, 1])
    y = np.array([-1, 1, 1])
    assert is_unlabeled(y, -1, classes=np.array([0, 1])).tolist() == [True, False, False]
    assert not is_unlabeled(y, -1, classes=np.array([-1, 1])).any()


@pytest.mark.parametrize(
    ("y", "marker", "word"),
    [
        (np.array(["a", None], object), -1, "None"),
        ([0, 1, NAN], -1, "NaN"),
        (np.array(["a", 1], object), -1, "int, str"),
        ([-1, -1], -1, "no row"),
        ([2, 2, -1], -1, "one class"),
    ],
)
def test_labels_that_mean_nothing_are_refused(y, marker, word):
    with pytest.raises(InputError, match=word) as caught:
        read_labels(y, marker)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("y", "expected"),
    [
        ([0, 1, -1], True),
        (["a", "b", "-1"], True),
        ([0.5, 1.5, 0.25], False),
        ([[0, 1], [1, 0]], False),
        ([[0], [1]], True),
    ],
)
def test_classes_are_told_from_other_targets(y, expected):
    assert holds_classes(y, -1) is expected


def test_held_out_rows_are_a_share_of_each_class_but_never_its_last():
    codes = np.array([0] * 10 + [-1] * 30 + [1] * 4 + [2])
    held = held_out_rows(codes, 0.3, np.random.RandomState(0))
    assert np.bincount(codes[held], minlength=3).tolist() == [3, 1, 0]
    assert (np.diff(held) > 0).all()
    other = held_out_rows(codes, 0.3, np.random.RandomState(1))
    assert held.tolist() != other.tolist()
    assert np.bincount(codes[held_out_rows(codes, 1.0, np.random.RandomState(0))]).tolist() == [9, 3]
    with pytest.raises(InputError, match="validation_fraction"):
        held_out_rows(codes, 0.01, np.random.RandomState(0))


CLASSES, CODES = np.array(["a", "b", "c"]), np.array([0] * 6 + [1] * 3 + [2] + [-1] * 7)


def test_factors_of_classes():
    assert class_factors(None, CLASSES, CODES) is None
    balanced = class_factors("balanced", CLASSES, CODES)
    assert balanced.tolist() == pytest.approx([10 / 18, 10 / 9, 10 / 3])
    assert balanced[CODES[CODES >= 0]].mean() == pytest.approx(1)
    assert class_factors({"a": 2, "c": 0}, CLASSES, CODES).tolist() == [2, 1, 0]


@pytest.mark.parametrize("weight", ["even", [1, 2, 3], {"a": -1}, {"a": NAN}, {"a": 0, "b": 0, "c": 0}])
def test_factors_that_mean_nothing_are_refused(weight):
    with pytest.raises(InputError, match="class_weight"):
        class_factors(weight, CLASSES, CODES)


def test_a_prior_is_set_against_the_labeled_rows():
    assert prior_ratio(None, CODES) is None
    ratio = prior_ratio([0.3, 0.3, 0.4], CODES)
    assert ratio.tolist() == pytest.approx([0.3 / 0.6, 0.3 / 0.3, 0.4 / 0.1])


@pytest.mark.parametrize("prior", [[0.5, 0.5], [0.5, 0.6, -0.1], [0.5, 0.4, 0.2], 1.0])
def test_a_prior_that_is_none_is_refused(prior):
    with pytest.raises(InputError, match="class_prior"):
        check_prior(prior, CLASSES)


def test_shares_from_few_labels_are_drawn_towards_equal_ones():
    np.testing.assert_allclose(smoothed_shares(np.array([0, 0, 0, 1, -1, -1]), 2), [8 / 14, 6 / 14])
    np.testing.assert_allclose(smoothed_shares(np.repeat([0, 1], [9995, 5]), 2), [1e4 / 10010, 10 / 10010])
