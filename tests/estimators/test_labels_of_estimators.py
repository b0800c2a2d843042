"""Labels of any type, what marks the unlabeled rows, and weights of classes."""

import numpy as np
import pandas
import pytest

from conftest import QUICK
from mmdgm import KeepUnlabeled, MaxMarginImputer, MMCVAClassifier, MMVAClassifier
from mmdgm.errors import InputError


def test_labels_of_any_type(wine):
    _, _, X, few = wine
    names = np.array(["red", "white", "rosé"])
    y = np.where(few < 0, "", names[few])
    predicted = MMCVAClassifier(**QUICK, unlabeled="").fit(X, y).predict(X)
    assert set(predicted) <= set(names)
    with pytest.warns(UserWarning, match="-1"):
        model = MMVAClassifier(**QUICK).fit(X, np.where(few == 0, 1, -1))
    assert model.classes_.tolist() == [-1, 1]


@pytest.mark.filterwarnings("ignore::mmdgm.errors.CollapseWarning")  # labels without a relation to X
def test_minus_one_beside_another_marker_is_a_class(wine):
    X, y, *_ = wine
    for marker in (0, np.nan):
        few = np.where(y == 0, marker, np.where(y == 1, -1, 1))
        model = MMVAClassifier(**QUICK, unlabeled=marker).fit(X, few)
        labeled = y > 0
        assert model.classes_.tolist() == [-1, 1]
        assert model.score(X, few) == (model.predict(X[labeled]) == few[labeled]).mean()
    with pytest.raises(InputError, match="one class"):
        MMVAClassifier(**QUICK, unlabeled=1).fit(X, np.where(y == 0, -1, 1))


def test_text_markers_among_objects_and_mixed_labels(wine):
    _, _, X, few = wine
    y = np.array(["-1" if code < 0 else "abc"[code] for code in few], object)
    assert MMCVAClassifier(**QUICK).fit(X, y).classes_.tolist() == ["a", "b", "c"]
    with pytest.raises(InputError, match="several types"):
        MMCVAClassifier(**QUICK).fit(X, np.array([str(code) if code else 0 for code in few], object))


def missing_labels(few):
    """The same labels with every missing value that there is in their place."""
    names = np.array(["a", "b", "c"], object)[few]
    return {
        "float": np.where(few < 0, np.nan, few),
        "float32": np.where(few < 0, np.nan, few).astype(np.float32),
        "object": np.where(few < 0, np.nan, names),
        "Int64": pandas.Series(few, dtype="Int64").mask(few < 0),
        "string": pandas.Series(names, dtype="string").mask(few < 0),
        "category": pandas.Series(names, dtype="category").mask(few < 0),
        "NA among objects": pandas.Series(np.where(few < 0, pandas.NA, names), dtype=object),
    }


@pytest.mark.parametrize("kind", missing_labels(np.zeros(3, int)))
def test_missing_labels_lead_to_the_marker_and_work_with_it(wine, tmp_path, kind):
    _, _, X, few = wine
    y = missing_labels(few)[kind]
    for refuse in (MMCVAClassifier(**QUICK), MaxMarginImputer(), MMVAClassifier(**QUICK, unlabeled=None)):
        with pytest.raises(InputError, match=r"NaN.*unlabeled=np\.nan"):
            refuse.fit(X, y)
    for marker in (np.nan, np.float32("nan"), pandas.NA):
        model = MMCVAClassifier(**{**QUICK, "max_epochs": 2}, unlabeled=marker).fit(X, y)
        assert len(model.classes_) == 3
        labeled = few >= 0
        assert model.score(X, y) == (model.predict(X[labeled]) == np.asarray(y)[labeled]).mean()
        model.save(tmp_path)
        assert np.isnan(MMCVAClassifier.load(tmp_path).unlabeled)
    for train, test in KeepUnlabeled(3, unlabeled=np.float32("nan")).split(X, y):
        assert (few[test] >= 0).all()
        assert (few < 0).sum() == (few[train] < 0).sum()


def test_none_among_labels_is_to_be_replaced_by_the_marker(wine):
    _, _, X, few = wine
    for labels in (np.arange(3), np.array(["a", "b", "c"])):
        y = [None if code < 0 else labels[code] for code in few]
        for refuse in (MMCVAClassifier(**QUICK), MaxMarginImputer()):
            with pytest.raises(InputError, match=r"None.*unlabeled=-1"):
                refuse.fit(X, y)


def test_class_weight_and_prior(wine):
    X, _, _, y = wine
    heavy = MMVAClassifier(**QUICK, class_weight={0: 1.0, 1: 0.0, 2: 0.0}).fit(X, y).predict(X)
    assert (heavy == 0).mean() > 0.6
    strong = MMCVAClassifier(**{**QUICK, "max_epochs": 60}, balance_weight=10.0, propagate_labels=False)
    strong.set_params(class_prior=[0.1, 0.1, 0.8], class_weight="balanced").fit(X, y)
    counts = np.array([(y == k).sum() for k in range(3)])
    np.testing.assert_allclose(strong.model_.balance_ratio, [0.1, 0.1, 0.8] / (counts / counts.sum()), rtol=1e-6)
    np.testing.assert_allclose(strong.model_.class_weight, counts.sum() / (3 * counts), rtol=1e-6)
    assert (strong.predict(X) == 2).mean() > 0.6  # there are 0.27, and 0.4 below
    assert (strong.set_params(class_prior=[0.1, 0.8, 0.1]).fit(X, y).predict(X) == 1).mean() > 0.6
    with pytest.raises(InputError, match=r"class_prior.* 3 "):
        MMCVAClassifier(**QUICK, class_prior=[1.0]).fit(X, y)
