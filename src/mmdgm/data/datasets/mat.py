"""A strict reader of numeric arrays in MATLAB v5 files.

SciPy's reader is not used, because a damaged file can crash the whole process (github.com/scipy/scipy/pull/25349).

The format is little-endian. A header of 128 bytes ends with version and byte order. Elements follow, each a tag
(type, length in bytes) and its data. An array is an element made of four others: flags with its class, sizes,
name, and values, first index fastest. These are padded to multiples of 8 bytes. Data of up to 4 bytes share 8 bytes
with their tag. An array may be inside a zlib stream, which is itself an element.
"""

import math
import struct
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from mmdgm.data.datasets.files import by, opened
from mmdgm.errors import InputError

HEADER, V5 = 128, b"\x00\x01IM"
INT8, INT32, UINT32, MATRIX, COMPRESSED = 1, 5, 6, 14, 15
TYPES = {1: "i1", 2: "u1", 3: "<i2", 4: "<u2", 5: "<i4", 6: "<u4", 7: "<f4", 9: "<f8", 12: "<i8", 13: "<u8"}
NUMBERS = range(6, 16)  # the classes double, single, int8, …, uint64
COMPLEX_OR_LOGICAL = 0x0A00
PORTION = 2**20


def read_arrays(path: Path, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, NDArray[Any]]:
    """The arrays with the names and shapes of `shapes`. Other arrays in the file are ignored.

    Arrays have the stored type. MATLAB stores doubles without a fraction in as few bytes as it can.
    """
    arrays: dict[str, NDArray[Any]] = {}
    with opened(path) as file:
        try:
            if file.read(HEADER)[-4:] != V5:
                raise ValueError("its header is another")
            while missing := [name for name in shapes if name not in arrays]:
                tag = file.read(8)
                if not tag:
                    raise ValueError(f"there is no array {missing[0]}")
                kind, length = struct.unpack("<2I", tag)
                end = file.tell() + length
                element = _Element(file, length, packed=kind == COMPRESSED)
                if kind == COMPRESSED:
                    kind, _ = struct.unpack("<2I", element.read(8))
                if kind != MATRIX:
                    raise ValueError(f"an element has the type {kind}")
                arrays.update(_read_array(element, shapes))
                file.seek(end)
        except (ValueError, struct.error, zlib.error) as error:
            raise InputError(f"{path}: is no whole MATLAB v5 file as expected ({error}); fetch it again") from None
    return arrays


class _Element:
    """The data of an element in the file. Compressed data are unpacked portion by portion."""

    def __init__(self, file: BinaryIO, length: int, *, packed: bool):
        self._file, self._left, self._ready = file, length, b""
        self._stream = zlib.decompressobj() if packed else None

    def read(self, length: int) -> bytes:
        """The next `length` bytes. Raises ValueError if there are fewer."""
        while len(self._ready) < length:
            if not self._advance():
                raise ValueError("it ends too early")
        content, self._ready = self._ready[:length], self._ready[length:]
        return content

    def finish(self) -> None:
        """Check that only padding follows, and that a compressed element ends with its valid checksum."""
        while len(self._ready) < 8 and self._advance():
            pass
        if len(self._ready) >= 8 or (self._stream and not self._stream.eof):
            raise ValueError("an array's length is wrong")

    def _advance(self) -> bool:
        """Read or unpack at most one more portion. Returns False at the end."""
        portion = self._stream.unconsumed_tail if self._stream else b""
        if not portion:
            portion = self._file.read(min(PORTION, self._left))
            self._left -= len(portion)
        new = self._stream.decompress(portion, PORTION) if self._stream else portion
        self._ready += new
        return bool(portion or new)


def _read_array(element: _Element, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, NDArray[Any]]:
    """The array with its name as key, or an empty dict if `shapes` does not name it."""
    flags, sizes, letters = (_read_small(element, kind) for kind in (UINT32, INT32, INT8))
    name = letters.decode("latin-1")
    if name not in shapes:
        return {}
    word, _ = struct.unpack("<2I", flags)
    if word & 0xFF not in NUMBERS or word & COMPLEX_OR_LOGICAL:
        raise ValueError(f"{name} does not hold real numbers")
    shape = tuple(size for (size,) in struct.iter_unpack("<i", sizes))
    if shape != shapes[name]:
        raise ValueError(f"{name} is {by(shape)} instead of {by(shapes[name])}")
    kind, length, inside = _read_tag(element)
    if kind not in TYPES:
        raise ValueError(f"{name} has values of the type {kind}")
    values = np.empty(math.prod(shape), TYPES[kind])
    if length != values.nbytes:
        raise ValueError(f"{name} has {length} bytes instead of {values.nbytes}")
    raw = values.view(np.uint8)
    for first in range(0, length, PORTION):
        portion = raw[first : first + PORTION]
        portion[:] = np.frombuffer(element.read(len(portion)) if inside is None else inside, np.uint8)
    element.finish()
    return {name: values.reshape(shape, order="F")}


def _read_small(element: _Element, expected: int) -> bytes:
    kind, length, inside = _read_tag(element)
    if kind != expected or length > 256:
        raise ValueError(f"a part of an array has the type {kind} and the length {length}")
    return element.read(length + -length % 8)[:length] if inside is None else inside


def _read_tag(element: _Element) -> tuple[int, int, bytes | None]:
    """Type and length of the data, and the data themselves if they share the tag's 8 bytes."""
    tag = element.read(8)
    kind, length = struct.unpack("<2I", tag)
    if kind < 2**16:
        return kind, length, None
    kind, length = kind % 2**16, kind >> 16
    if length > 4:
        raise ValueError(f"a tag says that {length} bytes lie in 4")
    return kind, length, tag[4 : 4 + length]
