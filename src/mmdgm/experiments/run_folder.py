"""A run folder: what training leaves behind, for presets and for users' own data alike.

config.json          the estimator, resolved (see `estimators.saving`), and under "run" what it was trained on
model.safetensors    the trained weights
result.json          figures, seed, counts, versions; status "running", "stopped" or "done"
metrics.csv          the objective's terms along training
figures/             samples, imputations, learning curves
checkpoints/         what `--resume` goes on from
"""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lightning_fabric import Fabric
from rich.console import Console

from mmdgm import estimators
from mmdgm.errors import InputError, TrainingStopped
from mmdgm.estimators import MMCVAClassifier, MMVAClassifier
from mmdgm.experiments.provenance import git_commit, versions
from mmdgm.files import claimed, read_json, write_json
from mmdgm.progress import MetricsFile, Record, tensorboard
from mmdgm.training.loop import checkpoint_step

Estimator = MMCVAClassifier | MMVAClassifier


class RunFolder:
    """The paths of what a run leaves behind."""

    def __init__(self, path: Path):
        self.path = path
        self.config, self.weights = path / "config.json", path / "model.safetensors"
        self.result, self.metrics = path / "result.json", path / "metrics.csv"
        self.checkpoint, self.figures = path / "checkpoints" / "last.safetensors", path / "figures"

    def status(self) -> str | None:
        """ "running", "stopped", "done", or None where no run has begun."""
        return str(read_json(self.result).get("status")) if self.result.exists() else None

    def about(self) -> dict[str, Any]:
        """What config.json says under "run": what is trained, on what, with which seed."""
        run = read_json(self.config).get("run")
        if not isinstance(run, dict) or "seed" not in run:
            raise InputError(f"{self.config}: is no run's config, or one of another version")
        return run


def load(path: str | Path, *, device: str | None = None) -> Estimator:
    """The fitted estimator of a run folder, whether a preset, `mmdgm fit` or `save` wrote it."""
    folder = RunFolder(Path(path))
    if inside := sorted(folder.path.glob("seed-*/config.json")):
        raise InputError(f"{path} holds several runs; choose one, for example {inside[0].parent}")
    if not folder.config.exists():
        raise InputError(f"{path} holds no run (config.json is missing); `mmdgm train` or `mmdgm fit` makes one")
    if folder.status() == "stopped":
        raise InputError(f"{path}: training {read_json(folder.result)['reason']}; train again in another folder")
    if not folder.weights.exists():
        raise InputError(f"{path}: training has not finished; go on with it by --resume")
    return estimators.load(path, device=device)


@dataclass
class Recording:
    """Keeps result.json and metrics.csv of a run that is being trained."""

    folder: RunFolder
    result: dict[str, Any]
    resume: bool
    console: Console
    kept: int = 0  # steps that a resumed run begins with
    listeners: list[Callable[[Record], None]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.kept = checkpoint_step(self.folder.checkpoint) if self.resume else 0
        self.result = {"status": "running", **self.result, "versions": versions(), "git_commit": git_commit()}

    def begin(self, config: Mapping[str, Any]) -> None:
        """Write config.json and a result.json that says that training is running."""
        write_json(self.folder.config, config)
        write_json(self.folder.result, self.result)
        if self.resume:
            self.say(f"going on from step {self.kept}")
        events = tensorboard(self.folder.path / "tensorboard", keep_steps=self.kept)
        self.listeners = [MetricsFile(self.folder.metrics, keep_steps=self.kept), *([events] if events else [])]

    def say(self, line: str) -> None:
        self.console.print(f"{self.folder.path}: {line}", markup=False, highlight=False, soft_wrap=True)

    def stop(self, reason: str) -> None:
        write_json(self.folder.result, {**self.result, "status": "stopped", "reason": reason})

    def finish(self, figures: Mapping[str, Any]) -> dict[str, Any]:
        """Write the result of a run that has reached its end."""
        self.result |= {"status": "done", **figures}
        write_json(self.folder.result, self.result)
        return self.result

    @contextmanager
    def training(self) -> Iterator[None]:
        """Note why training ended early, if it does."""
        try:
            yield
        except (TrainingStopped, InputError) as error:
            self.stop(str(error))
            raise
        except KeyboardInterrupt:
            self.say(f"--resume goes on from step {checkpoint_step(self.folder.checkpoint)}")
            raise


@contextmanager
def claimed_by_first_rank(
    folder: Path, look_again: Callable[[], None], fabric: Fabric | None = None
) -> Iterator[None]:
    """The first process claims the folder; where it cannot, or another run has got in, all fail together."""
    with ExitStack() as stack:
        error = None
        if fabric is None or fabric.is_global_zero:
            try:
                stack.enter_context(claimed(folder))
                look_again()
            except InputError as failure:
                error = str(failure)
        if error := (error if fabric is None else fabric.broadcast(error)):
            raise InputError(error)
        yield


def check_folder(
    folder: RunFolder, seed: int, resume: bool, differences: Callable[[dict[str, Any]], Iterator[Any]]
) -> None:
    """Raise InputError if a run would be written over, or one of another config or seed resumed.

    `differences` of what the folder's config.json says under "run": (key, saved, now).
    """
    if not folder.config.exists():
        return
    if not resume:
        raise InputError(f"{folder.path} already holds a run; go on with it by --resume, or choose another --run-dir")
    about = folder.about()
    if about["seed"] != seed:
        raise InputError(f"{folder.path} holds a run of seed {about['seed']}, not {seed}; use --seed {about['seed']}")
    for key, before, now in differences(about):
        raise InputError(f"{folder.path} holds a run with {key}={before}, not {now}; resume it as it was")


def seconds_since(began: float) -> float:
    return round(time.monotonic() - began, 2)
