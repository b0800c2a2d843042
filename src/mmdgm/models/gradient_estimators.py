"""Estimates of the objective from L draws z_l ~ q(z|x), whose gradients are unbiased: paper §3.2, Eq. var-grad.

Two gradients with respect to the weights φ of q(z|x) = N(μ(x), σ²(x)):

reparameterised   z_l = μ + σ ε_l is a function of φ
score             z_l is a constant, and for a value V(z_1 … z_L) that is minimised, ∇E[V] = E[ Σ_l V ∇log q(z_l) ]

Score functions need no gradient through z. Their variance is larger. In Σ_l V ∇log q(z_l), a part of V that does not
depend on z_l adds nothing to the mean. So of a mean over draws, V = 1/L Σ_l v_l, only v_l/L remains for draw l. The
`baseline` V_{−l}, the value from the other draws, lowers the variance of both terms: Σ_l (V − V_{−l}) ∇log q(z_l).

The paper prints the direction of ascent, and in its last term the loss-augmented prediction ỹ as if it were fixed:
log p(x, z_l) − log q(z_l) + C λᵀΔf(ỹ, z_l). But ỹ depends on all draws. The hinge loss as a whole takes the place of
this term, so the gradient is that of E[ℓ̃].
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch
from torch import Tensor
from torch.distributions import Normal

from mmdgm.errors import InputError
from mmdgm.models.vae import Bound, VAESettings
from mmdgm.networks.base import Encoding
from mmdgm.settings import setting


@dataclass(frozen=True, kw_only=True)
class GradientSettings(VAESettings):
    """How the bound and its gradient are estimated in training. Inference always uses the analytic KL."""

    gradient: Literal["reparameterised", "score"] = setting(
        "reparameterised", "gradient of q(z|x): through the draws of z, or by the score function"
    )
    kl: Literal["analytic", "sampled"] = setting("analytic", "KL(q ‖ p): in closed form, or from the draws of z")
    baseline: bool = setting(False, "with gradient=score: subtract what the other draws give; needs 2 samples or more")

    def __post_init__(self) -> None:
        if self.baseline and self.samples < 2:
            raise InputError("baseline=true needs other draws to compare with: set samples to 2 or more")

    def draws(self, encoding: Encoding) -> "Draws":
        """L draws of z for each row."""
        qz = encoding.qz
        z = qz.rsample((self.samples,))
        return Draws(z.detach() if self.gradient == "score" else z, qz)

    def bound(self, log_likelihood: Tensor, draws: "Draws", encoding: Encoding) -> Bound:
        """The bound from log p(x|z_l) of each draw, `(L, rows)`."""
        kl = draws.log_ratio if self.kl == "sampled" else encoding.kl[None]
        if self.gradient == "reparameterised":
            return Bound(log_likelihood.mean(0), kl.mean(0))
        of_draws = log_likelihood
        if self.kl == "sampled":
            kl = kl.detach()  # the mean of ∇log q is 0
            of_draws = log_likelihood - kl
        excess = of_draws - of_draws.mean(0) if self.baseline else of_draws
        weights = excess / (self.samples - 1 if self.baseline else self.samples)
        return Bound(log_likelihood.mean(0) + score_term(weights, draws), kl.mean(0))

    def hinge(self, hinge: Callable[[Tensor], Tensor], scores: Tensor, draws: "Draws") -> Tensor:
        """ℓ̃ `(rows,)`: the hinge loss of the mean score over draws, from the scores `(L, rows, K)` of each draw.

        `hinge` maps scores `(rows, K)` to losses `(rows,)`. E[ℓ̃] ≥ ℓ, the loss of the expected scores.
        """
        loss = hinge(scores.mean(0))
        if self.gradient == "reparameterised":
            return loss
        weights = loss.expand(len(scores), -1)
        if self.baseline:
            others = (scores.sum(0) - scores) / (len(scores) - 1)
            weights = weights - torch.stack([hinge(each) for each in others])
        return loss + score_term(weights, draws)


class Draws(NamedTuple):
    """L draws of z from q(z|x) of each row."""

    z: Tensor  # (L, rows, z): a constant if the gradient is that of the score function
    qz: Normal

    @property
    def log_q(self) -> Tensor:
        """log q(z_l), `(L, rows)`."""
        return _log_density(self.qz, self.z)

    @property
    def log_ratio(self) -> Tensor:
        """log q(z_l) − log p(z_l), `(L, rows)`. Its mean is KL(q ‖ p)."""
        prior = Normal(torch.zeros_like(self.qz.loc), torch.ones_like(self.qz.scale), validate_args=False)
        return self.log_q - _log_density(prior, self.z)


def _log_density(of: Normal, z: Tensor) -> Tensor:
    density: Tensor = of.log_prob(z)
    return density.sum(2)


def score_term(weights: Tensor, draws: Draws) -> Tensor:
    """Zeros `(rows,)` whose gradient is Σ_l w_l ∇log q(z_l), with constant weights `(L, rows)`."""
    score = (weights.detach() * draws.log_q).sum(0)
    return score - score.detach()
