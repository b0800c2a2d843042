"""The house: folders are the flow of data, imports point one way, and every module says what it is."""

import ast
import subprocess
from pathlib import Path

import pytest

import house

ROOT = Path(__file__).parents[1]
MODULES = house.modules()


def test_every_folder_has_its_place_in_the_order():
    folders = {path.name for path in house.SOURCE.iterdir() if path.is_dir() and path.name != "__pycache__"}
    assert folders == set(house.FOLDERS)


def test_at_most_eight_files_lie_at_the_root():
    assert len(list(house.SOURCE.glob("*.py"))) <= 8


@pytest.mark.parametrize("path", MODULES, ids=str)
def test_imports_point_upward_inside_functions_too(path):
    assert house.imports_against_the_flow(path) == []


@pytest.mark.parametrize("path", MODULES, ids=str)
def test_modules_say_what_they_are(path):
    assert ast.get_docstring(ast.parse(path.read_text()))


@pytest.mark.parametrize("path", MODULES, ids=str)
def test_files_and_functions_are_small(path):
    assert house.too_large(path) == []


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md"])
def test_pages_show_the_folders_in_this_order(page):
    text = (ROOT / page).read_text()
    places = [text.find(f"{folder}/ ") for folder in house.FOLDERS]
    assert -1 not in places
    assert places == sorted(places)


def test_an_import_against_the_flow_is_found(tmp_path, monkeypatch):
    monkeypatch.setattr(house, "SOURCE", tmp_path)
    (tmp_path / "models").mkdir()
    wrong = tmp_path / "models" / "wrong.py"
    wrong.write_text(
        "from mmdgm import errors\n\ndef f():\n    from mmdgm.cli import main\n    import mmdgm.estimators\n"
    )
    assert house.imports_against_the_flow(wrong) == ["cli", "estimators"]
    wrong.write_text("from mmdgm.data.batches import Batch\nfrom mmdgm.models.vae import VAE\nimport mmdgm\n")
    assert house.imports_against_the_flow(wrong) == []
    (root := tmp_path / "errors.py").write_text("from mmdgm import data\n")
    assert house.imports_against_the_flow(root) == ["data"]


def test_no_large_file_is_tracked():
    if not (ROOT / ".git").exists():
        pytest.skip("no checkout")
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True)
    files = [ROOT / name for name in listed.stdout.split("\0") if name]
    assert not [file for file in files if file.is_file() and file.stat().st_size > 2**20]
