"""`mmdgm list`: the presets with the paper's figures, and the settings of one."""

import json

from mmdgm.experiments.presets import PRESETS


def test_every_preset_is_listed_with_the_papers_figure(mmdgm):
    presets = {row["preset"]: row for row in json.loads(mmdgm("list", "--json")[1])}
    assert len(presets) == len(PRESETS)
    assert presets["mnist-mmva"]["paper"] == "0.90 %"
    assert presets["mnist-mmcva-100"]["paper"] == "1.24 ± 0.54 %"
    assert all(row["time"] for row in presets.values())
    _, table, _ = mmdgm("list")
    assert all(name in table for name in presets)


def test_the_settings_of_one_preset(mmdgm):
    settings = json.loads(mmdgm("list", "mnist-mmva", "--json")[1])
    assert (settings["C"], settings["margin"], settings["features"]) == (15.0, 3.0, "hidden")
    assert "unlabeled_batch" not in settings
    assert "pretrain_epochs" in mmdgm("list", "mnist-mmva")[1]
