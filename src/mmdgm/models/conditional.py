"""The class-conditional VAE with a classifier beside it, whatever the two are trained by.

    y ~ uniform over K classes    z ~ N(0, I)    x ~ p(x|z, y)    q(z|x, y)    s(x): the classifier's scores

    log p(x, y) ≥ ELBO(x, y) = E_q[log p(x|z, y)] − KL(q(z|x, y) ‖ p(z)) + log p(y),   p(y) = 1/K

Asked about an image, the model takes the label that its classifier predicts.
"""

import math
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn.functional import one_hot

from mmdgm.models.vae import VAE
from mmdgm.networks.architectures import conditional_conv_networks, conv_classifier, mlp_networks
from mmdgm.networks.layers import at_least_float32
from mmdgm.networks.likelihoods import LIKELIHOODS, Likelihood, LikelihoodName
from mmdgm.networks.stacks import Classifier, Encoder, MLPClassifier, Shape
from mmdgm.settings import setting


class ConditionalVAE(VAE):
    """A class-conditional VAE and a classifier that share nothing but the labels.

    `encoder` and `decoder` take one-hot labels.
    """

    def __init__(
        self,
        classifier: Classifier,
        encoder: Encoder,
        decoder: nn.Module,
        *,
        n_classes: int,
        samples: int = 1,
        likelihood: Likelihood | None = None,
    ):
        super().__init__(encoder, decoder, samples=samples, likelihood=likelihood)
        self.classifier, self.n_classes = classifier, n_classes

    @property
    def answering(self) -> Classifier:
        """The classifier that scores and features come from."""
        return self.classifier

    @torch.no_grad()
    def scores(self, x: Tensor) -> Tensor:
        """Unbounded margins of each class, `(rows, K)`."""
        return at_least_float32(self.answering(x))

    def one_hot(self, y: Tensor, like: Tensor) -> Tensor:
        """Classes `(rows,)` as one-hot labels `(rows, K)`."""
        return one_hot(y, self.n_classes).to(like.dtype)

    def labels(self, x: Tensor) -> Tensor:
        """The predicted labels ŷ, one-hot `(rows, K)`: every density below is given them."""
        return self.one_hot(self.scores(x).argmax(dim=1), x)

    @torch.no_grad()
    def elbo(self, x: Tensor, *, observed: Tensor | None = None, noise: Tensor | None = None) -> Tensor:
        """The bound of each row with the predicted label, log p(y) included."""
        return super().elbo(x, observed=observed, noise=noise) - math.log(self.n_classes)

    @torch.no_grad()
    def log_likelihood(self, x: Tensor, *, draws: int) -> Tensor:
        """log p(x) = log Σ_y p(y) p(x|y) of each row, estimated from below: `draws` draws of z for each class."""
        of_classes = []
        for k in range(self.n_classes):
            labels = self.one_hot(torch.full((len(x),), k, device=x.device), x)
            of_classes.append(self._importance_weighted(x, self.encoder(x, labels), labels, draws))
        return torch.stack(of_classes).logsumexp(dim=0) - math.log(self.n_classes)

    @torch.no_grad()
    def embed(self, x: Tensor) -> Tensor:
        """The features that the classifier's last layer sees, `(rows, width)`."""
        return at_least_float32(self.answering.features(x))

    @torch.no_grad()
    def generate(self, z: Tensor, y: Tensor | None = None) -> Tensor:
        """The decoder's mean for given codes `(rows, z)` and classes `(rows,)`."""
        if y is None:
            raise ValueError("a conditional model generates from codes and classes: give y")
        return self.decode(z, self.one_hot(y, z)).mean


@dataclass(frozen=True, kw_only=True)
class ConditionalVAEConfig:
    """What every conditional model is built of."""

    network: Literal["mlp", "conv"] = setting("conv", "kind of classifier, encoder and decoder")
    hidden: tuple[int, ...] = setting((500, 500), "units of the MLPs' hidden layers", least=1)
    z: int = setting(100, "size of the latent code", least=1)
    dropout: float = setting(0.5, "dropout rate in the classifier", least=0, most=0.95)
    narrow: bool = setting(False, "make the classifier's last convolution 1×1 with few channels")
    likelihood: LikelihoodName = setting("bernoulli", "p(x|z): of pixels in [0, 1], or of any numbers")
    samples: int = setting(1, "draws of z per row and step (the paper's L)", least=1)

    def networks(self, shape: Shape, *, n_classes: int) -> tuple[Classifier, Encoder, nn.Module]:
        """Classifier, encoder and decoder."""
        maps = LIKELIHOODS[self.likelihood].maps
        if self.network == "mlp":
            networks = mlp_networks(
                shape, hidden=self.hidden, z=self.z, maps=maps, n_classes=n_classes, linear=True
            )
            return MLPClassifier(shape, self.hidden, n_classes, dropout=self.dropout), *networks
        classifier = conv_classifier(shape, n_classes=n_classes, dropout=self.dropout, narrow=self.narrow)
        return classifier, *conditional_conv_networks(shape, z=self.z, n_classes=n_classes, maps=maps)
