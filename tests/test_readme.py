"""The README's code runs: its tour on the command line, then its Python blocks in order."""

import re
import shlex
from pathlib import Path

import numpy as np

from mmdgm import datasets

README = (Path(__file__).parents[1] / "README.md").read_text()


def blocks(language):
    return re.findall(rf"```{language}\n(.*?)```", README, flags=re.DOTALL)


def test_readme_runs(tmp_path, monkeypatch, mmdgm):
    monkeypatch.chdir(tmp_path)
    holes = datasets.load("digits").x_test[:4].astype(float)
    holes[:, :, 2:4] = np.nan
    np.savez("holes.npz", x=holes)
    tour = [line for line in blocks("sh")[1].splitlines() if line]
    assert len(tour) == 5
    for line in tour:
        words = shlex.split(line, comments=True)
        shortened = ["--set", "epochs=2", "--device", "cpu"] if words[1] == "train" else []
        assert mmdgm(*words[1:], *shortened)[0] == 0, line
    written = {str(path) for path in Path().rglob("*.png")}
    assert {"runs/few/samples.png", "runs/few/figures/samples.png", "holes-imputed.png"} <= written
    names = {}
    for block in blocks("python"):
        exec(compile(block, "README.md", "exec"), names)
    assert names["filled"].shape == (16, 1, 8, 8)
    assert names["images"].shape == (10, 8, 1, 8, 8)
    assert names["terms"].hinge.shape == (8,)
