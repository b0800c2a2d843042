"""First labels for all rows of a table: from two quick classifiers, or along a graph of neighbours.

On most tables with few labels, the mean of logistic regression and extremely randomised trees is better than labels
that pass from neighbour to neighbour: columns differ in what they say of the class, and a distance does not know it.
Where rows form clusters, as images given as columns do, the graph is better. Both predict labeled rows that are held
out, and the graph is taken if it is right more often by more than a standard error of the differences.
"""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.ensemble import ExtraTreesClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from mmdgm.data import deadline
from mmdgm.propagation.choose import of_points
from mmdgm.propagation.leave_one_out import leave_one_out
from mmdgm.propagation.propagate import KAPPA, Labels, Values, propagate

TREES, FEWER_TREES = 300, 100  # fewer for held-out rows
SOME_TREES, PORTION = 20, 5_000  # trees to grow, and rows to predict, between looks at the clock
C = 0.1  # of logistic regression; docs/lab-notebook.md, "First guesses for tables"
FOLDS = 5
MOST = 2_000  # largest numbers of labeled rows, and of unlabeled rows, that the guesses are compared on


def guess_labels(
    x: NDArray[np.float32],
    y: Labels,
    *,
    rng: np.random.RandomState,
    prior: NDArray[Any] | None = None,
    rows_in_graph: int = 20_000,
) -> Labels:
    """Labels `(n,)` of all rows x `(n, d)`: given labels (≥ 0) stay, others (−1) are guessed.

    `prior`: the shares of the classes among all rows, if known. Above `rows_in_graph` rows, there is no graph.
    """
    if len(x) <= rows_in_graph and graph_is_better(x, y, rng=rng):
        return propagate(of_points(torch.from_numpy(x)), y, kappa=KAPPA, prior=prior)
    chances = class_chances_of_tables(x, y, x, seed=rng.randint(2**31 - 1))
    if prior is not None:
        chances = chances * np.asarray(prior, float) / np.bincount(y[y >= 0], minlength=chances.shape[1])
    return np.where(y >= 0, y, chances.argmax(axis=1))


def class_chances_of_tables(
    x: NDArray[Any], y: Labels, x_new: NDArray[Any], *, seed: int = 0, trees: int = TREES
) -> Values:
    """P `(m, K)` of rows x_new `(m, d)`: the mean of both classifiers of the labeled rows of x `(n, d)`."""
    labeled, scaler = y >= 0, StandardScaler().fit(x)
    own, new = scaler.transform(x[labeled]), scaler.transform(x_new)
    chances = np.zeros((len(new), int(y.max()) + 1))
    if len(np.unique(y[labeled])) == 1:
        chances[:, y[labeled][0]] = 1
        return chances
    linear = LogisticRegression(C=C, max_iter=500)
    forest = ExtraTreesClassifier(trees, min_samples_leaf=2, random_state=seed, warm_start=True)
    for size in range(SOME_TREES, trees + 1, SOME_TREES) if deadline.is_set() else [trees]:
        deadline.look()
        forest.set_params(n_estimators=size).fit(own, y[labeled])
    deadline.look()
    linear.fit(own, y[labeled])
    for start in range(0, len(new), PORTION):
        deadline.look()
        some = slice(start, start + PORTION)
        for classifier in (linear, forest):
            chances[some, classifier.classes_] += classifier.predict_proba(new[some]) / 2
    return chances


def graph_is_better(x: NDArray[np.float32], y: Labels, *, rng: np.random.RandomState) -> bool:
    """Whether labels along the graph predict held-out labels of rows x `(n, d)` better than the classifiers do."""
    parts = (np.flatnonzero(y >= 0), np.flatnonzero(y < 0))
    rows = np.concatenate([rng.permutation(part)[:MOST] for part in parts])
    some, given = x[rows], y[rows]
    labeled = np.flatnonzero(given >= 0)
    if len(labeled) < 2 * FOLDS or np.bincount(given[labeled]).max() < 2:
        return False
    chances = leave_one_out(of_points(torch.from_numpy(some)), given, kappa=KAPPA)
    of_graph = chances.argmax(axis=1) == given[labeled]
    fold = np.empty(len(labeled), np.int64)
    order = np.argsort(given[labeled] + 0.5 * rng.random_sample(len(labeled)))  # each class spread over the folds
    fold[order] = np.arange(len(labeled)) % FOLDS
    of_classifiers = np.empty(len(labeled), bool)
    for k in range(FOLDS):
        others, held_out = given.copy(), labeled[fold == k]
        others[held_out] = -1
        found = class_chances_of_tables(some, others, some[held_out], trees=FEWER_TREES)
        of_classifiers[fold == k] = found.argmax(axis=1) == given[held_out]
    gain = of_graph.astype(float) - of_classifiers
    return bool(gain.mean() > gain.std() / len(gain) ** 0.5)
