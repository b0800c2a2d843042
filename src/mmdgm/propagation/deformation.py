"""The deformation distance: the distance of two images when one may be deformed a little to fit the other.

The fours of two writers differ more in the positions of their strokes than in the strokes themselves. So each
position of image a is matched to a position of image b, up to `reach` pixels away. The match compares the gradients
in a window (the image distortion model of Keysers et al. 2007, Deformation models for image recognition):

    d(a, b) = Σ_i  min_{|δ|∞ ≤ reach}  Σ_{|ε|∞ ≤ radius} |∇a(i + ε) − ∇b(i + δ + ε)|²

Outside the images, gradients and the terms of the window's sum are zero. The distance is not symmetric.
"""

import torch
from torch import Tensor
from torch.nn.functional import conv2d, pad

REACH = 2
RADIUS = 2


def gradients(x: Tensor) -> Tensor:
    """Sobel gradients `(n, 2, height, width)`, to the right and down, of images `(n, channels, height, width)`."""
    across = x.new_tensor([[-1.0, 0, 1], [-2, 0, 2], [-1, 0, 1]]) / 4
    return conv2d(x.sum(dim=1, keepdim=True), torch.stack([across, across.T])[:, None], padding=1)


def deformation_distance(a: Tensor, b: Tensor, *, reach: int = REACH, radius: int = RADIUS) -> Tensor:
    """Distances d `(n,)` of n pairs of images, given by their gradients `(n, 2, height, width)`."""
    height, width = a.shape[-2:]
    # the sums over windows are two products with banded 0/1 matrices: ten times faster on a CPU than pooling
    rows, columns = _band(height, radius, like=a), _band(width, radius, like=a)
    room = pad(b, (reach,) * 4)
    best = a.new_full((len(a), width, height), torch.inf)
    for down in range(2 * reach + 1):
        for right in range(2 * reach + 1):
            apart = (a - room[..., down : down + height, right : right + width]).square_().sum(dim=1)
            torch.minimum(best, (apart @ columns).mT @ rows, out=best)
    return best.sum(dim=(1, 2))


def _band(n: int, radius: int, *, like: Tensor) -> Tensor:
    """A matrix `(n, n)` of ones up to `radius` from its diagonal, and zeros elsewhere."""
    place = torch.arange(n, device=like.device)
    return ((place[:, None] - place).abs() <= radius).to(like.dtype)
