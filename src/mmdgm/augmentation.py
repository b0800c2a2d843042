"""Distorted copies of images, as the next writer might have drawn them."""

import math

import torch
from torch import Tensor
from torch.nn.functional import grid_sample


def distort(x: Tensor, *, turn: float, shift: float, zoom: float, shear: float) -> Tensor:
    """Images `(rows, channels, height, width)`, each distorted by amounts of its own, see `warp`.

    They are uniform: the angle in ± `turn` degrees, down and right in ± `shift` pixels, the scale in 1 ± `zoom`,
    the slant in ± `shear`.
    """
    if not any((turn, shift, zoom, shear)):
        return x
    draws = 2 * torch.rand((5, len(x)), device=x.device) - 1
    limits = (math.radians(turn), shift, shift, zoom, shear)
    # numbers, not a tensor of them: a step that is captured in a CUDA graph may copy nothing from the host
    angle, down, right, longer, slant = (limit * draw for limit, draw in zip(limits, draws, strict=True))
    return warp(x, angle=angle, down=down, right=right, scale=1 + longer, slant=slant)


def warp(x: Tensor, *, angle: Tensor, down: Tensor, right: Tensor, scale: Tensor, slant: Tensor) -> Tensor:
    """Images turned about their middle, scaled, slanted and moved, each `(rows,)`; zeros come in from outside.

    Coordinates are in pixels, down and right from the middle of the image. The pixel at (v, u) takes the value at

        u' = (cos·u − sin·v)/scale + slant·v − right      v' = (sin·u + cos·v)/scale − down
    """
    height, width = x.shape[-2:]
    v = (torch.arange(height, device=x.device) - (height - 1) / 2)[:, None]
    u = torch.arange(width, device=x.device) - (width - 1) / 2
    angle, down, right, scale, slant = (amount[:, None, None] for amount in (angle, down, right, scale, slant))
    from_left = (angle.cos() * u - angle.sin() * v) / scale + slant * v - right
    from_top = (angle.sin() * u + angle.cos() * v) / scale - down
    # (-1, 1) are the outer edges of the image
    grid = torch.stack([2 * from_left / width, 2 * from_top / height], dim=-1)
    return grid_sample(x, grid, align_corners=False)
