"""The wheel holds all of the package: installed away from the checkout, it trains, and loads what it trained."""

import importlib.util
import json
import os
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

import mmdgm

SOURCE = Path(mmdgm.__file__).parent
ROOT = SOURCE.parents[1]

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not (ROOT / "pyproject.toml").exists(), reason="tests run on an installed mmdgm"),
    pytest.mark.skipif(
        not all(map(importlib.util.find_spec, ("hatchling", "pip"))),
        reason="building a wheel and installing it needs hatchling and pip: pip install -e '.[dev]'",
    ),
]


def run(*words, cwd):
    """Run a command that sees nothing of the checkout; returns its standard output."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    ended = subprocess.run(
        [*map(str, words)], cwd=cwd, env=environment, capture_output=True, text=True, timeout=120, check=False
    )
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


@pytest.fixture(scope="module", name="wheel")
def build(tmp_path_factory):
    """hatchling itself, not through pip: neither an index nor a network is asked."""
    folder = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder, cwd=ROOT)
    (wheel,) = folder.iterdir()
    return wheel


@pytest.fixture(scope="module", name="fresh")
def install(wheel, tmp_path_factory):
    """A virtual environment with the wheel, and this one's packages after it; returns its folder and scripts.

    Folders named in a .pth file have their own .pth files ignored, so this one's editable install stays unseen.
    """
    folder = tmp_path_factory.mktemp("fresh").resolve()
    builder = venv.EnvBuilder()
    builder.create(folder)
    context = builder.ensure_directories(folder)
    python, scripts = context.env_exe, Path(context.bin_path)
    pip = (sys.executable, "-m", "pip", "--python", python, "--disable-pip-version-check")
    run(*pip, "install", "--quiet", "--no-deps", "--no-index", wheel, cwd=folder)
    packages = run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", cwd=folder).strip()
    ours = dict.fromkeys(sysconfig.get_path(kind) for kind in ("purelib", "platlib"))
    (Path(packages) / "dependencies.pth").write_text("\n".join(ours) + "\n", encoding="utf-8")
    return folder, python, scripts


def test_the_wheel_holds_every_file_of_the_package(wheel):
    with zipfile.ZipFile(wheel) as archive:
        packed = {name for name in archive.namelist() if name.startswith("mmdgm/")}
        metadata = [name for name in archive.namelist() if name not in packed]
    files = (path for path in SOURCE.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    assert packed == {f"mmdgm/{path.relative_to(SOURCE).as_posix()}" for path in files}
    assert "mmdgm/py.typed" in packed
    assert any(name.endswith("/LICENSE") for name in metadata)
    assert all(".dist-info/" in name for name in metadata)


def test_the_installed_wheel_trains_and_loads(fresh, tmp_path):
    folder, python, scripts = fresh
    assert run(python, "-m", "mmdgm", "--version", cwd=tmp_path).strip() == mmdgm.__version__
    listed = json.loads(run(scripts / "mmdgm", "list", "--json", cwd=tmp_path))
    assert "digits-mmcva-50" in [preset["preset"] for preset in listed]
    words = ("digits-mmcva-50", "--run-dir", "few", "--set", "epochs=1", "--device", "cpu")
    run(scripts / "mmdgm", "train", *words, cwd=tmp_path)
    code = "import mmdgm; print(len(mmdgm.load('few').classes_), mmdgm.__file__)"
    n_classes, place = run(python, "-c", code, cwd=tmp_path).strip().split(" ", 1)
    assert Path(place).resolve().is_relative_to(folder)
    assert n_classes == "10"
