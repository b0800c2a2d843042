"""The max-margin deep conditional generative model (paper §3.3): Conv-MMCVA.

A class-conditional VAE and a separate max-margin classifier s(x), learned on few labeled and many unlabeled rows.
With ŷ = argmax_k s_k(x) for unlabeled rows, and means over the rows that each term is about:

    min  g · mean_{l,u}[ −ELBO(x, y or ŷ) ]
         + α · ( h · mean_l[hinge] + α_U · mean_u[hat] + α_B · balance + d · ‖W‖² )

    ELBO(x, y) see `conditional`
    W          weights of the classifier's last layer
    g, h       1, or 0 to leave the term out

The point estimate ŷ makes a step cost the same for any number of classes. It is a constant for the gradient, but
for the straight-through term: the gradient of the generative loss with respect to the one-hot labels flows,
weighted, into softmax(s). The weight stays, or fades linearly to 0 in training: early on the gradient turns whole
groups of wrong guesses, before hat loss and generative model have settled on them; later it is noise. The hat loss
may come in later, when the labels have taught what they can: it makes the classifier sure of what it guesses then.
Or unlabeled rows come with a first guess (see `neighbours`), which stands for ŷ in a first part of training, or in
all of it.
"""

import math
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor, nn

from mmdgm.data.batches import Batch
from mmdgm.distributed import mean_over_ranks
from mmdgm.models import losses
from mmdgm.models.conditional import ConditionalVAE, ConditionalVAEConfig
from mmdgm.networks.layers import at_least_float32
from mmdgm.networks.likelihoods import LIKELIHOODS, Likelihood
from mmdgm.networks.stacks import Classifier, Encoder, Shape
from mmdgm.settings import setting


class MaxMarginConditionalVAETerms(NamedTuple):
    """What the objective is made of; training minimises `loss` and logs the mean of the rest.

    Hat and balance are zero where there are no unlabeled rows, elbo and kl where the bound is left out.
    """

    loss: Tensor  # ()
    elbo: Tensor  # (rows,)
    kl: Tensor  # (rows,)
    hinge: Tensor  # (labeled rows,)
    hat: Tensor  # (unlabeled rows,)
    balance: Tensor  # ()
    top_class_share: Tensor  # (): the share of unlabeled rows that the classifier puts into one class


class MaxMarginConditionalVAE(ConditionalVAE):
    """A class-conditional VAE and a max-margin classifier; a weight of 0 leaves its term out of the objective."""

    def __init__(
        self,
        classifier: Classifier,
        encoder: Encoder,
        decoder: nn.Module,
        *,
        n_classes: int,
        alpha: float = 0.1,
        hinge_weight: float = 1.0,
        hat_weight: float = 0.3,
        hat_starts: float = 0.0,
        first_guesses: float = 0.0,
        balance_weight: float = 1e-3,
        generative_weight: float = 1.0,
        straight_through: float = 0.0,
        straight_through_fades: bool = False,
        last_layer_decay: float = 1e-4,
        margin: float = 1.0,
        samples: int = 1,
        likelihood: Likelihood | None = None,
    ):
        super().__init__(classifier, encoder, decoder, n_classes=n_classes, samples=samples, likelihood=likelihood)
        self.alpha, self.margin = alpha, margin
        self.hinge_weight, self.hat_weight, self.balance_weight = hinge_weight, hat_weight, balance_weight
        self.hat_starts, self.first_guesses = hat_starts, first_guesses
        self.generative_weight = generative_weight
        self.straight_through, self.straight_through_fades = straight_through, straight_through_fades
        self.last_layer_decay = last_layer_decay
        self.class_weight: Tensor | None = None  # (K,): factors of the hinge loss
        self.balance_ratio: Tensor | None = None  # (K,): a class's share of all rows over its share of labels

    @property
    def generates(self) -> bool:
        return bool(self.generative_weight)

    def forward(self, batch: Batch) -> MaxMarginConditionalVAETerms:
        x, n = batch.seen(), len(batch.y)
        scores = self._training_scores(x)
        guess = self._trusted(batch.first_guess, scores[n:].argmax(dim=1))
        margin_loss, terms = self._margin_terms(scores, batch.y, guess)
        generative_loss, elbo, kl = self._generative_terms(batch, x, scores, guess)
        loss = self.alpha * margin_loss + generative_loss
        return MaxMarginConditionalVAETerms(loss=loss, elbo=elbo, kl=kl, **terms)

    def _training_scores(self, x: Tensor) -> Tensor:
        """Scores `(rows, K)` of all rows, in one pass: labeled and unlabeled rows share batch statistics."""
        return at_least_float32(self.classifier(x))

    def _trusted(self, first_guess: Tensor | None, guess: Tensor) -> Tensor:
        """The putative labels ŷ of unlabeled rows; while it is trusted, the first guess, where there is one."""
        if first_guess is None or not self.first_guesses:
            return guess
        trusted = (first_guess >= 0) & (1 - self.left < self.first_guesses)
        return torch.where(trusted, first_guess, guess)

    def _margin_terms(self, scores: Tensor, y: Tensor, guess: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        """The weighted sum of the margin terms, and each of them by its name; the labeled rows come first."""
        n = len(y)
        scores_unlabeled = scores[n:]
        hinge = losses.hinge(scores[:n], y, margin=self.margin)
        if self.class_weight is not None:
            hinge = hinge * self.class_weight[y]
        zero = scores.new_zeros(())
        hat, balance, top_class_share = zero[None], zero, zero
        if len(scores_unlabeled):
            hat = losses.hat(scores_unlabeled, guess, margin=self.margin)
            balance = losses.label_balance(scores[:n], y, scores_unlabeled, weight=self.balance_ratio)
            answers = self.one_hot(scores_unlabeled.argmax(dim=1), scores)
            top_class_share = mean_over_ranks(answers.mean(dim=0)).max()

        loss = self.last_layer_decay * self.classifier.last.weight.square().sum()
        if self.hinge_weight:
            loss = loss + self.hinge_weight * hinge.mean()
        if self.hat_weight:
            started = 1 - self.left >= self.hat_starts if self.hat_starts else 1
            loss = loss + self.hat_weight * started * hat.mean()
        if self.balance_weight:
            loss = loss + self.balance_weight * balance
        return loss, {"hinge": hinge, "hat": hat, "balance": balance, "top_class_share": top_class_share}

    def _generative_terms(
        self, batch: Batch, x: Tensor, scores: Tensor, guess: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """The weighted −mean ELBO; ELBO and KL of each row, given y or ŷ. Zeros where the bound is left out.

        `x` is what the encoder sees, `scores` are those that the straight-through gradient reaches.
        """
        if not self.generative_weight:
            zero = scores.new_zeros(())
            return zero, zero[None], zero[None]
        labels = self._labels(torch.cat([batch.y, guess]), scores)
        bound = self.bound(batch.images(), self.encoder(x, labels), labels, observed=batch.observed)
        elbo = bound.elbo - math.log(self.n_classes)
        return -self.generative_weight * elbo.mean(), elbo, bound.kl

    def _labels(self, y: Tensor, scores: Tensor) -> Tensor:
        """One-hot labels `(rows, K)`; their gradient reaches softmax(scores) with the straight-through weight."""
        labels = self.one_hot(y, scores)
        if self.straight_through:
            weight = self.straight_through * self.left if self.straight_through_fades else self.straight_through
            probabilities = scores.softmax(dim=1)
            labels = labels + weight * (probabilities - probabilities.detach())
        return labels

    def trivial_solution(self, metrics: dict[str, float]) -> str | None:
        if self.alpha and self.hinge_weight and abs(metrics["hinge"] - self.margin) < 0.005 * self.margin:
            return f"the classifier scores all classes alike (hinge stays at the margin, {self.margin:g})"
        if metrics["top_class_share"] > 0.999:
            return "all unlabeled rows are put into one class"
        return super().trivial_solution(metrics) if self.generative_weight else None


@dataclass(frozen=True, kw_only=True)
class MaxMarginConditionalVAEConfig(ConditionalVAEConfig):
    """How a MaxMarginConditionalVAE is built."""

    alpha: float = setting(0.1, "weight α of all margin terms against the bound", least=0)
    margin: float = setting(1.0, "margin of hinge and hat loss", above=0)
    hinge_weight: float = setting(1.0, "weight of the hinge loss on labeled rows", least=0)
    hat_weight: float = setting(0.3, "weight α_U of the hat loss on unlabeled rows", least=0)
    hat_starts: float = setting(0.0, "share of training that passes before the hat loss comes in", least=0, most=1)
    first_guesses: float = setting(
        0.0,
        "share of training, its first part, that takes unlabeled rows' labels from neighbours; 1: all of it",
        least=0,
        most=1,
    )
    balance_weight: float = setting(1e-3, "weight α_B of the label balance", least=0)
    generative_weight: float = setting(1.0, "weight of the bound; 0 trains the classifier alone", least=0)
    straight_through: float = setting(0.0, "weight of the generative loss's gradient into the classifier", least=0)
    straight_through_fades: bool = setting(False, "whether that weight falls to 0, linearly, in training")
    last_layer_decay: float = setting(1e-4, "L2 penalty on the classifier's last layer, times α", least=0)

    model_class: ClassVar[type[MaxMarginConditionalVAE]] = MaxMarginConditionalVAE

    def arguments(self) -> dict[str, Any]:
        """What the objective is made with, as the model's keyword arguments."""
        weights = (
            "hinge_weight",
            "hat_weight",
            "hat_starts",
            "first_guesses",
            "balance_weight",
            "generative_weight",
        )
        straight_through = ("straight_through", "straight_through_fades")
        names = ("alpha", *weights, *straight_through, "last_layer_decay", "margin", "samples")
        return {name: getattr(self, name) for name in names} | {"likelihood": LIKELIHOODS[self.likelihood]}

    def build(self, shape: Shape, *, n_classes: int, n_rows: int) -> MaxMarginConditionalVAE:
        """A new model, with weights from torch's current random state."""
        networks = self.networks(shape, n_classes=n_classes)
        return self.model_class(*networks, n_classes=n_classes, **self.arguments())
