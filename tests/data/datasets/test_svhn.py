"""SVHN made of small MATLAB files."""

import gzip

import numpy as np
import pytest

from mmdgm.data.datasets import load, svhn
from small_datasets import SVHN_ROWS as ROWS
from small_datasets import expect_few_rows, input_error, mat_file, write_svhn
from small_datasets import svhn_images as images
from small_datasets import svhn_labels as labels


@pytest.fixture(name="folder")
def make_folder(tmp_path, monkeypatch):
    expect_few_rows(monkeypatch)
    return write_svhn(tmp_path)


@pytest.mark.parametrize("extra", [False, True])
def test_svhn_is_what_the_files_hold(folder, extra):
    data = load("svhn", folder.parent, extra=extra)
    parts = ["train", "extra"] if extra else ["train"]
    for part, x, y in ((parts, data.x_train, data.y_train), (["test"], data.x_test, data.y_test)):
        expected = np.concatenate([images(p) for p in part], axis=-1)
        assert (x.dtype, x.shape, y.dtype) == (np.uint8, (expected.shape[-1], 3, 32, 32), np.int64)
        assert x.flags.c_contiguous
        for row, colour, i, j in ((0, 0, 1, 2), (3, 1, 30, 4), (-1, 2, 31, 0)):
            assert x[row, colour, i, j] == expected[i, j, colour, row]
        np.testing.assert_array_equal(x, np.moveaxis(expected, (3, 2), (0, 1)))
        assert y.tolist() == [(row % 10 + 1) % 10 for p in part for row in range(ROWS[p])]  # 10 is the digit 0
    assert (data.shape, data.n_classes, data.scale, data.class_names) == ((3, 32, 32), 10, 256.0, None)


def test_official_svhn_has_73257_and_26032_and_531131_rows():
    assert svhn.ROWS == {"train": 73_257, "test": 26_032, "extra": 531_131}


def test_missing_extra_rows_are_fetched_with_an_option(folder):
    (folder / "extra_32x32.mat").unlink()
    assert len(load("svhn", folder.parent).x_train) == 12
    message = input_error(load, "svhn", folder.parent, extra=True)
    assert f"extra_32x32.mat[.gz] is not in {folder}" in message
    assert message.endswith(f"mmdgm data download svhn --extra --data-dir {folder.parent}")


@pytest.mark.parametrize("dtype", [np.uint8, np.int16, np.float32, np.float64])
def test_labels_may_be_any_kind_of_number(tmp_path, dtype):
    path = tmp_path / "x.mat.gz"
    path.write_bytes(gzip.compress(mat_file({"X": images("train"), "y": labels("train").astype(dtype)})))
    x, y = svhn.read_svhn(path, 12)
    assert x.shape == (12, 3, 32, 32)
    assert y.tolist() == (labels("train")[:, 0] % 10).tolist()
