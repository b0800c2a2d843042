"""The run folder: the results of training, for presets and for users' own data.

config.json          the resolved estimator (see `estimators.saving`), and under "run" its training data and options
model.safetensors    the trained weights
result.json          figures, seed, counts, versions; status "running", "stopped" or "done"
metrics.csv          the objective's terms during training
figures/             samples, imputations, learning curves
report.html          all of this to look at, in one file
checkpoints/         the state from which `--resume` continues
"""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lightning_fabric import Fabric
from rich.console import Console

from mmdgm import estimators
from mmdgm.errors import InputError, TrainingStopped
from mmdgm.estimators import MMCVAClassifier, MMVAClassifier
from mmdgm.experiments.provenance import software
from mmdgm.experiments.tracking import Tracking, tracking
from mmdgm.files import claimed, read_json, write_json
from mmdgm.progress import MetricsFile, Record
from mmdgm.training.loop import checkpoint_step

Estimator = MMCVAClassifier | MMVAClassifier


class RunFolder:
    """The paths of a run's files."""

    def __init__(self, path: Path):
        self.path = path
        self.config, self.weights = path / "config.json", path / "model.safetensors"
        self.result, self.metrics = path / "result.json", path / "metrics.csv"
        self.checkpoint, self.figures = path / "checkpoints" / "last.safetensors", path / "figures"
        self.report = path / "report.html"

    def status(self) -> str | None:
        """Return "running", "stopped", "done", or None if no run has begun."""
        return str(read_json(self.result).get("status")) if self.result.exists() else None

    def is_done(self) -> bool:
        """Return whether training has finished and the model is here; without it, `--resume` trains it again."""
        return self.status() == "done" and self.weights.exists()

    def about(self) -> dict[str, Any]:
        """Return the part "run" of config.json: what is trained, on which data, with which seed."""
        run = read_json(self.config).get("run")
        if not isinstance(run, dict) or "seed" not in run:
            raise InputError(f"{self.config}: is no run's config, or one of another version")
        return run


def load(path: str | Path, *, device: str | None = None) -> Estimator:
    """Return the fitted estimator of a run folder that a preset, `mmdgm fit` or `save` wrote."""
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
    """Writes result.json and metrics.csv of a run during training."""

    folder: RunFolder
    result: dict[str, Any]
    resume: bool
    console: Console
    kept: int = 0  # steps done before a resume
    listeners: list[Callable[[Record], None]] = field(default_factory=list)
    tracking: Tracking = field(default_factory=lambda: Tracking({}))

    def __post_init__(self) -> None:
        self.kept = checkpoint_step(self.folder.checkpoint) if self.resume else 0
        self.result = {"status": "running", **self.result, **software()}

    def begin(self, config: Mapping[str, Any]) -> None:
        """Write config.json and a result.json with the status "running"."""
        write_json(self.folder.config, config)
        write_json(self.folder.result, self.result)
        if self.resume:
            self.say(f"going on from step {self.kept}")
        self.tracking = tracking(self.folder.path, keep_steps=self.kept)
        self.listeners = [MetricsFile(self.folder.metrics, keep_steps=self.kept), self.tracking]

    @property
    def rows(self) -> list[dict[str, Any]]:
        """The rows of metrics.csv."""
        return self.listeners[0].rows if isinstance(self.listeners[0], MetricsFile) else []

    def say(self, line: str) -> None:
        self.console.print(f"{self.folder.path}: {line}", markup=False, highlight=False, soft_wrap=True)

    def stop(self, reason: str) -> None:
        self.tracking.close()
        write_json(self.folder.result, {**self.result, "status": "stopped", "reason": reason})

    def finish(self, figures: Mapping[str, Any]) -> dict[str, Any]:
        """Write and return the result of a finished run."""
        self.result |= {"status": "done", **figures}
        write_json(self.folder.result, self.result)
        self.tracking.finish(self.folder.figures)
        return self.result

    @contextmanager
    def training(self) -> Iterator[None]:
        """Record the reason if training ends early."""
        try:
            yield
        except (TrainingStopped, InputError) as error:
            with suppress(InputError):  # the disk is full
                self.stop(str(error))
            raise
        except KeyboardInterrupt:
            self.tracking.close()
            with suppress(InputError):  # a damaged checkpoint
                step = checkpoint_step(self.folder.checkpoint)
                kept = f"the checkpoint is {self.folder.checkpoint}" if step else "there is no checkpoint yet"
                self.say(f"{kept}; --resume goes on from step {step}")
            raise


@contextmanager
def claimed_by_first_rank(
    folder: Path, look_again: Callable[[], None], fabric: Fabric | None = None
) -> Iterator[None]:
    """Claim the folder in the first process. If that fails, or another run is there now, all processes fail."""
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
    """Raise InputError if a run would be overwritten, or resumed with another config or seed.

    `differences`: a function of the part "run" of the folder's config.json, which yields (key, saved, now).
    """
    if not folder.config.exists():
        if folder.result.exists():
            raise InputError(f"{folder.result}: is of no run here (config.json is missing); choose another --run-dir")
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
