"""The software and the data files of a run: versions, commit, hashes."""

import hashlib
import platform
import subprocess
from importlib.metadata import version
from pathlib import Path

import mmdgm
from mmdgm.data.datasets import default_data_dir
from mmdgm.data.datasets.files import look_up
from mmdgm.data.datasets.sources import sources_of


def versions() -> dict[str, str]:
    """Return the versions of the software that results depend on."""
    packages = {name: version(name) for name in ("torch", "numpy", "scikit-learn")}
    return {"mmdgm": mmdgm.__version__, "python": platform.python_version(), **packages}


def git_commit() -> str | None:
    """Return the commit of this source tree, with a mark if it has changes; None outside a checkout."""
    root = Path(__file__).resolve().parents[3]
    commands = (
        ["rev-parse", "--show-toplevel"],
        ["rev-parse", "HEAD"],
        ["status", "--porcelain", "--", "src"],
    )
    try:
        top, commit, changes = (
            subprocess.run(["git", *command], cwd=root, capture_output=True, text=True, check=True).stdout.strip()
            for command in commands
        )
    except (OSError, subprocess.CalledProcessError):
        return None
    if Path(top).resolve() != root:
        return None
    return f"{commit}+changes" if changes else commit


def data_files(name: str, data_dir: Path | None, *, extra: bool = False) -> dict[str, dict[str, str | bool]]:
    """Return the SHA-256 of a data set's files by name, and whether it is the hash of the official file.

    A file that was unpacked, or packed again, has another hash than the official one.
    """
    folder = (data_dir or default_data_dir()) / name
    found: dict[str, dict[str, str | bool]] = {}
    for source in sources_of(name, extra=extra):
        if path := look_up(folder, source.name.removesuffix(".gz")):
            with path.open("rb") as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
            found[path.name] = {"sha256": digest, "official": digest == source.sha256}
    return found
