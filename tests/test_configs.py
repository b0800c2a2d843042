"""Configs: that they survive JSON, and which settings contradict each other."""

import json

import pytest

from mmdgm.errors import InputError
from mmdgm.experiments.configs import check, config_from_json, config_to_json
from mmdgm.experiments.presets import PRESETS, find_preset
from mmdgm.settings import override


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
    with pytest.raises(InputError, match="'Later' is missing or unknown"):
        config_from_json(values)


@pytest.mark.parametrize(
    ("name", "assignments", "said"),
    [
        ("svhn-mmcva-1000", ["preprocessing=lcn"], "add --set likelihood=gaussian"),
        ("mnist-va", ["preprocessing=lcn", "likelihood=gaussian"], "pixels of 0 or 1"),
        ("mnist-va", ["likelihood=gaussian"], "pixels of 0 or 1"),
        ("mnist-cnn", ["C=0"], "the stage 'train' has nothing to learn; change"),
        ("svhn-conv-mmva", ["C=0"], "--set classifier_epochs=0"),
        ("mnist-mmva", ["generative_weight=0"], "--set pretrain_epochs=0"),
        ("mnist-mmcva-100", ["spread=0.9"], "set both, or neither"),
        ("mnist-mmcva-100", ["first_guesses=0.3"], "set both, or neither"),
        ("mnist-mmcva-100", ["spread=0.9", "first_guesses=0.3", "unlabeled=false"], "no unlabeled images"),
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
