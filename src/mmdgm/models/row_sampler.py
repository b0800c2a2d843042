"""New rows of a table, like the training rows: from codes, the decoder's means and the noise of each value.

    y ~ the classes' shares        z ~ N(m_y, S_y)        μ = decoder's mean at z (and y)

numbers      μ + ε, where ε ~ N(0, R_y) is joint over the row's columns. Ranks among the class's generated values
             become normal scores v, and W_y v has the correlations of the observed values' scores. Then each
             column's quantile becomes the same quantile of the class's observed values. So values keep to the
             observed range, whole numbers stay whole, and columns depend on each other as before.
categories   one value by its chance, and so are columns of two values. The decoder's chances are tilted, so that on
             average over the class they are the observed shares.

N(m_y, S_y) has the mean and the covariance of the class's codes, those of q(z|x) over its rows. It is closer than the
prior to the codes that the decoder was trained on.
"""

import torch
from torch import Tensor, nn

from mmdgm.data.tables import Column
from mmdgm.models.filler import WIDE, ColumnGroups

GRID = 201  # quantiles of a column


class RowSampler(nn.Module):
    """Draws codes, and rows `(rows, d)` around the decoder's means. `training.row_sampling` learns its tensors.

    If there are more than WIDE columns of numbers, errors are independent and W_y is the identity.
    """

    shares: Tensor  # (K,): of the classes
    code_mean: Tensor  # (K, z)
    code_root: Tensor  # (K, z, z): a root of S_y
    error_scale: Tensor  # (K, numbers): standard deviations of the errors
    error_root: Tensor  # (K, numbers, numbers): a root of their correlations; (K, 0, 0): independent
    generated: Tensor  # (K, numbers, GRID): quantiles of generated values
    rotation: Tensor  # (K, numbers, numbers): W_y, of their normal scores; (K, 0, 0): the identity
    observed: Tensor  # (K, numbers, GRID): quantiles of observed values
    stepped: Tensor  # (numbers,) bool: many observed values are equal, so none are drawn between them
    tilt: Tensor  # (K, d): added to the logits of other columns

    def __init__(self, columns: tuple[Column, ...], *, z: int, n_classes: int):
        super().__init__()
        self.groups = ColumnGroups(columns)
        numbers = int(self.groups.number.sum())
        joint = numbers if numbers <= WIDE else 0
        self.register_buffer("shares", torch.full((n_classes,), 1 / n_classes, dtype=torch.float64))
        self.register_buffer("code_mean", torch.zeros(n_classes, z))
        self.register_buffer("code_root", torch.eye(z).repeat(n_classes, 1, 1))
        self.register_buffer("error_scale", torch.ones(n_classes, numbers))
        self.register_buffer("error_root", torch.eye(joint).repeat(n_classes, 1, 1))
        self.register_buffer("rotation", torch.eye(joint).repeat(n_classes, 1, 1))
        self.register_buffer("generated", torch.zeros(n_classes, numbers, GRID))
        self.register_buffer("observed", torch.zeros(n_classes, numbers, GRID))
        self.register_buffer("stepped", torch.zeros(numbers, dtype=torch.bool))
        self.register_buffer("tilt", torch.zeros(n_classes, len(self.groups.column)))

    def codes(self, y: Tensor, noise: Tensor) -> Tensor:
        """Codes `(rows, z)` of classes `(rows,)`, from standard normal `noise` `(rows, z)`."""
        codes = torch.empty_like(noise)
        for k in y.unique().tolist():
            codes[y == k] = self.code_mean[k] + noise[y == k] @ self.code_root[k].T
        return codes

    def forward(self, means: Tensor, y: Tensor, noise: Tensor) -> Tensor:
        """Rows `(rows, d)` of classes `(rows,)`, from the decoder's means `(rows, d)` and noise `(rows, 2 d)`."""
        rows, d, number = torch.empty_like(means), means.shape[1], self.groups.number
        for k in y.unique().tolist():
            of_class, draws = means[y == k], noise[y == k]
            drawn = self.groups.choose(self.groups.tilted(of_class, self.tilt[k]), draws[:, d:])
            drawn[:, number] = self.by_quantile(self.with_errors(of_class, k, draws[:, :d]), k)
            rows[y == k] = drawn
        return rows

    def with_errors(self, means: Tensor, k: int, noise: Tensor) -> Tensor:
        """The decoder's means of class k's numbers plus errors, `(rows, numbers)`; `means` and `noise` `(rows, d)`."""
        number = self.groups.number
        errors = noise[:, number]
        if self.error_root.numel():
            errors = errors @ self.error_root[k].T
        return means[:, number] + errors * self.error_scale[k]

    def by_quantile(self, values: Tensor, k: int) -> Tensor:
        """The observed values of class k in place of generated `values` `(rows, numbers)`."""
        place = place_in(self.generated[k], values.T.contiguous())
        if self.rotation.numel():
            place = place_of(self.rotation[k] @ score_of(place))
        below = place.floor().long().clamp(max=GRID - 2)
        part = place - below
        part = torch.where(self.stepped[:, None], part.round(), part)
        left, right = self.observed[k].gather(1, below), self.observed[k].gather(1, below + 1)
        return torch.where(part == 1, right, left + part * (right - left)).T


def place_in(quantiles: Tensor, values: Tensor) -> Tensor:
    """Where values `(columns, rows)` lie among rising quantiles `(columns, GRID)`: from 0 to GRID − 1."""
    above = torch.searchsorted(quantiles, values).clamp(1, GRID - 1)
    left, right = quantiles.gather(1, above - 1), quantiles.gather(1, above)
    part = ((values - left) / (right - left).clamp(min=1e-12)).clamp(0, 1)
    return above - 1 + part


def score_of(place: Tensor) -> Tensor:
    """The normal scores of places."""
    scores: Tensor = torch.special.ndtri((place + 0.5) / GRID)
    return scores


def place_of(scores: Tensor) -> Tensor:
    """The places of normal scores."""
    places: Tensor = torch.special.ndtr(scores) * GRID - 0.5
    return places.clamp(0, GRID - 1)
