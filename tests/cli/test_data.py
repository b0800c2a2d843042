"""`mmdgm data` as a user meets it."""

import json

import pytest

from mmdgm.data import datasets
from mmdgm.errors import InputError
from small_datasets import write_all


@pytest.fixture(name="data_dir")
def make_data_dir(tmp_path, monkeypatch):
    """All data sets, small, in the default folder."""
    monkeypatch.setenv("MMDGM_DATA", str(tmp_path))
    write_all(tmp_path, monkeypatch)
    return tmp_path


def test_list_says_what_there_is_and_what_is_there(mmdgm, data_dir):
    (data_dir / "svhn" / "test_32x32.mat").unlink()
    rows = {row["name"]: row for row in json.loads(mmdgm("data", "list", "--json")[1])}
    assert list(rows) == list(datasets.LOADERS)
    assert {name: row["there"] for name, row in rows.items()} == {
        "digits": True,
        "mnist": True,
        "fashion": True,
        "svhn": False,
        "norb": True,
    }
    assert rows["norb"] == {
        "name": "norb",
        "what": "small NORB: toys, left camera",
        "train": 24_300,
        "test": 24_300,
        "shape": [1, 32, 32],
        "classes": 5,
        "download_bytes": 262_767_752,
        "folder": str(data_dir / "norb"),
        "there": True,
    }
    assert rows["digits"]["folder"] is None
    code, out, _ = mmdgm("data", "list")
    assert code == 0
    lines = {line.split()[0]: line for line in out.splitlines()}
    assert all(word in lines["svhn"] for word in ("73,257", "26,032", "3×32×32", "246 MB", " no"))
    assert "yes" in lines["mnist"]


def test_list_looks_into_another_folder(mmdgm, data_dir, tmp_path):
    rows = json.loads(mmdgm("data", "list", "--data-dir", tmp_path / "elsewhere", "--json")[1])
    assert [row["there"] for row in rows] == [True, False, False, False, False]
    assert rows[1]["folder"] == str(tmp_path / "elsewhere" / "mnist")


def test_check_counts_the_rows_of_each_class(mmdgm, data_dir):
    code, out, err = mmdgm("data", "check", "digits", "mnist", "fashion", "svhn", "norb", "--json")
    assert (code, err) == (0, "")
    reports = json.loads(out)
    assert list(reports) == list(datasets.LOADERS)
    assert reports["mnist"]["train"] == {
        "rows": 12,
        "values": [0, 255],
        "per_class": [2, 2, 1, 1, 1, 1, 1, 1, 1, 1],
    }
    assert reports["svhn"]["test"]["per_class"] == [1, 2, 1, 1, 1, 1, 1, 1, 1, 1]
    assert reports["norb"]["shape"] == [1, 32, 32]
    assert reports["norb"]["class_names"] == ["animal", "human", "airplane", "truck", "car"]
    code, out, _ = mmdgm("data", "check", "mnist")
    assert code == 0
    assert [line.split() for line in out.splitlines()[1:]] == [
        ["mnist", "train", "12", "1×28×28", "0–255", *"2211111111"],
        ["mnist", "test", "10", "1×28×28", "0–255", *"1111111111"],
    ]


def test_check_with_extra_rows(mmdgm, data_dir):
    reports = json.loads(mmdgm("data", "check", "mnist", "svhn", "--extra", "--json")[1])
    assert reports["svhn"]["train"]["rows"] == 12 + 13
    assert reports["mnist"]["train"]["rows"] == 12


def test_check_reports_every_failure_after_what_is_fine(mmdgm, data_dir):
    images = data_dir / "mnist" / "train-images-idx3-ubyte.gz"
    images.write_bytes(images.read_bytes()[:-100])
    (data_dir / "svhn" / "test_32x32.mat").unlink()
    code, out, err = mmdgm("data", "check", "mnist", "norb", "svhn", "minst")
    assert code == 2
    assert "norb" in out
    assert err.splitlines() == [
        f"mmdgm: {images}: the gzip stream ends too early (truncated); fetch it again",
        f"mmdgm: test_32x32.mat[.gz] is not in {data_dir / 'svhn'}; fetch it with: mmdgm data download svhn",
        "mmdgm: there is no data set 'minst'; there are: digits, mnist, fashion, svhn, norb",
    ]
    code, out, _ = mmdgm("data", "check", "mnist", "norb", "--json")
    reports = json.loads(out)
    assert code == 2
    assert reports["mnist"] == {"error": f"{images}: the gzip stream ends too early (truncated); fetch it again"}
    assert reports["norb"]["train"]["rows"] == 7


def test_check_with_nothing_fine_prints_the_lines_alone(mmdgm, tmp_path):
    code, out, err = mmdgm("data", "check", "mnist", "norb", "--data-dir", tmp_path)
    assert (code, out) == (2, "")
    assert err.count("\n") == 2
    assert err.count(f"--data-dir {tmp_path}") == 2


def test_a_class_without_rows_is_a_failure(mmdgm, data_dir):
    labels = data_dir / "mnist" / "t10k-labels-idx1-ubyte"
    labels.write_bytes(labels.read_bytes().replace(b"\x04\x05", b"\x05\x05"))
    code, _, err = mmdgm("data", "check", "mnist")
    assert code == 2
    assert err == "mmdgm: mnist: no test row has the class 4; fetch it again\n"


def test_download_leaves_alone_what_can_be_read(mmdgm, data_dir, monkeypatch):
    fetched = []

    def download(name, data_dir, *, extra, console):
        fetched.append((name, extra))
        return [datasets.default_data_dir() / name / "file"]

    monkeypatch.setattr(datasets, "download", download)
    code, out, err = mmdgm("data", "download", "mnist", "digits", "svhn", "--extra")
    assert (code, out, fetched) == (0, "", [])
    assert err == "mnist is there\ndigits is there\nsvhn is there\n"
    for name in ("t10k-labels-idx1-ubyte", "train-labels-idx1-ubyte"):
        (data_dir / "mnist" / name).unlink()
    (data_dir / "svhn" / "extra_32x32.mat").write_bytes(b"")
    assert json.loads(mmdgm("data", "download", "mnist", "svhn", "--json")[1]) == {
        "files": [str(data_dir / "mnist" / "file")]
    }
    code, out, _ = mmdgm("data", "download", "svhn", "--extra")
    assert out == f"{data_dir / 'svhn' / 'file'}\n"
    assert fetched == [("mnist", False), ("svhn", True)]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("download", "mnist", "minst"), "there is no data set 'minst'"),
        (("download", "mnist", "--extra"), "--extra is for svhn alone"),
        (("check", "mnist", "--extra"), "--extra is for svhn alone"),
        (("download",), "Missing argument"),
        (("check",), "Missing argument"),
        ((), "Missing command"),
        (("fetch",), "No such command"),
    ],
)
def test_mistakes_end_with_one_clear_line_and_exit_code_2(mmdgm, monkeypatch, words, said):
    def download(*_, **__):
        raise AssertionError("nothing is to be fetched")

    monkeypatch.setattr(datasets, "download", download)
    code, _, err = mmdgm("data", *words)
    assert code == 2
    assert said in err
    assert err.count("\n") == 1


def test_a_download_that_fails_is_one_line(mmdgm, tmp_path, monkeypatch):
    def download(*_, **__):
        raise InputError("http://x: cannot be fetched")

    monkeypatch.setattr(datasets, "download", download)
    assert mmdgm("data", "download", "mnist", "--data-dir", tmp_path)[::2] == (
        2,
        "mmdgm: http://x: cannot be fetched\n",
    )
