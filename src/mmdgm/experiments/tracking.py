"""TensorBoard and MLflow, where they are installed: the terms of the objective, and pictures at the end of a run.

TensorBoard's events lie in the run's folder. MLflow gets a run if MLFLOW_TRACKING_URI says where.
"""

import logging
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Protocol

import numpy as np
from PIL import Image

from mmdgm.errors import one_line
from mmdgm.progress import Record

logger = logging.getLogger("mmdgm")
PICTURES = ("samples", "imputations")  # of a run's folder "figures"


class Tracker(Protocol):
    """What a tracker takes."""

    def scalars(self, values: Mapping[str, float], step: int) -> None: ...

    def picture(self, name: str, image: Image.Image, step: int) -> None: ...

    def close(self, *, done: bool) -> None: ...


class TensorBoard:
    """Event files in a run's folder. A resumed run hides the events after the checkpoint's step."""

    def __init__(self, folder: Path, keep_steps: int):
        from torch.utils.tensorboard import SummaryWriter

        self.writer = SummaryWriter(folder / "tensorboard", purge_step=keep_steps + 1)

    def scalars(self, values: Mapping[str, float], step: int) -> None:
        for name, value in values.items():
            self.writer.add_scalar(name, value, step)
        self.writer.flush()

    def picture(self, name: str, image: Image.Image, step: int) -> None:
        self.writer.add_image(name, np.asarray(image), step, dataformats="HWC")

    def close(self, *, done: bool) -> None:
        self.writer.close()


class MLflow:
    """A run on MLflow's server or in its files. A resumed run is a new one there, from the checkpoint's step on."""

    def __init__(self, folder: Path):
        os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")  # this package calls no other server
        from mlflow import MlflowClient

        self.client = MlflowClient()
        name = os.environ.get("MLFLOW_EXPERIMENT_NAME", "mmdgm")
        found = self.client.get_experiment_by_name(name)
        experiment = self.client.create_experiment(name) if found is None else found.experiment_id
        self.run = self.client.create_run(experiment, run_name=str(folder)).info.run_id

    def scalars(self, values: Mapping[str, float], step: int) -> None:
        for name, value in values.items():
            self.client.log_metric(self.run, name, value, step=step)

    def picture(self, name: str, image: Image.Image, step: int) -> None:
        self.client.log_image(self.run, image, key=name, step=step)

    def close(self, *, done: bool) -> None:
        self.client.set_terminated(self.run, "FINISHED" if done else "FAILED")


class Tracking:
    """A listener that sends what it hears to all trackers. Training goes on without one that fails."""

    def __init__(self, makers: Mapping[str, Callable[[], Tracker]]):
        self.trackers: dict[str, Tracker] = {}
        self.step = 0
        for name, maker in makers.items():
            with self._left_if_it_fails(name):
                self.trackers[name] = maker()

    def __call__(self, record: Record) -> None:
        self.step = record.step
        values = {**record.metrics, "learning_rate": record.learning_rate}
        self._each(lambda tracker: tracker.scalars(values, record.step))

    def finish(self, figures: Path) -> None:
        """Send the pictures of a finished run, and close."""
        for path in (figures / f"{name}.png" for name in PICTURES):
            if path.exists():
                self._send(path)
        self.close(done=True)

    def _send(self, path: Path) -> None:
        with Image.open(path) as image:
            picture = image.convert("RGB")
        self._each(lambda tracker: tracker.picture(path.stem, picture, self.step))

    def close(self, *, done: bool = False) -> None:
        self._each(lambda tracker: tracker.close(done=done))
        self.trackers = {}

    def _each(self, call: Callable[[Tracker], None]) -> None:
        for name, tracker in list(self.trackers.items()):
            with self._left_if_it_fails(name):
                call(tracker)

    @contextmanager
    def _left_if_it_fails(self, name: str) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            logger.warning("mmdgm: %s is left out from here on (%s); training goes on", name, one_line(error))
            self.trackers.pop(name, None)


def tracking(folder: Path, *, keep_steps: int = 0) -> Tracking:
    """Return the tracking of a run by what is installed. `keep_steps`: steps done before a resume."""
    makers: dict[str, Callable[[], Tracker]] = {}
    if find_spec("tensorboard") is not None:
        makers["TensorBoard"] = lambda: TensorBoard(folder, keep_steps)
    if find_spec("mlflow") is not None and os.environ.get("MLFLOW_TRACKING_URI"):
        makers["MLflow"] = lambda: MLflow(folder)
    return Tracking(makers)
