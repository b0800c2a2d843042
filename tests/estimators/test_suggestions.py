"""`suggest_labels` on the kinds of data that `fit` takes."""

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_digits, load_wine

from conftest import holes
from mmdgm import suggest_labels
from mmdgm.errors import InputError
from mmdgm.estimators import suggestions as module
from mmdgm.estimators.suggestions import suggestions

X, Y = load_wine(return_X_y=True)


def table():
    rng = np.random.default_rng(0)
    colour = np.where(Y == 0, "red", rng.choice(["white", "rosé"], len(Y)))
    frame = pd.DataFrame(X[:, :3], columns=["a", "b", "c"]).assign(colour=colour, big=X[:, 12] > 700)
    frame.iloc[::7, 1] = np.nan
    frame.iloc[::5, 3] = None
    return frame


@pytest.mark.parametrize("data", [X, holes(X), table(), X.tolist()], ids=["array", "holes", "data frame", "lists"])
def test_tables(data):
    rows = suggest_labels(data, 9)
    assert (rows.shape, len(set(rows.tolist()))) == ((9,), 9)
    assert set(Y[rows]) == {0, 1, 2}
    assert suggest_labels(data, 4).tolist() == rows[:4].tolist()


@pytest.mark.parametrize("shape", [(8, 8), (16, 16), (16, 16, 3)])
def test_images(shape):
    images, y = load_digits().images[:400], load_digits().target[:400]
    images = images.repeat(shape[0] // 8, axis=1).repeat(shape[0] // 8, axis=2)
    rows = suggest_labels(images if len(shape) == 2 else images[..., None].repeat(3, axis=3), 20)
    assert len(set(y[rows])) >= 9


@pytest.mark.parametrize("marker", [-1, None, np.nan, "?"])
def test_labels_so_far_are_taken_into_account(marker):
    y = Y.astype(object)
    first = suggest_labels(X, 6)
    y[np.setdiff1d(np.arange(len(y)), first)] = marker
    if marker is None:
        y = np.where(np.isin(np.arange(len(Y)), first), Y, -1)
    elif marker != "?":
        y = y.astype(float)
    rows = suggest_labels(X, 6, y, unlabeled=-1 if marker is None else marker)
    assert not set(rows.tolist()) & set(first.tolist())


def test_the_labels_of_one_class_and_of_text():
    y = np.full(len(X), "", dtype=object)
    y[[3, 5]] = "barolo"
    found = suggestions(X, 5, y, unlabeled="")
    assert (found.tested, found.errors) == (2, 0)
    assert not {3, 5} & set(found.rows.tolist())


def test_the_first_labels_may_all_be_ones():
    y = np.full(len(X), -1)
    y[:4] = 1
    found = suggestions(X, 5, y)
    assert found.tested == 4
    assert (found.rows >= 4).all()


@pytest.mark.parametrize("value", [None, np.nan])
def test_missing_labels_are_refused_unless_they_are_the_mark(value):
    y = np.array(["a", "b", value] + ["?"] * (len(X) - 3), dtype=object)
    with pytest.raises(InputError, match="y holds N"):
        suggest_labels(X, 3, y, unlabeled="?")


def test_leave_one_out_counts_labels_that_contradict_the_others():
    y = np.full(len(X), -1)
    y[::6] = Y[::6]
    assert suggestions(X, 1, y).errors <= 3
    y[::6] = np.random.default_rng(0).integers(0, 3, len(y[::6]))
    assert suggestions(X, 1, y).errors > 10


def test_of_many_rows_some_are_looked_at(monkeypatch):
    monkeypatch.setattr(module, "ROWS", 60)
    y = np.full(len(X), -1)
    y[[1, 70, 170]] = 0, 1, 2
    first, again, other = (suggest_labels(X, 10, y, random_state=seed).tolist() for seed in (0, 0, 1))
    assert first == again != other
    assert not set(first) & {1, 70, 170}
    assert max(first) > 60
    assert len(set(suggest_labels(X, 100, y, random_state=0).tolist())) == 100


@pytest.mark.parametrize(
    ("n", "y", "words"), [(0, None, "n=0"), (179, None, "there are 178 rows"), (2.5, None, "n=2.5")]
)
def test_a_number_of_rows_that_cannot_be_is_refused(n, y, words):
    with pytest.raises(InputError, match=words):
        suggest_labels(X, n, y)


def test_labels_for_other_rows_are_refused():
    with pytest.raises(ValueError, match="inconsistent numbers"):
        suggest_labels(X, 3, Y[:5])
