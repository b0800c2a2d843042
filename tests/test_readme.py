"""The README's code runs: its tour on the command line, then its Python blocks in order."""

import re
import shlex
from pathlib import Path

import numpy as np
from PIL import Image

from mmdgm.data import datasets

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()


def blocks(language):
    return re.findall(rf"^```{language}\n(.*?)^```", README, flags=re.DOTALL | re.MULTILINE)


def test_readme_runs(tmp_path, monkeypatch, mmdgm):
    monkeypatch.chdir(tmp_path)
    holes = datasets.load("digits").x_test[:4].astype(float)
    holes[:, :, 2:4] = np.nan
    np.savez("holes.npz", x=holes)
    tour = [line for block in blocks("sh") for line in block.splitlines() if line.startswith("mmdgm ")]
    used = [line.split()[1] for line in tour]
    assert used == ["list", "train", "evaluate", "sample", "impute", "predict", "export", "app"]
    for line in tour[:-1]:  # app serves until it is ended
        words = shlex.split(line, comments=True)
        shortened = ["--set", "epochs=2", "--device", "cpu"] if words[1] == "train" else []
        assert mmdgm(*words[1:], *shortened)[0] == 0, line
    written = {str(path) for path in Path("runs").rglob("*")} | {str(path) for path in Path().glob("*")}
    assert {"runs/few/samples.png", "runs/few/figures/samples.png", "runs/few/classifier.onnx"} <= written
    assert {"holes-imputed.png", "holes-imputed.npz", "holes-predictions.csv"} <= written
    names = {}
    for block in blocks("python"):
        exec(compile(block, "README.md", "exec"), names)
    assert names["threes"].shape == (4, 8, 8)
    assert names["clf"].score(names["holes"], names["y"]) > 0.8
    filled, seen = names["clf"].impute(names["holes"]), ~np.isnan(names["holes"])
    np.testing.assert_array_equal(filled[seen], names["holes"][seen])


def test_own_data_as_readme_shows_it(tmp_path, monkeypatch, mmdgm):
    monkeypatch.chdir(tmp_path)
    Path("table.csv").write_text("a,kind\n" + "".join(f"{i % 2 + i / 100},{'xy'[i % 2]}\n" for i in range(20)))
    Path("scans").mkdir()
    for i in range(25):
        Image.fromarray(np.full((8, 8), 10 * i, np.uint8)).save(f"scans/{i}.png")
    suggest, fit = (line for block in blocks("text") for line in block.splitlines() if line.startswith("mmdgm "))
    for line, more in ((suggest, ()), (fit, ("--epochs", 2, "--device", "cpu"))):
        code, _, err = mmdgm(*shlex.split(line, comments=True)[1:], *more)
        assert code == 0, err
    assert Path("scans-labels.csv").exists()
    assert Path("runs/own/model.safetensors").exists()


def test_relative_links_lead_to_files():
    for link in re.findall(r"\]\(([^)\s]+)\)", README):
        if not link.startswith("http"):
            assert (ROOT / link.partition("#")[0]).exists(), link
