"""Data sets by their names, and where they are looked for."""

import os
import sys
from pathlib import Path

import numpy as np
import pytest

from mmdgm.data import datasets
from mmdgm.data.datasets import channels_last, default_data_dir, load
from small_datasets import input_error


def test_the_command_for_the_default_folder_needs_no_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("MMDGM_DATA", str(tmp_path / "my data"))
    assert input_error(load, "mnist").endswith("mmdgm data download mnist")
    elsewhere = tmp_path / "other data"
    assert input_error(load, "mnist", elsewhere).endswith(f"mmdgm data download mnist --data-dir '{elsewhere}'")


def test_unknown_data_set_names_the_known_ones():
    message = input_error(load, "minst")
    assert "'minst'" in message
    assert "digits, mnist, fashion, svhn, norb" in message


@pytest.mark.parametrize("name", ["digits", "mnist", "fashion", "norb"])
def test_only_svhn_has_extra_rows(name):
    message = input_error(load, name, extra=True)
    assert message.startswith(name)
    assert "svhn" in message


def test_what_is_said_of_the_data_sets_is_what_they_are():
    assert list(datasets.ABOUT) == list(datasets.LOADERS)
    about, digits = datasets.ABOUT["digits"], load("digits")
    assert (about.train, about.test) == (len(digits.x_train), len(digits.x_test))
    assert (about.shape, about.classes) == (digits.shape, digits.n_classes)


def test_images_as_users_have_them():
    grey, colour = np.arange(24).reshape(4, 1, 2, 3), np.arange(72).reshape(4, 3, 2, 3)
    np.testing.assert_array_equal(channels_last(grey), grey.reshape(4, 2, 3))
    found = channels_last(colour)
    assert found.shape == (4, 2, 3, 3)
    for row, channel, i, j in np.ndindex(colour.shape):
        assert found[row, i, j, channel] == colour[row, channel, i, j]


def test_classes_are_names_or_numbers():
    arrays = {"x_train": np.zeros((2, 1, 8, 8)), "y_train": np.zeros(2), "x_test": None, "y_test": None}
    plain = datasets.Dataset(name="d", **arrays, n_classes=3, scale=1.0)
    assert plain.classes.tolist() == [0, 1, 2]
    named = datasets.Dataset(name="d", **arrays, n_classes=2, scale=1.0, class_names=("cat", "dog"))
    assert named.classes.tolist() == ["cat", "dog"]


REAL = {
    "mnist": [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949],
    "fashion": [6000] * 10,
    "svhn": [4948, 13861, 10585, 8497, 7458, 6882, 5727, 5595, 5045, 4659],
    "norb": [4860] * 5,
}


@pytest.mark.slow
@pytest.mark.parametrize("name", REAL)
def test_real_files_where_they_are(name):
    if not os.environ.get("MMDGM_DATA") or not datasets.is_there(name):
        pytest.skip(f"$MMDGM_DATA does not hold {name}")
    data, about = load(name), datasets.ABOUT[name]
    assert np.bincount(data.y_train).tolist() == REAL[name]
    for x, y, rows in ((data.x_train, data.y_train, about.train), (data.x_test, data.y_test, about.test)):
        assert (x.shape, y.shape) == ((rows, *about.shape), (rows,))
        assert (x.dtype, y.dtype) == (np.uint8, np.int64)
        assert x.flags.c_contiguous
    assert (data.shape, data.n_classes, data.scale) == (about.shape, about.classes, 256.0)


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({"MMDGM_DATA": "/data", "XDG_CACHE_HOME": "/cache"}, "/data"),
        ({"MMDGM_DATA": "~/data"}, "/home/me/data"),
        ({"MMDGM_DATA": "", "XDG_CACHE_HOME": "/cache"}, "/cache/mmdgm"),
        ({"XDG_CACHE_HOME": "/cache"}, "/cache/mmdgm"),
        ({"XDG_CACHE_HOME": ""}, "/home/me/.cache/mmdgm"),  # empty counts as unset, says its specification
        ({}, "/home/me/.cache/mmdgm"),
    ],
)
def test_default_data_dir(monkeypatch, environment, expected):
    monkeypatch.setattr(sys, "platform", "linux")
    for name in ("MMDGM_DATA", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in {"HOME": "/home/me", **environment}.items():
        monkeypatch.setenv(name, value)
    assert default_data_dir() == Path(expected)
