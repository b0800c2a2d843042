"""The embedded digits: a fixed split of all rows."""

import numpy as np
from sklearn.datasets import load_digits

from mmdgm.data.datasets import load


def test_digits_are_split_into_1297_and_500_balanced_rows():
    data = load("digits")
    assert data.x_train.shape == (1297, 1, 8, 8)
    assert data.x_test.shape == (500, 1, 8, 8)
    assert data.x_train.dtype == data.x_test.dtype == np.uint8
    assert (data.shape, data.n_classes, data.scale) == ((1, 8, 8), 10, 16.0)
    per_class = np.bincount(data.y_test, minlength=10)
    assert per_class.min() >= 48
    assert per_class.max() <= 51  # the 1,797 rows hold 174 to 183 of each class
    for x in (data.x_train, data.x_test):
        assert (x.min(), x.max()) == (0, 16)


def test_digits_test_rows_are_none_of_the_training_rows():
    data, source = load("digits"), load_digits()
    rows = [
        (*image.ravel().tolist(), label)
        for x, y in ((data.x_train, data.y_train), (data.x_test, data.y_test))
        for image, label in zip(x, y.tolist(), strict=True)
    ]
    assert len(set(rows)) == 1797
    assert set(rows) == {
        (*map(int, image), label) for image, label in zip(source.data, source.target.tolist(), strict=True)
    }


def test_digits_are_the_same_on_every_call_whatever_the_random_state(tmp_path):
    np.random.seed(1)  # noqa: NPY002 (scikit-learn would draw from this state)
    first = load("digits")
    np.random.seed(2)  # noqa: NPY002
    second = load("digits", tmp_path)
    for name in ("x_train", "y_train", "x_test", "y_test"):
        np.testing.assert_array_equal(getattr(first, name), getattr(second, name))
