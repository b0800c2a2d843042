"""KeepUnlabeled: unlabeled rows are in every training fold, and in no test fold."""

import numpy as np
import pytest
from sklearn.model_selection import GridSearchCV, GroupKFold, KFold, check_cv, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from conftest import QUICK
from mmdgm import KeepUnlabeled, MaxMarginImputer, MMCVAClassifier
from mmdgm.errors import InputError


def test_folds_of_minus_one_and_one_hold_both():
    y = np.repeat([-1, 1], 30)
    for train, test in KeepUnlabeled(3).split(y, y):
        assert set(y[test]) == {-1, 1}
        assert len(train) + len(test) == len(y)


def test_in_pipelines_and_searches_with_unlabeled_rows(wine):
    _, _, X, y = wine
    splitter = KeepUnlabeled(3)
    for train, test in splitter.split(X, y):
        assert (y[test] >= 0).all()
        assert set(np.flatnonzero(y < 0)) <= set(train)
    pipeline = make_pipeline(StandardScaler(), MMCVAClassifier(**{**QUICK, "max_epochs": 3}))
    assert cross_val_score(pipeline, X, y, cv=splitter).shape == (3,)
    search = GridSearchCV(MMCVAClassifier(**{**QUICK, "max_epochs": 2}), {"hat_weight": [0.1, 1.0]}, cv=splitter)
    assert search.fit(X, y).best_params_["hat_weight"] in (0.1, 1.0)
    svm = make_pipeline(MaxMarginImputer(max_epochs=5, n_iter=5, random_state=0, device="cpu"), SVC())
    labeled = y >= 0
    assert svm.fit(X[labeled], y[labeled]).predict(X).shape == y.shape
    frame = MMCVAClassifier(**QUICK).set_output(transform="default").fit(X, y).transform(X)
    assert frame.shape == (len(X), 6)


@pytest.mark.parametrize("marker", [-1, "", np.nan])
def test_folds_split_the_labeled_rows_as_the_splitter_does(marker):
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 3, 60)
    unlabeled = rng.random(60) < 0.5
    labels = np.array(["a", "b", "c"])[codes] if marker == "" else codes.astype(float if marker != -1 else int)
    y = np.where(unlabeled, marker, labels)
    X, groups = np.arange(120).reshape(60, 2), rng.integers(0, 6, 60)
    labeled = np.flatnonzero(~unlabeled)
    for cv, more in ((3, None), (KFold(4), None), (GroupKFold(2), groups)):
        splitter = KeepUnlabeled(cv, unlabeled=marker)
        expected = check_cv(cv, labels[labeled], classifier=True).split(
            X[labeled], labels[labeled], None if more is None else more[labeled]
        )
        folds = list(splitter.split(X, y, more))
        assert len(folds) == splitter.get_n_splits(X, y, more)
        for (train, test), (labeled_train, labeled_test) in zip(folds, expected, strict=True):
            assert test.tolist() == labeled[labeled_test].tolist()
            assert train.tolist() == sorted([*labeled[labeled_train], *np.flatnonzero(unlabeled)])


def test_what_cannot_be_split_is_refused():
    with pytest.raises(InputError, match="needs y"):
        next(KeepUnlabeled(2).split(np.zeros((4, 1))))
    with pytest.raises(InputError, match="labeled"):
        next(KeepUnlabeled(2).split(np.zeros((4, 1)), [-1] * 4))
