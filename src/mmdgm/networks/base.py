"""Base classes of networks: an encoder returns q(z|x), a classifier scores classes. Networks compute no loss.

Every network takes images `(rows, channels, height, width)` and, if it is conditioned on the class, one-hot labels
`(rows, K)`. Dropout is an argument: training passes its rate, inference uses no dropout. The layers for each image
size are in `architectures`.
"""

from abc import ABC, abstractmethod
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.distributions import Normal
from torch.nn.functional import linear

from mmdgm.networks.layers import at_least_float32, dense


class Encoding(NamedTuple):
    """Output of a recognition network for a batch of images."""

    mean: Tensor  # (rows, z)
    log_variance: Tensor  # (rows, z)
    hidden: tuple[Tensor, ...]  # deterministic activations that may serve as features, each (rows, width)

    def rows(self, some: slice) -> "Encoding":
        """The encoding of some rows."""
        return Encoding(self.mean[some], self.log_variance[some], tuple(features[some] for features in self.hidden))

    @property
    def qz(self) -> Normal:
        """q(z|x), or q(z|x, y): a diagonal Gaussian."""
        scale = (0.5 * at_least_float32(self.log_variance)).exp()
        return Normal(at_least_float32(self.mean), scale, validate_args=False)

    @property
    def kl(self) -> Tensor:
        """KL(q ‖ N(0, I)) of each row: Σ ½ (μ² + σ² − 1 − log σ²), shape `(rows,)`.

        It is computed from log σ² itself. exp(log σ²) underflows if log σ² < −87, which may happen early in training.
        """
        mean, log_variance = at_least_float32(self.mean), at_least_float32(self.log_variance)
        return 0.5 * (mean.square() + log_variance.exp() - 1 - log_variance).sum(dim=1)


class GaussianHead(nn.Module):
    """Mean and log-variance as affine functions of the last activation."""

    def __init__(self, width: int, z: int, *, zero_log_variance: bool = False):
        super().__init__()
        self.mean, self.log_variance = dense(width, z), dense(width, z)
        if zero_log_variance:
            nn.init.zeros_(self.log_variance.weight)

    def forward(self, hidden: Tensor) -> tuple[Tensor, Tensor]:
        weight = torch.cat([self.mean.weight, self.log_variance.weight])  # one matrix product for both
        mean, log_variance = linear(hidden, weight, torch.cat([self.mean.bias, self.log_variance.bias])).chunk(2, 1)
        return mean, log_variance


class Encoder(nn.Module, ABC):
    """A recognition network: it maps images, and labels if it is conditioned on them, to an Encoding.

    Your own encoder derives from this class and sets the two attributes below.
    """

    hidden_widths: tuple[int, ...]  # widths of Encoding.hidden
    z: int  # size of the latent code

    @abstractmethod
    def forward(self, x: Tensor, labels: Tensor | None = None, *, dropout: float = 0.0) -> Encoding:
        """The encoding of images. `dropout` is the rate in training, for encoders that use dropout."""


class Classifier(nn.Module, ABC):
    """A network that maps images to features `(rows, width)`, and by the linear layer `last` to scores `(rows, K)`."""

    last: nn.Linear

    @abstractmethod
    def features(self, x: Tensor, *, dropout: float = 0.0) -> Tensor:
        """Input of the last layer. `dropout` is the rate in training, for classifiers that use dropout."""

    def forward(self, x: Tensor, *, dropout: float = 0.0) -> Tensor:
        scores: Tensor = self.last(self.features(x, dropout=dropout))
        return scores


def linear_classifier(width: int, n_classes: int) -> nn.Linear:
    """A linear layer with weights from N(0, .01²) and zero biases."""
    layer = nn.Linear(width, n_classes)
    nn.init.normal_(layer.weight, std=0.01)
    nn.init.zeros_(layer.bias)
    return layer
