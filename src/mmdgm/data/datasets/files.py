"""Find and open a data set's files, gzipped or not. Every fault becomes an InputError of one line."""

import gzip
import shlex
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, cast

from mmdgm.data.datasets.base import default_data_dir
from mmdgm.errors import InputError


def look_up(folder: Path, file: str) -> Path | None:
    """The path of `file.gz` or `file` in the folder, or None."""
    return next((path for path in (folder / f"{file}.gz", folder / file) if path.is_file()), None)


def find(data_dir: Path, name: str, file: str, *, option: str = "") -> Path:
    """The path of a data set's file. Raises InputError with the command that fetches it.

    `option` is an option that this command needs beside the data set's name.
    """
    if path := look_up(data_dir / name, file):
        return path
    where = "" if data_dir == default_data_dir() else f" --data-dir {shlex.quote(str(data_dir))}"
    raise InputError(
        f"{file}[.gz] is not in {data_dir / name}; fetch it with: mmdgm data download {name}{option}{where}"
    )


@contextmanager
def opened(path: Path) -> Iterator[BinaryIO]:
    """The file's bytes as a stream, unpacked if its name ends in `.gz`. Reading to the end checks its checksum."""
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            yield cast(BinaryIO, file)
    except EOFError:
        raise InputError(f"{path}: the gzip stream ends too early (truncated); fetch it again") from None
    except (gzip.BadGzipFile, zlib.error) as error:
        raise InputError(f"{path}: is no valid gzip file ({error}); fetch it again") from None
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror or error})") from None


def by(sizes: tuple[int, ...]) -> str:
    """Sizes as text: 2×3×4."""
    return "×".join(str(size) for size in sizes)
