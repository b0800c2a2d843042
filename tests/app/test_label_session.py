"""A labeling without a browser: questions, guesses, the wall, training and exports."""

import csv
import io
import signal
import subprocess
import sys
import time
import zipfile

import numpy as np
import pytest
from sklearn.datasets import load_digits

import mmdgm
from mmdgm.app import label_training
from mmdgm.app.label_exports import export
from mmdgm.errors import InputError
from mmdgm.progress import write_metrics
from tests.app.label_data import session_of, write_digits


@pytest.fixture(name="digits")
def make_digits(tmp_path):
    """A session of 300 digits and their classes; row 7 is labeled by the data."""
    digits = load_digits()
    y = np.where(np.arange(300) == 7, digits.target[:300].astype(str), "-1")
    np.savez(tmp_path / "digits.npz", x=digits.images[:300], y=y)
    session = session_of(tmp_path / "digits.npz")
    yield session, digits.target[:300].astype(str)
    session.close()


def answer(session, truth, n, who="me"):
    """Label the next n questions, one at a time, each after the guesses of the last; returns the questions."""
    asked = []
    for _ in range(n):
        assert session.guessing.wait(session.store.version)
        (question,) = session.questions(who, 1)
        row = question["row"]
        number = f"{who}-{session.store.version}"
        session.add(who, [{"id": number, "do": "label", "label": truth[row], **question}])
        asked.append(question)
    return asked


def test_questions_teach_the_guesses_and_every_fifth_is_a_random_check(digits):
    session, truth = digits
    asked = answer(session, truth, 40)
    assert session.guessing.wait(session.store.version)
    assert len({each["row"] for each in asked} | {7}) == 41
    assert [i + 1 for i, each in enumerate(asked) if each["check"]] == [24, 29, 34, 39]  # one label was there
    labels = session.store.labels()
    wrong = [session.guesses.of(row) != truth[row] for row in range(300) if row not in labels]
    assert np.mean(wrong) < 0.05
    state = session.state()
    assert (state["labeled"], state["estimate"]["checks"]) == (41, 4)
    assert sum(state["guessed"].values()) == 259


def test_only_checks_are_random_rows_and_give_an_estimate(digits):
    session, truth = digits
    answer(session, truth, 25)
    assert session.guessing.wait(session.store.version)
    for question in session.questions("me", 12, checks=True):
        assert question["check"]
        label = truth[question["row"]]
        session.add("me", [{"id": f"c{question['row']}", "do": "label", "label": label, **question}])
    found = session.state()["estimate"]
    lines = [line for line in session.store.since(0) if line.get("check") and line["kind"] == "label"]
    wrong = sum(line["predicted"] != line["label"] for line in lines)
    assert (found["checks"], found["wrong"]) == (len(lines), wrong)
    assert found["low"] < found["error_percent"] + 0.01 < found["high"]


def test_skipped_and_undecided_rows_are_not_asked_again_and_two_browsers_get_different_rows(digits):
    session, _ = digits
    assert session.guessing.wait(0)
    first = [each["row"] for each in session.questions("one", 5)]
    session.add("one", [{"id": "s", "do": "skip", "row": first[0]}, {"id": "u", "do": "unsure", "row": first[1]}])
    session.questions("two", 1)
    one, two = ([each["row"] for each in session.questions(who, 100)] for who in ("one", "two"))
    assert not {*first[:2], 7} & {*one, *two}
    assert not {*one} & {*two}
    everything = [each["row"] for each in session.questions("one", 1000)]
    assert sorted(everything) == sorted(set(range(300)) - {*first[:2], 7})
    rest = [{"id": f"r{row}", "do": "unsure", "row": row} for row in everything]
    session.add("one", rest)
    assert session.questions("one", 9) == [{"row": first[0], "check": False, "again": True}]


def test_the_wall_has_the_least_sure_first_and_corrections_leave_it(digits):
    session, truth = digits
    answer(session, truth, 30)
    assert session.guessing.wait(session.store.version)
    names = session.guesses.classes
    walls = {name: session.wall(name, labeled=False, start=0, n=500) for name in names}
    rows = [tile["row"] for wall in walls.values() for tile in wall["tiles"]]
    assert sorted(rows) == sorted(set(range(300)) - set(session.store.labels()))
    lead = session.guesses.lead
    for name, wall in walls.items():
        assert {tile["guess"] for tile in wall["tiles"]} <= {name}
        assert list(lead[[tile["row"] for tile in wall["tiles"]]]) == sorted(
            lead[tile["row"]] for tile in wall["tiles"]
        )
    name = names[0]
    tile = walls[name]["tiles"][0]
    session.add("me", [{"id": "fix", "do": "label", "row": tile["row"], "label": "new"}])
    assert session.wall(name, labeled=False, start=0, n=500)["total"] == walls[name]["total"] - 1
    assert session.wall("new", labeled=True, start=0, n=5)["tiles"][0]["row"] == tile["row"]
    assert session.wall(name, labeled=False, start=2, n=3)["tiles"] == walls[name]["tiles"][3:6]


def test_predictions_are_exported_for_every_row(digits):
    session, truth = digits
    with pytest.raises(InputError, match="no classifier"):
        export(session, "model.zip")
    answer(session, truth, 10)
    assert session.guessing.wait(session.store.version)
    lines = list(csv.DictReader(io.StringIO(export(session, "predictions.csv").content.decode())))
    assert [int(line["row"]) for line in lines] == list(range(300))
    labels = session.store.labels()
    for row, line in enumerate(lines):
        assert line["label"] == labels.get(row, "")
        assert line["prediction"] == session.guesses.of(row)
        assert line["class"] == labels.get(row, line["prediction"])


def wait_for(training, *states, seconds=60, step=0):
    end = time.monotonic() + seconds
    while (found := training.status())["state"] not in states or found.get("step", 0) < step:
        assert time.monotonic() < end, found
        time.sleep(0.05)
    return found


@pytest.fixture(name="python")
def make_python(tmp_path, monkeypatch):
    """Give the lines of a shell script that trainings run in place of `mmdgm fit`."""

    def replace(*lines):
        script = tmp_path / "python"
        script.write_text("\n".join(["#!/bin/sh", *lines]) + "\n")
        script.chmod(0o700)
        monkeypatch.setattr(label_training.sys, "executable", str(script))

    return replace


def test_a_training_is_cancelled_and_goes_on_after_a_new_start(tmp_path, python):
    python('echo "MMCVAClassifier  epoch 1/9  step 40/900  9 img/s" >&2', "cat > /dev/null", "exit 143")
    training = label_training.Training(tmp_path / "runs", ["digits.npz"])
    training.start(b"row,label\n0,a\n1,b\n", minutes=2)
    write_metrics(training.folder.metrics, [{"stage": "labels", "step": 300, "seconds": 4.5}])
    while "step 40" not in (found := training.status())["line"]:
        time.sleep(0.01)
    assert found | {"line": ""} == {
        **{"number": 1, "line": "", "state": "running"},
        **{"step": 300, "steps": 900, "seconds": 4.5, "limit": 120.0},
    }
    with pytest.raises(InputError, match="is running"):
        training.start(b"", minutes=2)
    training.cancel()
    assert wait_for(training, "stopped")["number"] == 1
    again = label_training.Training(tmp_path / "runs", ["digits.npz"])
    assert again.status()["state"] == "stopped"
    python('echo "$@" >&2', "exit 143")
    again.resume(minutes=0.5)
    run = tmp_path / "runs" / "1"
    expected = f"fit digits.npz --no-estimate --labels {run / 'labels.csv'} --run-dir {run} --max-time 30"
    wait_for(again, "failed")
    again.close()
    assert again.status()["line"] == f"-m mmdgm.cli.fit_process {expected}"
    assert (run / "labels.csv").read_text() == "row,label\n0,a\n1,b\n"


def test_a_training_that_fails_says_why(tmp_path, python):
    python("echo 'mmdgm: digits.npz is missing' >&2", "exit 2")
    training = label_training.Training(tmp_path / "runs", ["digits.npz"])
    assert training.status() == {"state": "none", "number": 0}
    training.start(b"row,label\n0,a\n1,b\n")
    assert wait_for(training, "failed")["line"] == "digits.npz is missing"
    training.close()
    with pytest.raises(InputError, match="no training to go on"):
        training.resume()


def test_a_training_ends_as_soon_as_the_page_does():
    code = "import threading, time; from mmdgm.cli.fit_process import end_with_the_page\n"
    code += "threading.Thread(target=end_with_the_page, daemon=True).start(); time.sleep(60)"
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE) as process:
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.2)
        process.stdin.close()
        assert process.wait(30) == -signal.SIGTERM


@pytest.mark.slow
def test_the_classifier_of_a_training_guesses(tmp_path):
    rng, truth = np.random.default_rng(0), np.array(["a", "b"])[np.arange(90) % 2]
    np.savez(tmp_path / "rows.npz", x=rng.normal(size=(90, 3)) + 3 * (truth == "b")[:, None])
    session = session_of(tmp_path / "rows.npz")
    try:
        with pytest.raises(InputError, match="two classes or more"):
            session.train(None)
        session.add("me", [{"id": f"{row}", "do": "label", "row": row, "label": truth[row]} for row in range(30)])
        session.train(0.02)
        wait_for(session.training, "done", seconds=120)
        end = time.monotonic() + 30
        while session.state()["source"] == "labels":
            assert time.monotonic() < end
            time.sleep(0.05)
        assert np.mean([session.guesses.of(row) == truth[row] for row in range(30, 90)]) > 0.9
        with zipfile.ZipFile(io.BytesIO(export(session, "model.zip").content)) as archive:
            archive.extractall(tmp_path / "out")
        model = mmdgm.load(tmp_path / "out" / "model", device="cpu")
        assert model.predict(session.data.x[:5]).tolist() == [session.guesses.of(row) for row in range(5)]
        assert session.guessing.wait(session.store.version)
        session.use("labels")
        assert session.guesses is session.guessing.newest
    finally:
        session.close()


def test_a_folder_of_images_and_labels_of_its_subfolders(tmp_path):
    write_digits(tmp_path / "all", 12)
    for name in ("x", "unlabeled"):
        (tmp_path / "all" / name).mkdir()
    for i, path in enumerate(sorted((tmp_path / "all").glob("*.png"))):
        path.rename(path.parent / ("x" if i < 3 else "unlabeled") / path.name)
    session = session_of(tmp_path / "all")
    try:
        assert session.guessing.wait(0)
        assert (session.state()["labeled"], session.state()["classes"][0]["name"]) == (3, "x")
        rows = {each["row"] for each in session.questions("me", 20)}
        assert {session.views.name(row).split("/")[0] for row in rows} == {"unlabeled"}
        assert len(rows) == 9
    finally:
        session.close()
