"""Arrays that users bring and take away: npz files in, npz files out."""

import io
import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmdgm.errors import InputError
from mmdgm.files import write_whole
from mmdgm.networks.stacks import Shape


@dataclass(frozen=True, kw_only=True)
class OwnValues:
    """A user's array, and the same values as images in [0, 1]."""

    original: NDArray[Any]
    unit: NDArray[np.float32]  # (rows, channels, height, width), NaN where missing
    scale: float

    def restore(self, filled: NDArray[np.float32]) -> NDArray[Any]:
        """Filled images on the original's scale and in its shape; its observed values to the last bit."""
        values = (filled * self.scale).reshape(self.original.shape)
        restored = self.original.copy()
        missing = np.isnan(restored)
        restored[missing] = values[missing]
        return restored


def read_values(path: Path, shape: Shape, scale: float) -> OwnValues:
    """Read the array `x` (or the only array) of an npz file as images of the given shape."""
    if not 0 < scale < float("inf"):
        raise InputError(f"--scale {scale}: give a number above 0")
    x = read_only_array(path)
    channels, height, width = shape
    per_row = channels * height * width
    allowed = [(channels, height, width), (per_row,), *([(height, width)] if channels == 1 else [])]
    if x.ndim == 0 or x.shape[1:] not in allowed:
        words = ", ".join(str(("rows", *form)).replace("'", "") for form in allowed)
        raise InputError(f"{path}: x has the shape {x.shape}, but the model takes {words}")
    if len(x) == 0:
        raise InputError(f"{path}: x has no rows")
    if x.dtype.kind not in "fiu":
        raise InputError(f"{path}: x holds {x.dtype}, but numbers are expected (NaN where missing)")
    observed = x[~np.isnan(x)]
    if observed.size and not (observed.min() >= 0 and np.isfinite(observed.max())):
        raise InputError(f"{path}: values must be 0 or more and finite; NaN marks what is missing")
    if observed.size and not (observed.min() >= 0 and observed.max() <= scale):
        raise InputError(
            f"{path}: values lie between {observed.min():g} and {observed.max():g}, but 0 to {scale:g} is "
            f"expected; give the divisor that takes them into [0, 1] as --scale"
        )
    if observed.size and scale > 1 and 0 < observed.max() <= 1:
        raise InputError(
            f"{path}: no value is above 1, but 0 to {scale:g} is expected; if they are scaled, give --scale 1"
        )
    unit = (x / scale).astype(np.float32).reshape(-1, *shape)
    return OwnValues(original=x, unit=unit, scale=scale)


def read_only_array(path: Path) -> NDArray[Any]:
    """The array x of an npz file, or the only one that it holds."""
    arrays = read_npz(path)
    if not arrays:
        raise InputError(f"{path}: holds no array; name the array with the rows x")
    if "x" not in arrays and len(arrays) > 1:
        raise InputError(f"{path}: holds {', '.join(arrays)}; name the array with the rows x")
    return arrays.get("x", next(iter(arrays.values())))


def read_npz(path: Path) -> dict[str, NDArray[Any]]:
    """All arrays of an npz file; nothing in it is executed."""
    try:
        if path.is_file() and not zipfile.is_zipfile(path):
            raise InputError(f"{path}: is no npz file; make one with numpy.savez(path, x=...)")
        with np.load(path, allow_pickle=False) as archive:
            return {name: _array(path, archive, name) for name in archive}
    except FileNotFoundError:
        raise InputError(f"{path} is missing") from None
    except (ValueError, OSError, EOFError, zipfile.BadZipFile, zlib.error, RuntimeError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{path}: cannot be read as an npz file ({error})") from None


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
