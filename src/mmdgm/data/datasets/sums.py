"""Checks of a data set's files against damage: by the official hash, or by the one kept at their first reading.

A file that was unpacked, or packed again, has no official hash. Its own is kept in SHA256SUMS beside it, in the
format of `sha256sum`, where the folder can be written. Packed again, a gzip file may have the official length; its
own checksum, which was checked when it was read, says that its content is whole.
"""

import hashlib
from contextlib import suppress
from pathlib import Path

from mmdgm.data.datasets.files import look_up
from mmdgm.data.datasets.sources import sources_of
from mmdgm.errors import InputError

SUMS = "SHA256SUMS"


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror or error})") from None


def check_sums(folder: Path, *, extra: bool = False) -> None:
    """Raise InputError if a file of the data set in this folder is damaged; keep the hashes of new files."""
    known = read_sums(folder)
    new: dict[str, str] = {}
    for source in sources_of(folder.name, extra=extra):
        path = look_up(folder, source.name.removesuffix(".gz"))
        if path is None or (found := sha256_of(path)) == source.sha256:
            continue
        packed = path.suffix == ".gz"
        if not packed and path.name == source.name and path.stat().st_size == source.length:
            raise InputError(f"{path}: has the size of the official file, but is damaged (SHA-256); fetch it again")
        if known.get(path.name, found) != found:
            raise InputError(
                f"{path}: has changed since it was first read, or is damaged ({SUMS} beside it has another hash); "
                f"fetch it again, or, if you replaced it, delete its line there"
            )
        if path.name not in known:
            new[path.name] = found
    if new:
        from mmdgm.files import write_whole  # with torch, which takes seconds

        lines = [f"{digest}  {name}\n" for name, digest in sorted({**known, **new}.items())]
        with suppress(InputError):  # the folder is only read
            write_whole(folder / SUMS, "".join(lines).encode())


def read_sums(folder: Path) -> dict[str, str]:
    """Return the hashes in a folder's SHA256SUMS by file name."""
    try:
        lines = (folder / SUMS).read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return {}
    parts = (line.split(maxsplit=1) for line in lines)
    return {part[1].lstrip("*"): part[0] for part in parts if len(part) == 2}
