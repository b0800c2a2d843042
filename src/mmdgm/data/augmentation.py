"""Transforms of images: random distortion, straightening, and mixup."""

import math
from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import grid_sample, interpolate

from mmdgm.settings import setting

Edges = Literal["zeros", "border"]
BENT_EVERY = 7  # pixels between the control points of `waves`


@dataclass(frozen=True, kw_only=True)
class Distortion:
    """How much images are distorted in training. All zeros mean no distortion."""

    turn: float = setting(0.0, "distortion of what the classifier sees: degrees, up to", least=0)
    shift: float = setting(0.0, "distortion: pixels up, down, left and right, up to", least=0)
    zoom: float = setting(0.0, "distortion: change of lengths, up to", least=0, most=0.9)
    shear: float = setting(0.0, "distortion: slant, up to", least=0)
    bend: float = setting(0.0, "distortion: bends, the standard deviation of movements in pixels", least=0)
    fading: float = setting(
        0.0,
        "distortion: last fraction of training in which it shrinks; it is gone in the last third of that",
        least=0,
        most=1,
    )
    edges: Literal["zeros", "border"] = setting("zeros", "distortion: what comes in from outside the image")
    mirror: float = setting(0.0, "distortion: probability that left and right are exchanged", least=0, most=1)

    def __call__(self, x: Tensor, remaining: Tensor) -> Tensor:
        """Distorted images `(rows, channels, height, width)`. `remaining` `()` falls from 1 to 0 in training.

        Fading distortions end early enough for averaged weights and batch statistics to adapt to undistorted images.
        """
        strength = (1.5 * remaining / self.fading - 0.5).clamp(0, 1) if self.fading else 1.0
        amounts = {"turn": self.turn, "shift": self.shift, "zoom": self.zoom, "shear": self.shear}
        x = distort(x, **amounts, bend=self.bend, strength=strength, edges=self.edges)
        if self.mirror:
            x = torch.where(torch.rand((len(x), 1, 1, 1), device=x.device) < self.mirror, x.flip(3), x)
        return x


def mixup(x: Tensor, share: Tensor) -> Tensor:
    """Images (1 − share)·x_i + share·x_(i−1), where the first row's partner is the last (Zhang et al. 2018, mixup).

    `share` is `(rows,)`.
    """
    by = share[:, None, None, None].to(x.dtype)
    return (1 - by) * x + by * x.roll(1, dims=0)


def distort(
    x: Tensor,
    *,
    turn: float,
    shift: float,
    zoom: float,
    shear: float,
    bend: float = 0.0,
    strength: Tensor | float = 1.0,
    edges: Edges = "zeros",
) -> Tensor:
    """Images `(rows, channels, height, width)`, each distorted by its own random amounts, see `warp`.

    The amounts are uniform: the angle in ± `turn` degrees, down and right in ± `shift` pixels, the scale in
    1 ± `zoom`, the slant in ± `shear`. `bend` is the standard deviation of `waves`. `strength` multiplies all amounts.
    """
    if not any((turn, shift, zoom, shear, bend)):
        return x
    draws = strength * (2 * torch.rand((5, len(x)), device=x.device) - 1)
    limits = (math.radians(turn), shift, shift, zoom, shear)
    # Python numbers instead of a tensor: a step captured in a CUDA graph must not copy from the host
    angle, down, right, longer, slant = (limit * draw for limit, draw in zip(limits, draws, strict=True))
    bent = strength * bend * waves(x) if bend else None
    return warp(x, Warp(angle, down, right, 1 + longer, slant), bent=bent, edges=edges)


def waves(x: Tensor) -> Tensor:
    """Smooth random displacements `(rows, 2, height, width)` of pixels, down and right.

    They are drawn from N(0, 1) at points seven pixels apart, with cubic interpolation between them.
    """
    height, width = x.shape[-2:]
    points = [max(2, round(size / BENT_EVERY)) for size in (height, width)]
    moved = torch.randn((len(x), 2, *points), device=x.device)
    return interpolate(moved, size=(height, width), mode="bicubic", align_corners=False)


def upright(x: Tensor) -> Tensor:
    """Images `(rows, channels, height, width)` of strokes on an even background, each deslanted and centred.

    The background is the border's median, and a pixel's weight is its share of the distances from it. The centre of
    gravity is moved to the middle of the image, and the slant cov(u, v)/var(v) is removed.
    """
    height, width = x.shape[-2:]
    v = (torch.arange(height, device=x.device, dtype=x.dtype) - (height - 1) / 2)[:, None]
    u = torch.arange(width, device=x.device, dtype=x.dtype) - (width - 1) / 2
    border = torch.cat([x[..., 0, :], x[..., -1, :], x[..., 0], x[..., -1]], dim=2)
    background = border.median(dim=2).values[..., None, None]
    strokes = (x - background).abs().sum(dim=1)
    strokes = strokes / strokes.sum(dim=(1, 2), keepdim=True).clamp(min=1e-6)

    def mean(values: Tensor) -> Tensor:
        return (strokes * values).sum(dim=(1, 2))

    below, beside = mean(v), mean(u)
    from_centre = v - below[:, None, None]
    variance = mean(from_centre**2).clamp(min=1e-6)
    slant = mean(from_centre * (u - beside[:, None, None])) / variance
    nothing = torch.zeros_like(slant)
    return background + warp(x - background, Warp(nothing, -below, -beside, 1 + nothing, slant))


class Warp(NamedTuple):
    """Parameters of `warp`, `(rows,)` each: an angle, pixels down and right, a scale factor, a slant."""

    angle: Tensor
    down: Tensor
    right: Tensor
    scale: Tensor
    slant: Tensor


def warp(x: Tensor, by: Warp, *, bent: Tensor | None = None, edges: Edges = "zeros") -> Tensor:
    """Images rotated about their middle, scaled, slanted and shifted.

    Coordinates are in pixels, down and right from the middle of the image. The pixel at (v, u) takes the value at

        u' = (cos·u − sin·v)/scale + slant·v − right      v' = (sin·u + cos·v)/scale − down

    `bent` `(rows, 2, height, width)`, in pixels down and right, is added to (v', u'). Outside the image, values are
    zeros or those of the border, see `edges`.
    """
    height, width = x.shape[-2:]
    v = (torch.arange(height, device=x.device) - (height - 1) / 2)[:, None]
    u = torch.arange(width, device=x.device) - (width - 1) / 2
    angle, down, right, scale, slant = (amount[:, None, None] for amount in by)
    from_left = (angle.cos() * u - angle.sin() * v) / scale + slant * v - right
    from_top = (angle.sin() * u + angle.cos() * v) / scale - down
    if bent is not None:
        from_top, from_left = from_top + bent[:, 0], from_left + bent[:, 1]
    # (-1, 1) are the outer edges of the image
    grid = torch.stack([2 * from_left / width, 2 * from_top / height], dim=-1)
    return grid_sample(x, grid, align_corners=False, padding_mode=edges)
