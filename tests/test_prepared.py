"""Contrast-normalised data sets are made once, and again when anything has changed."""

import numpy as np
import pytest

from mmdgm.data import contrast
from mmdgm.data.datasets import Dataset
from mmdgm.data.prepared import prepare, seen, shown
from mmdgm.errors import InputError


@pytest.fixture(name="dataset")
def make_dataset():
    rng = np.random.default_rng(0)
    x_train, x_test = (rng.integers(0, 256, (n, 3, 16, 16), np.uint8) for n in (5, 3))
    y = np.zeros(5, np.int64)
    return Dataset(name="svhn", x_train=x_train, y_train=y, x_test=x_test, y_test=y[:3], n_classes=10, scale=256.0)


def test_grey_values_stay_as_they_are(dataset, tmp_path):
    assert prepare(dataset, "unit", cache=tmp_path) is dataset
    assert not list(tmp_path.iterdir())


def test_normalised_images_are_kept_and_read_back(dataset, tmp_path, monkeypatch):
    first = prepare(dataset, "lcn", cache=tmp_path / "cache")
    np.testing.assert_array_equal(first.x_train, contrast.local_contrast(dataset.x_train))
    assert (first.scale, first.shape, first.x_test.dtype) == (1.0, (3, 16, 16), np.float32)
    assert len(list((tmp_path / "cache").iterdir())) == 2
    monkeypatch.setattr(contrast, "local_contrast", None)
    second = prepare(dataset, "lcn", cache=tmp_path / "cache")
    np.testing.assert_array_equal(second.x_train, first.x_train)
    np.testing.assert_array_equal(second.x_test, first.x_test)


@pytest.mark.parametrize("change", ["pixel", "window", "damage"])
def test_what_has_changed_is_made_anew(dataset, tmp_path, monkeypatch, change):
    prepare(dataset, "lcn", cache=tmp_path)
    if change == "pixel":
        dataset.x_train[0, 0, 0, 0] += 1
    elif change == "window":
        monkeypatch.setattr(contrast, "SIGMA", 1.0)
    else:
        for path in tmp_path.iterdir():
            path.write_bytes(path.read_bytes()[:-50])
    again = prepare(dataset, "lcn", cache=tmp_path)
    np.testing.assert_array_equal(again.x_train, contrast.local_contrast(dataset.x_train))


def test_what_a_network_sees_of_a_users_images(dataset):
    unit = (dataset.x_test / 256).astype(np.float32)
    assert seen(unit, "unit") is unit
    np.testing.assert_allclose(seen(unit, "lcn"), contrast.local_contrast(dataset.x_test), atol=1e-5)
    unit[0, 0, 0, 0] = np.nan
    with pytest.raises(InputError, match="whole images"):
        seen(unit, "lcn")


def test_pictures_have_values_from_0_to_1():
    values = np.array([-9.0, 0.0, 0.3, 9.0, np.nan])
    np.testing.assert_allclose(shown(values, "lcn"), [0, 0.5, 0.6, 1, np.nan])
    assert shown(values, "unit") is values
