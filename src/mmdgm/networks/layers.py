"""Convolutions with the paper's unpooling and label maps, without needless work.

These identities are exact up to rounding (tests compare them with the literal forms):

1. Unpooling by 2 (the value goes to the top-left corner of its 2×2 block, zeros elsewhere) and then
   convolving is one transposed convolution with stride 2, with the kernel flipped.
2. Such a transposed convolution to a single channel is an ordinary convolution to four channels, one for each
   place in the 2×2 blocks.
3. Convolving [x, one-hot label maps of y] is convolving x and adding the contribution of the maps. The label
   chooses a k×k kernel per row and output channel. At each output position, the contribution is the sum of the
   kernel's taps that fall inside the (unpooled) image.
4. Convolving a single channel is a matrix product with the patches of the image.

Each form is used where measurements favour it: docs/performance.md.
"""

import functools
from collections.abc import Sequence
from typing import Any, Literal, cast

import torch
from torch import Tensor, nn
from torch.nn.functional import conv2d, conv_transpose2d, linear, pad, pixel_shuffle

from mmdgm.distributed import mean_over_ranks, world_size

Padding = Literal["valid", "same", "full"]


def padding_width(kernel: int, padding: Padding) -> int:
    """Number of zeros added at each border, for output sizes n − k + 1, n and n + k − 1."""
    return {"valid": 0, "same": (kernel - 1) // 2, "full": kernel - 1}[padding]


def glorot_uniform_(weight: Tensor, fan_in: int, fan_out: int) -> None:
    """Fill with uniform draws from ±√(6 / (fan_in + fan_out))."""
    bound = (6 / (fan_in + fan_out)) ** 0.5
    nn.init.uniform_(weight, -bound, bound)


def at_least_float32(x: Tensor) -> Tensor:
    """Convert half-precision numbers to float32. Other tensors are returned unchanged."""
    return x.to(torch.promote_types(x.dtype, torch.float32))


def dense(n_in: int, n_out: int) -> nn.Linear:
    """A linear layer with Glorot-uniform weights and zero biases."""
    layer = nn.Linear(n_in, n_out)
    glorot_uniform_(layer.weight, n_in, n_out)
    nn.init.zeros_(layer.bias)
    return layer


def drop_out(x: Tensor, rate: float) -> Tensor:
    """Zero each value with probability `rate`, and scale the others to keep the mean.

    Uniform numbers are drawn in channels-last order, so the result is the same in every kind of execution and for
    every memory layout of x. On a CPU this takes a third of the time of torch's dropout.
    """
    if rate == 0:
        return x
    shape = (x.shape[0], *x.shape[2:], x.shape[1])
    draws = torch.rand(shape, device=x.device).movedim(-1, 1)
    return torch.where(draws < rate, 0.0, x * (1 / (1 - rate))).to(x.dtype)


class BatchNorm(nn.BatchNorm2d):
    """Batch normalisation over the rows of all ranks. In one process it is torch's own.

    torch.nn.SyncBatchNorm does the same, but only on GPUs.
    """

    def forward(self, x: Tensor) -> Tensor:
        if not self.training or world_size() == 1:
            return super().forward(x)
        values = at_least_float32(x)
        mean = mean_over_ranks(values.mean(dim=(0, 2, 3)))
        deviation = values - mean[:, None, None]
        variance = mean_over_ranks(deviation.square().mean(dim=(0, 2, 3)))
        with torch.no_grad():
            n = values.numel() / len(mean) * world_size()
            cast(Tensor, self.running_mean).lerp_(mean, cast(float, self.momentum))
            cast(Tensor, self.running_var).lerp_(variance * (n / (n - 1)), cast(float, self.momentum))
            cast(Tensor, self.num_batches_tracked).add_(1)
        normal = deviation * (variance + self.eps).rsqrt()[:, None, None]
        return (normal * self.weight[:, None, None] + self.bias[:, None, None]).to(x.dtype)


def unpooled_conv_to_one(x: Tensor, weight: Tensor, bias: Tensor | None, *, crop: int) -> Tensor:
    """A transposed convolution with stride 2 to one channel, computed as a convolution to four channels.

    out[2i+a, 2j+b] = Σ_{p,q} x[i−p, j−q] · w[2p+a, 2q+b]. Images `(rows, in, h, w)` and kernels `(in, 1, k, k)`
    give `(rows, 1, 2h+k−1−2crop, 2w+k−1−2crop)`.
    """
    kernel = weight.shape[-1]
    n = (kernel + 1) // 2  # taps per direction for each place in a 2×2 block
    places = pad(weight[:, 0], (0, 2 * n - kernel, 0, 2 * n - kernel)).reshape(-1, n, 2, n, 2)
    places = places.permute(2, 4, 0, 1, 3).reshape(4, -1, n, n).flip(2, 3)
    out = pixel_shuffle(conv2d(x, places, padding=n - 1), 2)
    height, width = (2 * size + kernel - 1 - 2 * crop for size in x.shape[2:])
    out = out[:, :, crop : crop + height, crop : crop + width]
    return out if bias is None else out + bias


def single_channel_conv(x: Tensor, weight: Tensor, bias: Tensor | None, *, padding: int) -> Tensor:
    """A convolution of one channel, computed as the product of the image's patches and the kernels.

    Patches are 8 wide (or 16, …), with kernels padded by zeros, because GPUs are fastest with such widths. Images
    `(rows, 1, h, w)` and kernels `(out, 1, k, k)` give `(rows, out, H, W)`, channels last.
    """
    if torch.is_autocast_enabled(x.device.type):
        x = x.to(torch.get_autocast_dtype(x.device.type))  # cheaper before the patches are made
    kernel = weight.shape[-1]
    filling = -kernel % 8
    image = pad(x[:, 0], (padding, padding + filling, padding, padding))
    patches = image.unfold(1, kernel, 1).unfold(2, kernel + filling, 1)  # (rows, H, W, k, k + filling)
    kernels = pad(weight[:, 0], (0, filling)).flatten(1)
    return linear(patches.flatten(3), kernels, bias).permute(0, 3, 1, 2)


class _TapsForCompiler(torch.autograd.Function):
    """taps `(H·W, k²)` @ kernels `(rows, k², out)`, in the form that is fastest on a GPU when compiled.

    The forward pass adds term by term. The compiler fuses this with the next operations, so the maps are never stored
    in memory. The backward pass is one matrix product: k² sums over each image took longer than all other work for
    the labels. Both arguments must have one dtype, because torch 2.11 loses the gradient of a `forward` that ends in
    a conversion, even to the same dtype.
    """

    @staticmethod
    def forward(ctx: Any, taps: Tensor, by_tap: Tensor) -> Tensor:
        ctx.save_for_backward(taps)
        terms = [taps[:, t, None] * by_tap[:, t, None] for t in range(by_tap.shape[1])]
        return functools.reduce(torch.add, terms)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[None, Tensor]:
        (taps,) = ctx.saved_tensors
        return None, taps.T @ gradients[0]


class LabelMaps(nn.Module):
    """The contribution of one-hot label maps to a convolution's output.

    `taps`: `(H·W, k²)`, 1 where a tap of the kernel falls on the maps at an output position, else 0. If all positions
    are equal, only one is kept.
    `weight`: `(K, k²·out)`, the label part of the kernel.
    """

    def __init__(self, n_classes: int, out_channels: int, taps: Tensor):
        super().__init__()
        n_taps, height, width = taps.shape
        if bool((taps == taps[:, :1, :1]).all()):  # valid padding
            taps, height, width = taps[:, :1, :1], 1, 1
        self.size = height, width
        self.out_channels = out_channels
        self.taps: Tensor
        self.register_buffer("taps", taps.reshape(n_taps, -1).T.contiguous(), persistent=False)
        self.weight = nn.Parameter(torch.empty(n_classes, n_taps * out_channels))

    def forward(self, kernels: Tensor) -> Tensor:
        """Maps `(rows, out, H, W)` or `(rows, out, 1, 1)` from the kernels `(rows, k²·out)` of the rows' labels."""
        rows = kernels.shape[0]  # export cannot follow len(kernels)
        by_tap = kernels.reshape(rows, self.taps.shape[1], self.out_channels)
        if len(self.taps) == 1:
            maps = (self.taps[0, :, None] * by_tap).sum(dim=1).to(kernels.dtype)
        elif self.out_channels == 1:
            maps = kernels @ self.taps.T
        elif torch.compiler.is_compiling():
            maps = _TapsForCompiler.apply(self.taps.to(by_tap.dtype), by_tap)
        else:
            maps = self.taps @ by_tap
        return maps.reshape(rows, *self.size, self.out_channels).permute(0, 3, 1, 2)


class _RowsOfLabels(torch.autograd.Function):
    """labels @ weight for one-hot labels `(rows, K)`, computed by lookup. Gradients are those of the product."""

    @staticmethod
    def forward(ctx: Any, labels: Tensor, weight: Tensor) -> Tensor:
        ctx.save_for_backward(labels, weight)
        return weight[labels.argmax(dim=1)]

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, Tensor]:
        labels, weight = ctx.saved_tensors
        (gradient,) = gradients
        for_labels = (gradient @ weight.T).to(labels.dtype) if ctx.needs_input_grad[0] else None
        return for_labels, labels.to(gradient.dtype).T @ gradient


def is_one_hot(labels: Tensor) -> bool:
    """Whether each row has a single 1 among zeros."""
    return bool((labels.max(dim=1).values == 1).all()) and bool((labels.count_nonzero(dim=1) == 1).all())


def label_kernels(maps: Sequence[LabelMaps], labels: Tensor) -> Sequence[Tensor]:
    """The kernels of several layers, `(rows, k²·out)` each, for labels `(rows, K)`: labels @ weight.

    A GPU is fastest with one product for all layers. On a CPU the kernels of one-hot labels are looked up: a step of
    Conv-MMCVA with 1,000 classes then takes 1.17 times as long as with 10 classes, instead of 1.27 times. Compiled
    code cannot depend on the values of the labels.
    """
    if not labels.is_cuda and not torch.compiler.is_compiling() and is_one_hot(labels):
        return [_RowsOfLabels.apply(labels, layer.weight) for layer in maps]
    weights: list[Tensor] = [layer.weight for layer in maps]
    kernels = labels @ torch.cat(weights, dim=1)
    return torch.split(kernels, [weight.shape[1] for weight in weights], dim=1)


class Conv(nn.Module):
    """A convolution of the image and, if `n_classes` > 0, of its label maps. `unpool`: after unpooling by 2.

    Label maps are concatenated before unpooling. `size` is the input's (height, width), `out_size` the output's.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel: int,
        *,
        size: tuple[int, int],
        padding: Padding = "same",
        unpool: bool = False,
        n_classes: int = 0,
        bias: bool = True,
    ):
        super().__init__()
        zeros = padding_width(kernel, padding)
        n_taps = kernel**2
        tap = torch.eye(n_taps)  # one kernel per tap, to find the positions where the tap falls on the image
        ones = torch.ones(1, 1, *size)
        self.conv: nn.Conv2d | nn.ConvTranspose2d
        self.padding = kernel - 1 - zeros if unpool else zeros  # in a transposed convolution: the cropped border
        if unpool:
            self.conv = nn.ConvTranspose2d(
                in_channels, out_channels, kernel, stride=2, padding=self.padding, output_padding=1, bias=bias
            )
            tap = tap.reshape(1, n_taps, kernel, kernel)
            taps = conv_transpose2d(ones, tap, stride=2, padding=self.padding, output_padding=1)[0]
        else:
            self.conv = nn.Conv2d(in_channels, out_channels, kernel, padding=zeros, bias=bias)
            taps = conv2d(ones, tap.reshape(n_taps, 1, kernel, kernel), padding=zeros)[0]
        self.out_size: tuple[int, int] = (taps.shape[1], taps.shape[2])
        self.label_maps = LabelMaps(n_classes, out_channels, taps) if n_classes else None

        fan_in, fan_out = (in_channels + n_classes) * n_taps, out_channels * n_taps
        for name, parameter in self.named_parameters():
            if name.endswith("bias"):
                nn.init.zeros_(parameter)
            else:
                glorot_uniform_(parameter, fan_in, fan_out)

    def forward(self, x: Tensor, kernels: Tensor | None = None) -> Tensor:
        """Output `(rows, out, H, W)` for images `(rows, in, h, w)` and, if conditioned, their `label_kernels`."""
        out = self._convolved(x)
        if self.label_maps is not None:
            assert kernels is not None, "this layer is conditioned on labels"
            out = out + self.label_maps(kernels).to(out.dtype)
        return out

    def _convolved(self, x: Tensor) -> Tensor:
        conv = self.conv
        if isinstance(conv, nn.ConvTranspose2d) and conv.out_channels == 1:
            return unpooled_conv_to_one(x, conv.weight, conv.bias, crop=self.padding)
        if isinstance(conv, nn.Conv2d) and conv.in_channels == 1 and x.is_cuda:
            return single_channel_conv(x, conv.weight, conv.bias, padding=self.padding)
        out: Tensor = conv(x)
        return out
