"""The house: imports point one way, and every module has its place and says what it is."""

import ast
import subprocess
from pathlib import Path

import pytest

import mmdgm

SOURCE = Path(mmdgm.__file__).parent

# a module may import from those above it
ORDER = [
    "errors",
    "ranks",
    "datasets.base",
    "datasets.files",
    "datasets.digits",
    "datasets.idx",
    "datasets.mat",
    "datasets.svhn",
    "datasets.norb",
    "datasets.about",
    "datasets.sources",
    "datasets.fetch",
    "datasets",
    "splits",
    "preprocessing",
    "contrast",
    "corruption",
    "batches",
    "margins",
    "settings",
    "layers",
    "likelihoods",
    "networks",
    "recipes",
    "augmentation",
    "bending",
    "neighbours",
    "models.vae",
    "models.supervised",
    "models.conditional",
    "models.semisupervised",
    "models.averaged",
    "models.marginal",
    "models.pegasos",
    "models",
    "persistence",
    "prepared",
    "schedules",
    "stages",
    "devices",
    "optimizer",
    "steps",
    "training",
    "progress",
    "evaluation",
    "keyed",
    "tables",
    "estimators.parameters",
    "estimators.labels",
    "estimators.codecs",
    "estimators.neighbours",
    "estimators.fitting",
    "estimators.base",
    "estimators.classifiers",
    "estimators.imputer",
    "estimators.splitters",
    "estimators",
    "frozen",
    "posterior",
    "imputation",
    "sampling",
    "own_data",
    "own_images",
    "own_tables",
    "plots",
    "configs",
    "presets",
    "environment",
    "runs",
    "own_runs",
    "export",
    "experiments",
    "reproduce",
    "reproduce.paper",
    "reproduce.patterns",
    "reproduce.baselines",
    "reproduce.sheets",
    "reproduce.supervised",
    "reproduce.few_labels",
    "reproduce.tables",
    "reproduce.runner",
    "reproduce.figures",
    "reproduce.conditional_figures",
    "bench",
    "bench.naive",
    "bench.marginalising",
    "bench.peers",
    "bench.timing",
    "bench.workloads",
    "bench.suite",
    "cli.common",
    "cli.lazy",
    "cli.filling",
    "cli.own",
    "cli.presets",
    "cli.train",
    "cli.use",
    "cli.predict",
    "cli.export",
    "cli.reproduce",
    "cli.bench",
    "cli.data",
    "cli",
    "__main__",
]


def module_name(path):
    parts = path.relative_to(SOURCE).with_suffix("").parts
    return ".".join(part for part in parts if part != "__init__")


def imported_modules(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "mmdgm":
            inside = node.module.removeprefix("mmdgm").lstrip(".")
            names = [f"{inside}.{alias.name}".lstrip(".") for alias in node.names]
            yield from (name if name in ORDER else inside for name in names)
        elif isinstance(node, ast.Import):
            yield from (a.name.removeprefix("mmdgm.") for a in node.names if a.name.startswith("mmdgm."))


MODULES = {module_name(path): path for path in SOURCE.rglob("*.py")}


def test_every_module_has_a_place_in_the_order():
    assert set(MODULES) - {""} == set(ORDER)


@pytest.mark.parametrize("name", ORDER)
def test_imports_point_upward(name):
    for imported in imported_modules(MODULES[name]):
        if imported:
            assert ORDER.index(imported) < ORDER.index(name), f"{name} imports {imported}"


@pytest.mark.parametrize("name", ORDER)
def test_modules_say_what_they_are(name):
    assert ast.get_docstring(ast.parse(MODULES[name].read_text()))


def test_no_large_file_is_tracked():
    root = SOURCE.parents[1]
    if not (root / ".git").exists():
        pytest.skip("no checkout")
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=root, check=True, capture_output=True, text=True)
    files = [root / name for name in listed.stdout.split("\0") if name]
    assert not [file for file in files if file.is_file() and file.stat().st_size > 2**20]
