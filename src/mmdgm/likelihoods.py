"""p(x|z): what a decoder's output says of the pixels.

A likelihood of your own derives from `Likelihood`; give it to a model, whose decoder then returns `maps` numbers
for each value of x, along the channels.
"""

from abc import ABC, abstractmethod
from typing import Literal

import torch
from torch import Tensor
from torch.distributions import Bernoulli, Distribution, Normal, constraints
from torch.nn.functional import softplus

LikelihoodName = Literal["bernoulli", "gaussian"]


class Likelihood(ABC):
    """Independent pixels, given the decoder's output."""

    maps: int  # numbers that the decoder returns for each value of x
    support: constraints.Constraint  # where values of x lie

    @abstractmethod
    def distribution(self, parameters: Tensor) -> Distribution:
        """p(x|z) from the decoder's output `(rows, maps · channels, height, width)`."""

    @abstractmethod
    def noise(self, like: Tensor) -> Tensor:
        """What missing values start from."""


class BernoulliPixels(Likelihood):
    """p(x|z) = Π x̂^x · (1 − x̂)^(1 − x), x̂ the sigmoid of the output; grey values are allowed."""

    maps = 1
    support = constraints.unit_interval

    def distribution(self, parameters: Tensor) -> Bernoulli:
        return Bernoulli(logits=parameters, validate_args=False)

    def noise(self, like: Tensor) -> Tensor:
        return torch.rand_like(like)


class GaussianPixels(Likelihood):
    """p(x|z) = Π N(x; μ, σ²), μ the first half of the output, log σ² a smooth bound of the second.

    log σ² = b + softplus(output − b) > b: without a bound the density of a constant patch has no limit.
    """

    maps = 2
    support = constraints.real
    least_log_variance = -8.0

    def distribution(self, parameters: Tensor) -> Normal:
        mean, free = parameters.chunk(2, dim=1)
        log_variance = self.least_log_variance + softplus(free - self.least_log_variance)
        return Normal(mean, (0.5 * log_variance).exp(), validate_args=False)

    def noise(self, like: Tensor) -> Tensor:
        return torch.randn_like(like)


LIKELIHOODS: dict[LikelihoodName, Likelihood] = {"bernoulli": BernoulliPixels(), "gaussian": GaussianPixels()}
