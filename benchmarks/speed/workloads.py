"""What the benchmark times: training steps as our loop takes them, and contenders that train epoch by epoch."""

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import FlopCounterMode

from benchmarks.speed import peers
from benchmarks.speed.marginalising import marginalising_step
from benchmarks.speed.timing import rate
from mmdgm.data import datasets
from mmdgm.data.batches import Reading, Store
from mmdgm.devices import Precision, bf16_is_fast
from mmdgm.errors import InputError
from mmdgm.inference.evaluation import mean_elbo
from mmdgm.models import MarginalConditionalVAE, MaxMarginConditionalVAE, VAEConfig
from mmdgm.models.configs import ModelConfig
from mmdgm.training.loop import Part
from mmdgm.training.plan import SemiSupervisedTraining, Training
from mmdgm.training.step import Execution, Objective, Stepper
from mmdgm.training.trainer import Trainer

SHAPE = (1, 28, 28)
SCALE = 256.0
LEARNING_RATE = 1e-3


class Steps:
    """Training steps of a model, as the training loop takes them."""

    def __init__(
        self,
        x: Tensor,  # (n, 1, 28, 28) uint8, on the device
        model: ModelConfig,
        training: Training,
        *,
        seconds: float,  # of a turn
        n_classes: int = 10,
        binarised: bool = False,
    ):
        torch.manual_seed(0)
        y = torch.arange(len(x), device=x.device) % n_classes
        if isinstance(training, SemiSupervisedTraining):
            y[training.batch :] = -1
        self.reading = Reading(SCALE, binarised)
        built = model.build(SHAPE, n_classes=n_classes, n_rows=int((y >= 0).sum()))
        self.trainer = Trainer(built, training, device=x.device.type)
        self.part, self.execution, self.stepper = ready(self.trainer, Store(x, y), self.reading)
        self.rows = sum(self.part.batches.sizes)
        self.steps = min(steps_for(lambda: self.take(1), seconds), training.log_every)

    def take(self, steps: int) -> dict[str, float]:
        return self.stepper.run(self.part.batches, 0, range(steps), [LEARNING_RATE] * steps, [0.0] * steps)[1]

    def turn(self) -> float:
        self.take(self.steps)
        return self.steps * self.rows

    def flops(self) -> float:
        """Of the products and convolutions of one step, forward and backward."""
        with FlopCounterMode(display=False) as counter:
            self._gradients()
        return float(counter.get_total_flops())

    def bytes(self) -> float:
        """That the operations of one plain step in float32 read and write, forward and backward."""
        with _BytesCounter() as counter:
            self._gradients()
        return float(counter.bytes)

    def _gradients(self) -> None:
        objective = Objective(self.trainer.model)
        objective.settings, objective.reading = self.part.settings, self.reading
        objective.labeled = self.part.batches.sizes[0]
        rows, store = self.part.batches.rows(range(1))[0], self.stepper.store
        objective(store, rows, torch.zeros((), dtype=torch.float64, device=rows.device)).loss.backward()
        self.trainer.model.zero_grad(set_to_none=True)


def ready(trainer: Trainer, store: Store, reading: Reading) -> tuple[Part, Execution, Stepper]:
    """The last stage of training on these rows, how its steps are executed, and what takes them."""
    trainer.take(store, reading)
    trainer.model.train()
    parts = trainer.parts(store, seed=0)
    execution = trainer.execution(sum(part.steps for part in parts))
    return parts[-1], execution, trainer.stepper(parts[-1], execution)


class _BytesCounter(TorchDispatchMode):
    """Adds up the sizes of what operations take and return; views of memory are free."""

    bytes = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        is_view = any(r.alias_info is not None and not r.alias_info.is_write for r in func._schema.returns)
        if not is_view:
            tensors = [leaf for leaf in tree_leaves((args, kwargs, out)) if isinstance(leaf, Tensor)]
            self.bytes += sum(tensor.numel() * tensor.element_size() for tensor in tensors)
        return out


class OurMLP:
    """Our MLP-VAE as a contender of the other libraries' VAEs."""

    def __init__(self, pixels: datasets.Images, device: str, precision: Precision, execution: Execution):
        torch.manual_seed(0)
        training = Training(precision=precision, execution=execution, batch=500, log_every=len(pixels) // 500)
        x = torch.from_numpy(pixels).to(device)
        store = Store(x, torch.zeros(len(x), dtype=torch.int64, device=device))
        self.model = VAEConfig().build(SHAPE, n_classes=10, n_rows=1)
        trainer = Trainer(self.model, training, device=device)
        part, _, self.stepper = ready(trainer, store, Reading(SCALE))
        self.batches, self.step = part.batches, 0

    def epoch(self) -> int:
        steps = self.batches.steps_per_epoch
        numbers = range(self.step, self.step + steps)
        self.stepper.run(self.batches, 0, numbers, [LEARNING_RATE] * steps, [0.0] * steps)
        self.step += steps
        return steps * sum(self.batches.sizes)

    def bound(self, images: Tensor) -> float:
        return mean_elbo(self.model, images.reshape(-1, *SHAPE).numpy())


def peer_of(name: str, pixels: datasets.Images, device: str) -> peers.Peer:
    """Another library's VAE on the same images."""
    torch.manual_seed(0)
    images = torch.from_numpy(pixels).flatten(1).float() / SCALE
    return peers.PEERS[name](images, batch=500, device=device)


def marginalise(model: MarginalConditionalVAE, optimizer: torch.optim.Optimizer, batches: Iterator[Any]) -> float:
    marginalising_step(model, optimizer, next(batches))
    return 1.0


def repeat(step: Callable[[], Any], times: int, work: int) -> float:
    for _ in range(times):
        step()
    return float(times * work)


def steps_for(step: Callable[[], Any], seconds: float) -> int:
    """How many steps make a turn of so many seconds."""
    for _ in range(3):
        step()

    def one() -> float:
        step()
        return 1.0

    return max(1, round(seconds * rate(one)))


def multiply(a: Tensor) -> float:
    for _ in range(3):
        torch.mm(a, a)
    return 3 * 2.0 * len(a) ** 3


def convolve(x: Tensor, kernel: Tensor) -> float:
    for _ in range(3):
        out = torch.nn.functional.conv2d(x, kernel, padding=1)
    return 3 * 2.0 * out.numel() * kernel[0].numel()


def computes_in_bf16(device: torch.device) -> bool:
    """Whether the device has instructions for bf16 products, so that they are faster and not only shorter."""
    return torch.cuda.is_bf16_supported() if device.type == "cuda" else bf16_is_fast()


def training_images(n: int, data_dir: Path | None) -> tuple[datasets.Images, str]:
    """MNIST's first images, or where MNIST is not there, blobs: uint8 `(n, 1, 28, 28)`."""
    with contextlib.suppress(InputError):
        return datasets.load("mnist", data_dir).x_train[:n].copy(), "mnist"
    random = np.random.default_rng(0)
    axis = np.arange(28)
    x, y, width = random.uniform(7, 21, n), random.uniform(7, 21, n), random.uniform(2, 5, n)
    squares = (axis[None, :, None] - y[:, None, None]) ** 2 + (axis[None, None, :] - x[:, None, None]) ** 2
    blobs = 255 * np.exp(-squares / (2 * width[:, None, None] ** 2))
    return blobs.astype(np.uint8)[:, None], "synthetic"


def sample_images(model: MaxMarginConditionalVAE, n: int) -> Tensor:
    """Decoder means for codes from the prior, classes in turn."""
    device = next(model.parameters()).device
    z = torch.randn(n, model.encoder.z, device=device)
    y = torch.arange(n, device=device) % model.n_classes
    return torch.cat([model.generate(*part) for part in zip(z.split(1000), y.split(1000), strict=True)])
