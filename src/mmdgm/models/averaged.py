"""Conv-MMCVA beyond the paper: the same two networks and the same objective, a later training recipe.

The classifier s sees distorted images in training, and the trained model answers with s̄, the classifier whose
weights ψ̄ are a running average of ψ. At step t = 0, 1, …, before ψ is changed:

    ψ̄ ← ψ̄ + max(1 − a, 10/(10 + t)) · (ψ − ψ̄)                   a  share that is kept; at first a tenth counts
    ŷ = argmax_k s̄_k(x)                                          what the generative model is told of unlabeled x
    w · max(0, 1 − t/T)                                          weight of the straight-through gradient

Where the generative loss disagrees with a guess that the hat loss has settled on, the straight-through gradient
can turn it; early on that mends whole groups of wrong guesses, later it is noise. So it is strong, and fades.
"""

import copy
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from mmdgm.augmentation import distort
from mmdgm.batches import Batch
from mmdgm.layers import at_least_float32
from mmdgm.models.semisupervised import (
    MaxMarginConditionalVAE,
    MaxMarginConditionalVAEConfig,
    MaxMarginConditionalVAETerms,
)
from mmdgm.networks import Classifier, Encoder
from mmdgm.settings import setting


class AveragedConditionalVAE(MaxMarginConditionalVAE):
    """A max-margin conditional VAE that answers with the running average of its classifier."""

    steps: Tensor  # (): training steps so far

    def __init__(
        self,
        classifier: Classifier,
        encoder: Encoder,
        decoder: nn.Module,
        *,
        n_classes: int,
        averaging: float = 0.999,
        straight_through_steps: int = 0,
        turn: float = 0.0,
        shift: float = 0.0,
        zoom: float = 0.0,
        shear: float = 0.0,
        **others: Any,  # of MaxMarginConditionalVAE
    ):
        super().__init__(classifier, encoder, decoder, n_classes=n_classes, **others)
        self.averaging, self.straight_through_steps = averaging, straight_through_steps
        self.turn, self.shift, self.zoom, self.shear = turn, shift, zoom, shear
        self.average = copy.deepcopy(classifier).requires_grad_(False)
        self.register_buffer("steps", torch.zeros(()))

    def train(self, mode: bool = True) -> "AveragedConditionalVAE":
        super().train(mode)
        self.average.eval()
        return self

    def forward(self, batch: Batch) -> MaxMarginConditionalVAETerms:
        if self.training:
            self._average()
        terms = super().forward(batch)
        if self.training:
            self.steps += 1
        return terms

    @torch.no_grad()
    def _average(self) -> None:
        """Move the average's weights, and its batch statistics, towards the classifier's."""
        own, new = (
            [*part.parameters(), *(b for b in part.buffers() if b.is_floating_point())]
            for part in (self.average, self.classifier)
        )
        way = torch._foreach_sub(new, own)
        torch._foreach_mul_(way, (10 / (10 + self.steps)).clamp(min=1 - self.averaging))
        torch._foreach_add_(own, way)

    def _training_scores(self, x: Tensor) -> Tensor:
        if self.training:
            x = distort(x, turn=self.turn, shift=self.shift, zoom=self.zoom, shear=self.shear)
        return super()._training_scores(x)

    @torch.no_grad()
    def _guess(self, x: Tensor, scores: Tensor) -> Tensor:
        return at_least_float32(self.average(x)).argmax(dim=1)

    def _straight_through_weight(self) -> float | Tensor:
        if not self.straight_through_steps:
            return self.straight_through
        return self.straight_through * (1 - self.steps / self.straight_through_steps).clamp(min=0)

    @torch.no_grad()
    def scores(self, x: Tensor) -> Tensor:
        """The averaged classifier's margins of each class, `(rows, K)`."""
        return at_least_float32(self.average(x))

    @torch.no_grad()
    def embed(self, x: Tensor) -> Tensor:
        """The features that the averaged classifier's last layer sees, `(rows, width)`."""
        return at_least_float32(self.average.features(x))


@dataclass(frozen=True, kw_only=True)
class AveragedConditionalVAEConfig(MaxMarginConditionalVAEConfig):
    """How an AveragedConditionalVAE is built."""

    averaging: float = setting(0.999, "share of its weights that the average keeps in a step", least=0, most=1)
    straight_through_steps: int = setting(0, "steps in which straight_through fades to 0; 0: it stays", least=0)
    turn: float = setting(0.0, "distortion of what the classifier sees: degrees, up to", least=0)
    shift: float = setting(0.0, "distortion: pixels up, down, left and right, up to", least=0)
    zoom: float = setting(0.0, "distortion: change of lengths, up to", least=0, most=0.9)
    shear: float = setting(0.0, "distortion: slant, up to", least=0)

    model_class = AveragedConditionalVAE

    def arguments(self) -> dict[str, Any]:
        names = ("averaging", "straight_through_steps", "turn", "shift", "zoom", "shear")
        return super().arguments() | {name: getattr(self, name) for name in names}
