"""The presets: which there are, and that their configs survive JSON and `--set`."""

import dataclasses
import json

import pytest

from mmdgm.errors import InputError
from mmdgm.presets import PRESETS, config_from_json, config_to_json, find_preset
from mmdgm.settings import override, settings_of

NAMES = [preset.name for preset in PRESETS]
every_preset = pytest.mark.parametrize("preset", PRESETS, ids=NAMES)


def setting_names(config):
    """The keys of all settings, found without `settings_of`."""
    names = []
    for field in dataclasses.fields(config):
        value = getattr(config, field.name)
        if dataclasses.is_dataclass(value):
            names += setting_names(value)
        elif "help" in field.metadata:
            names.append(field.name)
    return names


def test_the_papers_experiments_are_there_once_each():
    assert sorted(NAMES) == [
        "digits-mmcva-50",
        "mnist-conv-mmva",
        "mnist-conv-va",
        "mnist-mmcva-100",
        "mnist-mmcva-1000",
        "mnist-mmcva-all",
        "mnist-mmva",
        "mnist-va",
    ]


@every_preset
def test_a_preset_is_found_by_its_name(preset):
    assert find_preset(preset.name) is preset


@pytest.mark.parametrize(
    ("name", "nearest"),
    [("mnist-vae", "mnist-va"), ("digits", "digits-mmcva-50"), ("mnist-mmcva-10", "mnist-mmcva-100")],
)
def test_an_unknown_preset_names_the_nearest(name, nearest):
    with pytest.raises(InputError) as caught:
        find_preset(name)
    assert str(caught.value) == (f"there is no preset {name!r}; did you mean {nearest}? (`mmdgm list` shows all)")


def test_a_name_unlike_any_lists_all():
    with pytest.raises(InputError) as caught:
        find_preset("zzz")
    assert f"there are: {', '.join(NAMES)}" in str(caught.value)


@every_preset
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


@every_preset
def test_setting_keys_are_unique_and_all_reachable(preset):
    names = setting_names(preset.config)
    assert len(set(names)) == len(names)
    assert list(settings_of(preset.config)) == names


@every_preset
def test_every_default_is_a_value_that_set_takes(preset):
    for key, setting in settings_of(preset.config).items():
        value = setting.value
        text = ",".join(map(str, value)) if isinstance(value, tuple) else str(value)
        assert override(preset.config, [f"{key}={text}"]) == (preset.config, {key: value})
        assert setting.help


@every_preset
def test_labels_and_batches_fit_together(preset):
    data, training = preset.config.data, preset.config.training
    if data.labels is None:
        assert not hasattr(training, "unlabeled_batch")
    else:
        assert data.labels % 10 == 0
        assert data.labels % training.batch == 0
        assert training.unlabeled_batch > 0


@pytest.mark.parametrize("assignment", ["hidden=0", "hidden=500,-5", "z=0", "dropout=1", "epochs=0"])
def test_networks_that_cannot_be_built_are_refused(assignment):
    with pytest.raises(InputError, match=f"^{assignment}: not allowed"):
        override(find_preset("mnist-va").config, [assignment])
