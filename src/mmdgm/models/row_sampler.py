"""New rows of a table, from codes and from the decoder's means: with the noise of each value, and like observed rows.

    y ~ the classes' shares        z ~ N(m_y, S_y)        μ = decoder's mean at z (and y)

numbers      μ plus an error ε ~ N(0, R), joint over the row's columns. Then each column's quantile among generated
             rows of the class becomes the same quantile of the class's observed values. So values keep to the
             observed range, whole numbers stay whole, and the columns' dependence stays.
categories   one value by its chance, and so are columns of two values. The decoder's chances are tilted, so that on
             average over the class they are the observed shares.

N(m_y, S_y) is the distribution of the class's codes, E[q(z|x)] over its rows. It is closer to what the decoder was
trained on than the prior N(0, I).
"""

import torch
from torch import Tensor, nn

from mmdgm.data.tables import Column
from mmdgm.models.filler import ColumnGroups

GRID = 201  # quantiles of a column


class RowSampler(nn.Module):
    """Draws codes, and rows `(rows, d)` around the decoder's means. `training.row_sampling` learns its tensors."""

    shares: Tensor  # (K,): of the classes
    code_mean: Tensor  # (K, z)
    code_root: Tensor  # (K, z, z): a root of S_y
    error_root: Tensor  # (numbers, numbers): a root of R
    generated: Tensor  # (K, numbers, GRID): quantiles of generated values
    observed: Tensor  # (K, numbers, GRID): quantiles of observed values
    stepped: Tensor  # (numbers,) bool: values between two observed ones are not drawn
    tilt: Tensor  # (K, d): added to the logits of other columns

    def __init__(self, columns: tuple[Column, ...], *, z: int, n_classes: int):
        super().__init__()
        self.groups = ColumnGroups(columns)
        numbers = int(self.groups.number.sum())
        self.register_buffer("shares", torch.full((n_classes,), 1 / n_classes))
        self.register_buffer("code_mean", torch.zeros(n_classes, z))
        self.register_buffer("code_root", torch.eye(z).repeat(n_classes, 1, 1))
        self.register_buffer("error_root", torch.zeros(numbers, numbers))
        self.register_buffer("generated", torch.zeros(n_classes, numbers, GRID))
        self.register_buffer("observed", torch.zeros(n_classes, numbers, GRID))
        self.register_buffer("stepped", torch.zeros(numbers, dtype=torch.bool))
        self.register_buffer("tilt", torch.zeros(n_classes, len(self.groups.column)))

    def codes(self, y: Tensor, noise: Tensor) -> Tensor:
        """Codes `(rows, z)` of classes `(rows,)`, from standard normal `noise` `(rows, z)`."""
        return self.code_mean[y] + (self.code_root[y] @ noise[:, :, None])[:, :, 0]

    def forward(self, means: Tensor, y: Tensor, noise: Tensor) -> Tensor:
        """Rows `(rows, d)` from the decoder's means `(rows, d)`, classes `(rows,)` and normal `noise` `(rows, 2 d)`."""
        rows, d, number = means.clone(), means.shape[1], self.groups.number
        latent = self.latent_numbers(means, noise[:, :d])
        for k in y.unique().tolist():
            mine = (y == k).nonzero()
            rows[mine, number] = self.by_quantile(latent[mine[:, 0]], k)
        chosen = self.groups.choose(self.groups.tilted(means, self.tilt[y]), noise[:, d:])
        return torch.where(number, rows, chosen)

    def latent_numbers(self, means: Tensor, noise: Tensor) -> Tensor:
        """The decoder's means of the numbers plus their errors, `(rows, numbers)`."""
        number = self.groups.number
        return means[:, number] + noise[:, number] @ self.error_root.T

    def by_quantile(self, latent: Tensor, k: int) -> Tensor:
        """The observed values of class k whose quantiles are those of `latent` `(rows, numbers)`."""
        position = position_in(self.generated[k], latent.T.contiguous())
        below = position.floor().long().clamp(max=GRID - 2)
        part = position - below
        part = torch.where(self.stepped[:, None], part.round(), part)
        left, right = self.observed[k].gather(1, below), self.observed[k].gather(1, below + 1)
        return torch.where(part == 1, right, left + part * (right - left)).T


def position_in(quantiles: Tensor, values: Tensor) -> Tensor:
    """Where values `(columns, rows)` lie among rising quantiles `(columns, GRID)`: from 0 to GRID − 1."""
    above = torch.searchsorted(quantiles, values).clamp(1, GRID - 1)
    left, right = quantiles.gather(1, above - 1), quantiles.gather(1, above)
    part = ((values - left) / (right - left).clamp(min=1e-12)).clamp(0, 1)
    return above - 1 + part
