"""Likelihoods p(x|z): distributions of the pixels, given the decoder's output.

Your own likelihood derives from `Likelihood`. Pass it to a model. The model's decoder must return `maps` numbers for
each value of x, along the channels.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar, Literal, cast

import torch
from torch import Tensor, nn
from torch.distributions import Bernoulli, Distribution, Normal, constraints
from torch.nn.functional import softplus

LikelihoodName = Literal["bernoulli", "gaussian"]


class Likelihood(ABC):
    """Base class: pixels are independent, given the decoder's output."""

    maps: int  # numbers that the decoder returns for each value of x
    support: constraints.Constraint  # the range of x

    @abstractmethod
    def distribution(self, parameters: Tensor) -> Distribution:
        """p(x|z) from the decoder's output `(rows, maps · channels, height, width)`."""

    @abstractmethod
    def noise(self, normal: Tensor) -> Tensor:
        """Initial values for missing entries, computed from standard normal numbers."""


class BernoulliPixels(Likelihood):
    """p(x|z) = Π x̂^x · (1 − x̂)^(1 − x), where x̂ is the sigmoid of the output. Grey values are allowed."""

    maps = 1
    support = constraints.unit_interval

    def distribution(self, parameters: Tensor) -> Bernoulli:
        return Bernoulli(logits=parameters, validate_args=False)

    def noise(self, normal: Tensor) -> Tensor:
        uniform: Tensor = torch.special.ndtr(normal)
        return uniform


class GaussianPixels(Likelihood):
    """p(x|z) = Π N(x; μ, σ²). The first half of the output is μ; the second half gives log σ², bounded below.

    log σ² = b + softplus(output − b) > b. Without the bound, the density of a constant patch could grow without limit.
    """

    maps = 2
    support = constraints.real
    least_log_variance = -8.0

    def distribution(self, parameters: Tensor) -> Normal:
        mean, free = parameters.chunk(2, dim=1)
        log_variance = self.least_log_variance + softplus(free - self.least_log_variance)
        return Normal(mean, (0.5 * log_variance).exp(), validate_args=False)

    def noise(self, normal: Tensor) -> Tensor:
        return normal


class MixedColumns(Likelihood, nn.Module):
    """p(x|z) of a table's columns: N(x; μ, σ²) with one learned variance per column; Bernoulli if `binary`.

    Rows are `(columns, 1, 1)`. Means stay between `low` and `high`, `(columns,)`, the range of the observed values.
    The decoder's output and the learned variance are in units of `deviation`, each column's standard deviation.
    """

    maps = 1
    support = constraints.real
    least_log_variance = -3.0

    def __init__(
        self, binary: Sequence[bool], low: Sequence[float], high: Sequence[float], deviation: Sequence[float]
    ):
        nn.Module.__init__(self)
        self.register_buffer("binary", torch.tensor(binary)[:, None, None])
        self.register_buffer("low", torch.tensor(low)[:, None, None])
        self.register_buffer("high", torch.tensor(high)[:, None, None])
        self.register_buffer("deviation", torch.tensor(deviation)[:, None, None])
        self.log_variance = nn.Parameter(torch.zeros(len(binary), 1, 1))

    def distribution(self, parameters: Tensor) -> "MixedDistribution":
        log_variance = self.least_log_variance + softplus(self.log_variance - self.least_log_variance)
        deviation = cast(Tensor, self.deviation)
        return MixedDistribution(parameters * deviation, (0.5 * log_variance).exp() * deviation, self)

    def noise(self, normal: Tensor) -> Tensor:
        return torch.zeros_like(normal)


class MixedDistribution(Distribution):
    """The distribution that `MixedColumns` returns."""

    arg_constraints: ClassVar[dict[str, constraints.Constraint]] = {}

    def __init__(self, parameters: Tensor, scale: Tensor, columns: MixedColumns):
        super().__init__(parameters.shape, validate_args=False)
        self.normal = Normal(parameters, scale, validate_args=False)
        self.bernoulli = Bernoulli(logits=parameters, validate_args=False)
        self.columns = columns

    def log_prob(self, value: Tensor) -> Tensor:
        binary = cast(Tensor, self.columns.binary)
        return torch.where(binary, self.bernoulli.log_prob(value), self.normal.log_prob(value))

    @property
    def mean(self) -> Tensor:
        columns = self.columns
        low, high = cast(Tensor, columns.low), cast(Tensor, columns.high)
        bounded = self.normal.mean.clamp(low, high)
        return torch.where(cast(Tensor, columns.binary), self.bernoulli.mean, bounded)


LIKELIHOODS: dict[LikelihoodName, Likelihood] = {"bernoulli": BernoulliPixels(), "gaussian": GaussianPixels()}
