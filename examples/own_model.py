"""Swap parts: an encoder and a likelihood of your own in a MaxMarginVAE, trained by the library's loop.

A VAE asks three things of its parts: an `Encoder` returns an `Encoding` and knows `hidden_widths` and `z`; a
decoder is called with codes and labels; a `Likelihood` makes a distribution of what the decoder returns.
"""

import torch
from torch import Tensor, nn
from torch.distributions import Laplace, constraints

from mmdgm.data import datasets
from mmdgm.data.batches import Reading, Store
from mmdgm.inference.evaluation import error_percent
from mmdgm.models import MaxMarginVAE, MaxMarginVAESettings
from mmdgm.networks.base import Encoder, Encoding
from mmdgm.networks.likelihoods import Likelihood
from mmdgm.training.plan import Training
from mmdgm.training.trainer import Trainer


class ResidualEncoder(Encoder):
    """One dense layer, and one residual block on top of it."""

    def __init__(self, pixels: int, width: int, z: int):
        super().__init__()
        self.hidden_widths, self.z = (width,), z
        self.first, self.block = nn.Linear(pixels, width), nn.Linear(width, width)
        self.mean, self.log_variance = nn.Linear(width, z), nn.Linear(width, z)

    def forward(self, x: Tensor, labels: Tensor | None = None, *, dropout: float = 0.0) -> Encoding:
        hidden = self.first(x.flatten(1)).relu()
        hidden = hidden + self.block(hidden).relu()
        return Encoding(self.mean(hidden), self.log_variance(hidden), (hidden,))


class Means(nn.Module):
    """Codes to the means of the pixels."""

    def __init__(self, z: int, width: int):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(z, width), nn.ReLU(), nn.Linear(width, 64), nn.Sigmoid())

    def forward(self, z: Tensor, labels: Tensor | None = None) -> Tensor:
        means: Tensor = self.layers(z)
        return means.reshape(-1, 1, 8, 8)


class LaplacePixels(Likelihood):
    """Laplace pixels of fixed width instead of Bernoulli ones."""

    maps, support = 1, constraints.real

    def distribution(self, parameters: Tensor) -> Laplace:
        return Laplace(parameters, 0.1)

    def noise(self, normal: Tensor) -> Tensor:
        return normal


def main() -> float:
    digits = datasets.load("digits")
    torch.manual_seed(0)
    model = MaxMarginVAE(
        ResidualEncoder(64, 128, z=10),
        Means(10, 128),
        MaxMarginVAESettings(features="last", C=100.0, margin=1.0),
        n_classes=10,
        n_rows=len(digits.x_train),
        likelihood=LaplacePixels(),
    )
    rows = Store(torch.from_numpy(digits.x_train), torch.from_numpy(digits.y_train))
    Trainer(model, Training(epochs=30, batch=100), device="cpu").fit(rows, seed=0, reading=Reading(digits.scale))
    error = error_percent(model, (digits.x_test / digits.scale).astype("float32"), digits.y_test)
    assert error is not None
    print(f"test error {error:.1f} %")
    return error


if __name__ == "__main__":
    main()
