"""The store of labels: nothing acknowledged is lost, and the last word on a row counts."""

import itertools
import json
import threading
from contextlib import nullcontext

import pytest

from faults import failing, killed_at_every_write
from mmdgm.app.label_keys import free_key
from mmdgm.app.label_store import LabelStore
from mmdgm.data.label_files import read_labels_of_rows
from mmdgm.errors import InputError
from small_datasets import input_error

ROWS = 6


@pytest.fixture(name="path")
def make_path(tmp_path):
    return tmp_path / "labels.csv"


def said(row, label, **more):
    """An event with a new id."""
    return {"id": f"e{next(COUNT)}", "who": "me", "do": "label", "row": row, "label": label, **more}


COUNT = itertools.count()


def labels_of(path, n_rows=ROWS):
    with LabelStore(path, n_rows) as store:
        return store.labels()


def test_labels_lie_in_a_file_that_fit_reads_and_are_there_at_the_next_start(path):
    with LabelStore(path, ROWS) as store:
        assert not path.exists()
        answers = store.add([said(3, "cat"), said(0, " dog "), said(3, "dog")])
        assert [answer["v"] for answer in answers] == [2, 4, 5]  # a new class is a line too
        assert path.read_text() == "row,label\n3,dog\n0,dog\n"
        assert store.counts() == {"cat": 0, "dog": 2}
    assert labels_of(path) == read_labels_of_rows(path, ROWS, None) == {3: "dog", 0: "dog"}


def test_images_are_known_by_their_files_also_when_others_come(path):
    with LabelStore(path, 2, ["b.png", "c.png"]) as store:
        store.add([said(0, "x"), {"id": "u", "do": "unsure", "row": 1}])
    with LabelStore(path, 3, ["a.png", "b.png", "c.png"]) as store:
        assert (store.labels(), store.closed_rows()) == ({1: "x"}, {1: "label", 2: "unsure"})


def test_undo_gives_back_what_was_said_before(path):
    with LabelStore(path, ROWS, given={4: "bird"}) as store:
        first, second, third = said(1, "a"), said(1, "b"), said(4, "a")
        store.add([first, second, third])
        store.add([{"id": "u1", "do": "undo", "of": third["id"]}, {"id": "u2", "do": "undo", "of": second["id"]}])
        assert store.labels() == {1: "a", 4: "bird"}
        store.add([{"id": "u3", "do": "undo", "of": first["id"]}])
        assert store.labels() == {4: "bird"}
    with LabelStore(path, ROWS, given={4: "bird"}) as store:
        assert store.labels() == {4: "bird"}
        assert "refused" in store.add([{"id": "u4", "do": "undo", "of": first["id"]}])[0]


def test_undo_leaves_alone_what_another_browser_said_since(path):
    with LabelStore(path, ROWS) as store:
        mine = said(1, "a")
        store.add([mine, said(1, "b", who="other")])
        (answer,) = store.add([{"id": "u", "do": "undo", "of": mine["id"]}])
        assert "was changed since" in answer["refused"]
        assert store.labels() == {1: "b"}


def test_an_event_that_comes_again_changes_nothing(path):
    with LabelStore(path, ROWS) as store:
        event = said(1, "a")
        store.add([event, said(1, "b")])
        store.add([event])
        assert store.labels() == {1: "b"}
    with LabelStore(path, ROWS) as store:
        store.add([event])
        assert store.labels() == {1: "b"}


@pytest.mark.parametrize(
    "event",
    [
        {"do": "label", "row": ROWS, "label": "a"},
        {"do": "label", "row": True, "label": "a"},
        {"do": "label", "row": 1, "label": " "},
        {"do": "label", "row": 1, "label": "a\nb"},
        {"do": "label", "row": 1, "label": "a" * 101},
        {"do": "label", "row": "1", "label": "a"},
        {"do": "class", "label": None},
        {"do": "undo", "of": "never"},
        {"do": "steal", "row": 1},
        {"id": "", "do": "skip", "row": 1},
    ],
)
def test_a_wrong_event_is_refused_alone(path, event):
    with LabelStore(path, ROWS) as store:
        answers = store.add([{"id": "bad", **event}, said(2, "a")])
        assert ["refused" in answer for answer in answers] == [True, False]
        assert store.labels() == {2: "a"}


def test_the_last_word_counts_for_two_browsers_and_both_see_every_line(path):
    with LabelStore(path, ROWS) as store:
        store.add([said(1, "a", who="one"), said(1, "b", who="two"), said(2, "b", who="one")])
        assert [(line["who"], line.get("row"), line["label"]) for line in store.since(1)] == [
            ("one", 1, "a"),
            ("two", None, "b"),
            ("two", 1, "b"),
            ("one", 2, "b"),
        ]
        assert store.since(5) == []


def test_an_existing_file_without_a_journal_is_taken_and_its_other_columns_stay(path):
    path.write_text("row,label,note\n5,cat,seen\n2,,asked\n")
    with LabelStore(path, ROWS) as store:
        assert (store.labels(), store.classes) == ({5: "cat"}, {"cat": "1"})
        store.add([said(2, "dog"), said(0, "cat")])
    assert path.read_text() == "row,label,note\n5,cat,seen\n2,dog,asked\n0,cat,\n"


def test_labels_that_were_changed_by_hand_in_the_file_count(path):
    with LabelStore(path, ROWS) as store:
        store.add([said(0, "a"), said(1, "a"), said(2, "a"), {"id": "u", "do": "unsure", "row": 3}])
    path.write_text("row,label\n0,b\n2,a\n4,b\n")
    with LabelStore(path, ROWS) as store:
        assert store.labels() == {0: "b", 2: "a", 4: "b"}
        assert store.closed_rows()[3] == "unsure"
        store.add([said(0, "c")])
    assert labels_of(path) == {0: "c", 2: "a", 4: "b"}


def test_a_lost_file_is_written_again(path):
    with LabelStore(path, ROWS) as store:
        store.add([said(0, "a"), said(1, "b")])
    before = path.read_text()
    path.unlink()
    with LabelStore(path, ROWS) as store:
        assert "written again" in store.notes[0]
    assert path.read_text() == before


def test_a_torn_last_line_is_dropped_and_another_damaged_line_is_named(path):
    with LabelStore(path, ROWS) as store:
        store.add([said(0, "a"), said(1, "a")])
    journal = path.with_name("labels.csv.journal")
    whole = journal.read_bytes()
    journal.write_bytes(whole + b'{"v": 4, "id": "x", "row": "2", "ki')
    path.unlink()
    with LabelStore(path, ROWS) as store:
        assert "not complete" in store.notes[0]
        store.add([said(5, "b")])
    assert labels_of(path) == {0: "a", 1: "a", 5: "b"}
    journal.write_bytes(b"{nonsense\n" + whole)
    assert "line 1 is damaged" in input_error(LabelStore, path, ROWS)
    journal.write_bytes(b'{"kind": "label"}\n')
    assert "is no journal" in input_error(LabelStore, path, ROWS)


def test_a_second_server_gets_one_clear_line(path):
    with LabelStore(path, ROWS):
        assert "another `mmdgm app`" in input_error(LabelStore, path, ROWS)
    assert labels_of(path) == {}


def test_no_acknowledged_label_is_lost_when_the_process_is_killed_at_any_write(path):
    acknowledged = path.with_name("acknowledged")

    def label():
        with LabelStore(path, ROWS) as store:
            for i, name in enumerate("aba"):
                event = {"id": f"k{i}", "who": "me", "do": "label", "row": i, "label": name}
                assert "refused" not in store.add([event])[0]
                acknowledged.write_text(json.dumps({**store.labels()}))

    kills = []
    for at in killed_at_every_write(label):
        kills.append(at)
        certain = json.loads(acknowledged.read_text()) if acknowledged.exists() else {}
        found = {str(row): name for row, name in labels_of(path).items()}
        assert certain.items() <= found.items()
        assert found == {str(i): name for i, name in enumerate("aba") if i < len(found)}
        assert len(found) <= len(certain) + 1
        for file in path.parent.iterdir():
            file.unlink()
    assert len(kills) > 25


@pytest.mark.parametrize("at", range(1, 14))
def test_a_full_disk_refuses_an_event_whole_and_loses_nothing(path, at):
    with LabelStore(path, ROWS) as store:
        store.add([said(0, "a")])
        event, in_journal = said(1, "b"), at > 2  # its line is written, then waits for the disk
        refused = pytest.raises(InputError, match="cannot be written")
        with nullcontext() if in_journal else refused, failing(at, lasting=True):
            store.add([event])
        assert store.labels() == ({0: "a", 1: "b"} if in_journal else {0: "a"})
        assert (store.trouble is not None) == (2 < at < 10)
        store.add([event, said(2, "a")])
        assert store.labels() == read_labels_of_rows(path, ROWS, None) == {0: "a", 1: "b", 2: "a"}
        assert store.trouble is None
    assert labels_of(path) == {0: "a", 1: "b", 2: "a"}


def test_classes_keep_their_keys_and_empty_ones_can_be_dropped(path):
    with LabelStore(path, ROWS, given={0: "seven", 1: "3"}) as store:
        assert store.classes == {"3": "3", "seven": "1"}
        store.add([said(2, "ant"), {"id": "c", "do": "class", "label": "typo"}, said(3, "X")])
        assert store.classes == {"3": "3", "seven": "1", "ant": "2", "typo": "4", "X": "x"}
        assert "has labels" in store.add([{"id": "d", "do": "drop", "label": "ant"}])[0]["refused"]
        store.add([{"id": "d2", "do": "drop", "label": "typo"}])
    with LabelStore(path, ROWS, given={0: "seven", 1: "3"}) as store:
        assert store.classes == {"3": "3", "seven": "1", "ant": "2", "X": "x"}


def test_forty_classes_have_different_keys_as_far_as_there_are_keys():
    classes = {}
    for i in range(40):
        classes[f"class {i}"] = free_key(f"class {i}", classes)
    keys = [key for key in classes.values() if key]
    assert len(keys) == len(set(keys)) == 35
    assert "".join(keys).startswith("123456789abc")


def test_events_from_two_threads_are_all_kept(path):
    with LabelStore(path, 100) as store:

        def work(who, rows):
            for row in rows:
                store.add([{"id": f"{who}-{row}", "who": who, "do": "label", "row": row, "label": who}])

        threads = [threading.Thread(target=work, args=(who, range(i, 100, 2))) for i, who in enumerate("ab")]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert labels_of(path, 100) == {row: "ab"[row % 2] for row in range(100)}
