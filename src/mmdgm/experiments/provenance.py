"""The software and the data files of a run: versions, commit, hashes."""

import hashlib
import platform
import subprocess
from importlib.metadata import version
from pathlib import Path
from typing import Any

import mmdgm
from mmdgm.data.datasets import default_data_dir
from mmdgm.data.datasets.files import look_up
from mmdgm.data.datasets.sources import sources_of
from mmdgm.data.datasets.sums import sha256_of


def software() -> dict[str, Any]:
    """Return the part of result.json that names the software of a run."""
    return {"versions": versions(), "git_commit": git_commit(), "source_tree": source_tree()}


def versions() -> dict[str, str]:
    """Return the versions of the software that results depend on."""
    packages = {name: version(name) for name in ("torch", "numpy", "scikit-learn")}
    return {"mmdgm": mmdgm.__version__, "python": platform.python_version(), **packages}


def source_tree(folder: Path | None = None) -> str:
    """Return git's hash of the package's source files, which names a version where there is no checkout too.

    `git rev-parse COMMIT:src/mmdgm` prints the same for the commit that the files are from.
    """
    entries = []
    for path in (folder or Path(mmdgm.__file__).parent).iterdir():
        if path.is_dir() and path.name != "__pycache__":
            entries.append((f"{path.name}/", "40000", source_tree(path)))
        elif path.is_file():
            entries.append((path.name, "100644", _git_hash("blob", path.read_bytes())))
    lines = (f"{mode} {name.rstrip('/')}\0".encode() + bytes.fromhex(digest) for name, mode, digest in sorted(entries))
    return _git_hash("tree", b"".join(lines))


def _git_hash(kind: str, content: bytes) -> str:
    return hashlib.sha1(f"{kind} {len(content)}\0".encode() + content, usedforsecurity=False).hexdigest()


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
            subprocess.run(  # noqa: S603 - fixed commands
                ["git", *command],  # noqa: S607 - the user's git
                cwd=root,
                capture_output=True,
                text=True,
                check=True,
            ).stdout.strip()
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
            digest = sha256_of(path)
            found[path.name] = {"sha256": digest, "official": digest == source.sha256}
    return found
