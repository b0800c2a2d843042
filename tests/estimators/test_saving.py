"""Estimators in folders and pickles: what comes back predicts as before."""

import json
import os
import pickle
import shutil
from pathlib import Path

import numpy as np
import pytest
import safetensors.torch
import torch
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import mmdgm
from conftest import QUICK, without_times
from faults import failing, flipped, killed_at_every_write
from mmdgm import MMCVAClassifier, MMVAClassifier
from mmdgm.errors import InputError
from mmdgm.files import read_json


def test_it_is_saved_loaded_pickled_and_cloned(fitted, wine, tmp_path):
    X = wine[2]
    fitted.save(tmp_path / "model")
    for other in (MMCVAClassifier.load(tmp_path / "model"), pickle.loads(pickle.dumps(fitted))):
        np.testing.assert_array_equal(other.decision_function(X), fitted.decision_function(X))
        np.testing.assert_array_equal(other.sample(4, random_state=1), fitted.sample(4, random_state=1))
    assert clone(fitted).get_params() == fitted.get_params()
    with pytest.raises(InputError, match="MMCVAClassifier, not MMVAClassifier"):
        MMVAClassifier.load(tmp_path / "model")


@pytest.mark.parametrize("kind", [MMCVAClassifier, MMVAClassifier])
def test_a_warm_start_after_load_is_that_of_the_saved_model(wine, tmp_path, kind):
    _, truth, X, y = wine
    model = kind(**QUICK, warm_start=True, class_weight="balanced").fit(X, y)
    model.save(tmp_path)
    again = kind.load(tmp_path, device="cpu").fit(X, truth)
    np.testing.assert_array_equal(again.decision_function(X), model.fit(X, truth).decision_function(X))
    assert without_times(again.history_) == without_times(model.history_)


def test_odd_markers_and_weights_are_saved(wine, tmp_path):
    _, _, X, few = wine
    y = np.where(few < 0, np.nan, few)
    model = MMCVAClassifier(**QUICK, unlabeled=float("nan"), class_weight={0.0: 1.0, 1.0: 2.0}).fit(X, y)
    model.save(tmp_path)
    again = MMCVAClassifier.load(tmp_path)
    assert again.class_weight == {0.0: 1.0, 1.0: 2.0}
    assert np.isnan(again.unlabeled)
    np.testing.assert_array_equal(again.predict(X), model.predict(X))


@pytest.mark.parametrize("kind", [MMCVAClassifier, MMVAClassifier])
def test_a_weighted_model_is_pickled_and_saved(wine, tmp_path, kind):
    X, y, with_holes, few = wine
    model = kind(**{**QUICK, "max_epochs": 3}, class_weight="balanced").fit(with_holes, few)
    counts = np.bincount(few[few >= 0])
    np.testing.assert_allclose(model.model_.class_weight, counts.sum() / (3 * counts), rtol=1e-6)
    other = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(other.decision_function(X), model.decision_function(X))
    np.testing.assert_array_equal(other.model_.class_weight, model.model_.class_weight)
    model.save(tmp_path)
    again = mmdgm.load(tmp_path, device="cpu")
    assert again.class_weight == "balanced"
    np.testing.assert_array_equal(again.decision_function(X), model.decision_function(X))
    np.testing.assert_array_equal(
        other.set_params(warm_start=True).fit(X, y).decision_function(X),
        model.set_params(warm_start=True).fit(X, y).decision_function(X),
    )


def test_a_saved_folder_holds_three_files_and_gives_back_all_attributes(fitted, wine, tmp_path):
    X = wine[2]
    fitted.save(tmp_path / "model")
    assert sorted(path.name for path in (tmp_path / "model").iterdir()) == [
        "config.json",
        "metrics.csv",
        "model.safetensors",
    ]
    for load in (mmdgm.load, MMCVAClassifier.load):
        other = load(tmp_path / "model", device="cpu")
        assert type(other) is MMCVAClassifier
        assert other.history_ == fitted.history_
        assert (other.n_iter_, other.n_iter_planned_) == (fitted.n_iter_, fitted.n_iter_planned_)
        assert (other.codec_, other.config_) == (fitted.codec_, fitted.config_)
        np.testing.assert_array_equal(other.impute(X, n_iter=3), fitted.impute(X, n_iter=3))
        np.testing.assert_array_equal(other.score_samples(X), fitted.score_samples(X))
        np.testing.assert_array_equal(other.transform(X), fitted.transform(X))
        assert other.get_params() == fitted.get_params()


def test_what_is_not_fitted_is_not_saved(tmp_path):
    with pytest.raises(NotFittedError):
        MMCVAClassifier().save(tmp_path / "model")
    assert not (tmp_path / "model").exists()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda saved: saved["model"].update(z=5), "do not make"),
        (lambda saved: saved["model"].update(kind="Later"), "Later"),
        (lambda saved: saved["parameters"].update(later=1), "do not make"),
        (lambda saved: saved.pop("codec"), "do not make"),
        (lambda saved: saved.update(estimator="SVC"), "SVC"),
    ],
)
def test_a_config_of_another_model_is_refused_with_one_line(fitted, tmp_path, change, said):
    fitted.save(tmp_path)
    saved = read_json(tmp_path / "config.json")
    change(saved)
    (tmp_path / "config.json").write_text(json.dumps(saved))
    with pytest.raises(InputError, match=said) as caught:
        mmdgm.load(tmp_path)
    assert "\n" not in str(caught.value)


# --- faults ----------------------------------------------------------------------------------------------


def everything(model, X):
    """What a model answers; two models with the same answers are the same."""
    return [model.decision_function(X), model.score_samples(X), model.sample(3, random_state=0)]


def same(one, other):
    return all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))


def refusal(function, path):
    """The line with which a function refuses a path; None: it does not."""
    try:
        function(path)
    except InputError as error:
        if "\n" in str(error):
            raise
        return str(error)
    return None


@pytest.fixture(name="two", scope="module")
def make_two(wine):
    """Two models of the same sizes, and their answers."""
    _, y, X, few = wine
    models = [MMCVAClassifier(**QUICK).fit(X, few), MMCVAClassifier(**{**QUICK, "max_epochs": 3}).fit(X, y)]
    return [(model, everything(model, X[:20])) for model in models]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="a child process by fork")
def test_a_save_that_is_killed_anywhere_leaves_the_old_model_or_the_new_one(two, wine, tmp_path):
    X, ((old, before), (new, after)) = wine[2][:20], two
    old.save(tmp_path)
    seen = []
    for _ in killed_at_every_write(lambda: new.save(tmp_path)):
        found = mmdgm.load(tmp_path, device="cpu")
        answers = everything(found, X)
        seen.append("new" if same(answers, after) else "old" if same(answers, before) else "lost")
        assert found.history_ == (new if seen[-1] == "new" else old).history_
        old.save(tmp_path)  # over what the killed process left
        assert same(everything(mmdgm.load(tmp_path, device="cpu"), X), before)
    assert len(seen) > 15
    assert (seen[0], seen[-1]) == ("old", "new")
    assert "".join(word[0] for word in seen).strip("o").strip("n") == ""  # old, old, …, new, new
    assert same(everything(mmdgm.load(tmp_path, device="cpu"), X), after)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["config.json", "metrics.csv", "model.safetensors"]


@pytest.mark.parametrize("lasting", [False, True])
def test_a_save_on_a_full_disk_leaves_the_old_model_or_the_new_one(two, wine, tmp_path, lasting):
    X, ((old, before), (new, after)) = wine[2][:20], two
    outcomes = []
    for at in range(1, 25):
        old.save(tmp_path)
        with failing(at, lasting=lasting):
            line = refusal(new.save, tmp_path)
        answers = everything(mmdgm.load(tmp_path, device="cpu"), X)
        assert same(answers, before) or same(answers, after)
        assert line is not None or same(answers, after)
        outcomes.append(line is None)
    assert sum(outcomes) < 15
    assert outcomes[-1] or lasting


@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "metrics.csv"])
def test_a_damaged_file_is_refused_or_changes_nothing(two, wine, tmp_path, name):
    X, ((model, before), _) = wine[2][:20], two
    model.save(tmp_path)
    content, refused = (tmp_path / name).read_bytes(), 0
    for damaged in flipped(content, 100):
        (tmp_path / name).write_bytes(damaged)
        if refusal(mmdgm.load, tmp_path):
            refused += 1
        else:
            found = mmdgm.load(tmp_path, device="cpu")
            assert same(everything(found, X), before)
            assert found.history_ == model.history_
    assert refused > 70


def test_a_folder_with_the_weights_of_another_save_is_refused(two, tmp_path):
    for (model, _), name in zip(two, "ab", strict=True):
        model.save(tmp_path / name)
    shutil.copy(tmp_path / "a" / "model.safetensors", tmp_path / "b")
    with pytest.raises(InputError, match=r"of another model than config\.json"):
        mmdgm.load(tmp_path / "b")


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_weights_that_are_no_numbers_are_refused(fitted, tmp_path, value):
    broken = pickle.loads(pickle.dumps(fitted))
    next(broken.model_.parameters()).data.view(-1)[0] = value
    broken.save(tmp_path)
    with pytest.raises(InputError, match="not finite"):
        mmdgm.load(tmp_path)


def test_a_folder_of_an_earlier_version_has_no_checksums(fitted, wine, tmp_path):
    fitted.save(tmp_path)
    config = read_json(tmp_path / "config.json")
    del config["files"]
    (tmp_path / "config.json").write_text(json.dumps(config))
    safetensors.torch.save_file(
        safetensors.torch.load_file(tmp_path / "model.safetensors"), tmp_path / "model.safetensors"
    )
    again = mmdgm.load(tmp_path, device="cpu")
    np.testing.assert_array_equal(again.decision_function(wine[2]), fitted.decision_function(wine[2]))


def test_load_leaves_the_random_numbers_alone(fitted, tmp_path):
    fitted.save(tmp_path)
    torch.manual_seed(1)
    expected = torch.rand(3)
    torch.manual_seed(1)
    mmdgm.load(tmp_path)
    assert torch.equal(torch.rand(3), expected)


@pytest.mark.parametrize("path", ["a\0b", "a" * 300, "a/" * 2500, "\ud800", "loop/x", "file/x"])
def test_paths_that_are_none_are_refused(fitted, tmp_path, monkeypatch, path):
    monkeypatch.chdir(tmp_path)
    Path("loop").symlink_to("loop")
    Path("file").write_text("")
    for use in (fitted.save, mmdgm.load, type(fitted).load):
        with pytest.raises(InputError) as refused:
            use(path)
        assert "\n" not in str(refused.value).encode().decode()


def test_a_path_need_not_be_utf8(fitted, tmp_path, wine):
    fitted.save(tmp_path / os.fsdecode(b"\xff"))
    again = mmdgm.load(tmp_path / os.fsdecode(b"\xff"), device="cpu")
    np.testing.assert_array_equal(again.decision_function(wine[2]), fitted.decision_function(wine[2]))
