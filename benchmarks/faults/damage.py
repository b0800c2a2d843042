"""Flipped, missing and doubled bytes in every kind of file that is written, and in the files of data sets."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mmdgm
from benchmarks.faults import SURVIVED
from benchmarks.faults.models import answers, own_data, two_models
from mmdgm.data import datasets
from mmdgm.data.labeled_files import read_data
from mmdgm.errors import InputError
from mmdgm.files import SUM, read_json, read_tensors, write_json, write_tensors
from tests import small_datasets
from tests.faults import flipped

FAULT = "damaged file"
EACH = {"estimator": 700, "file": 1500, "data set": 450}


def attacks(folder: Path, share: float) -> Iterator[tuple[str, str]]:
    for kind, path, read in _targets(folder):
        expected, whole = read(), path.read_bytes()
        for damaged in flipped(whole, round(share * EACH[kind])):
            path.write_bytes(damaged)
            yield f"{path.name}", _outcome(read, expected)
        path.write_bytes(whole)


def _outcome(read: Callable[[], Any], expected: Any) -> str:
    try:
        return SURVIVED if read() == expected else f"another content was read ({read.__name__})"
    except InputError as error:
        return SURVIVED if "\n" not in str(error) else "several lines"
    except Exception as error:  # what should be one line
        return f"{type(error).__name__}: {error}"


def _targets(folder: Path) -> Iterator[tuple[str, Path, Callable[[], Any]]]:
    """Yield (kind, file, a function that reads it and returns its whole content)."""
    model = two_models()[0]
    model.save(folder / "model")

    def estimator() -> Any:
        found = mmdgm.load(folder / "model", device="cpu")
        return answers(found), found.history_, found.get_params()

    for name in ("model.safetensors", "config.json", "metrics.csv"):
        yield "estimator", folder / "model" / name, estimator

    tensors = {f"model/{name}": value for name, value in model.model_.state_dict().items()}
    write_tensors(folder / "checkpoint.safetensors", tensors, {"step": 3, "total_step": 7, "seconds": 0.25})

    def checkpoint() -> Any:
        found, metadata = read_tensors(folder / "checkpoint.safetensors")
        if metadata.keys() != {"step", "total_step", "seconds"}:  # the checksum's name is damaged
            raise InputError("of another version")  # as `Loop.restore` does
        return {name: value.numpy().tobytes() for name, value in found.items()}, metadata

    yield "file", folder / "checkpoint.safetensors", checkpoint

    write_json(folder / "result.json", {"status": "done", "error_percent": 1.25, "seeds": list(range(20))})
    known = set(read_json(folder / "result.json"))

    def result() -> Any:  # where the name of the checksum is damaged, its entry is one more
        return {name: value for name, value in read_json(folder / "result.json").items() if name in known}

    assert SUM not in known
    yield "file", folder / "result.json", result

    own_data(folder)

    def arrays() -> Any:
        data = read_data(folder / "own.npz")
        return data.x.tobytes(), data.y.tobytes()

    yield "file", folder / "own.npz", arrays
    yield from _of_data_sets(folder / "data")


def _of_data_sets(folder: Path) -> Iterator[tuple[str, Path, Callable[[], Any]]]:
    shutil.rmtree(folder, ignore_errors=True)
    with pytest.MonkeyPatch.context() as patch:
        small_datasets.write_all(folder, patch)
        for name in ("mnist", "fashion", "svhn", "norb"):
            (folder / name / "SHA256SUMS").unlink(missing_ok=True)

            def rows(name: str = name) -> Any:
                data = datasets.load(name, folder)
                return [np.asarray(part).tobytes() for part in (data.x_train, data.y_train, data.x_test, data.y_test)]

            rows()  # the first reading, which keeps the hashes
            for path in sorted((folder / name).iterdir()):
                if "extra" not in path.name:
                    yield "data set", path, rows
