"""The command as a user meets it: answers, files, and one clear line for each mistake."""

import json
import re
import subprocess
import sys

import numpy as np
import pytest

from conftest import image_size
from mmdgm import __version__
from mmdgm.cli import lazy
from mmdgm.cli.train import parse_seeds
from mmdgm.data import datasets
from mmdgm.errors import InputError
from mmdgm.experiments.presets import PRESETS


@pytest.mark.parametrize("command", [name for name in lazy.COMMANDS if name != "data"])
def test_help_has_an_example(mmdgm, command):
    code, out, _ = mmdgm(command, "--help")
    assert code == 0
    assert f"Usage: mmdgm {command}" in out
    assert "Example" in out


@pytest.mark.parametrize("command", lazy.COMMANDS)
def test_the_list_of_commands_says_what_their_own_pages_say(command):
    assert lazy.COMMANDS[command].line == " ".join(lazy.load(command).help.partition("\n\n")[0].split())


@pytest.mark.parametrize("words", [["--help"], ["--version"], ["data", "list"]], ids=" ".join)
def test_answers_that_need_no_torch_do_not_wait_for_it(words):
    code = f"import sys; sys.argv = {['mmdgm', *words]}; from mmdgm.cli import main\ntry: main()\n"
    code += "except SystemExit: pass\nprint('torch' in sys.modules, file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout
    assert done.stderr == "False\n"


def test_version_and_help_without_a_command(mmdgm):
    assert mmdgm("--version")[:2] == (0, f"{__version__}\n")
    code, out, _ = mmdgm()
    assert code == 0
    assert all(command in out for command in ("list", "train", "evaluate", "sample", "impute"))


def test_list_shows_every_preset_with_the_papers_figure(mmdgm):
    presets = {row["preset"]: row for row in json.loads(mmdgm("list", "--json")[1])}
    assert len(presets) == len(PRESETS)
    assert presets["mnist-mmva"]["paper"] == "0.90 %"
    assert presets["mnist-mmcva-100"]["paper"] == "1.24 ± 0.54 %"
    assert all(row["time"] for row in presets.values())
    _, table, _ = mmdgm("list")
    assert all(name in table for name in presets)


def test_list_shows_the_settings_of_one_preset(mmdgm):
    settings = json.loads(mmdgm("list", "mnist-mmva", "--json")[1])
    assert (settings["C"], settings["margin"], settings["features"]) == (15.0, 3.0, "hidden")
    assert "unlabeled_batch" not in settings
    assert "pretrain_epochs" in mmdgm("list", "mnist-mmva")[1]


def test_train_evaluate_sample_impute(mmdgm, tmp_path):
    run = tmp_path / "run"
    words = ["--run-dir", run, "--seed", 1, "--set", "epochs=2", "--device", "cpu"]
    code, out, err = mmdgm("train", "digits-mmcva-50", *words)
    assert code == 0
    assert "test error %" in out
    assert "step 16/16" in err
    result = json.loads((run / "result.json").read_text())
    assert json.loads(mmdgm("train", "digits-mmcva-50", *words, "--resume", "--json")[1]) == result

    code, out, _ = mmdgm("evaluate", run, "--json")
    assert json.loads(out)["error_percent"] == result["error_percent"]
    assert f"{result['error_percent']:.2f}" in mmdgm("evaluate", run)[1]

    code, out, _ = mmdgm("sample", run, "--columns", 3, "--json")
    png, npz = json.loads(out)["files"]
    assert image_size(png) == (3 * 50 + 2, 10 * 50 + 2)
    samples = np.load(npz)
    assert samples["x"].shape == (10, 3, 1, 8, 8)
    assert samples["y"][:, 0].tolist() == list(range(10))

    answer = json.loads(mmdgm("sample", run, "--out", tmp_path / "pic.png", "--json")[1])
    assert answer["files"] == [str(tmp_path / "pic.png"), str(tmp_path / "pic.npz")]

    x = datasets.load("digits").x_test[:5, 0].astype(np.float32)
    x[:, 2:5, 3:6] = np.nan
    np.savez(tmp_path / "holes.npz", x=x)
    code, out, _ = mmdgm("impute", run, tmp_path / "holes.npz", "--rounds", 2, "--json")
    answer = json.loads(out)
    assert answer["filled_values"] == 5 * 9
    filled = np.load(answer["files"][1])
    assert answer["files"][1] == str(tmp_path / "holes-imputed.npz")
    assert image_size(answer["files"][0]) == (5 * 50 + 2, 2 * 50 + 2)
    assert np.array_equal(filled["missing"], np.isnan(x))
    assert np.array_equal(filled["x"][~filled["missing"]], x[~filled["missing"]])
    assert ((filled["x"] >= 0) & (filled["x"] <= 16)).all()
    assert mmdgm("impute", run, tmp_path / "holes.npz", "--method", "mean", "--out", tmp_path / "mean")[0] == 0
    mean = np.load(tmp_path / "mean.npz")["x"]
    assert np.array_equal(mean[~filled["missing"]], x[~filled["missing"]])
    assert not np.array_equal(mean, filled["x"])


def test_several_seeds_get_a_folder_each_and_a_mean(mmdgm, tmp_path):
    code, out, _ = mmdgm(
        "train", "digits-mmcva-50", "--run-dir", tmp_path, "--seeds", "4,6", "--set", "epochs=1", "--device", "cpu"
    )
    assert code == 0
    errors = []
    for seed in (4, 6):
        result = json.loads((tmp_path / f"seed-{seed}" / "result.json").read_text())
        assert result["seed"] == seed
        errors.append(result["error_percent"])
    assert f"{np.mean(errors):.2f} ± {np.std(errors, ddof=1):.2f}" in out


TRAIN = ("train", "digits-mmcva-50", "--run-dir", "RUN")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("train", "mnist-mmcva-10"), "did you mean mnist-mmcva-100?"),
        ((*TRAIN, "--set", "epoch=3"), "the nearest is epochs (takes a whole number ≥ 1)"),
        ((*TRAIN, "--set", "epochs=three"), "epochs takes a whole number ≥ 1"),
        ((*TRAIN, "--set", "schedule=linear"), "schedule takes constant | cosine | step"),
        ((*TRAIN, "--set", "epochs"), "write key=value"),
        ((*TRAIN, "--set", "labels=55"), "a positive multiple of the 10 classes"),
        ((*TRAIN, "--set", "labels=5000"), "ask for at most"),
        ((*TRAIN, "--set", "validation=1297"), "fewer than all 1297"),
        ((*TRAIN, "--seed", "1", "--seeds", "0-2"), "not both"),
        ((*TRAIN, "--seeds", "2-0"), "--seeds 2-0"),
        ((*TRAIN, "--device", "tpu"), "device tpu: use auto, cpu or cuda"),
        (("train", "mnist-mmva", "--run-dir", "RUN", "--data-dir", "RUN"), "mmdgm data download mnist --data-dir"),
        (("train", "mnist-va", "--run-dir", "TRAINED", "--resume"), "a run of digits-mmcva-50, not of mnist-va"),
        (("train", "digits-mmcva-50", "--run-dir", "TRAINED"), "already holds a run"),
        (("train", "digits-mmcva-50", "--run-dir", "TRAINED/config.json/x"), "cannot be written"),
        (("train", "digits-mmcva-50", "--run-dir", "RUN", "--seed", "99999999999"), "Invalid value"),
        (("sample", "TRAINED", "--out", "."), "give a file name"),
        (("evaluate", "RUN"), "holds no run"),
        (("sample", "RUN"), "holds no run"),
        (("impute", "RUN", "x.npz"), "holds no run"),
        (("impute", "TRAINED", "nowhere.npz"), "nowhere.npz is missing"),
        (("impute", "TRAINED", "TRAINED/config.json"), "is no npz file"),
        (("impute", "TRAINED", "x.npz", "--scale", "0"), "give a number above 0"),
        (("impute", "TRAINED", "x.npz", "--method", "median"), "--method median: use draw or mean"),
        (("impute", "TRAINED", "HOLES", "--out", "HOLES"), "would write over the input"),
        (("list", "mnist"), "there is no preset"),
        (("train",), "Missing argument"),
        (("sample", "TRAINED", "--columns", "0"), "Invalid value"),
    ],
)
def test_mistakes_end_with_one_clear_line_and_exit_code_2(mmdgm, tmp_path, trained, words, said):
    run = tmp_path / "run"
    np.savez(tmp_path / "holes.npz", x=np.full((2, 8, 8), np.nan))
    places = {"RUN": run, "TRAINED": trained, "HOLES": tmp_path / "holes.npz"}
    for name, place in places.items():
        words = [word.replace(name, str(place)) for word in words]
    code, _, err = mmdgm(*words)
    assert code == 2
    assert said in " ".join(err.split())
    assert "Traceback" not in err
    if err.startswith("mmdgm:"):
        assert err.count("\n") == 1
    assert not run.exists()  # nothing is left behind


def test_seeds_are_ranges_and_lists():
    assert parse_seeds("0-3") == [0, 1, 2, 3]
    assert parse_seeds("7") == [7]
    assert parse_seeds("0,4-5") == [0, 4, 5]
    for wrong in ("", "a", "1-", "-1", "3-1", "1,1"):
        with pytest.raises(InputError):
            parse_seeds(wrong)


def test_a_mean_over_seeds_of_a_model_without_bound(mmdgm, tmp_path, monkeypatch):
    changes = ["generative_weight=0", "straight_through=0", "epochs=1"]
    words = [word for change in changes for word in ("--set", change)]
    code, out, _ = mmdgm(
        "train", "digits-mmcva-50", "--seeds", "0-1", "--run-dir", tmp_path, "--device", "cpu", *words
    )
    assert code == 0
    assert re.search(r"mean +[\d.]+ ± [\d.]+ +–", out)
