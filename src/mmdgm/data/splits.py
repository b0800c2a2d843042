"""Choose labeled and held-out rows, by pure functions of the labels, a number and a seed."""

import numpy as np
from numpy.typing import NDArray

from mmdgm.data.datasets import Labels
from mmdgm.errors import InputError

Indices = NDArray[np.intp]


def labeled_draw(y: Labels, n: int, *, seed: int) -> Indices:
    """Indices of `n` rows of a class-balanced draw: `n // K` rows of each of the K classes.

    Draws are nested: with one seed, the rows for a smaller `n` are among those for a larger `n`. The paper's curve of
    error against the number of labels needs this.
    """
    classes, counts = np.unique(y, return_counts=True)
    per_class, rest = divmod(n, len(classes))
    if n <= 0 or rest:
        raise InputError(f"labels={n}: give a positive multiple of the {len(classes)} classes")
    if per_class > counts.min():
        raise InputError(
            f"labels={n}: needs {per_class} rows of each class, but class {classes[counts.argmin()]} "
            f"has {counts.min()}; ask for at most {counts.min() * len(classes)}"
        )
    return np.sort(np.concatenate([order[:per_class] for order in _class_orders(y, seed)]))


def validation_split(y: Labels, n: int, *, seed: int = 0) -> tuple[Indices, Indices]:
    """(training rows, validation rows): `n` rows are held out, from each class in proportion to its size."""
    if n == 0:
        return np.arange(len(y)), np.arange(0)
    if not 0 < n < len(y):
        raise InputError(f"validation={n}: hold out more than 0 and fewer than all {len(y)} training rows")
    # each class's rows are spread evenly over (0, 1), so the n smallest contain each class in proportion
    place = np.empty(len(y))
    for order in _class_orders(y, seed):
        place[order] = (np.arange(len(order)) + 0.5) / len(order)
    held_out = np.zeros(len(y), bool)
    held_out[np.argsort(place, kind="stable")[:n]] = True
    return np.flatnonzero(~held_out), np.flatnonzero(held_out)


def group_split(groups: Labels | None, held_out: int) -> tuple[Indices, Indices]:
    """(training rows, validation rows): the rows of one group are held out."""
    if groups is None:
        raise InputError("validation_group: only small NORB has groups of rows, the toys; use validation instead")
    if held_out not in groups:
        raise InputError(f"validation_group={held_out}: there are: {', '.join(map(str, np.unique(groups)))}")
    return np.flatnonzero(groups != held_out), np.flatnonzero(groups == held_out)


def _class_orders(y: Labels, seed: int) -> list[Indices]:
    """Each class's rows in a random order. The order depends only on the seed and the class."""
    return [
        np.random.default_rng([seed, k]).permutation(np.flatnonzero(y == label))
        for k, label in enumerate(np.unique(y))
    ]
