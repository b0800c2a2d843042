"""Conv nets with the paper's pooling, unpooling and label maps."""

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from torch import Tensor, nn
from torch.nn.functional import max_pool2d, pixel_unshuffle, relu

from mmdgm.data.batches import Shape
from mmdgm.networks.base import Classifier, Encoder, Encoding, GaussianHead, linear_classifier
from mmdgm.networks.layers import BatchNorm, Conv, LabelMaps, Padding, dense, drop_out, label_kernels

LEAST_DEVIATION = 1e-2  # added to an image's standard deviation before division


class Layer(NamedTuple):
    """One convolutional layer of a recipe: (unpool,) convolve, (normalise,) rectify, (pool, drop out)."""

    channels: int
    kernel: int
    padding: Padding = "same"
    pool: bool = False
    unpool: bool = False
    drop: bool = False


class ConvStack(nn.Module):
    """The layers of a recipe in sequence. With `batch_norm`, convolutions have no bias.

    The last layer is rectified too, unless `linear_end` is set.
    """

    def __init__(
        self,
        shape: Shape,
        recipe: tuple[Layer, ...],
        *,
        n_classes: int = 0,
        batch_norm: bool = False,
        linear_end: bool = False,
    ):
        super().__init__()
        channels, *size = shape
        self.recipe, self.linear_end = recipe, linear_end
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

    def forward(self, x: Tensor, labels: Tensor | None = None, *, dropout: float = 0.0) -> Tensor:
        conditioned = [conv.label_maps for conv in self.convs if isinstance(conv.label_maps, LabelMaps)]
        kernels: Sequence[Tensor | None] = [None] * len(self.convs)
        if conditioned:
            assert labels is not None, "these layers are conditioned on labels"
            kernels = label_kernels(conditioned, labels)
        for i, (layer, conv, norm) in enumerate(zip(self.recipe, self.convs, self.norms, strict=True)):
            x = norm(conv(x, kernels[i]))
            if layer.pool:  # same result as pooling after ReLU, but ReLU gets a quarter of the values
                x = max_pool2d(x, 2)
            if i < len(self.recipe) - 1 or not self.linear_end:
                x = relu(x)
            if layer.drop:
                x = drop_out(x, dropout)
        return x


class ConvEncoder(Encoder):
    """Convolutions, then optionally a dense layer, then the Gaussian head. The features are the head's input.

    `batch_norm`: the layers are those of ConvClassifier, for standardised images. The last features are then the means
    over each channel.
    """

    def __init__(
        self,
        shape: Shape,
        recipe: tuple[Layer, ...],
        z: int,
        *,
        dense_width: int = 0,
        n_classes: int = 0,
        zero_log_variance: bool = False,
        batch_norm: bool = False,
    ):
        super().__init__()
        self.batch_norm = batch_norm
        self.stack = ConvStack(shape, recipe, n_classes=n_classes, batch_norm=batch_norm)
        channels, height, width = self.stack.out_shape
        flat = channels * height * width
        self.dense = dense(flat, dense_width) if dense_width else None
        self.hidden_widths, self.z = (dense_width or flat, *((channels,) if batch_norm else ())), z
        self.head = GaussianHead(self.hidden_widths[0], z, zero_log_variance=zero_log_variance)

    def forward(self, x: Tensor, labels: Tensor | None = None, *, dropout: float = 0.0) -> Encoding:
        maps = self.stack(standardised(x) if self.batch_norm else x, labels, dropout=dropout)
        features = maps.flatten(1)
        if self.dense is not None:
            features = drop_out(relu(self.dense(features)), dropout)
        mean, log_variance = self.head(features)
        return Encoding(mean, log_variance, (features, maps.mean(dim=(2, 3))) if self.batch_norm else (features,))


class ConvDecoder(nn.Module):
    """Dense layers to a small image, then convolutions and unpooling to the likelihood's parameters."""

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
    """Conv (no bias) → batch norm → ReLU → pool → dropout, then global average pooling and a linear layer.

    `standardise`: each image first gets mean 0 and standard deviation 1. `folded`: 2×2 pixels become 4 times the
    channels.
    """

    def __init__(
        self,
        shape: Shape,
        recipe: tuple[Layer, ...],
        n_classes: int,
        *,
        standardise: bool = False,
        folded: bool = False,
    ):
        super().__init__()
        self.standardise, self.folded = standardise, folded
        if folded:
            shape = (4 * shape[0], shape[1] // 2, shape[2] // 2)
        self.stack = ConvStack(shape, recipe, batch_norm=True)
        self.last = linear_classifier(self.stack.out_shape[0], n_classes)

    def features(self, x: Tensor, *, dropout: float = 0.0) -> Tensor:
        x = standardised(x) if self.standardise else x
        x = pixel_unshuffle(x, 2) if self.folded else x
        pooled: Tensor = self.stack(x, dropout=dropout).mean(dim=(2, 3))
        return pooled


def standardised(x: Tensor) -> Tensor:
    """Images `(rows, channels, height, width)`, each with mean 0 and standard deviation 1."""
    x = x - x.mean(dim=(1, 2, 3), keepdim=True)
    return x / (x.square().mean(dim=(1, 2, 3), keepdim=True).sqrt() + LEAST_DEVIATION)
