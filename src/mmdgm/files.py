"""Files that are complete or absent, and that are refused where they were damaged: JSON and tensors (safetensors).

Each file is written beside its place, then renamed. JSON and tensor files carry the SHA-256 of their content, which is
checked on reading; a file without one, of an earlier version or another program, is read as it is. Nothing is pickled,
so reading a file never executes code.
"""

import hashlib
import json
import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import safetensors
import safetensors.torch
import torch
from torch import Tensor

from mmdgm.errors import InputError

try:
    import fcntl
except ImportError:  # Windows has no such lock, so runs are not protected from each other there
    fcntl = None  # type: ignore[assignment]

SUM = "sha256"
FILES = "files"  # in an index: the SHA-256 of the files that belong to it, by name
NO_LINK = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)


def write_whole(path: Path, content: bytes) -> None:
    """Write a file so that its path always holds either the old content or all of the new content."""
    start = os.fsdecode(os.fsencode(path.name)[:100])  # names have at most 255 bytes
    temporary = path.with_name(f".{start}.{os.getpid()}-{threading.get_ident()}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with suppress(FileNotFoundError):
            temporary.unlink()  # of a killed process that had the same number
        write_bytes(temporary, content, os.O_CREAT | os.O_EXCL, lasting=True)
        temporary.replace(path)
    except BaseException as error:
        with suppress(OSError):
            temporary.unlink()
        if isinstance(error, OSError):
            raise InputError(f"{path}: cannot be written ({error.strerror or error})") from None
        raise


def write_bytes(path: Path, content: bytes, flags: int, *, lasting: bool = False) -> None:
    """Write all bytes to a file that is opened with these flags; `lasting`: wait until they are on the disk."""
    file = os.open(path, os.O_WRONLY | NO_LINK | flags, 0o666)
    try:
        rest = memoryview(content)
        while rest:
            rest = rest[os.write(file, rest) :]
        if lasting:
            os.fsync(file)
    finally:
        os.close(file)


def place_of(path: str | os.PathLike[str]) -> Path:
    """Return a path whose file or folder may be there or not; raise InputError if the system takes it for none."""
    try:
        Path(path).stat()
    except (FileNotFoundError, NotADirectoryError):
        pass
    except OSError as error:
        raise InputError(f"{path}: cannot be used ({error.strerror or error})") from None
    except ValueError as error:  # a character that no path has
        raise InputError(f"{path}: is no path ({error})") from None
    return Path(path)


def read_whole(path: Path) -> bytes:
    """Return the bytes of a file."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise InputError(f"{path} is missing") from None
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror or error})") from None


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


@contextmanager
def claimed(folder: Path) -> Iterator[None]:
    """Keep other processes out of a folder. The claim ends when the process ends, even after a crash.

    On a file system without locks (some network ones) it protects nothing.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        file = os.open(folder / ".claim", os.O_RDWR | os.O_CREAT | NO_LINK, 0o666)
    except OSError as error:
        raise InputError(f"{folder}: cannot be written ({error.strerror})") from None
    try:
        if not locked(file):
            raise InputError(f"{folder}: another process is at work here; choose another folder")
        yield
    finally:
        os.close(file)


def locked(file: int) -> bool:
    """Lock an open file until it is closed; False: another process has locked it. True where there are no locks."""
    if fcntl is not None:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError:
            pass
    return True


# --- JSON ------------------------------------------------------------------------------------------------


def write_json(path: Path, value: Mapping[str, Any]) -> None:
    """Write a dictionary of plain values as indented JSON, with the SHA-256 of its content as the first value."""
    plain = {key: part for key, part in value.items() if key != SUM}
    write_whole(path, _json({SUM: digest(_json(plain, nan=False)), **plain}))


def _json(value: Mapping[str, Any], *, nan: bool = True) -> bytes:
    text = json.dumps(value, indent=2, ensure_ascii=False, allow_nan=nan) + "\n"
    return text.encode(errors="backslashreplace")  # a file name that is no UTF-8 has half characters: \udcff in JSON


def read_json(path: Path) -> dict[str, Any]:
    """Return the dictionary of plain values in a JSON file."""
    try:
        value = json.loads(read_whole(path).decode())
    except (ValueError, RecursionError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{path}: is no valid JSON ({error})") from None
    if not isinstance(value, dict):
        raise InputError(f"{path}: holds no JSON object")
    if SUM in value and value.pop(SUM) != digest(_json(value)):
        raise InputError(
            f"{path}: is damaged, or was edited (its checksum differs); if you edited it, delete its line {SUM!r}"
        )
    return value


# --- tensors ---------------------------------------------------------------------------------------------


def write_tensors(path: Path, tensors: Mapping[str, Tensor], metadata: Mapping[str, Any] | None = None) -> None:
    """Write named tensors and a dictionary of plain values."""
    write_whole(path, tensor_bytes(tensors, metadata))


def tensor_bytes(tensors: Mapping[str, Tensor], metadata: Mapping[str, Any] | None = None) -> bytes:
    """Return the content of a safetensors file."""
    content = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    values = dict(metadata or {})
    # one entry: safetensors writes several in any order
    return safetensors.torch.save(content, {"json": json.dumps({**values, SUM: _sum_of(content, values)})})


def read_tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Return the named tensors of a file and the dictionary of plain values stored with them."""
    with _tensor_errors(path), safetensors.safe_open(path, framework="pt") as file:
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        return tensors, _checked(tensors, file.metadata() or {}, path)


def tensors_from(content: bytes, path: Path, *, checked: bool = False) -> dict[str, Tensor]:
    """Return the tensors in a file's content; `path` is for messages; `checked`: by the index that it belongs to."""
    with _tensor_errors(path):
        tensors = safetensors.torch.load(content)  # which also checks the header
        if not checked:
            header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
            _checked(tensors, header.get("__metadata__", {}), path)
        return tensors


def _sum_of(tensors: Mapping[str, Tensor], metadata: Mapping[str, Any]) -> str:
    """Return the SHA-256 of tensors, with their names, types and shapes, and of the values stored with them."""
    total = hashlib.sha256(json.dumps(metadata).encode())
    for name, tensor in sorted(tensors.items()):
        total.update(f"\0{name} {tensor.dtype} {tuple(tensor.shape)}\0".encode())
        total.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
    return total.hexdigest()


def _checked(tensors: Mapping[str, Tensor], header: Mapping[str, str], path: Path) -> dict[str, Any]:
    """Return the dictionary in a header, whose checksum must be that of the tensors."""
    metadata = json.loads(header.get("json", "{}"))
    if not isinstance(metadata, dict):
        raise InputError(f"{path}: its metadata is no JSON object")
    if SUM in metadata and metadata.pop(SUM) != _sum_of(tensors, metadata):
        raise InputError(
            f"{path}: is damaged (its checksum differs); take it from a backup, or delete it and train again"
        )
    return metadata


@contextmanager
def _tensor_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except InputError:
        raise
    except FileNotFoundError:
        raise InputError(f"{path} is missing") from None
    except (safetensors.SafetensorError, ValueError, KeyError, RecursionError, RuntimeError) as error:
        raise InputError(f"{path}: is no valid safetensors file ({error})") from None
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error})") from None


# --- files that belong together --------------------------------------------------------------------------


def write_together(index: Path, contents: Mapping[str, bytes], values: Mapping[str, Any]) -> None:
    """Write several files and the JSON file that is their index, so that `read_together` finds all or none of them.

    The files are first written under waiting names. The index names them by their SHA-256, and the moment when it is
    renamed is the moment of the change. Then the files get their names.
    """
    folder = index.parent
    sums = {name: digest(content) for name, content in contents.items()}
    waiting = {name: waiting_name(folder, name, sums[name]) for name in contents}
    with _one_at_a_time(folder):
        for name, content in contents.items():
            write_whole(waiting[name], content)
        sync_folder(folder)
        write_json(index, {**values, FILES: sums})
        sync_folder(folder)
        with suppress(OSError):  # under its waiting name a file is found as well
            for name, path in waiting.items():
                path.replace(folder / name)
            for pattern in (".*.waiting", ".*.waiting.*.part", f".{index.name}.*.part"):
                for path in folder.glob(pattern):  # of a process that was killed
                    path.unlink()


def read_together(index: Path, names: Sequence[str]) -> tuple[dict[str, Any], dict[str, bytes]]:
    """Return the values and those of the files that are there; also while another process writes others."""
    while True:
        values = read_json(index)
        try:
            found = {name: _member(index, name, values.get(FILES)) for name in names}
            return values, {name: content for name, content in found.items() if content is not None}
        except InputError:
            if read_json(index) == values:
                raise


def _member(index: Path, name: str, sums: Any) -> bytes | None:
    """Return the content of a file; None if it is missing. `sums`: part of the index; None: of an earlier version."""
    path = index.with_name(name)
    if not isinstance(sums, dict):
        return read_whole(path) if path.exists() else None
    wanted = str(sums.get(name))
    for place in (path, waiting_name(index.parent, name, wanted), path):  # it may get its name in between
        if place.exists():
            with suppress(InputError):
                if digest(content := read_whole(place)) == wanted:
                    return content
    if not path.exists():
        return None
    raise InputError(
        f"{path}: is damaged, or of another model than {index.name} ({SUM} differs); take it from a backup, or train "
        f"again"
    )


def waiting_name(folder: Path, name: str, wanted: str) -> Path:
    return folder / f".{name}.{wanted[:16]}.waiting"


@contextmanager
def _one_at_a_time(folder: Path) -> Iterator[None]:
    """Wait until no other process or thread writes into a folder, where the file system has locks."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = os.open(folder, os.O_RDONLY) if fcntl is not None else None
    except OSError as error:
        raise InputError(f"{folder}: cannot be written ({error.strerror})") from None
    try:
        if lock is not None:
            with suppress(OSError):
                fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        if lock is not None:
            os.close(lock)


def sync_folder(folder: Path) -> None:
    """Wait until the names in a folder are on the disk, where that is possible."""
    with suppress(OSError):
        file = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(file)
        finally:
            os.close(file)
