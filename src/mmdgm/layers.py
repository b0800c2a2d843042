"""Convolutions with the paper's unpooling and label maps, in the form that does no needless work.

Two identities, exact to rounding (tests compare them with the literal forms):

1. Unpooling by 2 (the value goes to the top-left corner of its 2×2 block, zeros elsewhere) and then
   convolving is one transposed convolution with stride 2, with the kernel flipped.
2. Convolving [x, one-hot label maps of y] is convolving x and adding what the maps contribute: a k×k kernel
   per row and output channel, chosen by the label, of which every output position sees the taps that fall
   inside the (unpooled) image.
"""

from typing import Literal, cast

import torch
from torch import Tensor, nn
from torch.nn.functional import conv2d, conv_transpose2d

from mmdgm.ranks import mean_over_ranks, world_size

Padding = Literal["valid", "same", "full"]


def padding_width(kernel: int, padding: Padding) -> int:
    """Zeros added at each border: output sizes n − k + 1, n and n + k − 1."""
    return {"valid": 0, "same": (kernel - 1) // 2, "full": kernel - 1}[padding]


def glorot_uniform_(weight: Tensor, fan_in: int, fan_out: int) -> None:
    """Fill with uniform draws from ±√(6 / (fan_in + fan_out))."""
    bound = (6 / (fan_in + fan_out)) ** 0.5
    nn.init.uniform_(weight, -bound, bound)


def at_least_float32(x: Tensor) -> Tensor:
    """Half-precision numbers as float32; others as they are."""
    return x.to(torch.promote_types(x.dtype, torch.float32))


def dense(n_in: int, n_out: int) -> nn.Linear:
    """A linear layer with Glorot-uniform weights and zero biases."""
    layer = nn.Linear(n_in, n_out)
    glorot_uniform_(layer.weight, n_in, n_out)
    nn.init.zeros_(layer.bias)
    return layer


def dropout(x: Tensor, rate: float, *, training: bool) -> Tensor:
    """Zero each value with probability `rate`, and scale the others to keep the mean.

    Draws are uniform numbers in channels-last order: the same in every kind of execution, whatever the layout of
    x; on a CPU they take a third of the time of torch's dropout.
    """
    if not training or rate == 0:
        return x
    shape = (x.shape[0], *x.shape[2:], x.shape[1])
    draws = torch.rand(shape, device=x.device).movedim(-1, 1)
    return torch.where(draws < rate, 0.0, x * (1 / (1 - rate))).to(x.dtype)


class BatchNorm(nn.BatchNorm2d):
    """Batch normalisation over the rows of all ranks: in one process, torch's own.

    torch.nn.SyncBatchNorm does the same on GPUs alone.
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


class LabelMaps(nn.Module):
    """What one-hot label maps among a convolution's inputs add to its output.

    `taps`: `(k², H, W)` of zeros and ones, which taps of the kernel see the maps at each output position.
    `weight`: `(K, k²·out)`, the label part of the kernel.
    """

    def __init__(self, n_classes: int, out_channels: int, taps: Tensor):
        super().__init__()
        n_taps, height, width = taps.shape
        if bool((taps == taps[:, :1, :1]).all()):  # valid padding: the same at every position
            taps, height, width = taps[:, :1, :1], 1, 1
        self.size = height, width
        self.out_channels = out_channels
        self.taps: Tensor
        self.register_buffer("taps", taps.reshape(n_taps, -1).T.contiguous(), persistent=False)
        self.weight = nn.Parameter(torch.empty(n_classes, n_taps * out_channels))

    def forward(self, labels: Tensor) -> Tensor:
        """Labels `(rows, K)`, one-hot, to maps `(rows, out, H, W)` or `(rows, out, 1, 1)`, channels last."""
        kernels = (labels @ self.weight).reshape(len(labels), -1, self.out_channels)
        maps = self.taps @ kernels
        return maps.reshape(len(labels), *self.size, self.out_channels).permute(0, 3, 1, 2)


class Conv(nn.Module):
    """A convolution, after unpooling by 2 if asked, over the image and, if `n_classes`, its label maps.

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
        tap = torch.eye(n_taps)  # one kernel per tap, to ask where each tap sees the image
        ones = torch.ones(1, 1, *size)
        self.conv: nn.Module
        if unpool:
            crop = kernel - 1 - zeros
            self.conv = nn.ConvTranspose2d(
                in_channels, out_channels, kernel, stride=2, padding=crop, output_padding=1, bias=bias
            )
            tap = tap.reshape(1, n_taps, kernel, kernel)
            taps = conv_transpose2d(ones, tap, stride=2, padding=crop, output_padding=1)[0]
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

    def forward(self, x: Tensor, labels: Tensor | None = None) -> Tensor:
        """Images `(rows, in, h, w)` and, if conditioned, one-hot labels `(rows, K)` to `(rows, out, H, W)`."""
        out: Tensor = self.conv(x)
        if self.label_maps is not None:
            assert labels is not None, "this layer is conditioned on labels"
            out = out + self.label_maps(labels)
        return out
