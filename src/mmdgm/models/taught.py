"""Conv-MMCVA with a teacher: the same two networks, a later training recipe.

The teacher is the classifier with the running average of its weights. It names a class for every unlabeled row;
the classifier sees the row distorted, and must put that class first by a margin. Beside the objective of
`semisupervised`, with s(x), the scores of the distorted x, and t(x), those of the teacher:

    + α · α_T · mean_u[ 1(ŷ is sure) · hinge(s(x), ŷ) ]        ŷ = argmax_k t_k(x)

    α_T   weight of what is taught
    sure  the lead of ŷ over the second class is among the q · n/K largest of those of its class, of n rows in a
          batch; where several processes share a batch, of the rows of each

Scores of a max-margin classifier are no probabilities, and classes differ in how far they lead. Ranks within a
class need no threshold, and cap what a class is given at its share 1/K of the rows. The share q grows in training:
first the rows that the teacher is surest of, at last nearly all.

The generative model is given ŷ. The trained model answers with the teacher's scores, at Conv-MMCVA's cost.
"""

import copy
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from mmdgm import margins
from mmdgm.augmentation import distort
from mmdgm.batches import Batch
from mmdgm.layers import at_least_float32
from mmdgm.models.semisupervised import MaxMarginConditionalVAE, MaxMarginConditionalVAEConfig
from mmdgm.networks import Classifier, Encoder
from mmdgm.settings import setting


class TaughtConditionalVAETerms(NamedTuple):
    """What the objective is made of; training minimises `loss` and logs the mean of the rest."""

    loss: Tensor  # ()
    elbo: Tensor  # (rows,)
    kl: Tensor  # (rows,)
    hinge: Tensor  # (labeled rows,)
    hat: Tensor  # (unlabeled rows,)
    balance: Tensor  # ()
    top_class_share: Tensor  # ()
    taught: Tensor  # (unlabeled rows,): hinge with the teacher's class, 0 where it is left out
    sure: Tensor  # (unlabeled rows,): 1 where the teacher is sure enough


class TaughtConditionalVAE(MaxMarginConditionalVAE):
    """A max-margin conditional VAE whose classifier learns from its own running average."""

    taught_steps: Tensor

    def __init__(
        self,
        classifier: Classifier,
        encoder: Encoder,
        decoder: nn.Module,
        *,
        n_classes: int,
        taught_weight: float = 1.0,
        averaging: float = 0.99,
        first_share: float = 0.3,
        last_share: float = 1.0,
        share_steps: int = 5000,
        views: int = 0,
        turn: float = 0.0,
        shift: float = 0.0,
        zoom: float = 0.0,
        shear: float = 0.0,
        **others: Any,  # of MaxMarginConditionalVAE
    ):
        super().__init__(classifier, encoder, decoder, n_classes=n_classes, **others)
        self.taught_weight, self.averaging, self.views = taught_weight, averaging, views
        self.first_share, self.last_share, self.share_steps = first_share, last_share, share_steps
        self.turn, self.shift, self.zoom, self.shear = turn, shift, zoom, shear
        self.teacher = copy.deepcopy(classifier).requires_grad_(False)
        self.register_buffer("taught_steps", torch.zeros(()))

    def train(self, mode: bool = True) -> "TaughtConditionalVAE":
        super().train(mode)
        self.teacher.eval()
        return self

    def forward(self, batch: Batch) -> TaughtConditionalVAETerms:  # type: ignore[override]
        n, x = len(batch.x), batch.seen()
        if self.training:
            self._average()
        scores = at_least_float32(self.classifier(self._distorted(x)))
        margin_loss, terms = self._margin_terms(scores, batch.y)
        labels = batch.y
        taught = sure = scores.new_zeros(1)
        if len(x) > n and (self.taught_weight or self.generative_weight):
            named, sure = self._teach(x[n:])
            labels = torch.cat([labels, named])
            taught = sure * margins.hinge(scores[n:], named, margin=self.margin)
            margin_loss = margin_loss + self.taught_weight * taught.mean()
            if self.training and self.taught_weight:
                self.taught_steps += 1
        generative_loss, elbo, kl = self._generative_terms(batch, x, labels, scores)
        loss = self.alpha * margin_loss + generative_loss
        return TaughtConditionalVAETerms(loss=loss, elbo=elbo, kl=kl, **terms, taught=taught, sure=sure)

    @torch.no_grad()
    def _average(self) -> None:
        """Move the teacher's weights, and its batch statistics, towards the classifier's."""
        pairs = zip(self.teacher.state_dict().values(), self.classifier.state_dict().values(), strict=True)
        moving = [(own, new) for own, new in pairs if own.is_floating_point()]
        torch._foreach_lerp_([own for own, _ in moving], [new for _, new in moving], 1 - self.averaging)

    def _distorted(self, x: Tensor) -> Tensor:
        return distort(x, turn=self.turn, shift=self.shift, zoom=self.zoom, shear=self.shear)

    @torch.no_grad()
    def _teach(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """The class that the teacher names for each row, and 1 where it is sure, else 0: `(rows,)` each."""
        views = [self._distorted(x) for _ in range(self.views)] or [x]
        scores = torch.stack([at_least_float32(self.teacher(view)) for view in views]).mean(dim=0)
        named = scores.argmax(dim=1)
        return named, (places(scores) < self.share() * len(x) / self.n_classes).to(scores.dtype)

    def share(self) -> Tensor:
        """The share q of the rows that are taught, (): it grows with the steps, from the first to the last."""
        grown = (self.taught_steps / max(1, self.share_steps)).clamp(max=1)
        return self.first_share + (self.last_share - self.first_share) * grown

    @torch.no_grad()
    def scores(self, x: Tensor) -> Tensor:
        """The teacher's margins of each class, `(rows, K)`."""
        return at_least_float32(self.teacher(x))

    @torch.no_grad()
    def embed(self, x: Tensor) -> Tensor:
        """The features that the teacher's last layer sees, `(rows, width)`."""
        return at_least_float32(self.teacher.features(x))


def places(scores: Tensor) -> Tensor:
    """How many rows with the same first class have a larger lead, `(rows,)`: 0 for the surest."""
    first, second = scores.topk(2, dim=1).values.unbind(dim=1)
    lead, named = first - second, scores.argmax(dim=1)
    return ((named == named[:, None]) & (lead > lead[:, None])).sum(dim=1)


@dataclass(frozen=True, kw_only=True)
class TaughtConditionalVAEConfig(MaxMarginConditionalVAEConfig):
    """How a TaughtConditionalVAE is built."""

    taught_weight: float = setting(1.0, "weight α_T of the hinge loss with the teacher's classes", least=0)
    averaging: float = setting(0.99, "share of its weights that the teacher keeps in a step", least=0, most=1)
    first_share: float = setting(0.3, "share q of the unlabeled rows that are taught at first", least=0, most=1)
    last_share: float = setting(1.0, "share q that it grows to", least=0, most=1)
    share_steps: int = setting(5000, "steps that it grows for", least=0)
    views: int = setting(0, "distorted views that the teacher averages over; 0: the row as it is", least=0)
    turn: float = setting(0.0, "distortion of what the classifier sees: degrees, up to", least=0)
    shift: float = setting(0.0, "distortion: pixels up, down, left and right, up to", least=0)
    zoom: float = setting(0.0, "distortion: change of lengths, up to", least=0, most=0.9)
    shear: float = setting(0.0, "distortion: slant, up to", least=0)

    model_class = TaughtConditionalVAE

    def arguments(self) -> dict[str, Any]:
        teacher = ("taught_weight", "averaging", "first_share", "last_share", "share_steps", "views")
        names = (*teacher, "turn", "shift", "zoom", "shear")
        return super().arguments() | {name: getattr(self, name) for name in names}
