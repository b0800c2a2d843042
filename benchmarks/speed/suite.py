"""The benchmark: what the models do in a second, beside a naive step and other libraries.

Images are MNIST's where they lie in the data folder, else synthetic ones: speed does not depend on them. Ratios
are within one run, and above 1 where we are faster.
"""

import functools
import resource
import statistics
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.speed import naive, peers
from benchmarks.speed.timing import Contender, Turn, rate, rates, remotes
from benchmarks.speed.workloads import (
    LEARNING_RATE,
    SCALE,
    SHAPE,
    OurMLP,
    Steps,
    computes_in_bf16,
    convolve,
    marginalise,
    multiply,
    peer_of,
    repeat,
    sample_images,
    steps_for,
    training_images,
)
from mmdgm.data.batches import Batch
from mmdgm.devices import Precision, device_name, keep_freed_memory, pick_device
from mmdgm.experiments.mnist_presets import CONV_MMCVA
from mmdgm.experiments.presets import find_preset
from mmdgm.experiments.provenance import versions
from mmdgm.inference.evaluation import predict_scores
from mmdgm.inference.imputation import impute
from mmdgm.models import MarginalConditionalVAEConfig
from mmdgm.models.configs import ModelConfig
from mmdgm.training.plan import SemiSupervisedTraining, Training
from mmdgm.training.step import Execution

HELD_OUT = 1000  # images that the bound of the MLP-VAEs is measured on
LONG = 3000  # epochs of the paper's schedule: steps are executed as in a long run
SHORT: dict[Precision, str] = {"32-true": "fp32", "bf16-mixed": "bf16"}


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """How much is measured; the defaults are a GPU's."""

    images: int = 21_000  # in memory
    rounds: int = 7  # turns of each contender
    seconds: float = 0.5  # of a turn
    labeled: int = 100  # rows of a Conv-MMCVA batch, as in the preset mnist-mmcva-100-authors
    unlabeled: int = 500
    conv_batch: int = 500
    mlp_epoch: int = 20_000
    few_labeled: int = 20  # rows of a batch of the marginalising step
    few_unlabeled: int = 100
    predicted: int = 10_000
    imputed: int = 10_000
    impute_rounds: int = 100
    sampled: int = 10_000
    matrix: int = 8192


CPU_SIZES = Sizes(
    images=11_000,
    rounds=9,
    labeled=20,
    unlabeled=100,
    conv_batch=100,
    mlp_epoch=10_000,
    few_labeled=1,
    few_unlabeled=7,
    predicted=2_000,
    imputed=200,
    impute_rounds=20,
    sampled=2_000,
    matrix=2048,
)


@dataclass
class Report:
    """What was measured; `ratios` are above 1 where we are faster."""

    about: dict[str, Any]
    measurements: dict[str, dict[str, float | str]] = field(default_factory=dict)
    ratios: dict[str, float] = field(default_factory=dict)

    def add(self, name: str, value: float, unit: str) -> None:
        self.measurements[name] = {"value": float(f"{value:.5g}"), "unit": unit}

    def value(self, name: str) -> float:
        return float(self.measurements[name]["value"])

    def ratio(self, name: str, value: float) -> None:
        """Of our rate, work per second, to another."""
        self.ratios[name] = float(f"{value:.4g}")


class Bench:
    """The sections of the benchmark, one after the other, into one report."""

    def __init__(
        self,
        *,
        device: str = "auto",
        quick: bool = False,
        data_dir: Path | None = None,
        say: Callable[[str], None] = lambda _: None,
    ):
        self.device, self.say = pick_device(device), say
        on_gpu = self.device.type == "cuda"
        self.sizes = Sizes() if on_gpu else CPU_SIZES
        if quick:
            self.sizes = replace(self.sizes, rounds=3, seconds=self.sizes.seconds / 2)
        self.precisions: list[Precision] = ["32-true"]
        if computes_in_bf16(self.device):
            # compiling takes long on a GPU: when it has to be quick, only what is used there
            self.precisions = ["bf16-mixed"] if quick and on_gpu else ["32-true", "bf16-mixed"]
        self.pixels, self.source = training_images(self.sizes.images, data_dir)
        self.x = torch.from_numpy(self.pixels).to(self.device)
        self.y = (torch.arange(len(self.x)) % 10).to(self.device)
        self.turns: dict[tuple[str, Precision], Turn] = {}  # of the models' training
        self.report = Report(
            about={
                "device": device_name(self.device),
                "versions": versions(),
                "quick": quick,
                "images": self.source,
                "peers": peers.available(),
            }
        )

    def run(self) -> Report:
        keep_freed_memory()
        sections = {
            "the device's ceiling": self.ceilings,
            "training MLP-VAE, beside other libraries": self.mlp_vae,
            "training the paper's models": self.training,
            "the naive step": self.naive_step,
            "many classes": self.classes,
            "predicting, imputing, sampling": self.inference,
        }
        for title, section in sections.items():
            self.say(title)
            section()
        self.memory()
        return self.report

    # --- sections ----------------------------------------------------------------------------------------

    def ceilings(self) -> None:
        """What large products and convolutions reach here: nothing below can be faster."""
        n, rows = self.sizes.matrix, 10 * self.sizes.conv_batch
        for precision in self.precisions:
            dtype = torch.bfloat16 if precision == "bf16-mixed" else torch.float32
            options: dict[str, Any] = {"device": self.device, "dtype": dtype}
            x, kernel = (
                torch.randn(shape, **options).to(memory_format=torch.channels_last)
                for shape in ((rows, 64, 12, 12), (64, 64, 3, 3))
            )
            turns: dict[str, Turn] = {
                "matrix-product": functools.partial(multiply, torch.randn(n, n, **options)),
                "convolution": functools.partial(convolve, x, kernel),
            }
            for name, value in rates(turns, rounds=self.sizes.rounds).items():
                self.report.add(f"ceiling/{name}/{SHORT[precision]}", value / 1e9, "GFLOP/s")

    def mlp_vae(self) -> None:
        """784-500-500-50 at batch 500: ours plain and compiled, pythae and Pyro where installed, taking turns."""
        n = self.sizes.mlp_epoch
        kinds: list[Execution] = ["captured", "compiled+captured"] if self.on_gpu else ["plain", "compiled"]
        build: dict[str, Callable[[], Contender]] = {
            f"{SHORT[precision]}{'-compiled' if execution.startswith('compiled') else ''}": functools.partial(
                OurMLP, self.pixels[:n], str(self.device.type), precision, execution
            )
            for precision in self.precisions
            for execution in kinds
        }
        build |= {
            name: functools.partial(peer_of, name, self.pixels[:n], str(self.device)) for name in peers.available()
        }
        held_out = torch.from_numpy(self.pixels[n : n + HELD_OUT]).flatten(1).float() / SCALE
        with remotes(build) as contenders:
            found = rates({name: remote.turn for name, remote in contenders.items()}, rounds=self.sizes.rounds)
            bounds = {name: remote.ask("bound", held_out) for name, remote in contenders.items()}
        for name, value in found.items():
            self.report.add(f"train/mlp-vae/{name}", value, "images/s")
            self.report.add(f"bound/mlp-vae/{name}", bounds[name], f"nats after {self.sizes.rounds + 1} epochs")
        for peer in peers.available():
            for name in (name for name in found if name not in peers.available()):
                self.report.ratio(f"mlp-vae/{name}/{peer}", found.ratio(name, peer))

    def training(self) -> None:
        """Images a second of the models' own training steps, and the share of the ceiling that they reach."""
        s = self.sizes
        runs: dict[str, tuple[str, dict[str, Any]]] = {
            "mmva": ("mnist-mmva", {"batch": 200}),
            "conv-mmva": ("mnist-conv-mmva", {"batch": s.conv_batch}),
            "conv-mmcva": ("mnist-mmcva-100", {"batch": s.labeled, "unlabeled_batch": s.unlabeled}),
        }
        for name, (preset, changes) in runs.items():
            config = find_preset(preset).config
            turns: dict[str, Turn] = {}
            for precision in self.precisions:
                training = replace(config.training, precision=precision, epochs=LONG, **changes)
                steps = self.steps(config.model, training, binarised=config.data.binarised)
                turns[SHORT[precision]] = self.turns[name, precision] = steps.turn
            self.report.add(f"flops/{name}", steps.flops() / 1e9, "GFLOP a step")
            self.report.add(f"bytes/{name}", steps.bytes() / 1e6, "MB a plain float32 step")
            for short, value in rates(turns, rounds=s.rounds).items():
                self.add_training(name, short, value, steps.rows)
            self.report.about.setdefault("execution", {})[name] = steps.execution

    def naive_step(self) -> None:
        """Conv-MMCVA as one would first write it: literal label maps and unpooling, eager, float32."""
        s = self.sizes
        torch.manual_seed(0)
        x, y = self.x, self.y
        labeled, unlabeled = x[: s.labeled], x[s.labeled :]
        sizes = {"labeled_batch": s.labeled, "unlabeled_batch": s.unlabeled}
        batches: dict[str, Iterator[Batch]] = {
            "naive": naive.resident_batches(labeled, y[: s.labeled], unlabeled, scale=SCALE, **sizes),
            "naive-dataloader": naive.loader_batches(
                labeled.cpu() / SCALE,
                y[: s.labeled].cpu(),
                unlabeled.cpu() / SCALE,
                device=self.device,
                **sizes,
            ),
        }
        turns: dict[str, Turn] = {}
        for name, stream in batches.items():
            model = naive.naive_model(SHAPE, CONV_MMCVA, n_classes=10, z=CONV_MMCVA.z).to(self.device)
            if not self.on_gpu:  # there it is the faster layout for the naive step too
                model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
            step = naive.training_step(model, stream, learning_rate=LEARNING_RATE)
            turns[name] = functools.partial(repeat, step, steps_for(step, s.seconds), s.labeled + s.unlabeled)
        for precision in self.precisions:
            turns[SHORT[precision]] = self.turns["conv-mmcva", precision]
        with torch.backends.cudnn.flags(
            enabled=True, benchmark=False
        ):  # torch's default; ours has chosen its algorithms
            found = rates(turns, rounds=s.rounds)
        for name, value in found.items():
            self.add_training("conv-mmcva", name, value, s.labeled + s.unlabeled)
        for name in batches:
            for precision in self.precisions:
                short = SHORT[precision]
                self.report.ratio(f"conv-mmcva/{short}/{name}", found.ratio(short, name))

    def classes(self) -> None:
        """Time of a step against the number of classes, beside a step that marginalises over them."""
        s = self.sizes
        counts = (10, 100, 1000)
        turns: dict[str, Turn] = {}
        for k in counts:
            training = SemiSupervisedTraining(
                batch=s.labeled,
                unlabeled_batch=s.unlabeled,
                precision="32-true",
                execution="captured" if self.on_gpu else "plain",
            )
            turns[f"ours-{k}"] = self.steps(CONV_MMCVA, training, n_classes=k).turn
        found = rates(turns, rounds=s.rounds)
        rows = s.few_labeled + s.few_unlabeled
        for k in counts:
            torch.manual_seed(0)
            config = MarginalConditionalVAEConfig(z=CONV_MMCVA.z, dropout=CONV_MMCVA.dropout)
            model = config.build(SHAPE, n_classes=k, n_rows=1)
            model.to(self.device, memory_format=torch.channels_last)
            optimizer = torch.optim.Adam(model.parameters(), lr=LEARNING_RATE, fused=True)
            batch = naive.resident_batches(
                self.x[:1000],
                self.y[:1000],
                self.x[1000:],
                scale=SCALE,
                labeled_batch=s.few_labeled,
                unlabeled_batch=s.few_unlabeled,
            )
            step = functools.partial(marginalise, model, optimizer, batch)
            rate(step)  # to warm up; at 1,000 classes one step takes seconds
            found[f"m2-{k}"] = rows * statistics.median(rate(step) for _ in range(1 if k == 1000 else 3))
        for name, value in found.items():
            batch_rows = rows if name.startswith("m2") else s.labeled + s.unlabeled
            self.report.add(f"classes/{name}", 1e3 * batch_rows / value, f"ms a step of {batch_rows} rows")
        for kind in ("ours", "m2"):
            ours = kind == "ours"
            growth = found.ratio("ours-10", "ours-1000") if ours else found["m2-10"] / found["m2-1000"]
            self.report.add(f"classes/{kind}-growth", growth, "times the step at 10 classes, at 1,000")
        for k in counts:
            self.report.ratio(f"classes/{k}/marginalising", found[f"ours-{k}"] / found[f"m2-{k}"])

    def inference(self) -> None:
        """Images a second of a trained model's uses."""
        s = self.sizes
        torch.manual_seed(0)
        model = CONV_MMCVA.build(SHAPE, n_classes=10, n_rows=100)
        model.to(self.device, memory_format=torch.channels_last)
        images = (self.pixels / SCALE).astype(np.float32)
        predicted, holes = images[: s.predicted], images[: s.imputed].copy()
        holes[:, :, 8:20, 8:20] = np.nan
        turns: dict[str, Turn] = {
            "predict": lambda: len(predict_scores(model, predicted)),
            "impute": lambda: len(impute(model, holes, method="draw", rounds=s.impute_rounds)),
            "sample": lambda: len(sample_images(model, s.sampled)),
        }
        found = rates(turns, rounds=s.rounds)
        for name, value in found.items():
            unit = f"images/s, {s.impute_rounds} rounds each" if name == "impute" else "images/s"
            self.report.add(f"{name}/conv-mmcva", value, unit)
        self.report.add("impute/conv-mmcva/10000-images-100-rounds", 1e6 / (found["impute"] * s.impute_rounds), "s")

    def memory(self) -> None:
        """The most memory that was in use at once, by this process, or on the GPU."""
        if self.on_gpu:
            self.report.add("memory/peak-gpu", torch.cuda.max_memory_allocated(self.device) / 2**20, "MiB")
        unit = 2**20 if sys.platform == "darwin" else 2**10
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        self.report.add("memory/peak", peak / unit, "MiB")

    def add_training(self, model: str, kind: str, images_per_second: float, rows: int) -> None:
        """Rate, time of a step and, for our own steps, the share of the ceiling."""
        self.report.add(f"train/{model}/{kind}", images_per_second, "images/s")
        self.report.add(f"step/{model}/{kind}", 1e3 * rows / images_per_second, "ms")
        if kind in SHORT.values():
            ceiling = "matrix-product" if model == "mmva" else "convolution"
            reached = self.report.value(f"flops/{model}") * images_per_second / rows
            share = reached / self.report.value(f"ceiling/{ceiling}/{kind}")
            self.report.add(f"share/{model}/{kind}", 100 * share, "% of the ceiling")

    # --- helpers -----------------------------------------------------------------------------------------

    def steps(self, model: ModelConfig, training: Training, **options: Any) -> Steps:
        return Steps(self.x, model, training, seconds=self.sizes.seconds, **options)

    @property
    def on_gpu(self) -> bool:
        return self.device.type == "cuda"
