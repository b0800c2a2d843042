"""The routes of the page Label: what they answer, and what they refuse."""

import io
import json

import numpy as np
import pytest
from PIL import Image

from mmdgm.app.label import label_site
from mmdgm.errors import InputError
from tests.app.conftest import running
from tests.app.label_data import get, post, session_of, write_digits


@pytest.fixture(name="served", scope="module")
def serve_digits(tmp_path_factory):
    """A server of 30 digits, and its session."""
    folder = tmp_path_factory.mktemp("label")
    write_digits(folder / "digits", 30)
    (folder / "secret.png").write_bytes((folder / "digits" / "0000.png").read_bytes())
    session = session_of(folder / "digits")
    with running(label_site(session)) as server:
        assert session.guessing.wait(0)
        yield server, session
    session.close()


def test_events_are_answered_with_news_questions_and_the_state(served):
    server, _ = served
    events = [{"id": str(row), "do": "label", "row": row, "label": "four"} for row in (4, 99)]
    status, found = post(server, "/api/label/events", who="me", events=events, since=0, want=3)
    assert status == 200
    assert found["answers"][0] == {"id": "4", "v": 2}
    assert "no such row" in found["answers"][1]["refused"]
    assert [(line["kind"], line.get("row")) for line in found["lines"]] == [("class", None), ("label", 4)]
    assert len(found["questions"]) == 3
    assert 4 not in {each["row"] for each in found["questions"]}
    assert found["state"]["classes"] == [{"name": "four", "key": "1", "n": 1}]
    assert found["state"]["version"] == found["lines"][-1]["v"]
    status, found = post(server, "/api/label/events", who="you", events=[], since=2, want=0)
    assert (found["lines"], found["questions"]) == ([], [])


@pytest.mark.parametrize(
    ("body", "line"),
    [
        ({"events": "all"}, "a list of at most 500 objects"),
        ({"events": [1]}, "a list of at most 500 objects"),
        ({"events": [{}] * 501}, "a list of at most 500 objects"),
        ({"want": "many"}, "a number is expected"),
        ({"since": [1]}, "a number is expected"),
    ],
)
def test_malformed_requests_get_one_line(served, body, line):
    status, found = post(served[0], "/api/label/events", who="me", **body)
    assert status == 400
    assert line in found["error"]


def test_a_full_disk_is_an_error_after_which_the_browser_sends_again(served, monkeypatch):
    server, session = served

    def full(*_, **__):
        raise InputError("labels.csv.journal: cannot be written (No space left on device)")

    monkeypatch.setattr(session.store._journal, "append", full)
    event = {"id": "full", "do": "label", "row": 5, "label": "five"}
    status, found = post(server, "/api/label/events", who="me", events=[event])
    assert (status, 5 in session.store.labels()) == (507, False)
    assert "No space left" in found["error"]
    monkeypatch.undo()
    status, found = post(server, "/api/label/events", who="me", events=[event])
    assert (status, session.store.labels()[5]) == (200, "five")


def test_pictures_are_those_of_the_rows_and_no_other_file_is_read(served):
    server, _ = served
    status, headers, content = get(server, "/api/label/picture/3?small=1")
    assert (status, headers["content-type"]) == (200, "image/png")
    expected = np.asarray(Image.open(served[1].data.path / "0003.png"))
    np.testing.assert_array_equal(np.asarray(Image.open(io.BytesIO(content)).convert("L")), expected)
    assert get(server, "/api/label/picture/30")[0] == 400
    for path in ("/api/label/picture/-1", "/api/label/picture/..%2Fsecret.png", "/static/../../secret.png"):
        assert get(server, path)[0] == 404


def test_the_wall_and_downloads(served):
    server, session = served
    post(server, "/api/label/events", who="me", events=[{"id": "a", "do": "label", "row": 0, "label": "=1+1"}])
    assert session.guessing.wait(session.store.version)
    wall = json.loads(get(server, "/api/label/wall?class=%3D1%2B1&n=5")[2])
    assert wall["total"] >= len(wall["tiles"])
    status, headers, content = get(server, "/api/label/export/labels.csv")
    assert (status, headers["content-disposition"]) == (200, 'attachment; filename="labels.csv"')
    assert b"0,0000.png,'=1+1" in content  # no spreadsheet computes it
    assert get(server, "/api/label/export/predictions.csv")[2].count(b"\n") == 31
    for name in ("model.zip", "classifier.onnx", "passwords"):
        assert get(server, f"/api/label/export/{name}")[0] == 400


def test_training_and_sources_refuse_what_cannot_be(served):
    server, _ = served
    for path, body, line in [
        ("train", {"do": "destroy"}, "start, cancel or resume"),
        ("train", {"do": "start", "minutes": -1}, "above 0"),
        ("train", {"do": "resume"}, "no training to go on"),
        ("source", {"source": "classifier 3"}, "no classifier is trained yet"),
    ]:
        status, found = post(server, f"/api/label/{path}", **body)
        assert status == 400
        assert line in found["error"]
    assert post(server, "/api/label/train", do="cancel")[0] == 200
    assert post(server, "/api/label/source", source="labels")[1]["source"] == "labels"
