"""A table's missing values from its observed ones: E[x | observed values], in one pass.

Two models are averaged per column, with weights w ≥ 0 that were fitted to hidden observed values:

gaussian   the conditional mean of N(μ, Σ). Σ comes from EM and is shrunk: its covariances, not its variances, are
           multiplied by n / (n + ν), as if ν more rows with independent columns had been seen.
network    a multilayer perceptron that sees the values and which of them are observed. It is trained to predict
           values that are hidden at random, at all rates.

    x̂_j = w_1j E_gaussian[x_j] + w_2j E_network[x_j]

Very wide tables (d > WIDE) have the network alone, because a Gaussian costs d³ operations per row.

Rows are encoded tables `(rows, d)`: a column of numbers or of two values is one encoded column, a category one per
value. Of a category, x̂ has the chances of its values.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import silu

from mmdgm.data import deadline
from mmdgm.data.batches import Batch
from mmdgm.data.tables import Column
from mmdgm.models.vae import START, Trainable
from mmdgm.networks.layers import dense

WIDTH = 256  # of the network's hidden layers
WIDE = 256  # largest d with a Gaussian, and with a layer from all columns to all
CHUNK = 256
RIDGE = 1e-4
LEAST_VARIANCE = 1e-3
LEAST_CHANCE = 1e-6


class FillerTerms(NamedTuple):
    """Terms of the network's objective. Training minimises `loss`."""

    loss: Tensor  # ()


@dataclass(frozen=True)
class FillerSettings:
    """The network has no settings that a training stage changes."""


class ColumnGroups(nn.Module):
    """Which encoded columns belong to which column of the table, and what kind they are."""

    number: Tensor  # (d,) bool
    category: Tensor  # (d,) bool
    column: Tensor  # (d,) int64: index of the table's column
    scale: Tensor  # (d,): standard deviation of the numbers, 1 for others
    low: Tensor  # (d,): range of the observed values
    high: Tensor  # (d,)

    def __init__(self, columns: tuple[Column, ...]):
        super().__init__()
        widths = [column.width for column in columns]

        def each(values: list[Any]) -> Tensor:
            return torch.tensor(values).repeat_interleave(torch.tensor(widths))

        self.count = len(columns)
        scales = [max(column.deviation, 1e-3) if column.kind == "number" else 1.0 for column in columns]
        values: dict[str, list[Any]] = {
            "number": [column.kind == "number" for column in columns],
            "category": [column.kind == "category" for column in columns],
            "column": list(range(len(columns))),
            "scale": scales,
            "low": [column.low for column in columns],
            "high": [column.high for column in columns],
        }
        for name, of_columns in values.items():
            self.register_buffer(name, each(of_columns), persistent=False)

    def of_each(self, per_column: Tensor) -> Tensor:
        """Values `(…, columns)` repeated for the encoded columns, `(…, d)`."""
        return per_column[..., self.column]

    def first(self, encoded: Tensor) -> Tensor:
        """The value of each column's first encoded column: `(…, d)` to `(…, columns)`."""
        starts = torch.searchsorted(self.column, torch.arange(self.count, device=encoded.device))
        return encoded[..., starts]

    def log_chances(self, outputs: Tensor) -> Tensor:
        """Logarithms of the softmax over each column's encoded columns, `(rows, d)`."""
        index, rows = self.column.expand_as(outputs), outputs.shape[0]  # export cannot follow len(outputs)
        most = outputs.new_full((rows, self.count), -torch.inf).scatter_reduce(1, index, outputs, "amax")
        shifted = outputs - self.of_each(most.detach())
        total = outputs.new_zeros(rows, self.count).scatter_add(1, index, shifted.exp())
        return shifted - self.of_each(total.log())

    def bounded(self, x: Tensor) -> Tensor:
        """Means within the observed range; chances of a category that are ≥ 0 and add up to 1."""
        x = x.clamp(self.low, self.high)
        index = self.column.expand_as(x)
        total = x.new_zeros(x.shape[0], self.count).scatter_add(1, index, x)
        share = x / self.of_each(total).clamp(min=1e-6)
        return torch.where(self.category, share, x)

    def choose(self, chances: Tensor, noise: Tensor) -> Tensor:
        """Columns of two values, and categories, drawn by chances `(rows, d)` with normal `noise` `(rows, d)`."""
        uniform = torch.special.ndtr(noise)
        gumbel = -(-uniform.clamp(1e-6, 1 - 1e-6).log()).log()
        contest = torch.where(self.category, chances.clamp(min=LEAST_CHANCE).log() + gumbel, 0)
        most = contest.new_full((len(chances), self.count), -torch.inf)
        most = most.scatter_reduce(1, self.column.expand_as(contest), contest, "amax")
        return torch.where(self.category, contest >= self.of_each(most), uniform < chances).to(chances.dtype)

    def tilted(self, chances: Tensor, tilt: Tensor) -> Tensor:
        """Chances `(rows, d)` whose logits, or logarithms of a category's chances, are raised by `tilt`."""
        chances = chances.clamp(LEAST_CHANCE, 1 - LEAST_CHANCE)
        return torch.where(
            self.category, self.log_chances(chances.log() + tilt).exp(), (chances.logit() + tilt).sigmoid()
        )


class ShrunkGaussian(nn.Module):
    """N(μ, Σ) of rows `(rows, d)` with missing values."""

    mean: Tensor  # (d,)
    covariance: Tensor  # (d, d)

    def __init__(self, d: int):
        super().__init__()
        self.register_buffer("mean", torch.zeros(d))
        self.register_buffer("covariance", torch.eye(d))

    def fit(self, x: Tensor, observed: Tensor, *, rounds: int) -> None:
        """Fit μ and Σ by EM. It starts from the covariances of the pairs of values that are both observed.

        x `(n, d)` is 0 where a value is missing; `observed` `(n, d)` is 1 or 0.
        """
        n = len(x)
        counts = observed.sum(dim=0).clamp(min=1)
        mean = (x * observed).sum(dim=0) / counts
        centred = (x - mean) * observed
        pairs = observed.T @ observed
        start = self._shrunk(centred.T @ centred / pairs.clamp(min=1), pairs)
        values, vectors = torch.linalg.eigh(start)
        self.mean, self.covariance = mean, (vectors * values.clamp(min=0.01)) @ vectors.T
        with_holes = (observed == 0).any(dim=1).nonzero()[:, 0]
        for _ in range(rounds):
            filled, missing = x.clone(), torch.zeros_like(start)
            for rows in with_holes.split(CHUNK):
                deadline.look()
                filled[rows], spread = self._moments(x[rows], observed[rows])
                missing += spread
            self.mean = filled.mean(dim=0)
            centred = filled - self.mean
            self.covariance = self._shrunk((centred.T @ centred + missing) / n, torch.tensor(float(n)))

    def _shrunk(self, covariance: Tensor, rows: Tensor) -> Tensor:
        """Covariances shrunk by ν = d + 5 rows, and variances of at least LEAST_VARIANCE."""
        variance = covariance.diagonal().clamp(min=LEAST_VARIANCE)
        shrunk = covariance * (rows / (rows + len(covariance) + 5))
        return shrunk - torch.diag(shrunk.diagonal()) + torch.diag(variance)

    def _solved(self, x: Tensor, observed: Tensor) -> tuple[Tensor, Tensor]:
        """Σ_oo⁻¹ (x − μ)_o of each row, `(rows, d)`, and the Cholesky factor of Σ_oo, which is 1 where missing."""
        both = observed[:, :, None] * observed[:, None, :]
        within = both * self.covariance + torch.diag_embed(1 - observed + RIDGE)
        factor = torch.linalg.cholesky(within)
        solved: Tensor = torch.cholesky_solve(((x - self.mean) * observed)[:, :, None], factor)[:, :, 0]
        return solved, factor

    def forward(self, x: Tensor, observed: Tensor) -> Tensor:
        """The conditional mean `(rows, d)` of all values; observed values are returned as they are."""
        parts = [
            self.mean + (self._solved(*part)[0] * part[1]) @ self.covariance
            for part in zip(x.split(CHUNK), observed.split(CHUNK), strict=True)
        ]
        return torch.where(observed > 0, x, torch.cat(parts))

    def _moments(self, x: Tensor, observed: Tensor) -> tuple[Tensor, Tensor]:
        """Rows filled by the conditional mean, and the sum of the conditional covariances, `(d, d)`."""
        solved, factor = self._solved(x, observed)
        filled = torch.where(observed > 0, x, self.mean + (solved * observed) @ self.covariance)
        explained = torch.cholesky_solve(observed[:, :, None] * self.covariance, factor)
        spread = self.covariance - (observed[:, :, None] * self.covariance).transpose(1, 2) @ explained
        hole = 1 - observed
        return filled, torch.einsum("nij,ni,nj->ij", spread, hole, hole)

    def deviations(self, observed: Tensor) -> Tensor:
        """The conditional standard deviations `(rows, d)` of all values; of observed ones nearly 0."""
        parts = []
        for seen in observed.split(CHUNK):
            deadline.look()
            factor = self._solved(self.mean.expand_as(seen), seen)[1]
            related = seen[:, :, None] * self.covariance
            explained = (related * torch.cholesky_solve(related, factor)).sum(dim=1)
            parts.append((self.covariance.diagonal() - explained).clamp(min=0).sqrt())
        return torch.cat(parts)

    def draw(self, noise: Tensor) -> Tensor:
        """Rows from N(μ, Σ), from standard normal numbers `(rows, d)`."""
        rows: Tensor = self.mean + noise @ torch.linalg.cholesky(self.covariance).T
        return rows


class FillerNetwork(Trainable):
    """Predicts all values of a row from those that are observed."""

    def __init__(self, groups: ColumnGroups):
        super().__init__()
        d = len(groups.column)
        self.groups, self.settings = groups, FillerSettings()
        self.first, self.second, self.out = dense(2 * d, WIDTH), dense(WIDTH, WIDTH), dense(WIDTH, d)
        self.linear = dense(2 * d, d) if d <= WIDE else None

    def outputs(self, x: Tensor, observed: Tensor) -> Tensor:
        """Means of numbers, in standard deviations, and logits of other columns: `(rows, d)`."""
        seen = torch.cat([x * observed / self.groups.scale, observed], dim=1)
        outputs: Tensor = self.out(silu(self.second(silu(self.first(seen)))))
        return outputs if self.linear is None else outputs + self.linear(seen)

    def predict(self, x: Tensor, observed: Tensor) -> Tensor:
        """Means and chances `(rows, d)` of all values."""
        outputs, groups = self.outputs(x, observed), self.groups
        chances = torch.where(groups.category, groups.log_chances(outputs).exp(), outputs.sigmoid())
        return torch.where(groups.number, outputs * groups.scale, chances)

    def forward(self, batch: Batch, *, progress: Tensor = START, settings: Any = None) -> FillerTerms:
        """Mean loss of values that are hidden: squared error of numbers, cross entropy of other columns.

        Each row's values are hidden with a probability that is itself drawn between 0 and 1.
        """
        x, groups = batch.x.flatten(1), self.groups
        known = torch.ones_like(x) if batch.observed is None else batch.observed.flatten(1).to(x.dtype)
        rate = torch.rand(len(x), 1, device=x.device)
        shown = (torch.rand(len(x), groups.count, device=x.device) >= rate).to(x.dtype)
        shown = groups.of_each(shown)
        outputs = self.outputs(x, known * shown)
        squared = 0.5 * (outputs - x / groups.scale).square()
        entropy = torch.where(
            groups.category,
            -x * groups.log_chances(outputs),
            nn.functional.binary_cross_entropy_with_logits(outputs, x.clamp(0, 1), reduction="none"),
        )
        hidden = known * (1 - shown)
        total = (torch.where(groups.number, squared, entropy) * hidden).sum()
        loss = total / groups.first(hidden).sum().clamp(min=1)
        return FillerTerms(loss=loss)


class Filler(nn.Module):
    """The weighted mean of both models, and draws around it."""

    weights: Tensor  # (2, columns): of the Gaussian and of the network
    spread: Tensor  # (columns,): errors relative to those that the Gaussian expects
    means: Tensor  # (d,): the mean of each encoded column

    def __init__(self, columns: tuple[Column, ...]):
        super().__init__()
        self.groups = ColumnGroups(columns)
        d = len(self.groups.column)
        self.gaussian = ShrunkGaussian(d) if d <= WIDE else None
        self.network = FillerNetwork(self.groups)
        self.register_buffer("weights", torch.full((2, self.groups.count), 0.5))
        self.register_buffer("spread", torch.ones(self.groups.count))
        self.register_buffer("means", torch.zeros(d))

    def predictions(self, x: Tensor, observed: Tensor) -> Tensor:
        """What each of the two models expects, `(2, rows, d)`. Without a Gaussian, the network stands in for it."""
        scale, network = self.groups.scale, self.network.predict(x, observed)
        gaussian = network if self.gaussian is None else self.gaussian(x / scale, observed) * scale
        return torch.stack([gaussian, network])

    def forward(self, x: Tensor, observed: Tensor) -> Tensor:
        """Rows `(rows, d)` with expected values where `observed` `(rows, d)` is 0. There x must be finite."""
        return self.mixed(x, observed, self.predictions(x, observed))

    def mixed(self, x: Tensor, observed: Tensor, predictions: Tensor) -> Tensor:
        """Rows with the weighted mean of `predictions` `(2, rows, d)` where `observed` is 0."""
        apart = predictions - self.means
        mixed = self.means + (self.groups.of_each(self.weights)[:, None] * apart).sum(dim=0)
        return torch.where(observed > 0, x, self.groups.bounded(mixed))

    def draw(self, x: Tensor, observed: Tensor, noise: Tensor) -> Tensor:
        """Rows with one draw of their missing values, from standard normal `noise` `(rows, 2 d)`.

        Numbers: the expected value plus the error of a row that was drawn from the Gaussian and filled by it
        (Matheron's rule), so errors of a row's columns are correlated. Others: one value, by its chance.
        """
        groups, d = self.groups, x.shape[1]
        expected = self(x, observed)
        numbers = expected + self.errors(observed, noise[:, :d]) * groups.of_each(self.spread)
        chosen = groups.choose(expected, noise[:, d:])
        drawn = torch.where(groups.number, numbers.clamp(groups.low, groups.high), chosen)
        return torch.where(observed > 0, x, drawn)

    def deviations(self, observed: Tensor) -> Tensor:
        """Standard deviations `(rows, d)` of `errors`."""
        if self.gaussian is None:
            return self.groups.scale.expand_as(observed)
        deviations: Tensor = self.gaussian.deviations(observed) * self.groups.scale
        return deviations

    def errors(self, observed: Tensor, noise: Tensor) -> Tensor:
        """Errors `(rows, d)` that the Gaussian makes in rows of its own with these observed entries."""
        if self.gaussian is None:
            return noise * self.groups.scale
        whole = self.gaussian.draw(noise)
        errors: Tensor = (whole - self.gaussian(whole, observed)) * self.groups.scale
        return errors
