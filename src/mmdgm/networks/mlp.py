"""Multilayer perceptrons: the encoder and decoder of MMVA, and networks for tables."""

import math
from itertools import pairwise

from torch import Tensor, nn
from torch.nn.functional import relu, softplus

from mmdgm.data.batches import Shape
from mmdgm.networks.base import Classifier, Encoder, Encoding, GaussianHead, linear_classifier
from mmdgm.networks.layers import BatchNorm, dense, drop_out


class DenseStack(nn.Module):
    """Dense layers with softplus. With `n_classes`, each layer's input is [h, y]: activations and one-hot labels.

    A layer on [h, y] is computed as the sum of a layer on h and a layer on y.
    """

    def __init__(self, widths: tuple[int, ...], *, n_classes: int = 0):
        super().__init__()
        self.layers = nn.ModuleList(dense(a, b) for a, b in pairwise(widths))
        self.of_labels = nn.ModuleList(nn.Linear(n_classes, b, bias=False) for b in widths[1:] if n_classes)

    def forward(self, x: Tensor, labels: Tensor | None = None) -> list[Tensor]:
        """The activations of all layers."""
        hidden = []
        for i, layer in enumerate(self.layers):
            x = layer(x)
            if self.of_labels:
                x = x + self.of_labels[i](labels)
            x = softplus(x)
            hidden.append(x)
        return hidden


class MLPEncoder(Encoder):
    """An encoder of dense layers with softplus. Every hidden layer may serve as features.

    `linear`: a linear function of x is added to the mean of the code, as in factor analysis.
    """

    def __init__(self, shape: Shape, hidden: tuple[int, ...], z: int, *, n_classes: int = 0, linear: bool = False):
        super().__init__()
        size = math.prod(shape)
        self.stack = DenseStack((size, *hidden), n_classes=n_classes)
        self.head = GaussianHead(hidden[-1], z)
        self.linear = dense(size, z) if linear else None
        self.hidden_widths, self.z = hidden, z

    def forward(self, x: Tensor, labels: Tensor | None = None, *, dropout: float = 0.0) -> Encoding:
        flat = x.flatten(1)
        hidden = self.stack(flat, labels)
        mean, log_variance = self.head(hidden[-1])
        if self.linear is not None:
            mean = mean + self.linear(flat)
        return Encoding(mean, log_variance, tuple(hidden))


class MLPDecoder(nn.Module):
    """A decoder of dense layers with softplus: codes `(rows, z)` to a likelihood's parameters `(rows, *shape)`.

    `linear`: a linear function of the code is added, as in factor analysis.
    """

    def __init__(self, z: int, hidden: tuple[int, ...], shape: Shape, *, n_classes: int = 0, linear: bool = False):
        super().__init__()
        self.shape = shape
        self.stack = DenseStack((z, *hidden), n_classes=n_classes)
        self.out = dense(hidden[-1], math.prod(shape))
        self.linear = dense(z, math.prod(shape)) if linear else None

    def forward(self, z: Tensor, labels: Tensor | None = None) -> Tensor:
        parameters: Tensor = self.out(self.stack(z, labels)[-1])
        if self.linear is not None:
            parameters = parameters + self.linear(z)
        return parameters.reshape(-1, *self.shape)


class MLPClassifier(Classifier):
    """Dense (no bias) → batch norm → ReLU → dropout, layer by layer, then a linear layer."""

    def __init__(self, shape: Shape, hidden: tuple[int, ...], n_classes: int):
        super().__init__()
        widths = (math.prod(shape), *hidden)
        self.layers = nn.ModuleList(nn.Linear(a, b, bias=False) for a, b in pairwise(widths))
        self.norms = nn.ModuleList(BatchNorm(width) for width in hidden)
        self.last = linear_classifier(hidden[-1], n_classes)

    def features(self, x: Tensor, *, dropout: float = 0.0) -> Tensor:
        x = x.flatten(1)
        for layer, norm in zip(self.layers, self.norms, strict=True):
            x = relu(norm(layer(x)[:, :, None, None]).flatten(1))
            x = drop_out(x, dropout)
        return x
