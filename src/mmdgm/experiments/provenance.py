"""With what a run is made: versions and commit."""

import platform
import subprocess
from importlib.metadata import version
from pathlib import Path

import mmdgm


def versions() -> dict[str, str]:
    """Versions of what the figures depend on."""
    packages = {name: version(name) for name in ("torch", "numpy", "scikit-learn")}
    return {"mmdgm": mmdgm.__version__, "python": platform.python_version(), **packages}


def git_commit() -> str | None:
    """The commit of this source tree, marked where it has changes; None outside a checkout of it."""
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
