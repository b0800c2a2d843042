"""The max-margin deep generative model (paper §3.2): MMVA with MLPs, Conv-MMVA with conv nets.

A VAE and a linear max-margin classifier λ on features f(x) of its recognition network, learned jointly:

    min  mean over rows [ −g · ELBO(x) + C · hinge(λᵀf(x), y) ] + ‖λ‖² / (2σ²N)

    C   weight of the margin        N   labeled training rows
    σ²  variance of the prior of λ  g   1, or 0 for the recognition network alone: a plain classifier

With C = 0 this is a VAE, and λ is learned afterwards, on its features (`pegasos`): the paper's VA+Pegasos.
Unlabeled rows, if any, enter the bound alone: the paper's naive semi-supervised model.
"""

from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn

from mmdgm.data.batches import Batch
from mmdgm.models import losses
from mmdgm.models.vae import VAE, VAEConfig
from mmdgm.networks.layers import at_least_float32
from mmdgm.networks.likelihoods import LIKELIHOODS, Likelihood
from mmdgm.networks.stacks import Encoder, Encoding, Shape, linear_classifier
from mmdgm.settings import setting

Features = Literal["hidden", "last", "mean"]


class MaxMarginVAETerms(NamedTuple):
    """What the objective is made of; training minimises `loss` and logs the mean of the rest."""

    loss: Tensor  # ()
    elbo: Tensor  # (rows,)
    kl: Tensor  # (rows,)
    hinge: Tensor  # (labeled rows,)
    penalty: Tensor  # ()


class MaxMarginVAE(VAE):
    """A VAE whose recognition network also serves a linear max-margin classifier.

    `features`: "hidden", all hidden layers concatenated; "last", the last deterministic layer; "mean", E[z].
    """

    def __init__(
        self,
        encoder: Encoder,
        decoder: nn.Module,
        *,
        n_classes: int,
        n_rows: int,
        features: Features,
        C: float,
        margin: float,
        prior_variance: float = 1.0,
        generative_weight: float = 1.0,
        samples: int = 1,
        likelihood: Likelihood | None = None,
    ):
        super().__init__(encoder, decoder, samples=samples, likelihood=likelihood)
        width = {"hidden": sum(encoder.hidden_widths), "last": encoder.hidden_widths[-1], "mean": encoder.z}
        self.classifier = linear_classifier(width[features], n_classes)
        self.n_rows, self.features = n_rows, features
        self.C, self.margin, self.prior_variance = C, margin, prior_variance
        self.generative_weight = generative_weight
        self.class_weight: Tensor | None = None  # (K,): factors of the hinge loss

    @property
    def generates(self) -> bool:
        return bool(self.generative_weight)

    def forward(self, batch: Batch) -> MaxMarginVAETerms:
        encoding = self.encoder(batch.seen())
        scores = self._scores(encoding)[: len(batch.x)]
        hinge = losses.hinge(scores, batch.y, margin=self.margin)
        if self.class_weight is not None:
            hinge = hinge * self.class_weight[batch.y]
        penalty = self.classifier.weight.square().sum() / (2 * self.prior_variance * self.n_rows)
        loss = zero = scores.new_zeros(())
        elbo = kl = zero[None]
        if self.generative_weight:
            bound = self.bound(batch.images(), encoding, observed=batch.observed)
            elbo, kl = bound.elbo, bound.kl
            loss = loss - self.generative_weight * elbo.mean()
        if self.C:
            loss = loss + self.C * hinge.mean() + penalty
        return MaxMarginVAETerms(loss=loss, elbo=elbo, kl=kl, hinge=hinge, penalty=penalty)

    @torch.no_grad()
    def scores(self, x: Tensor) -> Tensor:
        """Unbounded margins of each class, `(rows, K)`."""
        return self._scores(self.encoder(x))

    @torch.no_grad()
    def embed(self, x: Tensor) -> Tensor:
        """The features f(x) that the classifier sees, `(rows, width)`."""
        return at_least_float32(self._features(self.encoder(x)))

    def _scores(self, encoding: Encoding) -> Tensor:
        return at_least_float32(self.classifier(self._features(encoding)))

    def _features(self, encoding: Encoding) -> Tensor:
        if self.features == "mean":
            return encoding.mean
        return encoding.hidden[-1] if self.features == "last" else torch.cat(encoding.hidden, dim=1)

    def trivial_solution(self, metrics: dict[str, float]) -> str | None:
        if self.C and abs(metrics["hinge"] - self.margin) < 0.005 * self.margin:
            return f"the classifier scores all classes alike (hinge stays at the margin, {self.margin:g})"
        return super().trivial_solution(metrics) if self.generative_weight else None


@dataclass(frozen=True, kw_only=True)
class MaxMarginVAEConfig(VAEConfig):
    """How a MaxMarginVAE is built."""

    features: Features = setting(
        "last", "what the classifier sees: all hidden layers (a conv encoder has one), the last of them, or E[z]"
    )
    C: float = setting(1000.0, "weight of the hinge loss against the bound; 0: a VAE, then Pegasos", least=0)
    margin: float = setting(1.0, "margin that the true class must lead by", above=0)
    prior_variance: float = setting(1.0, "variance σ² of the classifier's Gaussian prior", above=0)
    generative_weight: float = setting(1.0, "weight of the bound; 0 trains the classifier alone", least=0)

    def build(self, shape: Shape, *, n_classes: int, n_rows: int) -> MaxMarginVAE:
        return MaxMarginVAE(
            *self.networks(shape),
            n_classes=n_classes,
            n_rows=n_rows,
            features=self.features,
            C=self.C,
            margin=self.margin,
            prior_variance=self.prior_variance,
            generative_weight=self.generative_weight,
            samples=self.samples,
            likelihood=LIKELIHOODS[self.likelihood],
        )
