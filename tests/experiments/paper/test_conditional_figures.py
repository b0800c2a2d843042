"""Class-conditional samples, and a classifier that learns from samples alone."""

import dataclasses

import numpy as np

from mmdgm.data import datasets
from mmdgm.experiments.paper import conditional_figures
from mmdgm.inference.evaluation import error_percent


def test_samples_are_as_many_of_each_class(on_images):
    x, y = conditional_figures.class_samples(on_images, 4)
    assert x.shape == (40, 1, 8, 8)
    assert y.tolist() == np.repeat(np.arange(10), 4).tolist()
    assert len(np.unique(x.reshape(40, -1), axis=0)) == 40
    again, _ = conditional_figures.class_samples(on_images, 4)
    np.testing.assert_array_equal(x, again)
    other, _ = conditional_figures.class_samples(on_images, 4, seed=1)
    assert not np.array_equal(x, other)
    sampled = on_images.sample(40, y=y, random_state=0)  # classes are 0, 1, …; pixels lie between 0 and 16
    np.testing.assert_allclose(x[:, 0], sampled / 16, atol=1e-6)


def test_a_classifier_learns_from_samples_alone():
    digits = datasets.load("digits")
    x = (digits.x_train[:600] / digits.scale).astype(np.float32)
    training = dataclasses.replace(conditional_figures.TRAINING, epochs=15, batch=50)
    model = conditional_figures.learn_from_samples(x, digits.y_train[:600].astype(np.int64), training, device="cpu")
    assert error_percent(model, (digits.x_test / digits.scale).astype(np.float32), digits.y_test) < 15
