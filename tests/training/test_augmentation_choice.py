"""The choice of augmentation on images whose classes are known to stay, or to change, under a change."""

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits
from sklearn.kernel_ridge import KernelRidge

from mmdgm.data.appearance import Appearance
from mmdgm.data.augmentation import Distortion, distort
from mmdgm.training.augmentation_choice import (
    FOLDS,
    RIDGE,
    Augmentation,
    both_polarities,
    choose_augmentation,
    folds,
    helps,
    pixels,
    ridge_scores,
)


@pytest.fixture(name="digits", scope="module")
def make_digits():
    """Digits of 24×24 pixels, moved and turned, and their classes."""
    digits = load_digits()
    x = torch.tensor(digits.images[:150], dtype=torch.float32)[:, None] / 16
    x = torch.nn.functional.pad(torch.nn.functional.interpolate(x, size=(16, 16), mode="bilinear"), (4, 4, 4, 4))
    torch.manual_seed(0)
    return distort(x, turn=15.0, shift=2.0, zoom=0.1, shear=0.0), digits.target[:150]


def test_digits_are_distorted_and_not_mirrored(digits):
    x, y = digits
    found = choose_augmentation(x, y, seed=0)
    assert found.distortion.shift > 0
    assert found.distortion.turn > 0
    assert found.distortion.mirror == 0
    dark = choose_augmentation(1 - x, y, seed=0)
    assert dark.distortion == found.distortion


def enlarged(x):
    return torch.nn.functional.interpolate(x, size=(16, 16), mode="bilinear")


def test_images_are_mirrored_unless_their_side_is_their_class():
    torch.manual_seed(1)
    kinds = enlarged(torch.randn(6, 1, 4, 4))
    picture = torch.arange(12).repeat(20)
    x = torch.cat([kinds, kinds.flip(3)])[picture] + 2 * enlarged(torch.randn(240, 1, 8, 8))
    of_either_side, of_one_side = (picture % 6).numpy(), picture.numpy()
    assert choose_augmentation(x, of_either_side, seed=0).distortion.mirror == 0.5
    assert choose_augmentation(x, of_one_side, seed=0).distortion.mirror == 0


def test_images_are_inverted_where_both_kinds_exist(digits):
    x, y = digits
    some = torch.where(torch.arange(len(x))[:, None, None, None] % 5 == 0, 1 - x, x)
    assert choose_augmentation(some, y, seed=0).appearance.invert == 0.5
    assert choose_augmentation(x, y, seed=0).appearance.invert == 0


def test_nothing_is_done_where_nothing_helps():
    torch.manual_seed(0)
    noise = torch.rand(60, 1, 16, 16)
    assert choose_augmentation(noise, np.arange(60) % 3, seed=0).distortion == Distortion()
    assert choose_augmentation(noise[:3], np.arange(3), seed=0) == Augmentation()  # a label per class
    assert choose_augmentation(noise[:5], np.zeros(5, int), seed=0) == Augmentation()  # one class


def test_the_choice_is_a_function_of_the_seed_and_leaves_the_random_state(digits):
    x, y = digits
    torch.manual_seed(3)
    before = torch.random.get_rng_state()
    first, second = (choose_augmentation(x[:40], y[:40], seed=5) for _ in range(2))
    assert first == second
    assert torch.equal(torch.random.get_rng_state(), before)


def test_scores_are_scikit_learn_s_kernel_ridge_regression(digits):
    x, y = digits
    train, test = x[:60], x[60:90]
    a, b = pixels(train, False).double().numpy(), pixels(test, False).double().numpy()
    apart = ((a[:, None] - a) ** 2).sum(axis=2)
    width = np.sort(apart.ravel())[(apart.size - 1) // 2]  # torch's median is the lower one
    ridge = KernelRidge(alpha=RIDGE, kernel="rbf", gamma=1 / width).fit(a, 2 * np.eye(10)[y[:60]] - 1)
    found = ridge_scores(train, y[:60], test, Augmentation(), 10)
    np.testing.assert_allclose(found.numpy(), ridge.predict(b), atol=1e-3)


def test_folds_hold_each_class_evenly():
    y = np.repeat([0, 1, 2], [12, 5, 1])
    fold = folds(y, np.random.RandomState(0))
    for k, most in ((0, 3), (1, 1), (2, 1)):
        assert np.bincount(fold[y == k], minlength=FOLDS).max() == most


def test_a_gain_within_its_standard_error_is_no_help():
    before = np.array([1.0, 1.0, 1.0, 1.0])
    found = np.array([0.8, 1.0, 0.8, 1.0])  # a gain of .1, with a standard error of .05
    assert helps(found, before, errors=1.9)
    assert not helps(found, before, errors=2.1)
    assert not helps(before, before, errors=1)


def test_polarities_by_hand():
    light = torch.zeros(10, 1, 8, 8)
    light[:, :, 3:5, 3:5] = 1
    assert not both_polarities(light)
    assert not both_polarities(1 - light)
    assert both_polarities(torch.cat([light, 1 - light[:5]]))


def test_settings_are_those_that_differ():
    augmentation = Augmentation(Distortion(turn=5.0, edges="border"), Appearance(invert=0.5), standardise=True)
    assert augmentation.settings() == {"turn": 5.0, "edges": "border", "invert": 0.5, "standardise": True}
    assert Augmentation().settings() == {}
