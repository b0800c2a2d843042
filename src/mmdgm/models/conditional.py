"""The class-conditional VAE with a separate classifier: base of all conditional models.

    y ~ uniform over K classes    z ~ N(0, I)    x ~ p(x|z, y)    q(z|x, y)    s(x): the classifier's scores

    log p(x, y) ≥ ELBO(x, y) = E_q[log p(x|z, y)] − KL(q(z|x, y) ‖ p(z)) + log p(y),   p(y) = 1/K

For an image without a label, the model uses the label that its classifier predicts. Two components are beyond the
paper: the classifier can be trained on distorted images, and inference can use the average of its weights
(`averaging`).
"""

import math
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn.functional import one_hot

from mmdgm.data.batches import Shape
from mmdgm.models.averaging import AveragedClassifier
from mmdgm.models.shared import AugmentationSettings
from mmdgm.models.vae import VAE, VAEConfig, VAESettings
from mmdgm.networks.architectures import (
    ClassifierName,
    conditional_conv_networks,
    conv_classifier,
    mlp_networks,
)
from mmdgm.networks.base import Classifier, Encoder
from mmdgm.networks.layers import at_least_float32
from mmdgm.networks.likelihoods import LIKELIHOODS
from mmdgm.networks.mlp import MLPClassifier
from mmdgm.settings import setting


@dataclass(frozen=True, kw_only=True)
class ConditionalSettings(AugmentationSettings, VAESettings):
    """Settings that all conditional models share."""

    dropout: float = setting(0.5, "dropout rate in the classifier", least=0, most=0.95)
    averaging: float = setting(
        0.0, "fraction of its weights that the averaged classifier keeps in a step; 0: no average", least=0, most=1
    )


class ConditionalVAE(VAE):
    """A class-conditional VAE and a classifier. They share only the labels.

    `encoder` and `decoder` take one-hot labels.
    """

    settings_class = ConditionalSettings

    def __init__(
        self,
        classifier: Classifier,
        encoder: Encoder,
        decoder: nn.Module,
        settings: VAESettings | None = None,
        **others: Any,
    ):
        super().__init__(encoder, decoder, settings, **others)
        self.classifier = classifier
        self.average = AveragedClassifier(classifier) if self.settings.averaging else None

    def augmented(self, x: Tensor, progress: Tensor, settings: ConditionalSettings) -> Tensor:
        """The images that the classifier sees in training."""
        return settings.augment(x, progress) if self.training else x

    def training_scores(self, seen: Tensor, settings: ConditionalSettings) -> Tensor:
        """Scores `(rows, K)` of all rows in one pass, so labeled and unlabeled rows share batch statistics."""
        if self.training and self.average is not None:
            self.average.follow(self.classifier, keep=settings.averaging)
        return at_least_float32(self.classifier(seen, dropout=self._dropout(settings)))

    @property
    def answering(self) -> Classifier:
        """The classifier used for inference: the averaged one if there is one."""
        return self.classifier if self.average is None else self.average.classifier

    @torch.no_grad()
    def scores(self, x: Tensor) -> Tensor:
        """Unbounded margins of each class, `(rows, K)`."""
        return at_least_float32(self.answering(x))

    def one_hot(self, y: Tensor, like: Tensor) -> Tensor:
        """Classes `(rows,)` as one-hot labels `(rows, K)`."""
        return one_hot(y, self.n_classes).to(like.dtype)

    def labels(self, x: Tensor) -> Tensor:
        """The predicted labels ŷ, one-hot `(rows, K)`. The densities below are conditioned on them."""
        return self.one_hot(self.scores(x).argmax(dim=1), x)

    @torch.no_grad()
    def elbo(self, x: Tensor, *, observed: Tensor | None = None, noise: Tensor | None = None) -> Tensor:
        """The bound of each row with the predicted label, log p(y) included."""
        return super().elbo(x, observed=observed, noise=noise) - math.log(self.n_classes)

    @torch.no_grad()
    def log_likelihood(self, x: Tensor, *, draws: int) -> Tensor:
        """A lower estimate of log p(x) = log Σ_y p(y) p(x|y) of each row, from `draws` draws of z per class."""
        of_classes = []
        for k in range(self.n_classes):
            labels = self.one_hot(torch.full((len(x),), k, device=x.device), x)
            of_classes.append(self._importance_weighted(x, self.encoder(x, labels), labels, draws))
        return torch.stack(of_classes).logsumexp(dim=0) - math.log(self.n_classes)

    @torch.no_grad()
    def embed(self, x: Tensor) -> Tensor:
        """Features `(rows, width)`: the input of the classifier's last layer."""
        return at_least_float32(self.answering.features(x))

    @torch.no_grad()
    def generate(self, z: Tensor, y: Tensor | None = None) -> Tensor:
        """The decoder's mean for given codes `(rows, z)` and classes `(rows,)`."""
        if y is None:
            raise ValueError("a conditional model generates from codes and classes: give y")
        return self.decode(z, self.one_hot(y, z)).mean


@dataclass(frozen=True, kw_only=True)
class ConditionalVAEConfig(ConditionalSettings, VAEConfig):
    """The settings and the networks of a conditional model. The networks are those of Conv-MMCVA, or MLPs."""

    network: Literal["mlp", "conv"] = setting("conv", "kind of networks")
    z: int = setting(100, "size of the latent code", least=1)
    narrow: bool = setting(False, "make the classifier's last convolution 1×1 with few channels")
    classifier: ClassifierName = setting("paper", "the conv classifier: the paper's, or a faster or wider one")
    standardise: bool = setting(False, "give the conv classifier images of mean 0 and deviation 1")
    linear: bool = setting(True, "linear functions beside the MLPs' layers, as in factor analysis")

    def networks(self, shape: Shape, n_classes: int) -> tuple[nn.Module, ...]:
        """Classifier, encoder and decoder, with weights from torch's current random state."""
        maps = LIKELIHOODS[self.likelihood].maps
        if self.network == "mlp":
            networks = mlp_networks(
                shape, hidden=self.hidden, z=self.z, maps=maps, n_classes=n_classes, linear=self.linear
            )
            return MLPClassifier(shape, self.hidden, n_classes), *networks
        classifier = conv_classifier(
            shape, n_classes=n_classes, narrow=self.narrow, kind=self.classifier, standardise=self.standardise
        )
        return classifier, *conditional_conv_networks(shape, z=self.z, n_classes=n_classes, maps=maps)
