"""The variational autoencoder, Kingma and Welling's "VA" in the paper.

    z ~ N(0, I)              latent code, `(rows, z)`
    x ~ p(x|z)               pixels, see `likelihoods`
    q(z|x) = N(μ(x), σ²(x))  recognition network

    log p(x) ≥ ELBO(x) = E_q[log p(x|z)] − KL(q(z|x) ‖ p(z))

If the networks take labels, the same class is the class-conditional VAE. Then every density above is conditioned
on y.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple, Protocol

import torch
from torch import Tensor, nn
from torch.distributions import Distribution, Normal

from mmdgm.data.batches import Batch, Shape
from mmdgm.networks.architectures import conv_networks, mlp_networks
from mmdgm.networks.base import Encoder, Encoding
from mmdgm.networks.layers import at_least_float32
from mmdgm.networks.likelihoods import LIKELIHOODS, BernoulliPixels, Likelihood, LikelihoodName
from mmdgm.settings import setting

START = torch.zeros((), dtype=torch.float64)  # progress at the start of training; it ends at 1


@dataclass(frozen=True, kw_only=True)
class VAESettings:
    """Settings of the objective and of dropout."""

    samples: int = setting(1, "draws of z per row and step (the paper's L)", least=1)
    dropout: float = setting(0.5, "dropout rate in the conv encoder", least=0, most=0.95)


class ClassWeights(NamedTuple):
    """What the objective's terms weigh by class. None means 1 for all classes, and for all errors."""

    hinge: Tensor | None = None  # (K,): factors of the hinge loss
    balance: Tensor | None = None  # (K,): a class's share of all rows divided by its share of labels
    cost: Tensor | None = None  # (K, K): cost of predicting k where y is true, in units of the margin


class Bound(NamedTuple):
    """The two terms of the evidence lower bound, each `(rows,)`."""

    log_likelihood: Tensor
    kl: Tensor

    @property
    def elbo(self) -> Tensor:
        return self.log_likelihood - self.kl


def draw(encoding: Encoding, noise: Tensor | None) -> Tensor:
    """A draw z ~ q, from the given standard normal noise or from new noise."""
    qz = encoding.qz
    return qz.rsample() if noise is None else qz.loc + qz.scale * noise


class Terms(Protocol):
    """The return type of every objective: a named tuple of its terms. Training minimises `loss`."""

    @property
    def loss(self) -> Tensor: ...

    @property
    def _fields(self) -> tuple[str, ...]: ...

    def __iter__(self) -> Iterator[Tensor]: ...

    def __len__(self) -> int: ...


class VAETerms(NamedTuple):
    """Terms of the objective. Training minimises `loss` and logs the means of the others."""

    loss: Tensor  # ()
    elbo: Tensor  # (rows,)
    kl: Tensor  # (rows,)


class Trainable(nn.Module, ABC):
    """A model with an objective, which a `Trainer` minimises. `settings` are those of the objective."""

    settings: Any

    @abstractmethod
    def forward(self, batch: Batch, *, progress: Tensor = START, settings: Any = None) -> Terms:
        """The terms of the objective for a batch.

        `progress` `()`, float64: the fraction of training that is done. `settings` replace the model's own.
        """

    def trivial_solution(self, metrics: dict[str, float], settings: Any) -> str | None:
        """A description of the trivial solution that these training means indicate, or None.

        `settings` are those of the training stage.
        """
        return None


class VAE(Trainable):
    """An encoder, a decoder and the bound that they are trained by.

    `decoder(z, labels)` maps codes `(rows, z)`, and one-hot labels or None, to the parameters of p(x|z). `settings`
    never change; a training stage passes its own settings to `forward`. Objectives with labels have `n_classes`
    classes, `n_rows` labeled rows and class weights `weights`.
    """

    settings_class: ClassVar[type[VAESettings]] = VAESettings
    class_weight: Tensor | None  # (K,): factors of the hinge loss
    balance_ratio: Tensor | None  # (K,): a class's share of all rows divided by its share of labels
    cost: Tensor | None  # (K, K): cost of predicting k where y is true, in units of the margin

    def __init__(
        self,
        encoder: Encoder,
        decoder: nn.Module,
        settings: VAESettings | None = None,
        *,
        n_classes: int = 0,
        n_rows: int = 1,
        weights: ClassWeights = ClassWeights(),
        likelihood: Likelihood | None = None,
    ):
        super().__init__()
        self.encoder, self.decoder = encoder, decoder
        self.settings: Any = settings or self.settings_class()
        self.n_classes, self.n_rows = n_classes, n_rows
        self.likelihood = likelihood or BernoulliPixels()
        self.register_buffer("class_weight", weights.hinge, persistent=False)
        self.register_buffer("balance_ratio", weights.balance, persistent=False)
        self.register_buffer("cost", weights.cost, persistent=False)

    def forward(self, batch: Batch, *, progress: Tensor = START, settings: Any = None) -> Terms:
        """The objective −mean ELBO over all rows, labeled or not."""
        s: VAESettings = settings or self.settings
        encoding = self.encoder(batch.seen(), dropout=self._dropout(s))
        bound = self.bound(batch.x, encoding, observed=batch.observed)
        return VAETerms(loss=-bound.elbo.mean(), elbo=bound.elbo, kl=bound.kl)

    def _dropout(self, settings: VAESettings) -> float:
        return settings.dropout if self.training else 0.0

    def bound(
        self,
        x: Tensor,
        encoding: Encoding,
        labels: Tensor | None = None,
        *,
        observed: Tensor | None = None,
        noise: Tensor | None = None,
    ) -> Bound:
        """The bound, from a Monte Carlo likelihood over L draws of z and the analytic KL.

        `observed` restricts the likelihood to observed values. `noise` `(L, rows, z)` determines the draws.
        """
        qz, samples = encoding.qz, self.settings.samples
        z = qz.rsample((samples,)) if noise is None else qz.loc + qz.scale * noise
        return Bound(self.log_likelihood_of_draws(x, z, labels, observed=observed).mean(0), encoding.kl)

    def log_likelihood_of_draws(
        self, x: Tensor, z: Tensor, labels: Tensor | None = None, *, observed: Tensor | None = None
    ) -> Tensor:
        """log p(x|z) of each draw, `(L, rows)`, for codes z `(L, rows, z)`; `observed` restricts it."""
        samples = len(z)

        def for_each_draw(rows: Tensor) -> Tensor:  # a single draw needs no copy
            return rows.expand(samples, *rows.shape).flatten(0, 1)

        px = self.decode(z.flatten(0, 1), None if labels is None else for_each_draw(labels))
        pixels: Tensor = px.log_prob(for_each_draw(x))
        if observed is not None:
            pixels = pixels * for_each_draw(observed)
        return pixels.flatten(1).sum(1).reshape(samples, -1)

    def prior(self, qz: Normal) -> Normal:
        """p(z) = N(0, I), with the shape of q."""
        return Normal(torch.zeros_like(qz.loc), torch.ones_like(qz.scale), validate_args=False)

    def decode(self, z: Tensor, labels: Tensor | None = None) -> Distribution:
        """The distribution p(x|z)."""
        return self.likelihood.distribution(at_least_float32(self.decoder(z, labels)))

    @property
    def generates(self) -> bool:
        """Whether the objective includes the bound, so that the generative model is trained."""
        return True

    # inference with a trained model, without gradients

    def labels(self, x: Tensor) -> Tensor | None:
        """The labels for encoder and decoder: None in an unconditional VAE."""
        return None

    @torch.no_grad()
    def elbo(self, x: Tensor, *, observed: Tensor | None = None, noise: Tensor | None = None) -> Tensor:
        """The bound of each row, `(rows,)`, from L draws of z. `observed` restricts it to observed values."""
        labels = self.labels(x)
        return self.bound(x, self.encoder(x, labels), labels, observed=observed, noise=noise).elbo

    @torch.no_grad()
    def log_likelihood(self, x: Tensor, *, draws: int) -> Tensor:
        """A lower estimate of log p(x), `(rows,)`: log (1/k) Σ p(x|z) p(z) / q(z|x) over k draws of z.

        With one draw its mean is the bound. With more draws its mean rises to log p(x)
        ([Burda et al.](https://arxiv.org/abs/1509.00519)).
        """
        return self._importance_weighted(x, self.encoder(x), None, draws)

    def _importance_weighted(self, x: Tensor, encoding: Encoding, labels: Tensor | None, draws: int) -> Tensor:
        qz = encoding.qz
        pz = self.prior(qz)
        total = torch.full((len(x),), -math.inf, device=x.device)
        for _ in range(draws):
            z = qz.rsample()
            pixels: Tensor = self.decode(z, labels).log_prob(x)
            log_weight = pixels.flatten(1).sum(1) + (pz.log_prob(z) - qz.log_prob(z)).sum(1)
            total = torch.logaddexp(total, log_weight)
        return total - math.log(draws)

    @torch.no_grad()
    def reconstruct(self, x: Tensor, *, labels: Tensor | None = None, noise: Tensor | None = None) -> Tensor:
        """The decoder's mean at one draw of z ~ q(z|x), from standard normal `noise` `(rows, z)` if given.

        `labels` replace the model's own.
        """
        labels = self.labels(x) if labels is None else labels
        return self.decode(draw(self.encoder(x, labels), noise), labels).mean

    @torch.no_grad()
    def encode(self, x: Tensor) -> Tensor:
        """E[z] of each row, `(rows, z)`."""
        return at_least_float32(self.encoder(x, self.labels(x)).mean)

    @torch.no_grad()
    def generate(self, z: Tensor) -> Tensor:
        """The decoder's mean for given codes `(rows, z)`."""
        return self.decode(z).mean

    def trivial_solution(self, metrics: dict[str, float], settings: Any) -> str | None:
        if metrics.get("kl", math.inf) < 0.01:
            return "the latent code carries nothing (KL is 0)"
        return None


@dataclass(frozen=True, kw_only=True)
class VAEConfig(VAESettings):
    """The settings and the networks of a VAE."""

    network: Literal["mlp", "conv"] = setting("mlp", "kind of networks")
    hidden: tuple[int, ...] = setting((500, 500), "units of the MLPs' hidden layers", least=1)
    z: int = setting(50, "size of the latent code", least=1)
    likelihood: LikelihoodName = setting("bernoulli", "p(x|z): of pixels in [0, 1], or of any numbers")
    linear: bool = setting(False, "linear functions beside the MLPs' layers, as in factor analysis")

    model_class: ClassVar[type[VAE]] = VAE

    def networks(self, shape: Shape, n_classes: int) -> tuple[nn.Module, ...]:
        """Encoder and decoder, with weights from torch's current random state."""
        maps = LIKELIHOODS[self.likelihood].maps
        if self.network == "mlp":
            return mlp_networks(shape, hidden=self.hidden, z=self.z, maps=maps, linear=self.linear)
        return conv_networks(shape, z=self.z, maps=maps)

    def build(self, shape: Shape, *, n_classes: int, likelihood: Likelihood | None = None, **rows: Any) -> Any:
        """A new model for rows of this shape. `rows` are the model's arguments `n_rows` and `weights`.

        `likelihood` replaces the one that the settings name.
        """
        model: Any = self.model_class
        likelihood = likelihood or LIKELIHOODS[self.likelihood]
        return model(*self.networks(shape, n_classes), self, n_classes=n_classes, likelihood=likelihood, **rows)
