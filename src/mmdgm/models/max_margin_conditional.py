"""The max-margin deep conditional generative model (paper §3.3): Conv-MMCVA.

A class-conditional VAE and a separate max-margin classifier s(x), learned on few labeled and many unlabeled rows.
With ŷ = argmax_k s_k(x) for unlabeled rows, l the labeled and u the unlabeled rows:

    min  g · mean_{l,u}[ −ELBO(x, y or ŷ) ] + α · ( mean_l[hinge] + α_U · mean_u[hat] + α_B · balance + d · ‖W‖² )

    ELBO(x, y) see `conditional`
    W          weights of the classifier's last layer
    g          1, or 0 to leave the bound out

With α = 0 and no straight-through term, the generative part is trained alone, and the classifier stays as it is.

The point estimate ŷ makes a step cost the same for any number of classes. ŷ is a constant for the gradient, except in
the straight-through term: the gradient of the generative loss with respect to the one-hot labels flows, weighted,
into softmax(s). The weight is constant, or falls linearly to 0 in training. Early on, this gradient corrects whole
groups of wrong predictions, before the hat loss and the generative model lock them in. Later it is noise. The hat
loss can be delayed, because it locks in the classifier's current predictions. If unlabeled rows have propagated
labels (see `propagation`), these replace ŷ in the first part of training, or in all of it. If the classifier is
averaged, ŷ in the bound is the averaged classifier's prediction.
"""

import math
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor

from mmdgm.data.augmentation import distort, mixup
from mmdgm.data.batches import Batch
from mmdgm.distributed import mean_over_ranks
from mmdgm.models import losses
from mmdgm.models.conditional import ConditionalSettings, ConditionalVAE, ConditionalVAEConfig
from mmdgm.models.shared import MarginSettings, remaining
from mmdgm.models.vae import START
from mmdgm.networks.layers import at_least_float32
from mmdgm.settings import setting


@dataclass(frozen=True, kw_only=True)
class MaxMarginConditionalSettings(MarginSettings, ConditionalSettings):
    """The weights of the objective. A weight of 0 leaves its term out."""

    alpha: float = setting(0.1, "weight α of all margin terms against the bound", least=0)
    hat_weight: float = setting(0.3, "weight α_U of the hat loss on unlabeled rows", least=0)
    hat_starts: float = setting(0.0, "fraction of training before the hat loss begins", least=0, most=1)
    trust_propagated: float = setting(
        0.0, "first fraction of training in which propagated labels stand for unlabeled rows' own", least=0, most=1
    )
    weak_shift: float = setting(
        0.0, "weak to strong: pixels by which the averaged classifier sees images shifted when it guesses", least=0
    )
    accept: float = setting(0.0, "weak to strong: lead of a guess from which on the hat loss takes it", least=0)
    mixup: float = setting(
        0.0,
        "mixup: fraction of another image, and of its loss, in each image that the classifier sees, up to",
        least=0,
        most=0.5,
    )
    balance_weight: float = setting(1e-3, "weight α_B of the label balance", least=0)
    hinge_by_share: bool = setting(
        False, "whether the hinge weighs a class by its share of all rows over that of labels"
    )
    straight_through: float = setting(0.0, "weight of the generative loss's gradient into the classifier", least=0)
    straight_through_fades: bool = setting(False, "whether that weight falls to 0, linearly, in training")
    last_layer_decay: float = setting(1e-4, "L2 penalty on the classifier's last layer, times α", least=0)


class MaxMarginConditionalVAETerms(NamedTuple):
    """Terms of the objective. Training minimises `loss` and logs the means of the others.

    Hat and balance are zero without unlabeled rows. Elbo and kl are zero if the bound is left out.
    """

    loss: Tensor  # ()
    elbo: Tensor  # (rows,)
    kl: Tensor  # (rows,)
    hinge: Tensor  # (labeled rows,)
    hat: Tensor  # (unlabeled rows,)
    balance: Tensor  # ()
    top_class_share: Tensor  # (): share of unlabeled rows in the most frequent predicted class


class MaxMarginConditionalVAE(ConditionalVAE):
    """A class-conditional VAE and a max-margin classifier."""

    settings_class = MaxMarginConditionalSettings

    @property
    def generates(self) -> bool:
        return bool(self.settings.generative_weight)

    def forward(self, batch: Batch, *, progress: Tensor = START, settings: Any = None) -> MaxMarginConditionalVAETerms:
        s: MaxMarginConditionalSettings = settings or self.settings
        x, n = batch.seen(), len(batch.y)
        if not (s.alpha or s.straight_through):  # nothing that the classifier could learn from
            return self._generative_terms(batch, x, s)
        seen, shares = self.augmented(x, progress, s), None
        if s.mixup and self.training:
            shares = s.mixup * torch.rand(len(x), device=x.device)
            seen = torch.cat([mixup(seen[:n], shares[:n]), mixup(seen[n:], shares[n:])])
        scores = self.training_scores(seen, s)
        guess, accepted = self._guess(x[n:], scores[n:], s)
        putative = self._trusted(batch.guess, guess, progress, s)
        loss, terms = self._margin_terms(scores, batch.y, putative, accepted, shares, progress, s)
        loss = s.alpha * loss
        elbo = kl = scores.new_zeros(1)
        if s.generative_weight:
            if self.average is not None and len(putative):
                putative = self._trusted(batch.guess, self.scores(x[n:]).argmax(dim=1), progress, s)
            some = s.bounded_rows
            labels = self._labels(torch.cat([batch.y, putative])[some], scores[some], progress, s)
            elbo, kl = self._bound(batch, x, labels, some)
            loss = loss - s.generative_weight * elbo.mean()
        return MaxMarginConditionalVAETerms(loss=loss, elbo=elbo, kl=kl, **terms)

    def _generative_terms(
        self, batch: Batch, x: Tensor, s: MaxMarginConditionalSettings
    ) -> MaxMarginConditionalVAETerms:
        """The bound alone, given the labels that the classifier predicts. The classifier does not change."""
        zero = x.new_zeros(())
        self.classifier.eval()  # its batch statistics stay as they are too
        with torch.no_grad():
            predicted = self.scores(x[len(batch.y) :]).argmax(dim=1)
        y = torch.cat([batch.y, predicted])
        some = s.bounded_rows
        elbo, kl = self._bound(batch, x, self.one_hot(y, x)[some], some)
        return MaxMarginConditionalVAETerms(
            loss=-s.generative_weight * elbo.mean(),
            elbo=elbo,
            kl=kl,
            hinge=zero[None],
            hat=zero[None],
            balance=zero,
            top_class_share=zero,
        )

    def _bound(self, batch: Batch, x: Tensor, labels: Tensor, some: slice) -> tuple[Tensor, Tensor]:
        """Bound, log p(y) included, and KL divergence of some rows, given their one-hot labels."""
        observed = None if batch.observed is None else batch.observed[some]
        bound = self.bound(batch.x[some], self.encoder(x[some], labels), labels, observed=observed)
        return bound.elbo - math.log(self.n_classes), bound.kl

    def _guess(self, x: Tensor, scores: Tensor, s: MaxMarginConditionalSettings) -> tuple[Tensor, Tensor | None]:
        """The putative labels of unlabeled rows x, and a mask of those that the hat loss uses (None: all).

        Weak to strong: the averaged classifier predicts on images shifted by up to ± `weak_shift` pixels, with the
        statistics of this batch. If its lead is at least `accept`, the prediction is the distorted image's target.
        """
        if not s.accept or self.average is None or not len(x):
            return scores.argmax(dim=1), None
        weak = distort(x, turn=0.0, shift=s.weak_shift, zoom=0.0, shear=0.0, edges=s.distortion.edges)
        weak_scores = at_least_float32(self.average.scores_by_batch_statistics(weak))
        return weak_scores.argmax(dim=1), losses.lead(weak_scores) >= s.accept

    def _trusted(
        self, guess: Tensor | None, putative: Tensor, progress: Tensor, s: MaxMarginConditionalSettings
    ) -> Tensor:
        """The putative labels ŷ of unlabeled rows. Propagated labels, while trusted, replace them."""
        if guess is None or not s.trust_propagated:
            return putative
        return torch.where((guess >= 0) & (progress < s.trust_propagated), guess, putative)

    def _margin_terms(
        self,
        scores: Tensor,
        y: Tensor,
        putative: Tensor,
        accepted: Tensor | None,
        shares: Tensor | None,
        progress: Tensor,
        s: MaxMarginConditionalSettings,
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """The weighted sum of the margin terms, and a dict of the terms by name. Labeled rows come first."""
        n = len(y)
        scores_unlabeled = scores[n:]
        zero = scores.new_zeros(())
        hinge, hat, balance, top_class_share = zero[None], zero[None], zero, zero
        mixed, mixed_unlabeled = (None, None) if shares is None else (shares[:n], shares[n:])
        if n:
            hinge = losses.mixed(partial(self._hinge, scores[:n], s=s), mixed, y)
        if len(scores_unlabeled):
            sure = torch.ones_like(putative) if accepted is None else accepted
            hat = losses.mixed(partial(self._hat, scores_unlabeled, s=s), mixed_unlabeled, putative, sure)
            answers = self.one_hot(scores_unlabeled.argmax(dim=1), scores)
            top_class_share = mean_over_ranks(answers.mean(dim=0)).max()
        if n and len(scores_unlabeled):
            balance = losses.label_balance(scores[:n], y, scores_unlabeled, weight=self.balance_ratio)

        loss = s.last_layer_decay * self.classifier.last.weight.square().sum() + hinge.mean()
        if s.hat_weight:
            started = progress >= s.hat_starts if s.hat_starts else 1
            loss = loss + s.hat_weight * started * hat.mean()
        if s.balance_weight:
            loss = loss + s.balance_weight * balance
        return loss, {"hinge": hinge, "hat": hat, "balance": balance, "top_class_share": top_class_share}

    def _hinge(self, scores: Tensor, y: Tensor, s: MaxMarginConditionalSettings) -> Tensor:
        hinge = losses.hinge(scores, y, margin=s.margin, smoothing=s.smoothing, cost=self.cost)
        if s.hinge_by_share and self.balance_ratio is not None:
            hinge = hinge * self.balance_ratio[y]
        return hinge if self.class_weight is None else hinge * self.class_weight[y]

    def _hat(self, scores: Tensor, putative: Tensor, sure: Tensor, s: MaxMarginConditionalSettings) -> Tensor:
        return losses.hat(scores, putative, margin=s.margin, smoothing=s.smoothing, cost=self.cost) * sure

    def _labels(self, y: Tensor, scores: Tensor, progress: Tensor, s: MaxMarginConditionalSettings) -> Tensor:
        """One-hot labels `(rows, K)`. Their gradient flows into softmax(scores) with the straight-through weight."""
        labels = self.one_hot(y, scores)
        if s.straight_through:
            weight = s.straight_through * remaining(progress) if s.straight_through_fades else s.straight_through
            probabilities = scores.softmax(dim=1)
            labels = labels + weight * (probabilities - probabilities.detach())
        return labels

    def trivial_solution(self, metrics: dict[str, float], settings: Any) -> str | None:
        s: MaxMarginConditionalSettings = settings
        if s.alpha and self.cost is None and (trivial := s.trivial_hinge(metrics["hinge"], self.n_classes)):
            return trivial
        if metrics["top_class_share"] > 0.999:
            return "all unlabeled rows are put into one class"
        return super().trivial_solution(metrics, settings) if settings.generative_weight else None


@dataclass(frozen=True, kw_only=True)
class MaxMarginConditionalVAEConfig(MaxMarginConditionalSettings, ConditionalVAEConfig):
    """The settings and the networks of a MaxMarginConditionalVAE."""

    model_class = MaxMarginConditionalVAE
