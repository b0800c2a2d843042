"""The max-margin deep generative model (paper §3.2): MMVA with MLPs, Conv-MMVA with conv nets.

A VAE and a linear max-margin classifier λ on features f(x) of its recognition network, learned jointly:

    min  mean over rows [ −g · ELBO(x) + C · hinge(λᵀf(x), y) ] + ‖λ‖² / (2σ²N)

    C   weight of the margin        N   labeled training rows
    σ²  variance of the prior of λ  g   1, or 0 for the recognition network alone: a plain classifier

With C = 0 this is a VAE, and λ is learned afterwards, on its features (`linear_svm`): the paper's VA+Pegasos.
Unlabeled rows, if any, enter only the bound: the paper's naive semi-supervised model. Beyond the paper, the classifier
can be trained on augmented images. The recognition network then sees these and, for the bound, the unchanged ones.

By default, features are deterministic and the bound has the reparameterised gradient. The general form of §3.2, with
draws of z as features and score functions, is in `gradient_estimators`.
"""

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, nn
from torch.distributions import Normal

from mmdgm.data.batches import Batch, Shape
from mmdgm.models import losses
from mmdgm.models.gradient_estimators import Draws, GradientSettings
from mmdgm.models.shared import AugmentationSettings, MarginSettings
from mmdgm.models.vae import START, VAE, VAEConfig, VAESettings
from mmdgm.networks.architectures import conv_networks
from mmdgm.networks.base import Encoder, Encoding, linear_classifier
from mmdgm.networks.layers import at_least_float32
from mmdgm.networks.likelihoods import LIKELIHOODS
from mmdgm.settings import setting

Features = Literal["hidden", "last", "mean", "sample"]


@dataclass(frozen=True, kw_only=True)
class MaxMarginVAESettings(MarginSettings, AugmentationSettings, GradientSettings):
    """The weights of the objective, and the choice of the classifier's features."""

    features: Features = setting(
        "last",
        "what the classifier sees: all hidden layers (a conv encoder has one), the last of them, E[z], or draws of z",
    )
    C: float = setting(1000.0, "weight of the hinge loss against the bound; 0: a VAE, then Pegasos", least=0)
    prior_variance: float = setting(1.0, "variance σ² of the classifier's Gaussian prior", above=0)


class MaxMarginVAETerms(NamedTuple):
    """Terms of the objective. Training minimises `loss` and logs the means of the others."""

    loss: Tensor  # ()
    elbo: Tensor  # (rows,)
    kl: Tensor  # (rows,)
    hinge: Tensor  # (labeled rows,)
    penalty: Tensor  # ()


class MaxMarginVAE(VAE):
    """A VAE with a linear max-margin classifier on features of its recognition network.

    `features`: "hidden", all hidden layers concatenated; "last", the last deterministic layer; "mean", E[z]; "sample",
    in training the L draws of z, for inference E[z].
    """

    settings_class = MaxMarginVAESettings

    def __init__(self, encoder: Encoder, decoder: nn.Module, settings: VAESettings | None = None, **others: Any):
        super().__init__(encoder, decoder, settings, **others)
        width = {"hidden": sum(encoder.hidden_widths), "last": encoder.hidden_widths[-1]}
        self.classifier = linear_classifier(width.get(self.settings.features, encoder.z), self.n_classes)

    @property
    def generates(self) -> bool:
        return bool(self.settings.generative_weight)

    def forward(self, batch: Batch, *, progress: Tensor = START, settings: Any = None) -> MaxMarginVAETerms:
        s: MaxMarginVAESettings = settings or self.settings
        encoding, bounded = self._encodings(batch.seen(), progress, s)
        draws = s.draws(bounded) if s.generative_weight else None
        penalty = self.classifier.weight.square().sum() / (2 * s.prior_variance * self.n_rows)
        loss = zero = penalty.new_zeros(())
        elbo = kl = hinge = zero[None]
        if len(batch.y):
            hinge = self._hinge(encoding, draws if bounded is encoding else None, batch.y, s)
        if draws is not None:
            observed = None if batch.observed is None else batch.observed[s.bounded_rows]
            pixels = self.log_likelihood_of_draws(batch.x[s.bounded_rows], draws.z, observed=observed)
            bound = s.bound(pixels, draws, bounded)
            elbo, kl = bound.elbo, bound.kl
            loss = loss - s.generative_weight * elbo.mean()
        if s.C:
            loss = loss + s.C * hinge.mean() + penalty
        return MaxMarginVAETerms(loss=loss, elbo=elbo, kl=kl, hinge=hinge, penalty=penalty)

    def _encodings(self, x: Tensor, progress: Tensor, s: MaxMarginVAESettings) -> tuple[Encoding, Encoding]:
        """The encodings of all rows, augmented in training, for the classifier, and of unchanged rows for the bound.

        One pass computes both, so they share batch statistics.
        """
        if not (self.training and s.augments):
            encoding = self.encoder(x, dropout=self._dropout(s))
            return encoding, encoding if s.bounded_rows.step == 1 else encoding.rows(s.bounded_rows)
        plain = x[s.bounded_rows] if s.generative_weight else x[:0]
        encoding = self.encoder(torch.cat([s.augment(x, progress), plain]), dropout=self._dropout(s))
        return encoding.rows(slice(len(x))), encoding.rows(slice(len(x), None))

    def _hinge(self, encoding: Encoding, draws: Draws | None, y: Tensor, s: MaxMarginVAESettings) -> Tensor:
        """Hinge loss of the labeled rows, which come first. `draws`: the bound's, if of the same rows."""

        def hinge(scores: Tensor) -> Tensor:
            loss = losses.hinge(scores, y, margin=s.margin, smoothing=s.smoothing, cost=self.cost)
            return loss if self.class_weight is None else loss * self.class_weight[y]

        labeled = encoding.rows(slice(len(y)))
        if self.settings.features != "sample":
            return hinge(self._scores(labeled))
        draws = s.draws(labeled) if draws is None else Draws(draws.z[:, : len(y)], labeled.qz)
        return s.hinge(hinge, at_least_float32(self.classifier(draws.z)), draws)

    @torch.no_grad()
    def scores(self, x: Tensor) -> Tensor:
        """Unbounded margins of each class, `(rows, K)`."""
        return self._scores(self.encoder(x))

    @property
    def classifier_posterior(self) -> Normal:
        """q(η) = N(λ, σ²I) of the classifier's weights, `(K, width)` (paper §3.2). Its biases have no distribution."""
        mean = at_least_float32(self.classifier.weight.detach())
        return Normal(mean, mean.new_full((), self.settings.prior_variance).sqrt().expand_as(mean))

    @property
    def classifies_codes(self) -> bool:
        """Whether the features are z or its mean. Otherwise they do not depend on z."""
        return self.settings.features in ("mean", "sample")

    @torch.no_grad()
    def sampled_scores(self, x: Tensor, of_codes: Tensor, of_weights: Tensor) -> Tensor:
        """Scores `(rows, S, K)` at S draws of η ~ q(η), and of z ~ q(z|x) if the features are codes.

        Standard normal noise gives the draws: `of_codes` `(rows, S, z)`, `of_weights` `(S, K, width)`.
        """
        encoding, q = self.encoder(x), self.classifier_posterior
        features = at_least_float32(self._features(encoding))[:, None].expand(-1, len(of_weights), -1)
        if self.classifies_codes:
            features = features + encoding.qz.scale[:, None] * of_codes
        return torch.einsum("rsw,skw->rsk", features, q.loc + q.scale * of_weights) + self.classifier.bias

    @torch.no_grad()
    def embed(self, x: Tensor) -> Tensor:
        """The classifier's features f(x), `(rows, width)`."""
        return at_least_float32(self._features(self.encoder(x)))

    def _scores(self, encoding: Encoding) -> Tensor:
        return at_least_float32(self.classifier(self._features(encoding)))

    def _features(self, encoding: Encoding) -> Tensor:
        if self.classifies_codes:
            return encoding.mean
        return encoding.hidden[-1] if self.settings.features == "last" else torch.cat(encoding.hidden, dim=1)

    def trivial_solution(self, metrics: dict[str, float], settings: Any) -> str | None:
        s: MaxMarginVAESettings = settings
        if s.C and self.cost is None and (trivial := s.trivial_hinge(metrics["hinge"], self.n_classes)):
            return trivial
        return super().trivial_solution(metrics, s) if s.generative_weight else None


@dataclass(frozen=True, kw_only=True)
class MaxMarginVAEConfig(MaxMarginVAESettings, VAEConfig):
    """The settings and the networks of a MaxMarginVAE."""

    recognition: Literal["paper", "wide"] = setting(
        "paper", "the conv encoder: the paper's, or a wider one with batch norm, whose last features are pooled"
    )

    def networks(self, shape: Shape, n_classes: int) -> tuple[nn.Module, ...]:
        if self.network == "mlp" or self.recognition == "paper":
            return super().networks(shape, n_classes)
        return conv_networks(shape, z=self.z, maps=LIKELIHOODS[self.likelihood].maps, wide=True)

    model_class = MaxMarginVAE
