"""First guesses for tables: chances of the classifiers, and the choice between them and the graph."""

import numpy as np
import pytest
from sklearn.datasets import load_digits, load_wine
from sklearn.ensemble import ExtraTreesClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from mmdgm.propagation.table_guesses import TREES, C, class_chances_of_tables, graph_is_better, guess_labels


def few(y, per_class, seed=0):
    given, rng = np.full(len(y), -1), np.random.RandomState(seed)
    for k in np.unique(y):
        given[rng.permutation(np.flatnonzero(y == k))[:per_class]] = k
    return given


def test_chances_are_the_mean_of_both_classifiers():
    x, y = load_wine(return_X_y=True)
    given = few(y, 5)
    scaled = StandardScaler().fit(x).transform(x)
    linear = LogisticRegression(C=C, max_iter=500).fit(scaled[given >= 0], y[given >= 0])
    forest = ExtraTreesClassifier(TREES, min_samples_leaf=2, random_state=3).fit(scaled[given >= 0], y[given >= 0])
    expected = (linear.predict_proba(scaled) + forest.predict_proba(scaled)) / 2
    np.testing.assert_allclose(class_chances_of_tables(x, given, x, seed=3), expected)


def test_given_labels_stay_and_a_prior_shifts_the_others():
    rng = np.random.RandomState(0)
    x = rng.standard_normal((200, 3)).astype(np.float32)  # columns of noise
    y = np.full(200, -1)
    y[:10] = [0, 1] * 5
    guess = guess_labels(x, y, rng=np.random.RandomState(1), prior=np.array([0.97, 0.03]))
    assert np.array_equal(guess[:10], y[:10])
    assert (guess[10:] == 0).mean() > 0.9


def test_a_single_class_is_guessed_everywhere():
    x = np.random.RandomState(0).standard_normal((20, 2)).astype(np.float32)
    y = np.full(20, -1)
    y[:4] = 0
    assert (guess_labels(x, y, rng=np.random.RandomState(0)) == 0).all()


@pytest.mark.parametrize("better", [True, False])
def test_the_graph_is_taken_where_it_predicts_better(better):
    if better:  # digits as columns: clusters
        x, y = load_digits(return_X_y=True)
        x, y = x[:600], y[:600]
    else:  # the class is in one column of twenty
        rng = np.random.RandomState(0)
        x = rng.standard_normal((600, 20))
        y = (x[:, 3] > 0).astype(int)
    assert graph_is_better(x.astype(np.float32), few(y, 10), rng=np.random.RandomState(0)) is better
