"""scikit-learn's digits: 1,797 images of 8×8, grey values 0..16. No file is needed."""

from pathlib import Path

import numpy as np

from mmdgm.data.datasets.base import Dataset


def load_digits(data_dir: Path) -> Dataset:
    """The embedded digits. The test set is a fixed stratified draw of 500 rows, independent of a run's seed."""
    from sklearn.datasets import load_digits as embedded
    from sklearn.model_selection import train_test_split

    digits = embedded()
    images = digits.images.astype(np.uint8)[:, None]
    labels = digits.target.astype(np.int64)
    x_train, x_test, y_train, y_test = train_test_split(images, labels, test_size=500, stratify=labels, random_state=0)
    return Dataset("digits", x_train, y_train, x_test, y_test, n_classes=10, scale=16.0)
