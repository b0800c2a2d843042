"""Settings that several models share: augmentation of training images, and the max-margin terms."""

from dataclasses import dataclass, field

import torch
from torch import Tensor

from mmdgm.data.appearance import Appearance
from mmdgm.data.augmentation import Distortion
from mmdgm.models import losses
from mmdgm.settings import setting


@dataclass(frozen=True, kw_only=True)
class AugmentationSettings:
    """How the images that the classifier is trained on are changed. The bound is computed on unchanged images."""

    distortion: Distortion = field(default_factory=Distortion)
    appearance: Appearance = field(default_factory=Appearance)

    @property
    def augments(self) -> bool:
        return self.distortion != Distortion() or self.appearance != Appearance()

    def augment(self, x: Tensor, progress: Tensor) -> Tensor:
        """Changed copies of images `(rows, channels, height, width)`, see `Distortion` and `Appearance`."""
        return self.appearance(self.distortion(x, remaining(progress)))


@dataclass(frozen=True, kw_only=True)
class MarginSettings:
    """Settings of hinge and hat loss, and of the bound beside them."""

    margin: float = setting(1.0, "margin that the true or putative class must lead by", above=0)
    smoothing: float = setting(0.0, "smoothing T of hinge and hat loss; 0: the maximum", least=0)
    generative_weight: float = setting(1.0, "weight of the bound; 0 trains the classifier alone", least=0)
    bound_share: float = setting(1.0, "fraction of a batch's rows that the bound is computed on", above=0, most=1)

    @property
    def bounded_rows(self) -> slice:
        """The rows of a batch that the bound is computed on: every k-th, where 1/k is the rounded share."""
        return slice(None, None, round(1 / self.bound_share))

    def trivial_hinge(self, hinge: float, n_classes: int) -> str | None:
        """A description of the trivial solution if a mean hinge loss is that of equal scores, or None."""
        nothing, any_class = torch.zeros(1, n_classes), torch.zeros(1, dtype=torch.int64)
        alike = losses.hinge(nothing, any_class, margin=self.margin, smoothing=self.smoothing).item()
        if abs(hinge - alike) >= 0.005 * self.margin:
            return None
        return f"the classifier scores all classes alike (hinge stays at {alike:g})"


def remaining(progress: Tensor) -> Tensor:
    """The fraction of training that remains, `()`, in float32."""
    return (1 - progress).float()
