"""Packed files of users: how much they unpack to is looked at before the memory is full."""

import gzip
from pathlib import Path

from mmdgm.errors import InputError

PORTION = 2**20
SMALL = 2**28  # bytes that any file may unpack to
RATIO = 200  # a larger file is refused if it unpacks to so many times its size; text is packed to a tenth


def check_size(path: Path, packed: int, whole: int) -> None:
    """Raise InputError if so many packed bytes unpack to far more than data do."""
    if whole > SMALL and whole > RATIO * packed:
        raise InputError(f"{path}: {packed:,} bytes unpack to more than {whole:,}, unlike data; unpack it yourself")


def unpacked(path: Path) -> bytes:
    """The content of a gzip file."""
    packed, parts, whole = path.stat().st_size, [], 0
    with gzip.open(path) as file:
        while part := file.read(PORTION):
            parts.append(part)
            whole += len(part)
            check_size(path, packed, whole)
    return b"".join(parts)
