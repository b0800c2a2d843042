"""How commands end by a signal, on a full disk, in folders of others, and at paths that are none."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from faults import failing
from mmdgm import progress
from mmdgm.experiments.run_folder import RunFolder
from mmdgm.files import read_json
from mmdgm.progress import MetricsFile, read_metrics
from mmdgm.training import loop
from mmdgm.training.loop import checkpoint_step

SIGNALS = {"SIGINT": 130, "SIGTERM": 143, "SIGHUP": 129}
FIT = ("--epochs", 40, "--device", "cpu", "--no-estimate")
TRAIN = ("train", "digits-mmcva-50", "--device", "cpu", "--set", "epochs=4", "--set", "log_every=20")


pytestmark = pytest.mark.usefixtures("heeded_signals")


def signal_at(patch, number, *, row):
    """Raise a signal while this row of metrics.csv is written."""
    write = MetricsFile.__call__

    def write_and_raise(self, record):
        write(self, record)
        if len(self.rows) == row:
            signal.raise_signal(number)

    patch.setattr(MetricsFile, "__call__", write_and_raise)


@pytest.mark.parametrize("name", SIGNALS)
def test_a_fit_that_a_signal_ends_says_where_its_checkpoint_is_and_goes_on(mmdgm, own, tmp_path, name):
    words = ("fit", own / "table.csv", "--target", "kind", *FIT, "--run-dir")
    assert mmdgm(*words, tmp_path / "whole")[0] == 0
    with pytest.MonkeyPatch.context() as patch:
        signal_at(patch, getattr(signal, name), row=7)
        code, out, err = mmdgm(*words, tmp_path / "run")
    assert (code, out) == (SIGNALS[name], "")
    folder = RunFolder(tmp_path / "run")
    step = checkpoint_step(folder.checkpoint)
    assert step == read_metrics(folder.metrics)[-1]["step"] > 0
    assert f"the checkpoint is {folder.checkpoint}; --resume goes on from step {step}" in err
    assert err.splitlines()[-1] == ("mmdgm: interrupted" if name == "SIGINT" else f"mmdgm: ended by {name}")
    assert mmdgm(*words, tmp_path / "run", "--resume")[0] == 0
    weights = [(tmp_path / path / "model.safetensors").read_bytes() for path in ("whole", "run")]
    assert weights[0] == weights[1]


def test_a_preset_that_a_signal_ends_goes_on(mmdgm, tmp_path):
    assert mmdgm(*TRAIN, "--run-dir", tmp_path / "whole")[0] == 0
    with pytest.MonkeyPatch.context() as patch:
        signal_at(patch, signal.SIGTERM, row=2)
        assert mmdgm(*TRAIN, "--run-dir", tmp_path / "run")[0] == 143
    assert checkpoint_step(RunFolder(tmp_path / "run").checkpoint) > 0
    assert mmdgm("train", "digits-mmcva-50", "--device", "cpu", "--run-dir", tmp_path / "run", "--resume")[0] == 0
    weights = [(tmp_path / path / "model.safetensors").read_bytes() for path in ("whole", "run")]
    assert weights[0] == weights[1]


@pytest.mark.slow
@pytest.mark.parametrize("name", SIGNALS)
def test_a_process_that_gets_a_signal_saves_a_checkpoint(own, tmp_path, name):
    words = ["fit", own / "digits.npz", "--epochs", 5000, "--device", "cpu", "--run-dir"]
    command = [sys.executable, "-m", "mmdgm", *map(str, words), "run"]
    with subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True) as child:
        folder, began = RunFolder(tmp_path / "run"), time.monotonic()
        while not (folder.metrics.exists() and folder.metrics.stat().st_size) and time.monotonic() < began + 60:
            time.sleep(0.05)
        child.send_signal(getattr(signal, name))
        err = child.communicate(timeout=60)[1]
    assert child.returncode == SIGNALS[name]
    assert checkpoint_step(folder.checkpoint) > 0
    assert "Traceback" not in err


AT_A_DATACLASS = """
import signal, sys
from mmdgm import cli
def app(*words, **more):
    exec("signal.raise_signal(int(sys.argv[1]))", globals())
cli.app = app
cli.main()
"""


@pytest.mark.parametrize("name", SIGNALS)
def test_a_signal_inside_the_code_of_a_dataclass_gives_the_exit_code_of_the_signal(tmp_path, name):
    """Python itself ended such a process by SIGINT (exit code -2), whatever the signal and our exit code were."""
    (tmp_path / "at.py").write_text(AT_A_DATACLASS)
    command = [sys.executable, "-m", "at", str(int(getattr(signal, name)))]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (ended.returncode, len(ended.stderr.splitlines())) == (SIGNALS[name], 1)


def test_a_full_disk_does_not_stop_training(own, tmp_path, mmdgm, monkeypatch, caplog):
    """From the first row of metrics.csv on, until the model is saved: neither rows nor checkpoints can be written."""
    words = ("fit", own / "table.csv", "--target", "kind", *FIT, "--run-dir")
    assert mmdgm(*words, tmp_path / "whole")[0] == 0
    run = loop.Loop.finish

    def on_a_full_disk(self):
        if self.checkpoint is None:
            return run(self)
        self.saved_at = -1e9
        with failing(1, lasting=True):
            return run(self)

    monkeypatch.setattr(loop.Loop, "finish", on_a_full_disk)
    assert mmdgm(*words, tmp_path / "run")[0] == 0
    assert [line for line in caplog.messages if "metrics.csv cannot be written" in line]
    assert [line for line in caplog.messages if "no checkpoint of step" in line]
    for name in ("model.safetensors", "result.json"):
        assert (tmp_path / "run" / name).exists()
    weights = [(tmp_path / path / "model.safetensors").read_bytes() for path in ("whole", "run")]
    assert weights[0] == weights[1]
    rows = [[row["loss"] for row in read_metrics(tmp_path / path / "metrics.csv")] for path in ("whole", "run")]
    assert rows[0] == rows[1]


def test_a_damaged_metrics_file_does_not_keep_a_run_from_going_on(mmdgm, own, tmp_path, caplog):
    words = ("fit", own / "table.csv", "--target", "kind", *FIT, "--run-dir", tmp_path / "run")
    with pytest.MonkeyPatch.context() as patch:
        signal_at(patch, signal.SIGTERM, row=7)
        assert mmdgm(*words)[0] == 143
    metrics = RunFolder(tmp_path / "run").metrics
    lines = metrics.read_bytes().splitlines(keepends=True)
    metrics.write_bytes(b"".join([*lines[:3], b"\xff" + lines[3].replace(b",", b",\xff", 2), *lines[4:]]))
    assert mmdgm(*words, "--resume")[0] == 0
    assert "going on with 6 of its 7 rows" in caplog.text
    assert read_json(tmp_path / "run" / "result.json")["status"] == "done"


def test_a_folder_of_metrics_that_is_deleted_comes_back(tmp_path):
    path = tmp_path / "run" / "metrics.csv"
    metrics = MetricsFile(path)
    values = {"stage": "a", "total_steps": 3, "epoch": 1, "total_epochs": 3, "learning_rate": 0.1}
    for step in (1, 2, 3):
        metrics(progress.Record(step=step, metrics={}, images_per_second=1, seconds=1, **values))
        if step == 2:
            path.unlink()
            path.parent.rmdir()
    assert [row["step"] for row in read_metrics(path)] == [1, 2, 3]


def test_a_result_of_something_else_is_no_trained_run(refused, own, tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "result.json").write_text('{"status": "done", "error_percent": 0}')
    assert "is of no run here" in refused("fit", own / "columns.npz", *FIT, "--run-dir", "run")
    assert "is of no run here" in refused(*TRAIN, "--run-dir", "run")


def test_a_done_run_whose_weights_are_gone_is_trained_again(mmdgm, refused, own, tmp_path):
    words = ("fit", own / "columns.npz", "--epochs", 2, "--device", "cpu", "--no-estimate", "--run-dir", "run")
    assert mmdgm(*words)[0] == 0
    weights = Path("run/model.safetensors").read_bytes()
    Path("run/model.safetensors").unlink()
    assert "go on with it by --resume" in refused("predict", "run", own / "columns.npz")
    assert mmdgm(*words, "--resume")[0] == 0
    assert Path("run/model.safetensors").read_bytes() == weights


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("fit", "DATA", "--run-dir", ""), "'--run-dir': the path is empty"),
        (("fit", "DATA", "--run-dir="), "'--run-dir': the path is empty"),
        (("train", "digits-mmva", "--run-dir", ""), "'--run-dir': the path is empty"),
        (("predict", "", "DATA"), "'RUN': the path is empty"),
        (("data", "check", "--data-dir", ""), "'--data-dir': the path is empty"),
        (("fit", "DATA", "--run-dir", "a" * 300), "File name too long"),
        (("fit", "a" * 300, "--run-dir", "run"), "File name too long"),
        (("predict", "a" * 300, "DATA"), "File name too long"),
        (("fit", "DATA", "--run-dir", "file/run"), "Not a directory"),
        (("fit", os.fsdecode(b"\xff.npz"), "--run-dir", "run"), "\\udcff.npz"),
    ],
)
def test_paths_that_are_none_are_refused_with_one_line(refused, own, tmp_path, words, said):
    (tmp_path / "file").write_text("")
    assert said in refused(*(own / "columns.npz" if word == "DATA" else word for word in words))


def test_a_folder_that_cannot_be_searched_is_refused_with_one_line(refused, own, monkeypatch):
    def exists(self, **_):
        raise PermissionError(13, "Permission denied", str(self))

    monkeypatch.setattr(Path, "exists", exists)
    assert "Permission denied" in refused("fit", own / "columns.npz", *FIT, "--run-dir", "run")


def test_paths_need_not_be_utf8(mmdgm, own, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    name = os.fsdecode(b"r\xff")
    code, out, err = mmdgm("fit", own / "columns.npz", "--epochs", 1, "--no-estimate", "--run-dir", name)
    assert (code, out.splitlines()[-1]) == (0, "r\\udcff"), err
    code, out, err = mmdgm("predict", name, own / "columns.npz", "--out", f"{name}.csv", "--json")
    assert code == 0, err
    assert len(np.genfromtxt(f"{name}.csv", delimiter=",", skip_header=1)) == 30
