"""Conv-MMCVA with a teacher: the same two networks, a later training recipe.

The teacher is the classifier with the running average of its weights. It sees every unlabeled row as it is, and
names a class; the classifier sees the row distorted, and must put that class first by a margin. Beside the
objective of `semisupervised`, with s(x), the scores of the distorted x, and t(x), those of the teacher:

    + α · α_T · mean_u[ 1(ŷ leads by ℓ) · hinge(s(x), ŷ) ]        ŷ = argmax_k t_k(x) − b_k

    α_T   weight of what is taught
    ℓ     lead: rows about which the teacher is less sure are left out
    b     offsets that even out the classes' shares: b_k = log(K · mean over recent rows of softmax(τ·t)_k) / τ

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
from mmdgm.ranks import mean_over_ranks
from mmdgm.settings import setting

RECENT = 0.02  # weight of a step's rows in the running shares of the classes


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

    shares: Tensor

    def __init__(
        self,
        classifier: Classifier,
        encoder: Encoder,
        decoder: nn.Module,
        *,
        n_classes: int,
        taught_weight: float = 1.0,
        averaging: float = 0.99,
        lead: float = 0.5,
        sharpness: float = 4.0,
        turn: float = 0.0,
        shift: float = 0.0,
        zoom: float = 0.0,
        shear: float = 0.0,
        **others: Any,  # of MaxMarginConditionalVAE
    ):
        super().__init__(classifier, encoder, decoder, n_classes=n_classes, **others)
        self.taught_weight, self.averaging, self.lead, self.sharpness = taught_weight, averaging, lead, sharpness
        self.turn, self.shift, self.zoom, self.shear = turn, shift, zoom, shear
        self.teacher = copy.deepcopy(classifier).requires_grad_(False)
        self.register_buffer("shares", torch.full((n_classes,), 1 / n_classes))

    def train(self, mode: bool = True) -> "TaughtConditionalVAE":
        super().train(mode)
        self.teacher.eval()
        return self

    def forward(self, batch: Batch) -> TaughtConditionalVAETerms:  # type: ignore[override]
        n, x = len(batch.x), batch.seen()
        self._average()
        shown = distort(x, turn=self.turn, shift=self.shift, zoom=self.zoom, shear=self.shear)
        scores = at_least_float32(self.classifier(shown))
        margin_loss, terms = self._margin_terms(scores, batch.y)
        named, sure = self._teach(x[n:])
        taught = sure * margins.hinge(scores[n:], named, margin=self.margin)
        if len(named) and self.taught_weight:
            margin_loss = margin_loss + self.taught_weight * taught.mean()
        labels = self._labels(torch.cat([batch.y, named]), scores)
        generative_loss, elbo, kl = self._generative_terms(batch, labels)
        loss = self.alpha * margin_loss + generative_loss
        zero = scores.new_zeros(1)
        return TaughtConditionalVAETerms(
            loss=loss,
            elbo=elbo,
            kl=kl,
            **terms,
            taught=taught if len(named) else zero,
            sure=sure if len(named) else zero,
        )

    @torch.no_grad()
    def _average(self) -> None:
        """Move the teacher's weights, and its batch statistics, towards the classifier's."""
        pairs = zip(self.teacher.state_dict().values(), self.classifier.state_dict().values(), strict=True)
        moving = [(own, new) for own, new in pairs if own.is_floating_point()]
        torch._foreach_lerp_([own for own, _ in moving], [new for _, new in moving], 1 - self.averaging)

    @torch.no_grad()
    def _teach(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """The class that the teacher names for each row, and 1 where it is sure, else 0: `(rows,)` each."""
        scores = at_least_float32(self.teacher(x))
        if len(x):
            recent = mean_over_ranks((self.sharpness * scores).softmax(dim=1).mean(dim=0))
            self.shares.lerp_(recent, RECENT)
        evened = scores - (self.n_classes * self.shares).log() / self.sharpness
        first, second = evened.topk(2, dim=1).values.unbind(dim=1)
        return evened.argmax(dim=1), (first - second > self.lead).to(scores.dtype)

    @torch.no_grad()
    def scores(self, x: Tensor) -> Tensor:
        """The teacher's margins of each class, `(rows, K)`."""
        return at_least_float32(self.teacher(x))

    @torch.no_grad()
    def embed(self, x: Tensor) -> Tensor:
        """The features that the teacher's last layer sees, `(rows, width)`."""
        return at_least_float32(self.teacher.features(x))


@dataclass(frozen=True, kw_only=True)
class TaughtConditionalVAEConfig(MaxMarginConditionalVAEConfig):
    """How a TaughtConditionalVAE is built."""

    taught_weight: float = setting(1.0, "weight α_T of the hinge loss with the teacher's classes", least=0)
    averaging: float = setting(0.99, "share of its weights that the teacher keeps in a step", least=0, most=1)
    lead: float = setting(0.5, "lead ℓ at which the teacher is sure, in units of the scores", least=0)
    sharpness: float = setting(4.0, "τ in softmax(τ·scores), by which the classes' shares are counted", above=0)
    turn: float = setting(0.0, "distortion of what the classifier sees: degrees, up to", least=0)
    shift: float = setting(0.0, "distortion: pixels up, down, left and right, up to", least=0)
    zoom: float = setting(0.0, "distortion: change of lengths, up to", least=0, most=0.9)
    shear: float = setting(0.0, "distortion: slant, up to", least=0)

    model = TaughtConditionalVAE

    def objective(self) -> dict[str, Any]:
        own = ("taught_weight", "averaging", "lead", "sharpness", "turn", "shift", "zoom", "shear")
        return super().objective() | {name: getattr(self, name) for name in own}
