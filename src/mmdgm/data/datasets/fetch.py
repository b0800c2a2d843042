"""Fetch the official files. Each is verified by its SHA-256, and only complete files are kept."""

import hashlib
from contextlib import suppress
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TimeRemainingColumn, TransferSpeedColumn

from mmdgm.data.datasets.base import default_data_dir
from mmdgm.data.datasets.files import look_up
from mmdgm.data.datasets.sources import Source, sources_of
from mmdgm.errors import InputError

PORTION = 2**18
TIMEOUT = 30  # seconds without an answer


def is_there(name: str, data_dir: Path | None = None) -> bool:
    """Whether all files that the data set needs exist, gzipped or not. Only `load` checks their content."""
    folder = (data_dir or default_data_dir()) / name
    return all(look_up(folder, source.name.removesuffix(".gz")) for source in sources_of(name))


def download(
    name: str, data_dir: Path | None = None, *, extra: bool = False, console: Console | None = None
) -> list[Path]:
    """Fetch a data set into `data_dir/name` and return the fetched files. Official files already there are kept.

    A file of the same name with other content is replaced. `extra` also fetches SVHN's third file. Progress bars
    appear on the console.
    """
    sources = sources_of(name, extra=extra)
    folder = (data_dir or default_data_dir()) / name
    new_folders = [path for path in (folder, *folder.parents) if not path.exists()]
    fetched = []
    try:
        for source in sources:
            if not _is_official(folder / source.name, source):
                _fetch(source, folder, console or Console(stderr=True))
                fetched.append(folder / source.name)
    except BaseException:
        for path in new_folders:  # innermost first; a folder that holds a file stays
            with suppress(OSError):
                path.rmdir()
        raise
    return fetched


def _is_official(path: Path, source: Source) -> bool:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest() == source.sha256
    except OSError:
        return False


def _fetch(source: Source, folder: Path, console: Console) -> None:
    try:
        import pooch
        import requests
    except ImportError:
        raise InputError("fetching data sets needs pooch: pip install pooch") from None

    columns = BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn()
    bar = Progress(*columns, console=console, transient=True, disable=not console.is_terminal)
    task = bar.add_task("", total=source.length)

    def stream(url: str, place: str, _: Any) -> None:
        with requests.get(url, stream=True, timeout=TIMEOUT) as response, Path(place).open("wb") as file:
            response.raise_for_status()
            for portion in response.iter_content(PORTION):
                file.write(portion)
                bar.advance(task, len(portion))

    console.print(f"fetching {source.url}", markup=False, highlight=False, soft_wrap=True)
    pooch.get_logger().setLevel("ERROR")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with bar:
            pooch.retrieve(source.url, source.sha256, fname=source.name, path=folder, downloader=stream)
        (folder / source.name).chmod(0o644)  # pooch makes files that only their owner can read
    except requests.RequestException as error:
        said = type(error).__name__ if error.response is None else f"the server says {error.response.status_code}"
        raise InputError(f"{source.url}: cannot be fetched ({said}); check the connection and try again") from None
    except ValueError:
        raise InputError(f"{source.url}: gave another file than the official one; try again") from None
    except OSError as error:
        raise InputError(f"{folder / source.name}: cannot be written ({error.strerror or error})") from None
