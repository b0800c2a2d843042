"""The VAE of other libraries, with the sizes of ours, each trained by its own library's loop.

784-500-500-z50 and back, softplus, Bernoulli pixels, one draw of z, Adam with rate 1e-3: what `VAEConfig` builds
by default. Weights start as ours do. The libraries are optional (`benchmarks/peers/requirements.txt`) and imported
only when asked for.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from itertools import pairwise
from tempfile import TemporaryDirectory
from typing import Any, Protocol

import torch
from torch import Tensor, nn

PIXELS, HIDDEN, Z = 784, (500, 500), 50
LEARNING_RATE = 1e-3  # with which each library builds its default Adam


@dataclass(frozen=True)
class Peer:
    """A VAE of another library and the images that it is trained on."""

    epoch: Callable[[], int]  # trains one epoch; returns the number of images processed
    bound: Callable[[Tensor], float]  # mean ELBO of images `(n, 784)` in nats, one draw of z each


class Factory(Protocol):
    """Builds a new VAE, from torch's current random state, and readies it for images `(n, 784)` in [0, 1]."""

    def __call__(self, images: Tensor, *, batch: int, device: torch.device | str) -> Peer: ...


def available() -> list[str]:
    """Names of the peers that are installed; none is imported."""
    return [name for name in PEERS if find_spec(name)]


# --- networks, as users of either library write them -----------------------------------------------------


def linear(n_in: int, n_out: int) -> nn.Linear:
    layer = nn.Linear(n_in, n_out)
    nn.init.xavier_uniform_(layer.weight)
    nn.init.zeros_(layer.bias)
    return layer


def mlp(*widths: int) -> nn.Sequential:
    return nn.Sequential(*(part for a, b in pairwise(widths) for part in (linear(a, b), nn.Softplus())))


class Gaussian(nn.Module):
    """Images `(rows, 784)` to mean and log-variance of q(z|x), each `(rows, z)`."""

    def __init__(self) -> None:
        super().__init__()
        self.hidden = mlp(PIXELS, *HIDDEN)
        self.mean, self.log_variance = linear(HIDDEN[-1], Z), linear(HIDDEN[-1], Z)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        hidden = self.hidden(x)
        return self.mean(hidden), self.log_variance(hidden)


def pixel_logits() -> nn.Sequential:
    """Codes `(rows, z)` to logits of the pixels `(rows, 784)`."""
    return nn.Sequential(mlp(Z, *HIDDEN[::-1]), linear(HIDDEN[0], PIXELS))


# --- the libraries ---------------------------------------------------------------------------------------


def pythae_vae(images: Tensor, *, batch: int, device: torch.device | str) -> Peer:
    """Pythae: its VAE and, for an epoch, `train_step` of its BaseTrainer: no evaluation, checkpoints or bars.

    The trainer moves each batch to the device itself.
    """
    base, data, models = map(_module, ("pythae.models.nn", "pythae.data.datasets", "pythae.models"))
    output = _module("pythae.models.base.base_utils").ModelOutput
    trainers, callbacks = map(_module, ("pythae.trainers", "pythae.trainers.training_callbacks"))

    class Encoder(base.BaseEncoder):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.network = Gaussian()

        def forward(self, x: Tensor) -> Any:
            mean, log_variance = self.network(x)
            return output(embedding=mean, log_covariance=log_variance)

    class Decoder(base.BaseDecoder):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.network = pixel_logits()

        def forward(self, z: Tensor) -> Any:
            return output(reconstruction=self.network(z).sigmoid())

    logging.getLogger("pythae.trainers.base_trainer.base_trainer").setLevel(logging.WARNING)
    device = torch.device(device)
    config = models.VAEConfig(input_dim=(PIXELS,), latent_dim=Z, reconstruction_loss="bce")
    vae = models.VAE(config, Encoder(), Decoder())
    with TemporaryDirectory() as folder:  # made by the trainer at the start, written to only by its `train`
        trainer = trainers.BaseTrainer(
            vae,
            data.BaseDataset(images.cpu(), labels=torch.ones(len(images))),
            training_config=trainers.BaseTrainerConfig(
                output_dir=folder,
                per_device_train_batch_size=batch,
                learning_rate=LEARNING_RATE,
                no_cuda=device.type == "cpu",
                seed=torch.initial_seed() % 2**32,  # it seeds all generators: let the caller's seed stand
            ),
        )
        trainer.prepare_training()
    trainer.callback_handler = callbacks.CallbackHandler([callbacks.TrainingCallback()], vae)

    def epoch() -> int:
        trainer.train_step(epoch=1)
        return len(images)

    @torch.no_grad()
    def bound(held_out: Tensor) -> float:
        vae.eval()
        losses = [len(x) * vae({"data": x.to(device)}).loss.item() for x in held_out.split(batch)]
        return float(-sum(losses) / len(held_out))

    return Peer(epoch, bound)


def pyro_vae(images: Tensor, *, batch: int, device: torch.device | str) -> Peer:
    """Pyro: model and guide of its VAE tutorial, by SVI. There can be one at a time: its parameters are global.

    Faster than the tutorial in two ways: logits instead of probabilities, and batches that are rows of a tensor on
    the device instead of a loader's.
    """
    pyro, dist, infer = map(_module, ("pyro", "pyro.distributions", "pyro.infer"))
    images = images.to(device)
    encoder, decoder = Gaussian().to(device), pixel_logits().to(device)

    def model(x: Tensor) -> None:
        pyro.module("decoder", decoder)
        with pyro.plate("data", len(x)):
            prior = dist.Normal(x.new_zeros(len(x), Z), x.new_ones(len(x), Z))
            z = pyro.sample("latent", prior.to_event(1))
            pyro.sample("obs", dist.Bernoulli(logits=decoder(z)).to_event(1), obs=x)

    def guide(x: Tensor) -> None:
        pyro.module("encoder", encoder)
        with pyro.plate("data", len(x)):
            mean, log_variance = encoder(x)
            pyro.sample("latent", dist.Normal(mean, (0.5 * log_variance).exp()).to_event(1))

    pyro.clear_param_store()
    svi = infer.SVI(model, guide, _module("pyro.optim").Adam({"lr": LEARNING_RATE}), loss=infer.Trace_ELBO())

    def epoch() -> int:
        with pyro.validation_enabled(False):
            for rows in torch.randperm(len(images), device=device).split(batch):
                svi.step(images[rows])
        return len(images)

    def bound(held_out: Tensor) -> float:
        with pyro.validation_enabled(False):
            losses = [svi.evaluate_loss(x.to(device)) for x in held_out.split(batch)]
        return float(-sum(losses) / len(held_out))

    return Peer(epoch, bound)


def _module(name: str) -> Any:
    """A module whose types are not checked, so that it need not be installed."""
    return import_module(name)


PEERS: dict[str, Factory] = {"pythae": pythae_vae, "pyro": pyro_vae}
