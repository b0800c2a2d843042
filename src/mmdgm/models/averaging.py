"""Exponential moving average of a classifier's weights."""

import copy

import torch
from torch import Tensor, nn

from mmdgm.networks.base import Classifier
from mmdgm.networks.layers import BatchNorm


class AveragedClassifier(nn.Module):
    """A copy of a classifier whose weights ψ̄ average the trained weights ψ. It is used for inference.

    At step t = 0, 1, …, before ψ is changed:

        ψ̄ ← ψ̄ + max(1 − a, 10/(10 + t)) · (ψ − ψ̄)

    where a is the fraction that is kept. Early on, ψ̄ averages over about a tenth of the steps so far. Batch
    statistics are averaged in the same way. The copy is always in evaluation mode.
    """

    steps: Tensor  # (): training steps so far

    def __init__(self, classifier: Classifier):
        super().__init__()
        self.classifier = copy.deepcopy(classifier).requires_grad_(False).eval()
        self.register_buffer("steps", torch.zeros(()))

    def train(self, mode: bool = True) -> "AveragedClassifier":
        return super().train(False)

    @torch.no_grad()
    def scores_by_batch_statistics(self, x: Tensor) -> Tensor:
        """Scores normalised by the statistics of this batch. The averaged batch statistics do not change."""
        norms = [part for part in self.classifier.modules() if isinstance(part, BatchNorm)]
        for norm in norms:
            norm.training, norm.momentum = True, 0.0
        scores: Tensor = self.classifier(x)
        for norm in norms:
            norm.training = False
        return scores

    @torch.no_grad()
    def follow(self, classifier: Classifier, *, keep: float) -> None:
        """Move weights and batch statistics towards the classifier's; `keep` is a."""
        own, new = (
            [*part.parameters(), *(b for b in part.buffers() if b.is_floating_point())]
            for part in (self.classifier, classifier)
        )
        way = torch._foreach_sub(new, own)
        torch._foreach_mul_(way, (10 / (10 + self.steps)).clamp(min=1 - keep))
        torch._foreach_add_(own, way)
        self.steps += 1
