"""Kingma et al.'s M2: a class-conditional VAE that marginalises unknown labels. (mmDCGM takes the best label.)

Over n labeled and m unlabeled rows, with q(y|x) = softmax(s(x)) and L(x, y) = −ELBO(x, y), log p(y) included:

    min  ( Σ_l L(x, y) + Σ_u U(x) ) / (n + m) + α · mean_l[ −log q(y|x) ]

    U(x) = Σ_k q(k|x) · ( L(x, k) + log q(k|x) )

A step evaluates encoder and decoder n + m·K times.

[Semi-supervised learning with deep generative models](https://arxiv.org/abs/1406.5298), equations 6 to 9.
"""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from mmdgm.data.batches import Batch
from mmdgm.distributed import mean_over_ranks
from mmdgm.models.conditional import ConditionalSettings, ConditionalVAE, ConditionalVAEConfig
from mmdgm.models.vae import START
from mmdgm.settings import setting


@dataclass(frozen=True, kw_only=True)
class MarginalConditionalSettings(ConditionalSettings):
    """The weight of the objective's classification term."""

    alpha: float = setting(0.1, "weight α of the cross entropy against the bound", least=0)


def marginal_cost(costs: Tensor, scores: Tensor) -> Tensor:
    """U(x) `(rows,)` from L(x, k) and the scores of q(k|x), both `(rows, K)`."""
    log_q = scores.log_softmax(dim=1)
    return (log_q.exp() * (costs + log_q)).sum(dim=1)


class MarginalConditionalVAETerms(NamedTuple):
    """Terms of the objective. Training minimises `loss` and logs the means of the others."""

    loss: Tensor  # ()
    elbo: Tensor  # (rows,): −L of labeled rows, −U of unlabeled ones
    cross_entropy: Tensor  # (labeled rows,)
    top_class_share: Tensor  # (): share of unlabeled rows in the most frequent predicted class


class MarginalConditionalVAE(ConditionalVAE):
    """A class-conditional VAE and a classifier q(y|x)."""

    settings_class = MarginalConditionalSettings

    def forward(self, batch: Batch, *, progress: Tensor = START, settings: Any = None) -> MarginalConditionalVAETerms:
        s: MarginalConditionalSettings = settings or self.settings
        n, k = len(batch.y), self.n_classes
        scores = self.training_scores(self.augmented(batch.seen(), progress, s), s)
        parts = {"x": batch.x, "observed": batch.observed, "shown": batch.shown}
        given = {name: part for name, part in parts.items() if part is not None}
        entropy = cross_entropy(scores[:n], batch.y, reduction="none") if n else scores.new_zeros(1)
        elbo, top_class_share = scores.new_zeros(0), scores.new_zeros(())
        if n:
            elbo = -self.negative_elbo(y=batch.y, **{name: part[:n] for name, part in given.items()})
        if m := len(batch.x) - n:
            every_class = torch.arange(k, device=scores.device).repeat(m)
            for_classes = {name: part[n:].repeat_interleave(k, dim=0) for name, part in given.items()}
            costs = self.negative_elbo(y=every_class, **for_classes)
            elbo = torch.cat([elbo, -marginal_cost(costs.reshape(-1, k), scores[n:])])
            putative = self.one_hot(scores[n:].argmax(dim=1), scores)
            top_class_share = mean_over_ranks(putative.mean(dim=0)).max()
        loss = -elbo.mean() + s.alpha * entropy.mean()
        return MarginalConditionalVAETerms(
            loss=loss, elbo=elbo, cross_entropy=entropy, top_class_share=top_class_share
        )

    def negative_elbo(
        self,
        x: Tensor,
        y: Tensor,
        *,
        observed: Tensor | None = None,
        shown: Tensor | None = None,
        noise: Tensor | None = None,
    ) -> Tensor:
        """L(x, y), shape `(rows,)`, of images and classes `(rows,)`. `observed` restricts it to observed values.

        `shown`: the encoder's input, if it differs from x.
        """
        labels = self.one_hot(y, x)
        encoding = self.encoder(x if shown is None else shown, labels)
        bound = self.bound(x, encoding, labels, observed=observed, noise=noise)
        return math.log(self.n_classes) - bound.elbo

    @torch.no_grad()
    def elbo(self, x: Tensor, *, observed: Tensor | None = None, noise: Tensor | None = None) -> Tensor:
        """The bound −U(x) on log p(x) of each row. Classes are computed one after the other."""
        y = torch.zeros(len(x), dtype=torch.int64, device=x.device)
        costs = [self.negative_elbo(x, y + k, observed=observed, noise=noise) for k in range(self.n_classes)]
        return -marginal_cost(torch.stack(costs, dim=1), self.scores(x))

    def trivial_solution(self, metrics: dict[str, float], settings: Any) -> str | None:
        if metrics["top_class_share"] > 0.999:
            return "all unlabeled rows are put into one class"
        return None


@dataclass(frozen=True, kw_only=True)
class MarginalConditionalVAEConfig(MarginalConditionalSettings, ConditionalVAEConfig):
    """The settings and the networks of a MarginalConditionalVAE."""

    model_class = MarginalConditionalVAE
