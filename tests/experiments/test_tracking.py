"""Trackers get every term of a run and its pictures; a tracker that fails stops no training."""

import importlib.util
import math

import numpy as np
import pytest
from PIL import Image

from mmdgm.errors import TrainingStopped
from mmdgm.experiments import run_folder, tracking
from mmdgm.experiments.run_folder import Recording, RunFolder
from mmdgm.progress import Record


def record(step):
    return Record(
        stage="train",
        step=step,
        total_steps=40,
        epoch=step / 10,
        total_epochs=4,
        learning_rate=1e-3 / 3,
        metrics={"loss": 1 / step, "kl": -1e-20 * step},
        images_per_second=1.0,
        seconds=1.0,
    )


class Heard:
    """A tracker that keeps what it hears, and fails in the given call."""

    def __init__(self, fails=None):
        self.calls, self.fails = [], fails

    def _hear(self, kind, *rest):
        if kind == self.fails:
            raise OSError(f"no {kind}\nand more")
        self.calls.append((kind, *rest))

    def scalars(self, values, step):
        self._hear("scalars", values, step)

    def picture(self, name, image, step):
        self._hear("picture", name, image.size, image.mode, step)

    def close(self, *, done):
        self._hear("close", done)


@pytest.fixture(name="figures")
def make_figures(tmp_path):
    for name, size in (("samples", (30, 20)), ("curves", (5, 5))):
        Image.fromarray(np.zeros((size[1], size[0]), np.uint8)).save(tmp_path / f"{name}.png")
    return tmp_path


def test_a_tracker_gets_terms_and_pictures_and_is_closed(figures):
    heard = Heard()
    listener = tracking.Tracking({"a": lambda: heard})
    listener(record(10))
    listener.finish(figures)
    listener.close()
    assert heard.calls == [
        ("scalars", {"loss": 0.1, "kl": -1e-19, "learning_rate": 1e-3 / 3}, 10),
        ("picture", "samples", (30, 20), "RGB", 10),
        ("close", True),
    ]


@pytest.mark.parametrize("fails", ["scalars", "picture", "close", "start"])
def test_a_tracker_that_fails_is_left_and_the_others_go_on(figures, fails, caplog):
    broken, whole = Heard(fails), Heard()

    def start():
        if fails == "start":
            raise OSError("no start")
        return broken

    listener = tracking.Tracking({"broken": start, "whole": lambda: whole})
    listener(record(10))
    listener(record(20))
    listener.finish(figures)
    assert [call[0] for call in whole.calls] == ["scalars", "scalars", "picture", "close"]
    assert [line.getMessage() for line in caplog.records] == [
        f"mmdgm: broken is left out from here on (OSError: no {fails}); training goes on"
    ]


@pytest.mark.parametrize("error", [TrainingStopped("stopped"), KeyboardInterrupt()])
def test_a_run_that_ends_early_closes_its_trackers(tmp_path, quiet, monkeypatch, error):
    heard = Heard()
    monkeypatch.setattr(run_folder, "tracking", lambda *_, **__: tracking.Tracking({"a": lambda: heard}))
    recording = Recording(RunFolder(tmp_path), {}, False, quiet)
    recording.begin({})
    with pytest.raises(type(error)), recording.training():
        raise error
    assert heard.calls == [("close", False)]


def test_trackers_are_those_that_are_installed(tmp_path, monkeypatch):
    monkeypatch.setattr(tracking, "TensorBoard", lambda folder, keep: ("TensorBoard", folder, keep))
    monkeypatch.setattr(tracking, "MLflow", lambda folder: ("MLflow", folder))
    monkeypatch.setattr(tracking, "find_spec", lambda name: None)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:1")
    assert tracking.tracking(tmp_path).trackers == {}
    monkeypatch.setattr(tracking, "find_spec", lambda name: name)
    both = {"TensorBoard": ("TensorBoard", tmp_path, 7), "MLflow": ("MLflow", tmp_path)}
    assert tracking.tracking(tmp_path, keep_steps=7).trackers == both
    monkeypatch.delenv("MLFLOW_TRACKING_URI")
    assert list(tracking.tracking(tmp_path).trackers) == ["TensorBoard"]


@pytest.mark.skipif(importlib.util.find_spec("tensorboard") is None, reason="needs tensorboard")
def test_tensorboard_reads_the_events_and_those_after_a_checkpoint_are_gone(tmp_path, figures, monkeypatch):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    first = tracking.tracking(tmp_path)
    for step in (10, 20):
        first(record(step))
    first.close()
    resumed = tracking.tracking(tmp_path, keep_steps=10)
    resumed(record(30))
    resumed.finish(figures)
    events = EventAccumulator(str(tmp_path / "tensorboard"))
    events.Reload()
    assert set(events.Tags()["scalars"]) == {"loss", "kl", "learning_rate"}
    found = {event.step: event.value for event in events.Scalars("loss")}
    assert found == pytest.approx({10: 1 / 10, 30: 1 / 30})
    (picture,) = events.Images("samples")
    assert (picture.width, picture.height, picture.step) == (30, 20, 30)


@pytest.mark.skipif(importlib.util.find_spec("mlflow") is None, reason="needs mlflow")
@pytest.mark.filterwarnings("ignore")  # of mlflow's own
def test_mlflow_has_the_run_with_its_terms_and_pictures(tmp_path, figures, monkeypatch):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", (tmp_path / "mlruns").as_uri())
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    monkeypatch.setenv("MLFLOW_EXPERIMENT_NAME", "of a test")
    from mlflow import MlflowClient, set_tracking_uri

    set_tracking_uri((tmp_path / "mlruns").as_uri())
    listener = tracking.tracking(tmp_path)
    for step in (10, 20):
        listener(record(step))
    listener.finish(figures)
    client = MlflowClient()
    (run,) = client.search_runs([client.get_experiment_by_name("of a test").experiment_id])
    assert (run.info.status, run.info.run_name) == ("FINISHED", str(tmp_path))
    assert [(m.step, m.value) for m in client.get_metric_history(run.info.run_id, "loss")] == [(10, 0.1), (20, 0.05)]
    assert math.isclose(run.data.metrics["learning_rate"], 1e-3 / 3)
    assert [file for file in client.list_artifacts(run.info.run_id, "images") if "samples" in file.path]
