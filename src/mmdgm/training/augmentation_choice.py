"""The augmentation of a data set's images, chosen by cross-validation of its labeled rows.

Digits may be shifted and turned a little, but not mirrored; photographs may be mirrored. The labels say so. A change
of images is tried on a quick classifier, kernel ridge regression on labeled images and changed copies of them:

    s(x) = k(x, X) (k(X, X) + λI)^(−1) T      k(a, b) = exp(−|a − b|²/m)     m: the median of |a − b|²

X are the images of all folds but one, with changed copies of each; T is 1 for the own class and −1 for others.
The loss of a held-out, unchanged image is the logistic loss of s. Strengths of distortions are compared first, and
the best is accepted if the mean loss falls by more than the standard error of the differences. Then other changes are
added one by one, if it falls by more than two standard errors. So nothing is done where nothing helps, or where labels
are too few to tell.
"""

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import avg_pool2d

from mmdgm.data import deadline
from mmdgm.data.appearance import Appearance
from mmdgm.data.augmentation import Distortion
from mmdgm.devices import seeded
from mmdgm.networks.conv import standardised
from mmdgm.settings import settings_of

Labels = NDArray[np.int64]
FOLDS, REPEATS = 5, 2
MINORITY = 0.1  # fraction of the images that must be light on dark, or dark on light, for images to be inverted
MOST = 300  # labeled rows that are used
COPIES, IN_ALL = 12, 1200  # largest numbers of changed copies of an image, and of all images
RIDGE = 1e-2
BETAS = tuple(0.25 * 2 ** (i / 2) for i in range(17))  # 0.25 to 64
SIDE = 28  # pixels: strengths below are for images of this size


class Augmentation(NamedTuple):
    """Changes of the images that a classifier is trained on. `standardise`: it sees images of mean 0, deviation 1."""

    distortion: Distortion = Distortion()
    appearance: Appearance = Appearance()
    standardise: bool = False

    def settings(self) -> dict[str, Any]:
        """The settings of a model that differ from their defaults, by name."""
        changed = {
            setting.key: setting.value
            for part in (self.distortion, self.appearance)
            for setting in settings_of(part).values()
            if setting.value != getattr(type(part)(), setting.key)
        }
        return changed | ({"standardise": True} if self.standardise else {})


def distortions(side: int) -> tuple[Distortion, ...]:
    """Distortions of images with this smaller side, from weak to strong. They fade at the end of training."""
    scale = side / SIDE
    shift = Distortion(shift=2 * scale, fading=0.3, edges="border")
    mild = replace(shift, turn=8.0, zoom=0.08, shear=0.08)
    strong = replace(shift, shift=2.5 * scale, turn=15.0, zoom=0.15, shear=0.2, bend=0.7 * scale)
    return shift, mild, strong


def more_changes(now: Augmentation, *, either: bool) -> tuple[Augmentation, ...]:
    """What may be added to the augmentation so far. `either`: images of dark on light and of light on dark exist."""
    inverted = now._replace(standardise=True, appearance=replace(now.appearance, invert=0.5))
    return (
        now._replace(standardise=True),
        inverted if either else now,
        now._replace(distortion=replace(now.distortion, mirror=0.5)),
    )


def both_polarities(x: Tensor) -> bool:
    """Whether some images `(n, channels, height, width)` are lighter inside than at their border, others darker."""
    height, width = x.shape[2:]
    inside = x[:, :, height // 4 : -(height // 4), width // 4 : -(width // 4)].mean(dim=(1, 2, 3))
    lighter = float((inside > x.mean(dim=(1, 2, 3))).double().mean())
    return min(lighter, 1 - lighter) > MINORITY


def choose_augmentation(x: Tensor, y: Labels, *, seed: int) -> Augmentation:
    """The augmentation for images x `(n, channels, height, width)` in [0, 1] with labels y `(n,)`."""
    rows = torch.from_numpy(np.random.RandomState(seed).permutation(len(y))[:MOST])
    x, y = x[rows], np.unique(y[rows.numpy()], return_inverse=True)[1]
    best = Augmentation()
    if np.bincount(y).max() < 2 or y.max() < 1:
        return best
    lowest = held_out_losses(x, y, best, seed=seed)
    strengths = [Augmentation(distortion) for distortion in distortions(min(x.shape[2:]))]
    losses = [held_out_losses(x, y, strength, seed=seed) for strength in strengths]
    strength = int(np.argmin([loss.mean() for loss in losses]))
    if helps(losses[strength], lowest, errors=1):
        best, lowest = strengths[strength], losses[strength]
    either = both_polarities(x)
    for i in range(len(more_changes(best, either=either))):
        change = more_changes(best, either=either)[i]
        if change != best:
            loss = held_out_losses(x, y, change, seed=seed)
            if helps(loss, lowest, errors=2):
                best, lowest = change, loss
    return best


def helps(loss: NDArray[np.float64], before: NDArray[np.float64], *, errors: float) -> bool:
    """Whether losses of the same rows fell by more than this many standard errors of their differences."""
    gain = before - loss
    return bool(gain.mean() > errors * gain.std() / len(gain) ** 0.5)


def held_out_losses(x: Tensor, y: Labels, augmentation: Augmentation, *, seed: int) -> NDArray[np.float64]:
    """−log softmax(βs)_y of each row `(n,)`, with scores s by classifiers of other rows and their changed copies.

    β is the number that makes the mean loss smallest: changed copies shrink all scores, which is no gain by itself.
    The same rows are held out together, and the same random numbers drawn, for every augmentation.
    """
    scores = torch.zeros(REPEATS, len(y), int(y.max()) + 1)
    for repeat in range(REPEATS):
        fold = folds(y, np.random.RandomState(seed + repeat))
        for held_out in range(FOLDS):
            deadline.look()
            training, test = (torch.from_numpy(np.flatnonzero(part)) for part in (fold != held_out, fold == held_out))
            if len(test) and len(training):
                with seeded(seed + repeat):
                    of_fold = ridge_scores(x[training], y[training.numpy()], x[test], augmentation, scores.shape[2])
                scores[repeat, test] = of_fold
    truth = torch.from_numpy(y).expand(REPEATS, -1)
    losses = [-(beta * scores).log_softmax(dim=2).gather(2, truth[..., None])[..., 0].mean(dim=0) for beta in BETAS]
    best: NDArray[np.float64] = min(losses, key=lambda loss: float(loss.mean())).double().numpy()
    return best


def folds(y: Labels, rng: np.random.RandomState) -> NDArray[np.int64]:
    """The fold of each row. Each class is spread evenly over the folds."""
    fold = np.empty(len(y), np.int64)
    for k in np.unique(y):
        rows = rng.permutation(np.flatnonzero(y == k))
        fold[rows] = (np.arange(len(rows)) + rng.randint(FOLDS)) % FOLDS
    return fold


def ridge_scores(x: Tensor, y: Labels, x_test: Tensor, augmentation: Augmentation, n_classes: int) -> Tensor:
    """Scores `(rows of x_test, K)` of kernel ridge regression on rows x and changed copies of them."""
    start, changed = torch.ones(()), [x]
    if augmentation != Augmentation():
        copies = min(COPIES, IN_ALL // len(x))
        changed += [augmentation.appearance(augmentation.distortion(x, start)) for _ in range(copies)]
    a, b = (pixels(part, augmentation.standardise) for part in (torch.cat(changed), x_test))
    target = -torch.ones(len(a), n_classes)
    target[torch.arange(len(a)), torch.from_numpy(y).repeat(len(changed))] = 1
    apart = torch.cdist(a, a).square()
    width = apart[: len(x), : len(x)].median().clamp(min=1e-6)
    kernel = (-apart / width).exp() + RIDGE * torch.eye(len(a))
    scores: Tensor = (-torch.cdist(b, a).square() / width).exp() @ torch.linalg.solve(kernel, target)
    return scores


def pixels(x: Tensor, standardise: bool) -> Tensor:
    """Images as points `(n, d)`: means of 2×2 pixels."""
    return avg_pool2d(standardised(x) if standardise else x, 2).flatten(1)
