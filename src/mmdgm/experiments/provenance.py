"""The software of a run: versions and commit."""

import platform
import subprocess
from importlib.metadata import version
from pathlib import Path

import mmdgm


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
