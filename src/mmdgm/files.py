"""JSON and tensor files (safetensors) that are complete or absent: each is written beside its place, then renamed.

Nothing is pickled, so reading a file never executes code.
"""

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import safetensors
import safetensors.torch
from torch import Tensor

from mmdgm.errors import InputError

try:
    import fcntl
except ImportError:  # Windows has no such lock, so runs are not protected from each other there
    fcntl = None  # type: ignore[assignment]


def write_whole(path: Path, content: bytes) -> None:
    """Write a file so that its path always holds either the old content or all of the new content."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with temporary.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException as error:
        with suppress(OSError):
            temporary.unlink()
        if isinstance(error, OSError):
            raise InputError(f"{path}: cannot be written ({error.strerror or error})") from None
        raise


@contextmanager
def claimed(folder: Path) -> Iterator[None]:
    """Keep other processes out of a folder. The claim ends when the process ends, even after a crash."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        file = (folder / ".claim").open("w")
    except OSError as error:
        raise InputError(f"{folder}: cannot be written ({error.strerror})") from None
    with file:
        if fcntl is not None:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise InputError(f"{folder}: another process is at work here; choose another folder") from None
        yield


def write_json(path: Path, value: Mapping[str, Any]) -> None:
    """Write a dictionary of plain values as indented JSON."""
    write_whole(path, (json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n").encode())


def read_json(path: Path) -> dict[str, Any]:
    """Return the dictionary of plain values in a JSON file."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError(f"{path} is missing") from None
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: is no valid JSON ({error})") from None
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from None
    if not isinstance(value, dict):
        raise InputError(f"{path}: holds no JSON object")
    return value


def write_tensors(path: Path, tensors: Mapping[str, Tensor], metadata: Mapping[str, Any] | None = None) -> None:
    """Write named tensors and a dictionary of plain values."""
    content = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    header = {"json": json.dumps(metadata or {})}
    write_whole(path, safetensors.torch.save(content, header))


def read_metadata(path: Path) -> dict[str, Any]:
    """Return the dictionary of plain values that is stored with the tensors."""
    return _read(path, tensors=False)[1]


def read_tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Return the named tensors of a file and the dictionary of plain values stored with them."""
    return _read(path, tensors=True)


def _read(path: Path, *, tensors: bool) -> tuple[dict[str, Tensor], dict[str, Any]]:
    try:
        with safetensors.safe_open(path, framework="pt") as file:
            metadata = json.loads((file.metadata() or {}).get("json", "{}"))
            content = {name: file.get_tensor(name) for name in (file.keys() if tensors else ())}
    except FileNotFoundError:
        raise InputError(f"{path} is missing") from None
    except (safetensors.SafetensorError, json.JSONDecodeError) as error:
        raise InputError(f"{path}: is no valid safetensors file ({error})") from None
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error})") from None
    if not isinstance(metadata, dict):
        raise InputError(f"{path}: its metadata is no JSON object")
    return content, metadata
