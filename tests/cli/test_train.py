"""`mmdgm train`: presets, several seeds, going on with a run, and one clear line for each mistake."""

import json
import re
import shutil

import numpy as np
import pytest

from mmdgm.cli.train import parse_seeds
from mmdgm.errors import InputError
from mmdgm.files import read_json

PRESET = "digits-mmcva-50"


def test_a_run_leaves_its_result_and_is_not_trained_twice(mmdgm, tmp_path):
    run = tmp_path / "run"
    words = ["train", PRESET, "--run-dir", run, "--seed", 1, "--set", "epochs=2", "--device", "cpu"]
    code, out, err = mmdgm(*words)
    assert code == 0
    assert "step 16/16" in err
    result = read_json(run / "result.json")
    assert (result["status"], result["seed"], result["overrides"]) == ("done", 1, {"epochs": 2})
    cells = out.splitlines()[1].split()
    assert cells[:2] == ["1", f"{result['error_percent']:.2f}"]
    assert {path.name for path in run.iterdir()} >= {"config.json", "model.safetensors", "metrics.csv", "figures"}
    before = (run / "model.safetensors").stat().st_mtime_ns
    assert json.loads(mmdgm(*words, "--resume", "--json")[1]) == result
    assert json.loads(mmdgm(*words[:6], "--resume", "--json")[1]) == result  # settings are those of the folder
    assert (run / "model.safetensors").stat().st_mtime_ns == before


def test_several_seeds_get_a_folder_each_and_a_mean(mmdgm, tmp_path):
    words = ("--run-dir", tmp_path, "--seeds", "4,6", "--set", "epochs=1", "--device", "cpu")
    code, out, _ = mmdgm("train", PRESET, *words)
    assert code == 0
    errors = []
    for seed in (4, 6):
        result = read_json(tmp_path / f"seed-{seed}" / "result.json")
        assert result["seed"] == seed
        errors.append(result["error_percent"])
    assert f"{np.mean(errors):.2f} ± {np.std(errors, ddof=1):.2f}" in out
    answer = json.loads(mmdgm("train", PRESET, *words, "--resume", "--json")[1])
    assert [result["seed"] for result in answer] == [4, 6]


def test_a_mean_over_seeds_of_a_model_without_bound(mmdgm, tmp_path):
    changes = ["generative_weight=0", "straight_through=0", "epochs=1"]
    words = [word for change in changes for word in ("--set", change)]
    code, out, _ = mmdgm("train", PRESET, "--seeds", "0-1", "--run-dir", tmp_path, "--device", "cpu", *words)
    assert code == 0
    assert re.search(r"mean +[\d.]+ ± [\d.]+ +–", out)


TRAIN = ("train", PRESET, "--run-dir", "run")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("train",), "Missing argument 'preset'"),
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
        ((*TRAIN, "--seed", "99999999999"), "Invalid value for '--seed'"),
        ((*TRAIN, "--device", "tpu"), "device tpu: use auto, cpu or cuda"),
        ((*TRAIN, "--target", "kind"), "No such option: --target"),
        (
            ("train", "mnist-mmva", "--run-dir", "run", "--data-dir", "none"),
            "mmdgm data download mnist --data-dir",
        ),
        (("train", PRESET, "--run-dir", "TRAINED"), "already holds a run; go on with it by --resume"),
        (("train", PRESET, "--run-dir", "TRAINED/config.json/x"), "cannot be written"),
        (("train", PRESET, "--run-dir", "TRAINED", "--resume"), "holds a run of seed 3, not 0; use --seed 3"),
        (("train", "mnist-va", "--run-dir", "TRAINED", "--resume"), f"a run of {PRESET}, not of mnist-va"),
        (
            ("train", PRESET, "--run-dir", "TRAINED", "--resume", "--seed", "3", "--set", "margin=2"),
            "holds a run with validation=100, not 0; resume it as it was",
        ),
        (("train", PRESET, "--run-dir", "OWN/rows"), "already holds a run"),
        (
            ("train", PRESET, "--run-dir", "OWN/rows", "--resume", "--seed", "1"),
            "OWN/rows holds a run of own data; go on with it by `mmdgm fit --resume`",
        ),
    ],
)
def test_mistakes(refused, trained, own, words, said):
    places = {"TRAINED": str(trained), "OWN": str(own)}
    for name, place in places.items():
        words, said = [word.replace(name, place) for word in words], said.replace(name, place)
    assert said in refused(*words, watched=[trained, own])


def test_a_folder_that_an_estimator_was_saved_to_is_no_run_to_go_on_with(refused, own, tmp_path):
    shutil.copytree(own / "rows", tmp_path / "saved")
    config = read_json(tmp_path / "saved" / "config.json")
    del config["run"]
    (tmp_path / "saved" / "config.json").write_text(json.dumps(config))
    assert "is no run's config" in refused("train", PRESET, "--run-dir", "saved", "--resume")


def test_seeds_are_ranges_and_lists():
    assert parse_seeds("0-3") == [0, 1, 2, 3]
    assert parse_seeds("7") == [7]
    assert parse_seeds("0,4-5") == [0, 4, 5]
    for wrong in ("", "a", "1-", "-1", "3-1", "1,1"):
        with pytest.raises(InputError):
            parse_seeds(wrong)
