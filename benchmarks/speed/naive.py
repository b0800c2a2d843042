"""Conv-MMCVA's training step in the literal form of the paper: the yardstick of the library's speed.

Every conditioned convolution sees the one-hot label maps as channels of its input, and unpooling writes zeros:

    x, (rows, in, h, w) → [x, maps], (rows, in + K, h, w) → unpooled, (rows, in + K, 2h, 2w) → Conv2d

The networks are those of `recipes`, the objective is `MaxMarginConditionalVAE`, and `copy_weights` makes them
compute the same function as the fast ones. Eager, float32, Adam with its defaults. As a script,
`python -m mmdgm.bench.naive` prints the milliseconds of a step on random images.
"""

import argparse
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn.functional import relu
from torch.utils.data import DataLoader, TensorDataset

from mmdgm.data.batches import Batch
from mmdgm.experiments.presets import CONV_MMCVA
from mmdgm.models import MaxMarginConditionalVAE
from mmdgm.networks.architectures import CLASSIFIER, CONDITIONAL
from mmdgm.networks.layers import Conv, padding_width
from mmdgm.networks.stacks import (
    Classifier,
    ConvDecoder,
    Encoder,
    Encoding,
    GaussianHead,
    Layer,
    Shape,
    linear_classifier,
)

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
        dropout: float = 0.0,
        linear: bool = False,
    ):
        super().__init__()
        self.unpool = layer.unpool
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
        if layer.drop and dropout:
            after.append(nn.Dropout(dropout))
        self.after = nn.Sequential(*after)

    def forward(self, x: Tensor, labels: Tensor | None = None) -> Tensor:
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
        return out


class NaiveStack(nn.Module):
    """The layers of a recipe one after the other; the last one is rectified too, unless `linear_end`."""

    def __init__(
        self,
        in_channels: int,
        recipe: tuple[Layer, ...],
        *,
        n_classes: int = 0,
        batch_norm: bool = False,
        dropout: float = 0.0,
        linear_end: bool = False,
    ):
        super().__init__()
        self.layers = nn.ModuleList()
        for i, layer in enumerate(recipe):
            linear = linear_end and i == len(recipe) - 1
            self.layers.append(
                NaiveLayer(
                    in_channels, layer, n_classes=n_classes, batch_norm=batch_norm, dropout=dropout, linear=linear
                )
            )
            in_channels = layer.channels

    def forward(self, x: Tensor, labels: Tensor | None = None) -> Tensor:
        for layer in self.layers:
            x = layer(x, labels)
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

    def forward(self, x: Tensor, labels: Tensor | None = None) -> Encoding:
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

    def __init__(self, shape: Shape, recipe: tuple[Layer, ...], n_classes: int, *, dropout: float = 0.0):
        super().__init__()
        self.stack = NaiveStack(shape[0], recipe, batch_norm=True, dropout=dropout)
        self.last = linear_classifier(recipe[-1].channels, n_classes)

    def features(self, x: Tensor) -> Tensor:
        pooled: Tensor = self.stack(x).mean(dim=(2, 3))
        return pooled


def naive_model(
    shape: Shape, *, n_classes: int, z: int, dropout: float, straight_through: float
) -> MaxMarginConditionalVAE:
    """The library's objective on the literal networks, for images of 28×28 or 8×8."""
    _, height, width = shape
    recipe = CONDITIONAL[height, width]
    return MaxMarginConditionalVAE(
        NaiveClassifier(shape, CLASSIFIER[height, width], n_classes, dropout=dropout),
        NaiveEncoder(shape, recipe.encoder, z, n_classes=n_classes),
        NaiveDecoder(z, recipe.decoder_start, recipe.decoder, n_classes=n_classes),
        n_classes=n_classes,
        straight_through=straight_through,
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
        yield Batch(x[rows].float() / scale, y[rows], x_unlabeled[rows_unlabeled].float() / scale)


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
        yield Batch(images.to(device), targets.to(device), others.to(device))


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


# --- script ----------------------------------------------------------------------------------------------


def milliseconds(step: Callable[[], Tensor], *, steps: int, warmup: int = 3) -> float:
    """The mean duration of a step."""
    for _ in range(warmup):
        step()
    _synchronise()
    start = time.perf_counter()
    for _ in range(steps):
        step()
    _synchronise()
    return (time.perf_counter() - start) / steps * 1e3


def _synchronise() -> None:
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m mmdgm.bench.naive",
        description="Milliseconds of a literal Conv-MMCVA step on random 28×28 images with 10 classes.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu", help="where the model lies")
    parser.add_argument("--rows-labeled", type=int, default=100, help="labeled rows in a batch")
    parser.add_argument("--rows-unlabeled", type=int, default=500, help="unlabeled rows in a batch")
    parser.add_argument("--steps", type=int, default=20, help="steps to time, after three to warm up")
    parser.add_argument("--channels-last", action="store_true", help="hold the kernels with channels last")
    options = parser.parse_args(arguments)

    device = torch.device(options.device)
    shape, n_classes = (1, 28, 28), 10
    batch = {"labeled_batch": options.rows_labeled, "unlabeled_batch": options.rows_unlabeled}
    x = torch.randint(256, (options.rows_labeled, *shape), dtype=torch.uint8)
    x_unlabeled = torch.randint(256, (max(10_000, options.rows_unlabeled), *shape), dtype=torch.uint8)
    y = torch.randint(n_classes, (len(x),))
    feeds = {
        "device-resident": resident_batches(x.to(device), y.to(device), x_unlabeled.to(device), **batch),
        "DataLoader": loader_batches(x / 255, y, x_unlabeled / 255, **batch, device=device),
    }
    for name, batches in feeds.items():
        model = naive_model(
            shape,
            n_classes=n_classes,
            z=CONV_MMCVA.z,
            dropout=CONV_MMCVA.dropout,
            straight_through=CONV_MMCVA.straight_through,
        ).to(device)
        if options.channels_last:
            model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        duration = milliseconds(training_step(model, batches), steps=options.steps)
        print(f"{name}: {duration:.1f} ms per step")


if __name__ == "__main__":
    main()
