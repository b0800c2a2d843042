"""Shared fixtures: a trained run, small enough to make in seconds."""

import io
import sys

import pytest
from PIL import Image
from rich.console import Console

from mmdgm.cli import main
from mmdgm.experiments import run_folder, training_runs
from mmdgm.experiments.presets import find_preset
from mmdgm.settings import override


def image_size(path):
    with Image.open(path) as image:
        return image.size


@pytest.fixture(name="mmdgm")
def make_mmdgm(monkeypatch, capsys):
    """Run the command in this process; returns (exit code, standard output, standard error)."""

    def run(*words):
        monkeypatch.setattr(sys, "argv", ["mmdgm", *map(str, words)])
        try:
            main()
            code = 0
        except SystemExit as ended:
            code = ended.code or 0
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


@pytest.fixture(scope="session", name="quiet")
def make_quiet():
    return Console(file=io.StringIO())


@pytest.fixture(scope="session", name="trained")
def make_trained(tmp_path_factory, quiet):
    """A short digits run of the conditional model; returns its folder. Tests must not write into it."""
    path = tmp_path_factory.mktemp("run") / "trained"
    config, overrides = override(
        find_preset("digits-mmcva-50").config, ["epochs=30", "validation=100", "log_every=50"]
    )
    training_runs.train_runs(
        config, [(3, run_folder.RunFolder(path))], overrides=overrides, console=quiet, device="cpu"
    )
    return path
