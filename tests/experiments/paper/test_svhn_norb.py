"""Tables 2 and 7: how they are laid out, and what their presets share."""

import dataclasses

from mmdgm.experiments.paper.svhn_norb import REBUILT, TABLE_7_PRESETS
from mmdgm.experiments.paper.tables import TABLES
from mmdgm.experiments.presets import find_preset


def runs(*found, preset, official=True, elbo=1500.4):
    files = {"train_32x32.mat": {"sha256": "…", "official": official}}
    about = {"elbo": elbo, "steps": 900, "seconds": 20.0, "images_per_second": 3e5, "device": "a GPU"}
    return {preset: [{"error_percent": error, "dataset": {"files": files}, **about} for error in found]}


def test_table_2_stands_beside_the_paper_s():
    found = runs(6.6, 6.4, preset="svhn-conv-mmva") | runs(6.3, preset="svhn-cnn", elbo=None)
    (sheet,) = TABLES["table2"].lay_out(found)
    assert sheet.rows[0] == ["Conv-VA+Pegasos", "–", "25.30", "–", "0"]
    assert sheet.rows[1] == ["Conv-MMVA, C = 10,000", "6.50 ± 0.14", "3.09", "1,500 ± 0", "2"]
    assert sheet.rows[3] == ["CNN: the same network and margin, without the bound", "6.30", "–", "–", "1"]
    assert sheet.rows[-1] == ["DSN (Lee et al. 2015)", "–", "1.92", "–", "–"]


def test_rebuilt_files_are_named_below_the_table():
    for official in (True, False):
        (sheet,) = TABLES["table2"].lay_out(runs(6.6, preset="svhn-conv-mmva", official=official))
        assert (REBUILT in sheet.notes) is not official
    older = runs(6.6, preset="svhn-conv-mmva")
    del older["svhn-conv-mmva"][0]["dataset"]["files"]
    (sheet,) = TABLES["table2"].lay_out(older)
    assert REBUILT in sheet.notes


def test_table_7_has_a_column_for_each_data_set_and_counts_seeds():
    found = runs(3.0, 3.2, preset="svhn-mmcva-1000-modern") | runs(5.9, preset="norb-mmcva-1000")
    errors, costs = TABLES["table7"].lay_out(found)
    assert ["Conv-MMCVA", "4.95 ± 0.18", "6.11 ± 0.58", "the paper"] in errors.rows
    assert ["Conv-MMCVA", "–", "5.90 (1 seed)", "ours"] in errors.rows
    assert ["Conv-MMCVA with additions", "3.10 ± 0.14 (2 seeds)", "–", "ours"] in errors.rows
    assert [row[0] for row in costs.rows] == list(TABLE_7_PRESETS)


def test_presets_of_a_row_differ_as_the_row_says():
    whole = find_preset("svhn-mmcva-1000-modern").config
    network = find_preset("svhn-mmcva-1000-modern-paper-network").config
    assert network.model == dataclasses.replace(whole.model, classifier="paper")
    alone = find_preset("svhn-mmcva-1000-modern-classifier").config
    assert alone.model == dataclasses.replace(whole.model, generative_weight=0.0)
    assert (network.data, network.training) == (alone.data, alone.training) == (whole.data, whole.training)
    for name in ("svhn", "norb"):
        labels = find_preset(f"{name}-mmcva-1000-modern-labels-alone").config
        model = find_preset(f"{name}-mmcva-1000-modern").config.model
        assert not labels.data.unlabeled
        assert (labels.model.distortion, labels.model.appearance) == (model.distortion, model.appearance)
    supervised, cnn = (find_preset(name).config for name in ("svhn-conv-mmva", "svhn-cnn"))
    assert cnn.model == dataclasses.replace(supervised.model, generative_weight=0.0)
    assert cnn.training == supervised.training
