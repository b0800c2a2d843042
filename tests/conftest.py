"""Shared fixtures: small models, trained in seconds. Tests must not change them, nor write into their folders."""

import csv
import io
import json
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from rich.console import Console
from sklearn.datasets import load_digits, load_wine

from faults import heeded
from mmdgm import MMCVAClassifier
from mmdgm.cli import main
from mmdgm.data import datasets
from mmdgm.data.labeled_files import read_data
from mmdgm.devices import Machine
from mmdgm.experiments import fit_runs, reports, run_folder, training_runs
from mmdgm.experiments.presets import find_preset
from mmdgm.report import figures, plots
from mmdgm.settings import override

QUICK = {"hidden": (32,), "max_epochs": 20, "random_state": 0, "device": "cpu"}  # parameters of estimators


def holes(X, share=0.3, seed=0):
    """The rows with some of their values missing, but never the first of a row."""
    rng = np.random.default_rng(seed)
    mask = rng.random(X.shape) < share
    mask.reshape(len(X), -1)[:, 0] = False
    return np.where(mask, np.nan, X)


def without_times(rows):
    """Lines of metrics.csv, or of `history_`, without what the clock says."""
    return [{key: value for key, value in row.items() if key not in ("seconds", "images_per_second")} for row in rows]


def image_size(path):
    with Image.open(path) as image:
        return image.size


def read_csv(path):
    with Path(path).open(newline="", encoding="utf-8") as file:
        return list(csv.reader(file))


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


@pytest.fixture(name="answer")
def make_answer(mmdgm, tmp_path, monkeypatch):
    """Run a command in an empty folder; returns its answer."""
    monkeypatch.chdir(tmp_path)

    def answer(*words):
        code, out, err = mmdgm(*words, "--json")
        assert code == 0, err
        return json.loads(out)

    return answer


@pytest.fixture(name="refused")
def make_refused(mmdgm, tmp_path, monkeypatch):
    """Run a command that is to fail in an empty folder: exit code 2, one line, no file written; returns the line.

    `watched` are other folders in which nothing must change. Lines on skipped files may come first.
    """
    monkeypatch.chdir(tmp_path)

    def refused(*words, watched=()):
        def files():
            folders = (tmp_path, *watched)
            return {path: path.read_bytes() for folder in folders for path in folder.rglob("*") if path.is_file()}

        before = files()
        code, out, err = mmdgm(*words)
        assert (code, out) == (2, ""), err
        lines = [line for line in err.splitlines() if not line.endswith("; skipped")]
        assert len(lines) == 1, err
        assert lines[0].startswith("mmdgm: ")
        assert files() == before
        return lines[0]

    return refused


@pytest.fixture(scope="session", name="quiet")
def make_quiet():
    return Console(file=io.StringIO())


@pytest.fixture(scope="session", name="trained")
def make_trained(tmp_path_factory, quiet):
    """The folder of a short digits run of the conditional model."""
    path = tmp_path_factory.mktemp("run") / "trained"
    config, overrides = override(
        find_preset("digits-mmcva-50").config, ["epochs=30", "validation=100", "log_every=50"]
    )
    training_runs.train_runs(
        config, [(3, run_folder.RunFolder(path))], overrides=overrides, console=quiet, machine=Machine("cpu")
    )
    return path


@pytest.fixture(scope="session")
def wine():
    """X, y, X with missing values, y of which seven tenths are unlabeled."""
    X, y = load_wine(return_X_y=True)
    few = np.where(np.random.default_rng(0).random(len(y)) < 0.7, -1, y)
    return X, y, holes(X), few


@pytest.fixture(scope="session")
def fitted(wine):
    """A classifier of few labels on a table with missing values."""
    _, _, X, y = wine
    return MMCVAClassifier(random_state=0, device="cpu").fit(X, y)


@pytest.fixture(scope="session")
def on_images():
    """A classifier of images of 8×8 pixels from 0 to 16, trained for an epoch."""
    digits = load_digits()
    y = np.where(np.arange(len(digits.target)) < 100, digits.target, -1)
    return MMCVAClassifier(max_epochs=1, random_state=0, device="cpu", z=4).fit(digits.images[:400], y[:400])


# --- users' own data -------------------------------------------------------------------------------------


def write_npz(path, n=60):
    """Digits 0..16 of which a third is labeled."""
    digits = datasets.load("digits")
    y = digits.y_train[:n].astype(np.int64)
    y[n // 3 :] = -1
    np.savez(path, x=digits.x_train[:n, 0].astype(np.float64), y=y)


def write_images(folder):
    """Two classes and unlabeled images, of several sizes and modes, and a broken file."""
    digits = datasets.load("digits")
    for i, (name, digit) in enumerate([("nought", 0), ("one", 1), ("unlabeled", 0), ("unlabeled", 1)] * 4):
        image = digits.x_train[digits.y_train == digit][i, 0]
        picture = Image.fromarray((image * 15).astype(np.uint8)).resize((20 + i, 30))
        (folder / name).mkdir(parents=True, exist_ok=True)
        picture.convert(["L", "RGB", "P", "LA"][i // 4]).save(folder / name / f"{i:02}.png")
    (folder / "one" / "broken.png").write_bytes(b"no image")
    (folder / ".hidden").mkdir()


def write_table(path, n=40):
    """Two kinds, every third without a label, every fifth width and every seventh colour empty."""
    rng = np.random.default_rng(0)
    rows = []
    for i in range(n):
        kind = i % 2
        width, height = f"{rng.normal(4 * kind):.3f}", f"{rng.normal(-kind):.2e}"
        colour = ("red", "blue")[kind] if rng.random() < 0.9 else "deep, green"
        rows.append(
            [width if i % 5 else "", colour if i % 7 else "", height, ("small", "large")[kind] if i % 3 else ""]
        )
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([["width", "colour", "height", "kind"], *rows])
    return rows


@pytest.fixture(scope="session", name="own")
def make_own(tmp_path_factory, quiet):
    """A folder with data of each kind and short runs of them; tests must not write into it."""
    folder = tmp_path_factory.mktemp("own")
    write_npz(folder / "digits.npz")
    write_images(folder / "images")
    write_table(folder / "table.csv")
    x = np.random.default_rng(0).normal(size=(30, 3))
    np.savez(folder / "columns.npz", x=x, y=(x[:, 0] > 0).astype(int))
    data = {
        "digits": read_data(folder / "digits.npz"),
        "pictures": read_data(folder / "images", size="8x12"),
        "rows": read_data(folder / "table.csv", target="kind"),
        "columns": read_data(folder / "columns.npz"),
    }
    for name, each in data.items():
        model = "mmva" if name == "columns" else "mmcva"
        options = fit_runs.FitOptions(model=model, seed=1, epochs=2, device="cpu")
        fit_runs.fit_run(each, run_folder.RunFolder(folder / name), options, console=quiet)
    return folder


@pytest.fixture(name="heeded_signals")
def heed_signals():
    """Signals act as in a terminal, also where the tests run under nohup or as a job in the background."""
    with heeded():
        yield


@pytest.fixture(autouse=True)
def quick_reports(request, monkeypatch):
    """Runs in tests get a page and curves without content, which take seconds; tests of reports get whole ones."""
    if "report" not in request.node.path.name and "report" not in request.node.path.parent.name:
        monkeypatch.setattr(reports, "run_report", lambda run, rows: b"<!doctype html>")
        monkeypatch.setattr(plots, "save_curves", lambda path, rows: plots.save_grid(path, np.zeros((1, 1, 1, 2, 2))))
        monkeypatch.setattr(figures, "ROUNDS", 2)
