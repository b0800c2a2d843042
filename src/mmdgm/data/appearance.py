"""Random changes of images' appearance: colours, contrast, brightness, sharpness, and a hidden square."""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import pad

from mmdgm.settings import setting


@dataclass(frozen=True, kw_only=True)
class Appearance:
    """How much the appearance of images is changed in training. All zeros mean no change.

    Each image gets its own random amounts. Values may leave [0, 1], so the classifier should standardise its images.
    """

    colour: float = setting(0.0, "appearance: deviation of a random colour matrix from the identity", least=0)
    contrast: float = setting(0.0, "appearance: change of contrast, up to", least=0, most=1)
    brightness: float = setting(0.0, "appearance: change of brightness, up to", least=0)
    invert: float = setting(0.0, "appearance: probability that an image is inverted", least=0, most=1)
    blur: float = setting(0.0, "appearance: how far images are blurred or sharpened, up to", least=0)
    cutout: int = setting(0, "appearance: side of a square that is hidden, in pixels, up to", least=0)

    def __call__(self, x: Tensor) -> Tensor:
        """Changed copies of images `(rows, channels, height, width)` in [0, 1]."""
        if self.colour and x.shape[1] == 3:
            x = mix_colours(x, self.colour * torch.randn((len(x), 3, 3), device=x.device))
        if self.contrast or self.brightness:
            stretch, lift = (2 * torch.rand((2, len(x), 1, 1, 1), device=x.device) - 1).unbind()
            mean = x.mean(dim=(1, 2, 3), keepdim=True)
            x = (x - mean) * (1 + self.contrast * stretch) + mean + self.brightness * lift
        if self.invert:
            x = torch.where(torch.rand((len(x), 1, 1, 1), device=x.device) < self.invert, 1 - x, x)
        if self.blur:
            amount = self.blur * (2 * torch.rand((len(x), 1, 1, 1), device=x.device) - 1)
            x = x + amount * (blurred(x) - x)
        if self.cutout:
            x = hide_square(x, *torch.rand((3, len(x)), device=x.device), side=self.cutout)
        return x


def mix_colours(x: Tensor, change: Tensor) -> Tensor:
    """Colours `(rows, 3, height, width)` multiplied by I + change `(rows, 3, 3)`, around the image's mean."""
    mean = x.mean(dim=(1, 2, 3), keepdim=True)
    mixed = torch.einsum("nij,njhw->nihw", change.to(x.dtype), x - mean)
    return x + mixed


def blurred(x: Tensor) -> Tensor:
    """Images convolved with the 3×3 kernel of weights 1-2-1; edge pixels are repeated.

    The convolution is written as sums, because a step captured in a CUDA graph must not copy a kernel from the host.
    """
    x = pad(x, (1, 1, 1, 1), mode="replicate")
    x = (x[..., :-2] + 2 * x[..., 1:-1] + x[..., 2:]) / 4
    return (x[..., :-2, :] + 2 * x[..., 1:-1, :] + x[..., 2:, :]) / 4


def hide_square(x: Tensor, size: Tensor, down: Tensor, right: Tensor, *, side: int) -> Tensor:
    """Images with a square of side `size`·`side` replaced by the image's mean.

    The square's centre is at (down·height, right·width). `size`, `down` and `right` are in [0, 1].
    """
    height, width = x.shape[-2:]
    half = (size * side / 2)[:, None]
    rows = ((torch.arange(height, device=x.device) + 0.5) - (down * height)[:, None]).abs() < half
    columns = ((torch.arange(width, device=x.device) + 0.5) - (right * width)[:, None]).abs() < half
    hidden = (rows[:, :, None] & columns[:, None, :])[:, None]
    return torch.where(hidden, x.mean(dim=(1, 2, 3), keepdim=True), x)
