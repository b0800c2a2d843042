"""Conv-MMCVA beyond the paper: the same two networks and the same objective, a later training recipe.

The classifier s sees distorted images in training, and the trained model answers with s̄, the classifier whose
weights ψ̄ are a running average of ψ. At step t = 0, 1, …, before ψ is changed:

    ψ̄ ← ψ̄ + max(1 − a, 10/(10 + t)) · (ψ − ψ̄)      a  share that is kept; early on, ψ̄ spans a tenth of the steps
    ŷ = argmax_k s̄_k(x)                             guess for unlabeled x as it is, in the bound

The hat loss takes the guess argmax_k s_k of the distorted image. A first guess, while trusted, stands for both.
Distortions may fade in a last part of training, and are gone long enough before the end for ψ̄, and the average's
batch statistics, to be those of images as they are.
"""

import copy
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from mmdgm.data.augmentation import distort
from mmdgm.data.batches import Batch
from mmdgm.models.max_margin_conditional import (
    MaxMarginConditionalVAE,
    MaxMarginConditionalVAEConfig,
    MaxMarginConditionalVAETerms,
)
from mmdgm.networks.stacks import Classifier, Encoder
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
        averaging: float = 0.999,
        turn: float = 0.0,
        shift: float = 0.0,
        zoom: float = 0.0,
        shear: float = 0.0,
        bend: float = 0.0,
        fading: float = 0.0,
        **others: Any,  # of MaxMarginConditionalVAE
    ):
        super().__init__(classifier, encoder, decoder, **others)
        self.averaging = averaging
        self.distortion = {"turn": turn, "shift": shift, "zoom": zoom, "shear": shear, "bend": bend}
        self.fading = fading
        self.average = copy.deepcopy(classifier).requires_grad_(False)
        self.register_buffer("steps", torch.zeros(()))

    @property
    def answering(self) -> Classifier:
        return self.average

    def train(self, mode: bool = True) -> "AveragedConditionalVAE":
        super().train(mode)
        self.average.eval()
        return self

    def forward(self, batch: Batch) -> MaxMarginConditionalVAETerms:
        if self.training:
            self._average()
        return super().forward(batch)

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
        self.steps += 1

    def _training_scores(self, x: Tensor) -> Tensor:
        if self.training:
            strength = (1.5 * self.left / self.fading - 0.5).clamp(0, 1) if self.fading else 1.0
            x = distort(x, **self.distortion, strength=strength)
        return super()._training_scores(x)

    def _generative_terms(
        self, batch: Batch, x: Tensor, scores: Tensor, guess: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        if self.generative_weight and len(guess):
            of_average = self.scores(x[len(batch.y) :]).argmax(dim=1)
            guess = self._trusted(batch.first_guess, of_average)
        return super()._generative_terms(batch, x, scores, guess)


@dataclass(frozen=True, kw_only=True)
class AveragedConditionalVAEConfig(MaxMarginConditionalVAEConfig):
    """How an AveragedConditionalVAE is built."""

    averaging: float = setting(0.999, "share of its weights that the average keeps in a step", least=0, most=1)
    turn: float = setting(0.0, "distortion of what the classifier sees: degrees, up to", least=0)
    shift: float = setting(0.0, "distortion: pixels up, down, left and right, up to", least=0)
    zoom: float = setting(0.0, "distortion: change of lengths, up to", least=0, most=0.9)
    shear: float = setting(0.0, "distortion: slant, up to", least=0)
    bend: float = setting(0.0, "distortion: bends, the standard deviation of movements in pixels", least=0)
    fading: float = setting(
        0.0,
        "distortion: share of training, its last part, in which it shrinks, and is gone in the last third of that",
        least=0,
        most=1,
    )

    model_class = AveragedConditionalVAE

    def arguments(self) -> dict[str, Any]:
        names = ("averaging", "turn", "shift", "zoom", "shear", "bend", "fading")
        return super().arguments() | {name: getattr(self, name) for name in names}
