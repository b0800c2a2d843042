"""Tables of few labels: what their presets change, and how they are laid out."""

import dataclasses

from PIL import Image

from mmdgm.experiments.paper import few_labels
from mmdgm.experiments.paper.tables import TABLES
from mmdgm.experiments.presets import find_preset


def few_label_runs(*found, preset="mnist-mmcva-100"):
    about = {"elbo": -96.25, "steps": 9996, "seconds": 20.0, "images_per_second": 3e5, "device": "a GPU"}
    return {preset: [{"error_percent": error, "seed": seed, **about} for seed, error in enumerate(found)]}


def test_table_6_stands_beside_the_paper_s_and_says_what_a_seed_takes():
    errors, costs = TABLES["table6"].lay_out(few_label_runs(1.0, 1.2))
    assert ["Conv-MMCVA", "1.24 ± 0.54", "0.54 ± 0.04", "0.31", "the paper"] in errors.rows
    assert ["Conv-MMCVA", "1.10 ± 0.14", "–", "–", "ours"] in errors.rows
    assert costs.rows[0] == ["mnist-mmcva-100", "2", "−96.25 ± 0.00", "9,996", "20", "300,000", "a GPU"]
    assert costs.rows[1] == ["mnist-mmcva-1000", "0", "–", "–", "–", "–", "–"]
    assert len(errors.rows) == 9 + 1 + 5


def test_table_6_has_a_row_for_the_graph_alone():
    preset = "mnist-mmcva-100-modern"
    (runs,) = few_label_runs(0.5, 0.7, preset=preset).values()
    runs = [run | {"graph_error_percent": error} for run, error in zip(runs, (0.8, 1.0), strict=True)]
    errors, _ = TABLES["table6"].lay_out({preset: runs})
    assert errors.rows[-1] == [few_labels.GRAPH_ALONE, "0.90 ± 0.14", "–", "–", "ours"]
    assert errors.rows[-2][1] == "0.60 ± 0.14"


def test_ablations_stand_beside_the_paper_s_and_the_full_model_on_the_same_seeds():
    runs = few_label_runs(1.0, 2.0) | few_label_runs(6.0, preset="mnist-mmcva-100-no-hat")
    (sheet,) = TABLES["ablations"].lay_out(runs)
    assert sheet.rows[0] == ["Conv-MMCVA, α_U = 0.3", "1.50 ± 0.71", "1.50 ± 0.71", "1.24", "2"]
    assert ["no hat loss", "6.00", "1.00", "6.4", "1"] in sheet.rows
    assert [row[3] for row in sheet.rows] == ["1.24", "–", "6.4", "2.1", "0.2 more", "–", "–", "–", "–"]


def test_ablations_change_what_they_say():
    full = find_preset("mnist-mmcva-100").config
    changed = {
        "mnist-mmcva-100-hat3": {"hat_weight": 3.0},
        "mnist-mmcva-100-no-hat": {"hat_weight": 0.0},
        "mnist-mmcva-100-classifier": {"generative_weight": 0.0, "straight_through": 0.0},
        "mnist-mmcva-100-no-balance": {"balance_weight": 0.0},
        "mnist-mmcva-100-no-straight-through": {"straight_through": 0.0},
    }
    for preset, settings in changed.items():
        config = find_preset(preset).config
        assert (config.data, config.training) == (full.data, full.training)
        assert config.model == dataclasses.replace(full.model, **settings)
    assert few_labels.ABLATIONS.keys() >= changed.keys()


def test_the_label_curve_changes_the_number_of_labels_alone(tmp_path):
    full = find_preset("mnist-mmcva-100").config
    for n, preset in few_labels.CURVE.items():
        config = find_preset(preset).config
        assert config.data == dataclasses.replace(full.data, labels=n)
        assert (config.model, config.training) == (full.model, full.training)
    runs = few_label_runs(1.5, 2.5) | few_label_runs(0.75, preset="mnist-mmcva-800")
    (sheet,) = TABLES["label-curve"].lay_out(runs)
    assert sheet.rows[0] == ["100", "2.00 ± 0.71", "2"]
    assert sheet.rows[3] == ["800", "0.75", "1"]
    TABLES["label-curve"].draw(tmp_path / "curve.png", runs)
    with Image.open(tmp_path / "curve.png") as picture:
        assert picture.size == (780, 520)
