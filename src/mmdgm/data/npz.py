"""Users' npz files: read and write arrays."""

import io
import math
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmdgm.data.packed import check_size
from mmdgm.errors import InputError, one_line
from mmdgm.files import write_whole


def read_only_array(path: Path) -> NDArray[Any]:
    """The array x of an npz file, or the file's only array."""
    arrays = read_npz(path)
    if not arrays:
        raise InputError(f"{path}: holds no array; name the array with the rows x")
    if "x" not in arrays and len(arrays) > 1:
        raise InputError(f"{path}: holds {', '.join(arrays)}; name the array with the rows x")
    return arrays.get("x", next(iter(arrays.values())))


def read_npz(path: Path) -> dict[str, NDArray[Any]]:
    """All arrays of an npz file. No code in the file is executed."""
    try:
        if path.is_file() and not zipfile.is_zipfile(path):
            raise InputError(f"{path}: is no npz file; make one with numpy.savez(path, x=...)")
        with np.load(path, allow_pickle=False) as archive:
            for info in archive.zip.infolist():
                _check_header(path, archive.zip, info)
            return {name: _array(path, archive, name) for name in archive}
    except FileNotFoundError:
        raise InputError(f"{path} is missing") from None
    except InputError:
        raise
    except Exception as error:  # zipfile and numpy raise errors of many types on broken files
        raise InputError(f"{path}: cannot be read as an npz file ({one_line(error)})") from None


def _check_header(path: Path, archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> None:
    """Raise InputError if an array's header promises other bytes than there are, before memory is reserved."""
    check_size(path, info.compress_size, info.file_size)
    with archive.open(info) as file:
        version = np.lib.format.read_magic(file)
        read_header = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, _, dtype = read_header(file)
        promised, left = math.prod(shape) * dtype.itemsize, info.file_size - file.tell()
    if not dtype.hasobject and promised != left:
        name = info.filename.removesuffix(".npy")
        raise InputError(f"{path}: {name} should be {promised:,} bytes of {dtype}, but holds {left:,}")


def _array(path: Path, archive: Any, name: str) -> NDArray[Any]:
    try:
        return np.asarray(archive[name])
    except ValueError as error:
        if "allow_pickle" not in str(error):
            raise
        kind = "float" if name == "x" else "str"
        raise InputError(f"{path}: {name} is an array of objects; save it as {name}.astype({kind})") from None


def save_arrays(path: Path, arrays: dict[str, NDArray[Any]]) -> None:
    """Write named arrays as a compressed npz file."""
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)  # type: ignore[arg-type]
    write_whole(path, buffer.getvalue())


def checked_values(path: Path, x: NDArray[Any]) -> NDArray[Any]:
    """A valid array for estimators: uint8 images stay unchanged, other numbers become floats."""
    if x.ndim not in (2, 3, 4):
        raise InputError(
            f"{path}: x has the shape {x.shape}; (rows, columns), (rows, height, width) or (rows, height, width, "
            f"channels) is expected"
        )
    if not x.size:
        raise InputError(f"{path}: x has the shape {x.shape}, so there is nothing in it")
    if x.dtype.kind not in "fiub":
        raise InputError(f"{path}: x holds {x.dtype}, but numbers are expected (NaN where missing)")
    if x.dtype != np.uint8 or x.ndim == 2:
        x = x.astype(np.float32 if x.dtype.kind in "fb" and x.itemsize <= 4 else np.float64)
    if np.isinf(x).any():
        raise InputError(f"{path}: x holds infinite values; NaN marks what is missing")
    return x
