"""Encoders, decoders and classifiers: multilayer perceptrons and conv nets. They know no loss.

Every network takes images `(rows, channels, height, width)` and, where it is conditioned on the class, one-hot
labels `(rows, K)`. Which layers for which image size: see `recipes`.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.distributions import Normal
from torch.nn.functional import linear, max_pool2d, relu, softplus

from mmdgm.networks.layers import (
    BatchNorm,
    Conv,
    LabelMaps,
    Padding,
    at_least_float32,
    dense,
    dropout,
    label_kernels,
)

Shape = tuple[int, int, int]  # channels, height, width


class Encoding(NamedTuple):
    """What a recognition network says of a batch of images."""

    mean: Tensor  # (rows, z)
    log_variance: Tensor  # (rows, z)
    hidden: tuple[Tensor, ...]  # deterministic activations that may serve as features, each (rows, width)

    @property
    def qz(self) -> Normal:
        """q(z|x), or q(z|x, y): a diagonal Gaussian."""
        scale = (0.5 * at_least_float32(self.log_variance)).exp()
        return Normal(at_least_float32(self.mean), scale, validate_args=False)

    @property
    def kl(self) -> Tensor:
        """KL(q ‖ N(0, I)) of each row: Σ ½ (μ² + σ² − 1 − log σ²), shape `(rows,)`.

        From log σ² itself: its exponential underflows below −87, where a network may pass through early on.
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
        weight = torch.cat([self.mean.weight, self.log_variance.weight])  # one product for both
        mean, log_variance = linear(hidden, weight, torch.cat([self.mean.bias, self.log_variance.bias])).chunk(
            2, 1
        )
        return mean, log_variance


class Encoder(nn.Module, ABC):
    """A recognition network: images, and labels where it is conditioned on them, to an Encoding.

    An own encoder derives from this class and sets the two attributes below.
    """

    hidden_widths: tuple[int, ...]  # widths of Encoding.hidden
    z: int  # size of the latent code
    dropout: float = 0.0  # rate in training

    @abstractmethod
    def forward(self, x: Tensor, labels: Tensor | None = None) -> Encoding: ...


class Classifier(nn.Module, ABC):
    """A network from images to features `(rows, width)` and, by the linear layer `last`, scores `(rows, K)`."""

    last: nn.Linear

    @abstractmethod
    def features(self, x: Tensor) -> Tensor: ...

    def forward(self, x: Tensor) -> Tensor:
        scores: Tensor = self.last(self.features(x))
        return scores


# --- multilayer perceptrons ------------------------------------------------------------------------------


class DenseStack(nn.Module):
    """Dense layers with softplus; with `n_classes`, each sees one-hot labels beside what comes from below.

    A layer on [h, y] is the sum of one on h and one on y.
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
    """Dense layers with softplus; every hidden layer may serve as features.

    `linear`: the mean of the code has a linear function of x in it too, as in factor analysis.
    """

    def __init__(self, shape: Shape, hidden: tuple[int, ...], z: int, *, n_classes: int = 0, linear: bool = False):
        super().__init__()
        size = math.prod(shape)
        self.stack = DenseStack((size, *hidden), n_classes=n_classes)
        self.head = GaussianHead(hidden[-1], z)
        self.linear = dense(size, z) if linear else None
        self.hidden_widths, self.z = hidden, z

    def forward(self, x: Tensor, labels: Tensor | None = None) -> Encoding:
        flat = x.flatten(1)
        hidden = self.stack(flat, labels)
        mean, log_variance = self.head(hidden[-1])
        if self.linear is not None:
            mean = mean + self.linear(flat)
        return Encoding(mean, log_variance, tuple(hidden))


class MLPDecoder(nn.Module):
    """Dense layers with softplus; latent codes `(rows, z)` to what a likelihood is made of, `(rows, *shape)`.

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

    def __init__(self, shape: Shape, hidden: tuple[int, ...], n_classes: int, *, dropout: float = 0.0):
        super().__init__()
        widths = (math.prod(shape), *hidden)
        self.layers = nn.ModuleList(nn.Linear(a, b, bias=False) for a, b in pairwise(widths))
        self.norms = nn.ModuleList(BatchNorm(width) for width in hidden)
        self.dropout = dropout
        self.last = linear_classifier(hidden[-1], n_classes)

    def features(self, x: Tensor) -> Tensor:
        x = x.flatten(1)
        for layer, norm in zip(self.layers, self.norms, strict=True):
            x = relu(norm(layer(x)[:, :, None, None]).flatten(1))
            x = dropout(x, self.dropout, training=self.training)
        return x


# --- conv nets -------------------------------------------------------------------------------------------


class Layer(NamedTuple):
    """One convolutional layer of a recipe: (unpool,) convolve, (normalise,) rectify, (pool, drop out)."""

    channels: int
    kernel: int
    padding: Padding = "same"
    pool: bool = False
    unpool: bool = False
    drop: bool = False


class ConvStack(nn.Module):
    """The layers of a recipe one after the other; with `batch_norm`, convolutions have no bias.

    The last layer is rectified too, unless `linear_end`.
    """

    def __init__(
        self,
        shape: Shape,
        recipe: tuple[Layer, ...],
        *,
        n_classes: int = 0,
        dropout: float = 0.0,
        batch_norm: bool = False,
        linear_end: bool = False,
    ):
        super().__init__()
        channels, *size = shape
        self.recipe, self.dropout, self.linear_end = recipe, dropout, linear_end
        self.convs, self.norms = nn.ModuleList(), nn.ModuleList()
        for layer in recipe:
            conv = Conv(
                channels,
                layer.channels,
                layer.kernel,
                size=(size[0], size[1]),
                padding=layer.padding,
                unpool=layer.unpool,
                n_classes=n_classes,
                bias=not batch_norm,
            )
            self.convs.append(conv)
            self.norms.append(BatchNorm(layer.channels) if batch_norm else nn.Identity())
            channels, size = layer.channels, [s // 2 if layer.pool else s for s in conv.out_size]
        self.out_shape: Shape = (channels, size[0], size[1])

    def forward(self, x: Tensor, labels: Tensor | None = None) -> Tensor:
        conditioned = [conv.label_maps for conv in self.convs if isinstance(conv.label_maps, LabelMaps)]
        kernels: Sequence[Tensor | None] = [None] * len(self.convs)
        if conditioned:
            assert labels is not None, "these layers are conditioned on labels"
            kernels = label_kernels(conditioned, labels)
        for i, (layer, conv, norm) in enumerate(zip(self.recipe, self.convs, self.norms, strict=True)):
            x = norm(conv(x, kernels[i]))
            if layer.pool:  # before rectifying, which it commutes with: a quarter of the values are left
                x = max_pool2d(x, 2)
            if i < len(self.recipe) - 1 or not self.linear_end:
                x = relu(x)
            if layer.drop:
                x = dropout(x, self.dropout, training=self.training)
        return x


class ConvEncoder(Encoder):
    """Convolutions, then optionally a dense layer, then the Gaussian; the last activation is the features."""

    def __init__(
        self,
        shape: Shape,
        recipe: tuple[Layer, ...],
        z: int,
        *,
        dense_width: int = 0,
        dropout: float = 0.0,
        n_classes: int = 0,
        zero_log_variance: bool = False,
    ):
        super().__init__()
        self.stack = ConvStack(shape, recipe, n_classes=n_classes, dropout=dropout)
        channels, height, width = self.stack.out_shape
        flat = channels * height * width
        self.dense = dense(flat, dense_width) if dense_width else None
        self.hidden_widths, self.z = (dense_width or flat,), z
        self.head = GaussianHead(self.hidden_widths[0], z, zero_log_variance=zero_log_variance)

    @property
    def dropout(self) -> float:
        return self.stack.dropout

    @dropout.setter
    def dropout(self, rate: float) -> None:
        self.stack.dropout = rate

    def forward(self, x: Tensor, labels: Tensor | None = None) -> Encoding:
        features = self.stack(x, labels).flatten(1)
        if self.dense is not None:
            features = dropout(relu(self.dense(features)), self.stack.dropout, training=self.training)
        mean, log_variance = self.head(features)
        return Encoding(mean, log_variance, (features,))


class ConvDecoder(nn.Module):
    """Dense layers to a small image, then convolutions and unpooling, to what a likelihood is made of."""

    def __init__(
        self,
        z: int,
        start: Shape,
        recipe: tuple[Layer, ...],
        *,
        dense_width: int = 0,
        n_classes: int = 0,
    ):
        super().__init__()
        channels, height, width = start
        widths = (z, dense_width, channels * height * width) if dense_width else (z, channels * height * width)
        self.dense = nn.ModuleList(dense(a, b) for a, b in pairwise(widths))
        self.start = start
        self.stack = ConvStack(start, recipe, n_classes=n_classes, linear_end=True)

    def forward(self, z: Tensor, labels: Tensor | None = None) -> Tensor:
        for layer in self.dense:
            z = relu(layer(z))
        logits: Tensor = self.stack(z.reshape(-1, *self.start), labels)
        return logits


class ConvClassifier(Classifier):
    """Conv (no bias) → batch norm → ReLU → pool → dropout, then global average pooling and a linear layer."""

    def __init__(self, shape: Shape, recipe: tuple[Layer, ...], n_classes: int, *, dropout: float = 0.0):
        super().__init__()
        self.stack = ConvStack(shape, recipe, dropout=dropout, batch_norm=True)
        self.last = linear_classifier(self.stack.out_shape[0], n_classes)

    def features(self, x: Tensor) -> Tensor:
        pooled: Tensor = self.stack(x).mean(dim=(2, 3))
        return pooled


def linear_classifier(width: int, n_classes: int) -> nn.Linear:
    """A linear layer with weights from N(0, .01²) and zero biases."""
    layer = nn.Linear(width, n_classes)
    nn.init.normal_(layer.weight, std=0.01)
    nn.init.zeros_(layer.bias)
    return layer
