"""The max-margin deep generative model (paper §3.2): MMVA with MLPs, Conv-MMVA with conv nets.

A VAE and a linear max-margin classifier λ on features f(x) of its recognition network, learned jointly:

    min  mean over rows [ −g · ELBO(x) + C · hinge(λᵀf(x), y) ] + ‖λ‖² / (2σ²N)

    C   weight of the margin        N   labeled training rows
    σ²  variance of the prior of λ  g   1, or 0 for the recognition network alone: a plain classifier

With C = 0 this is a VAE, and λ is learned afterwards, on its features (`linear_svm`): the paper's VA+Pegasos.
Unlabeled rows, if any, enter only the bound: the paper's naive semi-supervised model.
"""

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, nn

from mmdgm.data.batches import Batch
from mmdgm.models import losses
from mmdgm.models.vae import START, VAE, VAEConfig, VAESettings
from mmdgm.networks.base import Encoder, Encoding, linear_classifier
from mmdgm.networks.layers import at_least_float32
from mmdgm.settings import setting

Features = Literal["hidden", "last", "mean"]


@dataclass(frozen=True, kw_only=True)
class MaxMarginVAESettings(VAESettings):
    """The weights of the objective, and the choice of the classifier's features."""

    features: Features = setting(
        "last", "what the classifier sees: all hidden layers (a conv encoder has one), the last of them, or E[z]"
    )
    C: float = setting(1000.0, "weight of the hinge loss against the bound; 0: a VAE, then Pegasos", least=0)
    margin: float = setting(1.0, "margin that the true class must lead by", above=0)
    prior_variance: float = setting(1.0, "variance σ² of the classifier's Gaussian prior", above=0)
    generative_weight: float = setting(1.0, "weight of the bound; 0 trains the classifier alone", least=0)


class MaxMarginVAETerms(NamedTuple):
    """Terms of the objective. Training minimises `loss` and logs the means of the others."""

    loss: Tensor  # ()
    elbo: Tensor  # (rows,)
    kl: Tensor  # (rows,)
    hinge: Tensor  # (labeled rows,)
    penalty: Tensor  # ()


class MaxMarginVAE(VAE):
    """A VAE with a linear max-margin classifier on features of its recognition network.

    `features`: "hidden", all hidden layers concatenated; "last", the last deterministic layer; "mean", E[z].
    """

    settings_class = MaxMarginVAESettings

    def __init__(self, encoder: Encoder, decoder: nn.Module, settings: VAESettings | None = None, **others: Any):
        super().__init__(encoder, decoder, settings, **others)
        width = {"hidden": sum(encoder.hidden_widths), "last": encoder.hidden_widths[-1], "mean": encoder.z}
        self.classifier = linear_classifier(width[self.settings.features], self.n_classes)

    @property
    def generates(self) -> bool:
        return bool(self.settings.generative_weight)

    def forward(self, batch: Batch, *, progress: Tensor = START, settings: Any = None) -> MaxMarginVAETerms:
        s: MaxMarginVAESettings = settings or self.settings
        encoding = self.encoder(batch.seen(), dropout=self._dropout(s))
        scores = self._scores(encoding)
        loss = zero = scores.new_zeros(())
        elbo = kl = hinge = zero[None]
        if len(batch.y):
            hinge = losses.hinge(scores[: len(batch.y)], batch.y, margin=s.margin)
            hinge = hinge if self.class_weight is None else hinge * self.class_weight[batch.y]
        penalty = self.classifier.weight.square().sum() / (2 * s.prior_variance * self.n_rows)
        if s.generative_weight:
            bound = self.bound(batch.x, encoding, observed=batch.observed)
            elbo, kl = bound.elbo, bound.kl
            loss = loss - s.generative_weight * elbo.mean()
        if s.C:
            loss = loss + s.C * hinge.mean() + penalty
        return MaxMarginVAETerms(loss=loss, elbo=elbo, kl=kl, hinge=hinge, penalty=penalty)

    @torch.no_grad()
    def scores(self, x: Tensor) -> Tensor:
        """Unbounded margins of each class, `(rows, K)`."""
        return self._scores(self.encoder(x))

    @torch.no_grad()
    def embed(self, x: Tensor) -> Tensor:
        """The classifier's features f(x), `(rows, width)`."""
        return at_least_float32(self._features(self.encoder(x)))

    def _scores(self, encoding: Encoding) -> Tensor:
        return at_least_float32(self.classifier(self._features(encoding)))

    def _features(self, encoding: Encoding) -> Tensor:
        if self.settings.features == "mean":
            return encoding.mean
        return encoding.hidden[-1] if self.settings.features == "last" else torch.cat(encoding.hidden, dim=1)

    def trivial_solution(self, metrics: dict[str, float], settings: Any) -> str | None:
        if settings.C and abs(metrics["hinge"] - settings.margin) < 0.005 * settings.margin:
            return f"the classifier scores all classes alike (hinge stays at the margin, {settings.margin:g})"
        return super().trivial_solution(metrics, settings) if settings.generative_weight else None


@dataclass(frozen=True, kw_only=True)
class MaxMarginVAEConfig(MaxMarginVAESettings, VAEConfig):
    """The settings and the networks of a MaxMarginVAE."""

    model_class = MaxMarginVAE
