"""`mmdgm predict` as a user meets it: arrays and image files in, a CSV file and counts out."""

import csv
import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from mmdgm.data import datasets
from mmdgm.data.contrast import local_contrast
from mmdgm.data.npz import save_arrays
from mmdgm.experiments import run_folder
from mmdgm.inference.evaluation import predict_scores
from mmdgm.models import VAE

DIGITS = datasets.load("digits")


@pytest.fixture(scope="module", name="run")
def load(trained):
    return run_folder.load_run(trained, device="cpu")


@pytest.fixture(name="predict")
def make_predict(mmdgm, trained, tmp_path, monkeypatch):
    """Run the command in an empty folder; returns its answer, the CSV file's lines, and the scores in them."""
    monkeypatch.chdir(tmp_path)

    def predict(*words):
        code, out, err = mmdgm("predict", trained, *words, "--device", "cpu", "--json")
        assert code == 0, err
        answer = json.loads(out)
        (file,) = answer["files"]
        with Path(file).open(newline="", encoding="utf-8") as lines:
            rows = list(csv.DictReader(lines))
        scores = np.array([[row[f"score_{k}"] for k in range(10)] for row in rows], np.float32)
        assert [int(row["prediction"]) for row in rows] == scores.argmax(1).tolist()
        counts = {str(k): int((scores.argmax(1) == k).sum()) for k in range(10)}
        assert answer["predictions_per_class"] == counts
        assert (answer["rows"], answer["imputed_values"]) == (len(rows), sum(int(row["missing"]) for row in rows))
        return answer, rows, scores

    return predict


def save_images(folder, images, white=255):
    """Digits 0..16 as PNG files 0..white, named by row."""
    folder.mkdir()
    dtype = np.uint8 if white == 255 else np.uint16
    for row, image in enumerate(images):
        Image.fromarray(np.round(image[0] * (white / 16)).astype(dtype)).save(folder / f"{row:03}.png")
    return folder


def test_arrays_get_the_scores_of_the_model_to_the_last_digit(predict, run):
    np.savez("test.npz", x=DIGITS.x_test)
    answer, rows, scores = predict("test.npz")
    assert answer["files"] == ["test-predictions.csv"]
    assert answer["skipped"] == 0
    assert list(rows[0]) == ["input", "prediction", "missing", *(f"score_{k}" for k in range(10))]
    assert [row["input"] for row in rows] == [str(i) for i in range(500)]
    np.testing.assert_array_equal(scores, predict_scores(run.model, DIGITS.x_test, scale=16))
    scaled = (DIGITS.x_test / 16).reshape(500, 64)
    np.savez("scaled.npz", x=scaled)
    np.testing.assert_array_equal(predict("scaled.npz", "--scale", 1)[2], scores)


def test_image_files_get_the_predictions_of_the_same_images_as_arrays(predict, run, tmp_path):
    """Neither 255 nor 65535 is a multiple of 16: 8 bits move a grey value by up to 1/510, 16 bits by 1/131070.

    So scores are close, not equal; all 500 predictions agreed when this was written.
    """
    expected = predict_scores(run.model, DIGITS.x_test, scale=16)
    answer, rows, scores = predict(save_images(tmp_path / "eight", DIGITS.x_test))
    assert answer["files"] == [str(tmp_path / "eight-predictions.csv")]
    assert [row["input"] for row in rows] == [f"{i:03}.png" for i in range(500)]
    assert (scores.argmax(1) == expected.argmax(1)).mean() >= 0.99
    np.testing.assert_allclose(scores, expected, atol=0.02)  # 0.005 when this was written
    scores = predict(save_images(tmp_path / "sixteen", DIGITS.x_test[:50], white=65535))[2]
    np.testing.assert_allclose(scores, expected[:50], atol=2e-4)


def test_enlarged_colour_photographs_of_digits_are_recognised(predict, run, tmp_path):
    expected = predict_scores(run.model, DIGITS.x_test[:100], scale=16).argmax(1)
    for row, image in enumerate(DIGITS.x_test[:100, 0]):
        large = Image.fromarray((image * 15).astype(np.uint8)).resize((200, 160), Image.Resampling.BICUBIC)
        large.convert("RGB").save(tmp_path / f"{row:03}.jpg", quality=90)
    _, _, scores = predict(".", "--out", "out.csv")
    assert (scores.argmax(1) == expected).mean() >= 0.9


def test_files_are_named_as_they_were_given_and_broken_ones_skipped(predict, mmdgm, trained, tmp_path):
    save_images(tmp_path / "one", DIGITS.x_test[:2])
    save_images(tmp_path / "two", DIGITS.x_test[2:3])
    Path("broken.png").write_bytes(b"no image")
    words = ("one/001.png", "broken.png", "two/000.png", "one/000.png")
    answer, rows, scores = predict(*words)
    assert answer["files"] == ["predictions.csv"]
    assert answer["skipped"] == 1
    assert [row["input"] for row in rows] == ["one/001.png", "two/000.png", "one/000.png"]
    np.testing.assert_allclose(scores[[2, 0]], predict("one")[2], rtol=1e-4, atol=1e-6)
    code, out, err = mmdgm("predict", trained, *words, "--device", "cpu")
    assert code == 0
    assert out.split()[:3] == ["predictions.csv", "class", "rows"]
    assert out.split()[-2:] == ["skipped", "1"]
    assert err.startswith("broken.png: cannot be read as an image (")
    assert err.endswith("; skipped\n")
    assert err.count("\n") == 1


def test_a_folder_without_a_name_of_its_own_gets_its_file_beside_it(predict, tmp_path, monkeypatch):
    monkeypatch.chdir(save_images(tmp_path / "v1.2", DIGITS.x_test[:1]))
    assert predict(".")[0]["files"] == [str(tmp_path / "v1.2-predictions.csv")]


def test_names_are_quoted_where_they_must_be(predict, tmp_path):
    save_images(tmp_path / "odd", DIGITS.x_test[:1])
    (tmp_path / "odd" / "000.png").rename(tmp_path / "odd" / 'a, "b" ü.png')
    assert predict("odd")[1][0]["input"] == 'a, "b" ü.png'


@pytest.fixture(name="holes")
def make_holes():
    """20 rows; of every second one the middle 4×4 is missing, of the last all."""
    x = DIGITS.x_test[:20].astype(np.float32)
    x[::2, :, 2:6, 2:6] = np.nan
    x[19] = np.nan
    return x


DRAW = ("--method", "draw", "--rounds")


@pytest.mark.parametrize("method", [(*DRAW, 5), ()], ids=["draw", "mean"])
def test_missing_values_are_imputed_with_the_seed_and_counted(predict, holes, method):
    np.savez("holes.npz", x=holes)
    answer, rows, scores = predict("holes.npz", *method)
    assert [int(row["missing"]) for row in rows] == [16, 0] * 9 + [16, 64]
    assert answer["imputed_values"] == 10 * 16 + 64
    assert np.isfinite(scores).all()
    np.testing.assert_array_equal(predict("holes.npz", *method)[2], scores)
    other = predict("holes.npz", *method, "--seed", 1)[2]
    holed = np.isnan(holes).any(axis=(1, 2, 3))
    assert (other != scores)[holed].any(axis=1).all()
    np.testing.assert_array_equal(other[~holed], scores[~holed])


def test_complete_rows_have_the_scores_that_they_have_without_the_others_holes(predict, run, holes):
    np.savez("holes.npz", x=holes)
    scores = predict("holes.npz", *DRAW, 5)[2]
    complete = ~np.isnan(holes).any(axis=(1, 2, 3))
    expected = predict_scores(run.model, DIGITS.x_test[:20], scale=16)
    np.testing.assert_array_equal(scores[complete], expected[complete])


def test_where_every_row_has_holes_it_is_impute_and_then_predict(predict, mmdgm, trained, holes):
    np.savez("holes.npz", x=holes[::2])
    code, _, _ = mmdgm("impute", trained, "holes.npz", "--rounds", 5, "--seed", 4, "--device", "cpu")
    assert code == 0
    scores = predict("holes.npz", *DRAW, 5, "--seed", 4)[2]
    np.testing.assert_allclose(predict("holes-imputed.npz")[2], scores, atol=1e-5)


def test_imputing_holes_before_classifying_beats_black_ones(predict, run):
    """A hole of 3×3, as in the paper's Table 5; this short run gets 83 % right with the mean there."""
    x = DIGITS.x_test.astype(np.float32)
    x[:, :, 3:6, 3:6] = np.nan
    np.savez("holes.npz", x=x)
    scores = {
        "mean": predict("holes.npz")[2],
        "draw": predict("holes.npz", *DRAW, 10)[2],
        "black": predict_scores(run.model, np.nan_to_num(x), scale=16),
    }
    right = {name: (of_rows.argmax(1) == DIGITS.y_test).mean() for name, of_rows in scores.items()}
    assert right["mean"] > right["draw"] + 0.02  # .83, .77, .62
    assert right["draw"] > right["black"] + 0.05


def test_the_answer_in_words_is_the_file_and_a_count_per_class(mmdgm, trained, tmp_path):
    np.savez(tmp_path / "x.npz", x=DIGITS.x_test[:7])
    code, out, err = mmdgm("predict", trained, tmp_path / "x.npz", "--out", tmp_path / "new" / "y.csv")
    assert code == 0
    lines = [line.split() for line in out.splitlines()]
    assert lines[:2] == [[str(tmp_path / "new" / "y.csv")], ["class", "rows"]]
    assert [name for name, _ in lines[2:]] == [str(k) for k in range(10)]
    assert sum(int(count) for _, count in lines[2:]) == 7
    assert err == ""
    assert (tmp_path / "new" / "y.csv").read_bytes().count(b"\n") == 8


def test_help_has_an_example(mmdgm):
    code, out, _ = mmdgm("predict", "--help")
    assert code == 0
    assert "Example: mmdgm predict" in " ".join(out.split())


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("RUN", "x.npz"), "holds no run"),
        (("TRAINED",), "Missing argument"),
        (("TRAINED", "absent.npz"), "absent.npz is missing"),
        (("TRAINED", "absent.png"), "absent.png is missing"),
        (("TRAINED", "good.png", "absent.png"), "absent.png is missing"),
        (("TRAINED", "x.npz", "good.png"), "x.npz is not alone; give one npz file, one folder"),
        (("TRAINED", "x.npz", "x.npz"), "x.npz is not alone"),
        (("TRAINED", "good.png", "empty"), "empty is not alone"),
        (("TRAINED", "empty"), "empty: holds no image files"),
        (("TRAINED", "broken.png"), "broken.png: no image is left of 1"),
        (("TRAINED", "broken"), "broken: no image is left of 2"),
        (("TRAINED", "x.npy"), "make one with numpy.savez(path, x=...)"),
        (("TRAINED", "wide.npz"), "but the model takes (rows, 1, 8, 8)"),
        (("TRAINED", "x.npz", "--scale", "0"), "--scale 0.0: give a number above 0"),
        (("TRAINED", "x.npz", "--scale", "nan"), "give a number above 0"),
        (("TRAINED", "good.png", "--scale", "255"), "--scale 255: is for an npz file"),
        (("TRAINED", "x.npz", "--rounds", "0"), "Invalid value"),
        (("TRAINED", "x.npz", "--rounds", "5"), "--rounds is for --method draw"),
        (("TRAINED", "x.npz", "--method", "median"), "--method median: use draw or mean"),
        (("TRAINED", "x.npz", "--out", "x.npz"), "would write over an input"),
        (("TRAINED", "good.png", "named.csv", "--out", "./named.csv"), "would write over an input"),
        (("TRAINED", "x.npz", "--out", "other.png"), "give a file name that ends in .csv"),
        (("TRAINED", "x.npz", "--out", "folder.csv"), "give a file name that ends in .csv"),
        (("TRAINED", "x.npz", "--out", "x.npz/y.csv"), "cannot be written"),
        (("TRAINED", "x.npz", "--device", "tpu"), "device tpu: use auto, cpu or cuda"),
    ],
)
def test_mistakes_end_with_one_clear_line_exit_code_2_and_nothing_written(
    mmdgm, tmp_path, trained, monkeypatch, words, said
):
    monkeypatch.chdir(tmp_path)
    for folder in ("empty", "broken", "folder.csv"):
        Path(folder).mkdir()
    save_arrays(Path("x.npz"), {"x": DIGITS.x_test[:2]})
    save_arrays(Path("wide.npz"), {"x": np.zeros((2, 9, 9))})
    np.save("x.npy", DIGITS.x_test[:2])
    for name in ("good.png", "named.csv"):
        Image.fromarray(np.zeros((8, 8), np.uint8)).save(name, "PNG")
    for name in ("broken.png", "broken/1.png", "broken/2.jpg"):
        Path(name).write_bytes(b"no image")
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    places = {"RUN": tmp_path / "run", "TRAINED": trained}
    code, out, err = mmdgm("predict", *(places.get(word, word) for word in words), "--json")
    assert (code, out) == (2, "")
    assert said in " ".join(err.split())
    assert "Traceback" not in err
    assert len([line for line in err.splitlines() if not line.endswith("; skipped")]) == 1
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


def test_help_says_what_is_for_presets_and_where_the_file_goes(mmdgm):
    for command in ("predict", "impute"):
        code, out, _ = mmdgm(command, "--help")
        assert code == 0
        assert "For runs of presets:" in " ".join(out.replace("│", " ").split())
    help_of_predict = " ".join(mmdgm("predict", "--help")[1].replace("│", " ").split())
    assert "next to INPUT (of a folder: beside it, not in it)" in help_of_predict


def test_images_are_preprocessed_as_in_training(predict, trained, monkeypatch):
    run = run_folder.load_run(trained, device="cpu")
    data = dataclasses.replace(run.config.data, preprocessing="lcn")
    normalising = dataclasses.replace(run, config=dataclasses.replace(run.config, data=data))
    monkeypatch.setattr(run_folder, "load_run", lambda *_, **__: normalising)
    np.savez("x.npz", x=DIGITS.x_test[:30])
    expected = predict_scores(run.model, local_contrast(DIGITS.x_test[:30]), scale=1)
    np.testing.assert_allclose(predict("x.npz")[2], expected, atol=1e-4)


def test_a_model_without_its_generative_part_classifies_what_is_complete(
    predict, mmdgm, trained, holes, monkeypatch
):
    run = run_folder.load_run(trained, device="cpu")
    run.model.generative_weight = 0.0
    assert not run.model.generates
    monkeypatch.setattr(run_folder, "load_run", lambda *_, **__: run)
    np.savez("x.npz", x=DIGITS.x_test[:30])
    np.testing.assert_array_equal(predict("x.npz")[2], predict_scores(run.model, DIGITS.x_test[:30], scale=16))
    np.savez("holes.npz", x=holes)
    code, _, err = mmdgm("predict", trained, "holes.npz")
    assert code == 2
    assert "cannot impute" in err
    assert not Path("holes-predictions.csv").exists()


def test_a_model_that_does_not_classify_is_refused(mmdgm, run, monkeypatch, tmp_path):
    generative = dataclasses.replace(run, model=VAE(run.model.encoder, run.model.decoder))
    monkeypatch.setattr(run_folder, "load_run", lambda *_, **__: generative)
    code, _, err = mmdgm("predict", tmp_path, "x.npz")
    assert code == 2
    assert f"{tmp_path}: the model of digits-mmcva-50 does not classify" in " ".join(err.split())
