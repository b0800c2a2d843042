"""Two processes train as one does: the same global batch, the same losses; only the first writes."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from mmdgm import distributed
from mmdgm.data.batches import Batches
from mmdgm.errors import InputError
from mmdgm.experiments.run_folder import RunFolder
from mmdgm.files import read_json
from mmdgm.training.loop import checkpoint_step

SCRIPT = Path(__file__).with_name("two_ranks.py")
TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1"}


def run(*command, **options):
    return subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True, timeout=240, **options)


@pytest.mark.slow
def test_two_ranks_compute_what_one_process_does(tmp_path):
    results = []
    for name, launcher in (("one", [sys.executable]), ("two", TORCHRUN)):
        done = run(*launcher, SCRIPT, tmp_path / name)
        assert done.returncode == 0, done.stderr
        results.append(json.loads((tmp_path / name).read_text()))
    one, two = results
    assert (one.pop("world_size"), two.pop("world_size")) == (1, 2)
    assert len(one["conditional"]) == 10
    assert len(one["two stages"]) == 15
    assert one["conditional"][5]["balance"] > 0.005
    for name, curve in one.items():
        for step, other in zip(curve, two[name], strict=True):
            assert other == pytest.approx(step, rel=1e-6, abs=1e-8), name


COMMAND = [sys.executable, "-m", "mmdgm", "train", "digits-mmcva-50", "--device", "cpu", "--devices", "2", "--json"]
COMMAND += ["--set", "epochs=3", "--set", "log_every=5"]


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """Return the folder of a run on two processes, and the run's answer."""
    folder = RunFolder(tmp_path_factory.mktemp("two") / "run")
    done = run(*COMMAND, "--run-dir", folder.path)
    assert done.returncode == 0, done.stderr
    return folder, json.loads(done.stdout)  # one answer, from the first rank


@pytest.mark.slow
def test_the_command_trains_on_two_processes_and_writes_once(whole, tmp_path):
    folder, result = whole
    assert (result["status"], result["processes"], result["execution"]) == ("done", 2, "plain")
    assert result == read_json(folder.result)
    lines = folder.metrics.read_text().splitlines()
    assert len(lines) == 1 + -(-result["steps"] // 5)
    # a batch that cannot be shared out: one line, from one rank, and nothing written
    done = run(*COMMAND, "--set", "batch=25", "--run-dir", tmp_path / "other")
    assert done.returncode == 2, done.stderr
    assert done.stderr.count("cannot be shared out") == 1
    assert not (tmp_path / "other").exists()


@pytest.mark.slow
def test_a_signal_to_one_of_two_processes_ends_both_after_a_checkpoint(whole, tmp_path):
    folder, began = RunFolder(tmp_path / "run"), time.monotonic()
    command = [*COMMAND, "--run-dir", folder.path]
    with subprocess.Popen(command, env=ENVIRONMENT, stderr=subprocess.PIPE, text=True) as first:
        while not folder.metrics.exists() and time.monotonic() < began + 120:
            time.sleep(0.01)
        first.send_signal(signal.SIGTERM)  # to the first process alone
        err = first.communicate(timeout=120)[1]  # until the second one has closed it, too
    assert first.returncode == 143
    step = checkpoint_step(folder.checkpoint)
    assert step % 5 == 0 < step
    assert err.count("ended by SIGTERM") == err.count(f"--resume goes on from step {step}") == 1
    assert "Traceback" not in err
    assert run(*command, "--resume").returncode == 0
    assert folder.weights.read_bytes() == whole[0].weights.read_bytes()


def test_shares_of_the_ranks_are_the_batch():
    labels = torch.arange(60) % 2 - 1  # every other row is labeled
    batches = Batches(labels, labeled_batch=6, unlabeled_batch=9, seed=0)
    whole = batches.rows(range(3, 8))
    shares = [batches.rows(range(3, 8), rank=rank, world_size=3) for rank in range(3)]
    for part, size in ((slice(0, 2), slice(0, 6)), (slice(2, 5), slice(6, 15))):  # labeled rows, then the others
        assert torch.equal(torch.cat([share[:, part] for share in shares], dim=1), whole[:, size])
    assert (labels[whole[:, :6]] >= 0).all()
    assert (labels[whole[:, 6:]] < 0).all()
    with pytest.raises(InputError, match=r"9 unlabeled .* 2 processes"):
        Batches(labels, labeled_batch=6, unlabeled_batch=9, seed=0).rows(range(1), world_size=2)


def test_alone_everything_is_the_identity(monkeypatch):
    x = torch.rand(3)
    assert distributed.mean_over_ranks(x) is x
    assert distributed.world_size() == 1
    assert distributed.is_first()
    monkeypatch.setenv("LOCAL_RANK", "1")
    assert not distributed.is_first()
