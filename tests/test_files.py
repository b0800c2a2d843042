"""Files come back as they were written, or are refused; a failing write leaves what was there."""

import errno
import os
import stat
import subprocess
import sys

import pytest
import safetensors.torch
import torch

from faults import flipped
from mmdgm.errors import InputError
from mmdgm.files import (
    claimed,
    read_json,
    read_tensors,
    read_together,
    write_json,
    write_tensors,
    write_together,
    write_whole,
)

TENSORS = {
    "weight": torch.arange(6.0).reshape(2, 3),
    "transposed": torch.arange(6.0).reshape(2, 3).T,
    "step": torch.tensor(7),
    "half": torch.tensor([1.5, -0.0, float("nan")], dtype=torch.bfloat16),
    "bytes": torch.tensor([0, 255], dtype=torch.uint8),
    "empty": torch.zeros(0, 3),
}
METADATA = {"step": 3, "seconds": 0.1 + 0.2, "name": "α", "stages": ["pretrain", None], "deep": {"done": True}}


def refusal(read, path):
    with pytest.raises(InputError) as caught:
        read(path)
    assert "\n" not in str(caught.value)
    assert str(caught.value).startswith(str(path))
    return str(caught.value)


def files(folder):
    return sorted(path.name for path in folder.iterdir())


def test_json_round_trip(tmp_path):
    write_json(tmp_path / "new" / "folder" / "a.json", METADATA)
    assert read_json(tmp_path / "new" / "folder" / "a.json") == METADATA


def test_tensors_and_metadata_round_trip(tmp_path):
    write_tensors(tmp_path / "a.safetensors", TENSORS, METADATA)
    tensors, metadata = read_tensors(tmp_path / "a.safetensors")
    assert metadata == METADATA
    assert tensors.keys() == TENSORS.keys()
    for name, tensor in TENSORS.items():
        torch.testing.assert_close(tensors[name], tensor, rtol=0, atol=0, equal_nan=True)


def test_metadata_is_empty_where_none_was_given(tmp_path):
    write_tensors(tmp_path / "ours", TENSORS)
    safetensors.torch.save_file({"a": torch.ones(1)}, tmp_path / "others")
    assert read_tensors(tmp_path / "ours")[1] == read_tensors(tmp_path / "others")[1] == {}


def test_parameters_are_written_as_plain_tensors(tmp_path):
    layer = torch.nn.Linear(2, 3)
    write_tensors(tmp_path / "a", dict(layer.named_parameters()))
    tensors, _ = read_tensors(tmp_path / "a")
    assert torch.equal(tensors["weight"], layer.weight)
    assert not tensors["weight"].requires_grad


def test_a_new_file_replaces_the_old_and_leaves_no_other(tmp_path):
    for content in (b"old, and longer", b"new"):
        write_whole(tmp_path / "a", content)
    assert (tmp_path / "a").read_bytes() == b"new"
    assert files(tmp_path) == ["a"]


def test_a_written_file_has_the_permissions_of_the_umask(tmp_path):
    before = os.umask(0o027)
    try:
        write_whole(tmp_path / "a", b"")
        assert os.umask(0o027) == 0o027  # and the umask is as it was
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o640


@pytest.mark.parametrize("error", [OSError("disk full"), KeyboardInterrupt()])
@pytest.mark.parametrize("there_before", [True, False])
def test_a_failing_write_leaves_the_old_file_and_no_temporary_one(tmp_path, monkeypatch, error, there_before):
    path = tmp_path / "a.json"
    if there_before:
        write_json(path, {"old": 1})

    def fail(_):
        raise error

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(InputError if isinstance(error, OSError) else KeyboardInterrupt):
        write_json(path, {"new": 2})
    assert files(tmp_path) == (["a.json"] if there_before else [])
    if there_before:
        assert read_json(path) == {"old": 1}


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_nan_is_refused_in_json_and_leaves_the_old_file(tmp_path, value):
    write_json(tmp_path / "a.json", {"old": 1})
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_json(tmp_path / "a.json", {"new": [value]})
    assert read_json(tmp_path / "a.json") == {"old": 1}
    assert files(tmp_path) == ["a.json"]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "is no valid JSON"),
        (b'{"a": 1', "is no valid JSON"),
        (b'{"a": "\xff"}', "is no valid JSON"),
        (b"[1, 2]", "holds no JSON object"),
        (b"null", "holds no JSON object"),
    ],
)
def test_damaged_json_is_refused(tmp_path, content, words):
    path = tmp_path / "a.json"
    path.write_bytes(content)
    assert words in refusal(read_json, path)


@pytest.mark.parametrize(
    "damage",
    [
        lambda content: b"",
        lambda content: content[:20],
        lambda content: content[:-1],
        lambda content: content + b"\0",
        lambda content: b"\xff" * 100,
        lambda content: content[:8] + b"!" + content[9:],
    ],
    ids=["empty", "header cut", "data cut", "padded", "no header", "header changed"],
)
def test_damaged_tensors_are_refused(tmp_path, damage):
    path = tmp_path / "a.safetensors"
    write_tensors(path, TENSORS, METADATA)
    path.write_bytes(damage(path.read_bytes()))
    assert "is no valid safetensors file" in refusal(read_tensors, path)


@pytest.mark.parametrize(("metadata", "said"), [("{", "no valid safetensors file"), ("3", "no JSON object")])
def test_tensors_with_damaged_metadata_are_refused(tmp_path, metadata, said):
    path = tmp_path / "a.safetensors"
    safetensors.torch.save_file({"a": torch.ones(1)}, path, {"json": metadata})
    assert said in refusal(read_tensors, path)


@pytest.mark.parametrize("read", [read_json, read_tensors])
def test_what_is_missing_or_no_file_is_refused(tmp_path, read):
    assert "missing" in refusal(read, tmp_path / "absent")
    refusal(read, tmp_path)


def test_a_folder_is_claimed_by_one_process_at_a_time(tmp_path):
    folder = tmp_path / "run"
    program = "from pathlib import Path; from mmdgm.files import claimed"
    program += f"; claimed(Path({str(folder)!r})).__enter__()"
    with claimed(folder):
        other = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert other.returncode == 1
    assert "another process" in other.stderr
    with claimed(folder):  # free again
        pass


# --- damage ----------------------------------------------------------------------------------------------


def test_flipped_tensors_are_refused_or_unchanged(tmp_path):
    path, refused = tmp_path / "a.safetensors", 0
    tensors = {**TENSORS, "half": torch.tensor([1.5, -0.0], dtype=torch.bfloat16)}
    write_tensors(path, tensors, METADATA)
    for damaged in flipped(path.read_bytes(), 300):
        path.write_bytes(damaged)
        try:
            found, metadata = read_tensors(path)
        except InputError as error:
            assert "\n" not in str(error)  # noqa: PT017
            refused += 1
        else:
            assert metadata == METADATA
            assert found.keys() == tensors.keys()
            assert all(torch.equal(found[name], tensor) for name, tensor in tensors.items())
    assert refused > 270


def test_flipped_json_is_refused_or_unchanged(tmp_path):
    path, refused = tmp_path / "a.json", 0
    write_json(path, METADATA)
    for damaged in flipped(path.read_bytes(), 300):
        path.write_bytes(damaged)
        try:
            found = read_json(path)
        except InputError as error:
            assert "\n" not in str(error)  # noqa: PT017
            refused += 1
        else:
            found = {key: value for key, value in found.items() if key in METADATA}  # sha256 became another name
            assert found == METADATA
    assert refused > 200


def test_edited_json_says_how_it_is_read_all_the_same(tmp_path):
    write_json(path := tmp_path / "a.json", METADATA)
    text = path.read_text().replace('"step": 3', '"step": 4')
    path.write_text(text)
    assert "delete its line 'sha256'" in refusal(read_json, path)
    path.write_text("".join(line for line in text.splitlines(keepends=True) if "sha256" not in line))
    assert read_json(path) == {**METADATA, "step": 4}


def test_json_holds_file_names_that_are_no_utf8(tmp_path):
    name = os.fsdecode(b"r\xff\xe9")
    write_json(tmp_path / "a.json", {"place": name})
    assert read_json(tmp_path / "a.json") == {"place": name}
    (tmp_path / "a.json").read_bytes().decode()  # is UTF-8


# --- claims ----------------------------------------------------------------------------------------------


def test_a_claim_neither_follows_a_link_nor_empties_a_file(tmp_path):
    (mine := tmp_path / "mine").write_text("mine")
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / ".claim").symlink_to(mine)
    with pytest.raises(InputError, match="cannot be written"), claimed(tmp_path / "run"):
        pass
    (tmp_path / "run" / ".claim").unlink()
    (tmp_path / "run" / ".claim").write_text("mine")
    with claimed(tmp_path / "run"):
        pass
    assert mine.read_text() == (tmp_path / "run" / ".claim").read_text() == "mine"


@pytest.mark.parametrize("number", [errno.ENOTSUP, errno.ENOLCK, errno.ENOSYS, errno.EINVAL])
def test_a_file_system_without_locks_works(tmp_path, monkeypatch, number):
    def no_lock(*_):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr("mmdgm.files.fcntl.flock", no_lock)
    with claimed(tmp_path):
        write_together(tmp_path / "index.json", {"a": b"1"}, {"b": 2})
    values, contents = read_together(tmp_path / "index.json", ("a", "absent"))
    assert (values["b"], contents) == (2, {"a": b"1"})


@pytest.mark.slow
def test_several_processes_write_together_one_after_the_other(tmp_path):
    program = "import sys; from pathlib import Path; from mmdgm.files import write_together\n"
    program += "for i in range(10): write_together(Path(sys.argv[1]), dict.fromkeys('ab', sys.argv[2].encode() * 9), "
    program += "{'by': sys.argv[2]})"
    index = tmp_path / "index.json"
    writers = [subprocess.Popen([sys.executable, "-c", program, index, name]) for name in "xyz"]
    seen = set()
    while any(writer.poll() is None for writer in writers):
        if index.exists():
            values, contents = read_together(index, "ab")
            assert contents == dict.fromkeys("ab", values["by"].encode() * 9)
            seen.add(values["by"])
    assert seen <= set("xyz")
    assert all(writer.returncode == 0 for writer in writers)
    assert files(tmp_path) == ["a", "b", "index.json"]
