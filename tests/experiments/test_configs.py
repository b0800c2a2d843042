"""Configs: that they survive JSON, and which settings contradict each other."""

import json
from pathlib import Path

import pytest

from mmdgm.errors import InputError
from mmdgm.experiments.configs import check, config_from_json, config_to_json, differing_settings
from mmdgm.experiments.paper.sheets import BASELINES
from mmdgm.experiments.presets import PRESETS, find_preset
from mmdgm.settings import override, replace_settings

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("preset", PRESETS, ids=lambda preset: preset.name)
def test_config_survives_json(preset):
    config = config_from_json(json.loads(json.dumps(config_to_json(preset.config))))
    assert config == preset.config
    assert type(config.model) is type(preset.config.model)
    assert type(config.training) is type(preset.config.training)


@pytest.mark.parametrize("part", ["model", "training"])
def test_a_config_of_an_unknown_kind_is_refused(part):
    values = config_to_json(PRESETS[0].config)
    values[part]["kind"] = "Later"
    with pytest.raises(InputError, match="'Later'"):
        config_from_json(values)


@pytest.mark.parametrize(
    ("name", "assignments", "said"),
    [
        ("svhn-mmcva-1000", ["preprocessing=lcn"], "likelihood=gaussian"),
        ("mnist-va", ["preprocessing=lcn", "likelihood=gaussian"], "pixels of 0 or 1"),
        ("mnist-va", ["likelihood=gaussian"], "pixels of 0 or 1"),
        ("mnist-cnn", ["C=0"], "'train'"),
        ("svhn-conv-mmva", ["C=0"], "--set classifier_epochs=0"),
        ("mnist-mmva", ["generative_weight=0"], "--set pretrain_epochs=0"),
        ("mnist-mmcva-100", ["propagate=0.9"], "set both, or neither"),
        ("mnist-mmcva-100", ["trust_propagated=0.3"], "set both, or neither"),
        ("mnist-mmcva-100", ["propagate=0.9", "trust_propagated=0.3", "unlabeled=false"], "no unlabeled images"),
    ],
)
def test_settings_that_contradict_each_other_are_refused(name, assignments, said):
    config, _ = override(find_preset(name).config, assignments)
    with pytest.raises(InputError, match=said):
        check(config)


def test_a_classifier_alone_may_see_any_images():
    config, _ = override(find_preset("mnist-cnn").config, ["preprocessing=lcn"])
    assert check(config) is None
    generative, _ = override(config, ["generative_weight=1"])
    with pytest.raises(InputError, match="likelihood=gaussian"):
        check(generative)


@pytest.mark.parametrize("folder", ["runs", "missing"])
def test_committed_results_are_those_of_the_presets(folder):
    found = sorted((ROOT / "results" / folder).glob("*/seed-*/result.json"))
    assert len(found) > 10
    for file in found:
        result = json.loads(file.read_text())
        result = result.get("trained", result)
        if "config" not in result:  # an imputer that is no trained model
            assert file.parts[-3] in BASELINES
            continue
        config = config_from_json(result["config"])
        preset = find_preset(file.parts[-3]).config
        assert {key for key, *_ in differing_settings(result["config"], preset)} <= {"checkpoint_seconds"}, file
        same = replace_settings(config, {"checkpoint_seconds": preset.training.checkpoint_seconds})
        assert (same.data, same.model, same.training) == (preset.data, preset.model, preset.training), file


def test_differing_settings_are_found_wherever_they_stand():
    config = find_preset("mnist-mmcva-100").config
    saved = json.loads(json.dumps(config_to_json(config)))
    assert list(differing_settings(saved, config)) == []
    other, _ = override(config, ["epochs=7", "labels=200", "hat_weight=2"])
    assert {key: (before, now) for key, before, now in differing_settings(saved, other)} == {
        "epochs": (config.training.epochs, 7),
        "labels": (100, 200),
        "hat_weight": (config.model.hat_weight, 2.0),
    }
    del saved["data"]["propagate"]  # younger than the saved config: it had its default
    assert list(differing_settings(saved, config)) == []
