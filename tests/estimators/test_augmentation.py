"""The estimators' augmentation: what is asked for reaches the model, and stays with it."""

import numpy as np
import pytest

import mmdgm
from mmdgm import MMCVAClassifier
from mmdgm.errors import InputError
from mmdgm.training.augmentation_choice import Augmentation


@pytest.fixture(name="images", scope="module")
def make_images():
    rng = np.random.default_rng(0)
    return rng.random((30, 8, 8)), np.where(np.arange(30) < 20, np.arange(30) % 2, -1)


def fitted(images, augmentation, **more):
    return MMCVAClassifier(augmentation=augmentation, max_epochs=1, device="cpu", random_state=0, **more).fit(*images)


def test_wanted_changes_are_settings_of_the_model(images, tmp_path):
    wanted = {"turn": 10.0, "mirror": 0.5, "invert": 0.25, "standardise": True}
    model = fitted(images, wanted)
    assert model.augmentation_ == wanted
    settings = model.model_.settings
    assert (settings.distortion.turn, settings.distortion.mirror, settings.appearance.invert) == (10.0, 0.5, 0.25)
    model.save(tmp_path)
    assert mmdgm.load(tmp_path).augmentation_ == wanted
    assert fitted(images, None).augmentation_ == {}


def test_a_warm_start_keeps_what_was_chosen(images, monkeypatch):
    chosen = []

    def choose(x, y, *, seed):
        chosen.append((x.shape, y.tolist()))
        return Augmentation(standardise=True)

    monkeypatch.setattr("mmdgm.estimators.classifiers.choose_augmentation", choose)
    model = fitted(images, "auto", warm_start=True)
    assert chosen == [((20, 1, 8, 8), images[1][:20].tolist())]
    model.fit(*images)
    assert len(chosen) == 1
    assert model.augmentation_ == {"standardise": True}


def test_tables_have_no_augmentation(images):
    X = images[0].reshape(30, 64)
    assert fitted((X, images[1]), "auto").augmentation_ == {}
    with pytest.raises(InputError, match="conv nets"):
        fitted((X, images[1]), {"turn": 10.0})


@pytest.mark.parametrize(
    ("wanted", "why"),
    [({"rotate": 1.0}, "there is no 'rotate'"), ({"turn": -1}, "turn=-1"), (7, "augmentation=7"), ("all", "='all'")],
)
def test_what_cannot_be_done_is_refused_in_one_line(images, wanted, why):
    with pytest.raises(InputError, match=why) as error:
        fitted(images, wanted)
    assert "\n" not in str(error.value)
