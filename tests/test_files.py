"""Files come back as they were written, or are refused; a failing write leaves what was there."""

import os
import stat
import subprocess
import sys

import pytest
import safetensors.torch
import torch

from mmdgm.errors import InputError
from mmdgm.files import claimed, read_json, read_tensors, write_json, write_tensors, write_whole

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
