"""`mmdgm app DATA` opens a labeling of it."""

import numpy as np
import pytest

pytest.importorskip("starlette")

from mmdgm.app import server
from mmdgm.app.label_store import LabelStore


@pytest.fixture(name="served")
def make_served(monkeypatch):
    """The sites that were served, and what was ready for them."""
    found = []
    monkeypatch.setattr(server, "serve", lambda site, **options: found.append((site, options)))
    return found


def test_data_are_labeled_into_the_file_that_suggest_writes(served, mmdgm, tmp_path):
    np.savez(tmp_path / "x.npz", x=np.random.default_rng(0).random((20, 3)))
    labels = tmp_path / "x-labels.csv"
    labels.write_text("row,label\n3,cat\n")
    code, _, err = mmdgm("app", tmp_path / "x.npz", "--port", 8123, "--no-browser")
    assert code == 0, err
    ((site, options),) = served
    assert (options["port"], options["browser"]) == (8123, False)
    assert "/api/label/events" in {route.path for route in site.routes}
    assert (tmp_path / "x-labels.csv.journal").exists()
    assert labels.read_text() == "row,label\n3,cat\n"


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["nothing.csv"], "nothing.csv is missing"),
        (["x.npz", "--size", "8x8"], "--size is for a folder"),
        (["x.npz", "--labels", "wrong.csv"], "the data have no row 99"),
        (["x.npz", "--labels", "open.csv"], "another `mmdgm app` writes these labels"),
    ],
)
def test_what_cannot_be_labeled_gets_one_line(served, mmdgm, tmp_path, monkeypatch, words, line):
    monkeypatch.chdir(tmp_path)
    np.savez("x.npz", x=np.random.default_rng(0).random((20, 3)))
    (tmp_path / "wrong.csv").write_text("row,label\n99,cat\n")
    with LabelStore(tmp_path / "open.csv", 20):
        code, out, err = mmdgm("app", *words)
    assert (code, out, served) == (2, "", [])
    assert line in err


def test_options_of_data_are_not_for_a_run(own, served, mmdgm):
    for option in ("--labels", "--target", "--size", "--unlabeled"):
        code, _, err = mmdgm("app", own / "rows", option, "x")
        assert (code, served) == (2, [])
        assert f"{option} is for data to label" in err
