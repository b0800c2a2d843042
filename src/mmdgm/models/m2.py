"""Kingma et al.'s M2: a class-conditional VAE that marginalises unknown labels, where mmDCGM takes the best one.

Over n labeled and m unlabeled rows, with q(y|x) = softmax(s(x)) and L(x, y) = −ELBO(x, y), log p(y) included:

    min  ( Σ_l L(x, y) + Σ_u U(x) ) / (n + m) + α · mean_l[ −log q(y|x) ]

    U(x) = Σ_k q(k|x) · ( L(x, k) + log q(k|x) )

A step evaluates encoder and decoder n + m·K times.

[Semi-supervised learning with deep generative models](https://arxiv.org/abs/1406.5298), equations 6 to 9.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from mmdgm.data.batches import Batch
from mmdgm.distributed import mean_over_ranks
from mmdgm.models.conditional import ConditionalVAE, ConditionalVAEConfig
from mmdgm.networks.layers import at_least_float32
from mmdgm.networks.likelihoods import LIKELIHOODS, Likelihood
from mmdgm.networks.stacks import Classifier, Encoder, Shape
from mmdgm.settings import setting


def marginal_cost(costs: Tensor, scores: Tensor) -> Tensor:
    """U(x) `(rows,)` from L(x, k) and the scores of q(k|x), both `(rows, K)`."""
    log_q = scores.log_softmax(dim=1)
    return (log_q.exp() * (costs + log_q)).sum(dim=1)


class MarginalConditionalVAETerms(NamedTuple):
    """What the objective is made of; training minimises `loss` and logs the mean of the rest."""

    loss: Tensor  # ()
    elbo: Tensor  # (rows,): −L of labeled rows, −U of unlabeled ones
    cross_entropy: Tensor  # (labeled rows,)
    top_class_share: Tensor  # (): the share of unlabeled rows that the most frequent class gets


class MarginalConditionalVAE(ConditionalVAE):
    """A class-conditional VAE and a classifier q(y|x); `alpha` weighs the cross entropy."""

    def __init__(
        self,
        classifier: Classifier,
        encoder: Encoder,
        decoder: nn.Module,
        *,
        n_classes: int,
        alpha: float = 0.1,
        samples: int = 1,
        likelihood: Likelihood | None = None,
    ):
        super().__init__(classifier, encoder, decoder, n_classes=n_classes, samples=samples, likelihood=likelihood)
        self.alpha = alpha

    def forward(self, batch: Batch) -> MarginalConditionalVAETerms:
        n = len(batch.x)
        scores = at_least_float32(self.classifier(batch.images()))
        entropy = cross_entropy(scores[:n], batch.y, reduction="none")
        elbo = -self.negative_elbo(batch.x, batch.y)
        top_class_share = scores.new_zeros(())
        if len(batch.x_unlabeled):
            every_class = torch.arange(self.n_classes, device=scores.device).repeat(len(batch.x_unlabeled))
            costs = self.negative_elbo(batch.x_unlabeled.repeat_interleave(self.n_classes, dim=0), every_class)
            elbo = torch.cat([elbo, -marginal_cost(costs.reshape(-1, self.n_classes), scores[n:])])
            putative = self.one_hot(scores[n:].argmax(dim=1), scores)
            top_class_share = mean_over_ranks(putative.mean(dim=0)).max()
        loss = -elbo.mean() + self.alpha * entropy.mean()
        return MarginalConditionalVAETerms(
            loss=loss, elbo=elbo, cross_entropy=entropy, top_class_share=top_class_share
        )

    def negative_elbo(self, x: Tensor, y: Tensor) -> Tensor:
        """L(x, y) of images and classes `(rows,)`, shape `(rows,)`."""
        labels = self.one_hot(y, x)
        return math.log(self.n_classes) - self.bound(x, self.encoder(x, labels), labels).elbo

    @torch.no_grad()
    def elbo(self, x: Tensor, *, observed: Tensor | None = None, noise: Tensor | None = None) -> Tensor:
        """The bound −U(x) on log p(x) of each row, one class after the other."""
        if observed is not None or noise is not None:
            raise ValueError("M2 has its own bound: of complete rows, with its own draws")
        y = torch.zeros(len(x), dtype=torch.int64, device=x.device)
        costs = [self.negative_elbo(x, y + k) for k in range(self.n_classes)]
        return -marginal_cost(torch.stack(costs, dim=1), self.scores(x))

    def trivial_solution(self, metrics: dict[str, float]) -> str | None:
        if metrics["top_class_share"] > 0.999:
            return "all unlabeled rows are put into one class"
        return None


@dataclass(frozen=True, kw_only=True)
class MarginalConditionalVAEConfig(ConditionalVAEConfig):
    """How a MarginalConditionalVAE is built, on the networks of Conv-MMCVA."""

    alpha: float = setting(0.1, "weight α of the cross entropy against the bound", least=0)

    def build(self, shape: Shape, *, n_classes: int, n_rows: int) -> MarginalConditionalVAE:
        """A new model, with weights from torch's current random state."""
        return MarginalConditionalVAE(
            *self.networks(shape, n_classes=n_classes),
            n_classes=n_classes,
            alpha=self.alpha,
            samples=self.samples,
            likelihood=LIKELIHOODS[self.likelihood],
        )
