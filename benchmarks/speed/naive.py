"""Conv-MMCVA's training step in the literal form of the paper: the yardstick of the library's speed.

Every conditioned convolution sees the one-hot label maps as channels of its input, and unpooling writes zeros:

    x, (rows, in, h, w) → [x, maps], (rows, in + K, h, w) → unpooled, (rows, in + K, 2h, 2w) → Conv2d

The networks are those of `mmdgm.networks.architectures`, the objective is `MaxMarginConditionalVAE`, and
`copy_weights` makes them compute the same function as the fast ones. Eager, float32, Adam with its defaults.
"""

from collections.abc import Callable, Iterator
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn.functional import dropout as drop_out
from torch.nn.functional import relu
from torch.utils.data import DataLoader, TensorDataset

from mmdgm.data.batches import Batch, Shape
from mmdgm.models import MaxMarginConditionalVAE
from mmdgm.models.max_margin_conditional import MaxMarginConditionalSettings
from mmdgm.networks.architectures import CLASSIFIER, CONDITIONAL
from mmdgm.networks.base import Classifier, Encoder, Encoding, GaussianHead, linear_classifier
from mmdgm.networks.conv import ConvDecoder, Layer
from mmdgm.networks.layers import Conv, padding_width

# --- networks --------------------------------------------------------------------------------------------


def unpool(x: Tensor) -> Tensor:
    """Each value to the top-left corner of its 2×2 block, zeros elsewhere."""
    rows, channels, height, width = x.shape
    out = x.new_zeros(rows, channels, 2 * height, 2 * width)
    out[:, :, ::2, ::2] = x
    return out


class NaiveLayer(nn.Module):
    """One layer of a recipe: (label maps, unpool,) convolve, (normalise,) rectify, (pool, drop out)."""

    def __init__(
        self,
        in_channels: int,
        layer: Layer,
        *,
        n_classes: int = 0,
        batch_norm: bool = False,
        linear: bool = False,
    ):
        super().__init__()
        self.unpool, self.drop = layer.unpool, layer.drop
        self.conv = nn.Conv2d(
            in_channels + n_classes,
            layer.channels,
            layer.kernel,
            padding=padding_width(layer.kernel, layer.padding),
            bias=not batch_norm,
        )
        self.norm = nn.BatchNorm2d(layer.channels) if batch_norm else None
        after: list[nn.Module] = [] if linear else [nn.ReLU()]
        if layer.pool:
            after.append(nn.MaxPool2d(2))
        self.after = nn.Sequential(*after)

    def forward(self, x: Tensor, labels: Tensor | None = None, *, dropout: float = 0.0) -> Tensor:
        """Images `(rows, in, h, w)` and, if conditioned, one-hot labels `(rows, K)` to `(rows, out, H, W)`."""
        if labels is not None:
            maps = labels[:, :, None, None].expand(-1, -1, *x.shape[2:])
            x = torch.cat([x, maps], dim=1)
        if self.unpool:
            x = unpool(x)
        x = self.conv(x)
        if self.norm is not None:
            x = self.norm(x)
        out: Tensor = self.after(x)
        return drop_out(out, dropout) if self.drop and dropout else out


class NaiveStack(nn.Module):
    """The layers of a recipe one after the other; the last one is rectified too, unless `linear_end`."""

    def __init__(
        self,
        in_channels: int,
        recipe: tuple[Layer, ...],
        *,
        n_classes: int = 0,
        batch_norm: bool = False,
        linear_end: bool = False,
    ):
        super().__init__()
        self.layers = nn.ModuleList()
        for i, layer in enumerate(recipe):
            linear = linear_end and i == len(recipe) - 1
            self.layers.append(
                NaiveLayer(in_channels, layer, n_classes=n_classes, batch_norm=batch_norm, linear=linear)
            )
            in_channels = layer.channels

    def forward(self, x: Tensor, labels: Tensor | None = None, *, dropout: float = 0.0) -> Tensor:
        for layer in self.layers:
            x = layer(x, labels, dropout=dropout)
        return x


class NaiveEncoder(Encoder):
    """Conditioned convolutions, then the Gaussian."""

    def __init__(self, shape: Shape, recipe: tuple[Layer, ...], z: int, *, n_classes: int):
        super().__init__()
        self.stack = NaiveStack(shape[0], recipe, n_classes=n_classes)
        with torch.no_grad():
            width = self.stack(torch.zeros(1, *shape), torch.zeros(1, n_classes)).numel()
        self.head = GaussianHead(width, z)
        self.hidden_widths, self.z = (width,), z

    def forward(self, x: Tensor, labels: Tensor | None = None, *, dropout: float = 0.0) -> Encoding:
        features = self.stack(x, labels).flatten(1)
        mean, log_variance = self.head(features)
        return Encoding(mean, log_variance, (features,))


class NaiveDecoder(nn.Module):
    """A dense layer to a small image, then conditioned convolutions and unpooling to Bernoulli logits."""

    def __init__(self, z: int, start: Shape, recipe: tuple[Layer, ...], *, n_classes: int):
        super().__init__()
        self.start = start
        self.dense = nn.Linear(z, start[0] * start[1] * start[2])
        self.stack = NaiveStack(start[0], recipe, n_classes=n_classes, linear_end=True)

    def forward(self, z: Tensor, labels: Tensor | None = None) -> Tensor:
        logits: Tensor = self.stack(relu(self.dense(z)).reshape(-1, *self.start), labels)
        return logits


class NaiveClassifier(Classifier):
    """Conv (no bias) → batch norm → ReLU → pool → dropout, then global average pooling and a linear layer."""

    def __init__(self, shape: Shape, recipe: tuple[Layer, ...], n_classes: int):
        super().__init__()
        self.stack = NaiveStack(shape[0], recipe, batch_norm=True)
        self.last = linear_classifier(recipe[-1].channels, n_classes)

    def features(self, x: Tensor, *, dropout: float = 0.0) -> Tensor:
        pooled: Tensor = self.stack(x, dropout=dropout).mean(dim=(2, 3))
        return pooled


def naive_model(
    shape: Shape, settings: MaxMarginConditionalSettings, *, n_classes: int, z: int
) -> MaxMarginConditionalVAE:
    """The library's objective on the literal networks, for images of 28×28 or 8×8."""
    _, height, width = shape
    recipe = CONDITIONAL[height, width]
    return MaxMarginConditionalVAE(
        NaiveClassifier(shape, CLASSIFIER[height, width], n_classes),
        NaiveEncoder(shape, recipe.encoder, z, n_classes=n_classes),
        NaiveDecoder(z, recipe.decoder_start, recipe.decoder, n_classes=n_classes),
        settings,
        n_classes=n_classes,
    )


# --- the same function as the fast networks --------------------------------------------------------------


@torch.no_grad()
def copy_weights(fast: MaxMarginConditionalVAE, naive: MaxMarginConditionalVAE) -> None:
    """Give a naive model the weights, and batch statistics, of a fast one of the same shape."""
    networks: list[tuple[Any, Any]] = [
        (fast.classifier, naive.classifier),
        (fast.encoder, naive.encoder),
        (fast.decoder, naive.decoder),
    ]
    for ours, theirs in networks:
        for conv, norm, layer in zip(ours.stack.convs, ours.stack.norms, theirs.stack.layers, strict=True):
            layer.conv.weight.copy_(literal_kernel(conv))
            if layer.conv.bias is not None:
                layer.conv.bias.copy_(conv.conv.bias)
            if layer.norm is not None:
                layer.norm.load_state_dict(norm.state_dict())
    same_layers: list[tuple[Any, Any]] = [
        (fast.classifier.last, naive.classifier.last),
        (fast.encoder.head, naive.encoder.head),
        (cast(ConvDecoder, fast.decoder).dense[0], naive.decoder.dense),
    ]
    for ours, theirs in same_layers:
        theirs.load_state_dict(ours.state_dict())


def literal_kernel(conv: Conv) -> Tensor:
    """The kernel `(out, in + K, k, k)` of the ordinary convolution that a fast one stands for."""
    kernel: Tensor = conv.conv.weight
    transposed = isinstance(conv.conv, nn.ConvTranspose2d)
    if transposed:
        kernel = kernel.transpose(0, 1)
    if conv.label_maps is not None:
        side, n_classes = kernel.shape[-1], len(conv.label_maps.weight)
        of_labels = conv.label_maps.weight.reshape(n_classes, side, side, -1).permute(3, 0, 1, 2)
        kernel = torch.cat([kernel, of_labels], dim=1)
    return kernel.flip(2, 3) if transposed else kernel


# --- steps -----------------------------------------------------------------------------------------------


def resident_batches(
    x: Tensor, y: Tensor, x_unlabeled: Tensor, *, labeled_batch: int, unlabeled_batch: int, scale: float = 255.0
) -> Iterator[Batch]:
    """Random rows, for ever, of uint8 images that lie on the device."""
    while True:
        rows = torch.randint(len(x), (labeled_batch,), device=x.device)
        rows_unlabeled = torch.randint(len(x_unlabeled), (unlabeled_batch,), device=x.device)
        yield Batch(torch.cat([x[rows], x_unlabeled[rows_unlabeled]]).float() / scale, y[rows])


def loader_batches(
    x: Tensor,
    y: Tensor,
    x_unlabeled: Tensor,
    *,
    labeled_batch: int,
    unlabeled_batch: int,
    device: torch.device,
) -> Iterator[Batch]:
    """Shuffled rows, for ever, of float32 images in [0, 1] on the CPU, each batch moved to the device."""
    labeled = _forever(TensorDataset(x, y), labeled_batch)
    unlabeled = _forever(TensorDataset(x_unlabeled), unlabeled_batch)
    for (images, targets), (others,) in zip(labeled, unlabeled, strict=True):
        yield Batch(torch.cat([images.to(device), others.to(device)]), targets.to(device))


def _forever(dataset: TensorDataset, batch_size: int) -> Iterator[Any]:
    loader = DataLoader(dataset, min(batch_size, len(dataset)), shuffle=True, drop_last=True)
    while True:
        yield from loader


def training_step(
    model: MaxMarginConditionalVAE, batches: Iterator[Batch], *, learning_rate: float = 1e-3
) -> Callable[[], Tensor]:
    """A function that takes one step on the next batch and returns its loss, which stays on the device."""
    optimizer = torch.optim.Adam(model.parameters(), lr=learning_rate)

    def step() -> Tensor:
        loss = model(next(batches)).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        detached: Tensor = loss.detach()
        return detached

    return step
