"""`mmdgm predict`: arrays, tables and image files in, a CSV file and counts out."""

import csv
import dataclasses
import json
from pathlib import Path

import numpy as np
import pandas
import pytest
import torch
from PIL import Image

import mmdgm as library
from conftest import read_csv
from mmdgm.cli import predict as command
from mmdgm.data import datasets
from mmdgm.data.contrast import local_contrast
from mmdgm.data.labeled_files import read_data
from mmdgm.data.npz import save_arrays
from mmdgm.estimators import MMVAClassifier

DIGITS = datasets.load("digits")


@pytest.fixture(scope="module", name="run")
def load(trained):
    return library.load(trained, device="cpu")


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
        scores = np.array([[row[f"score_{k}"] for k in range(10)] for row in rows], float)
        assert [int(row["prediction"]) for row in rows] == scores.argmax(1).tolist()
        counts = {str(k): int((scores.argmax(1) == k).sum()) for k in range(10)}
        assert answer["predictions_per_class"] == counts
        assert (answer["rows"], answer["imputed_values"]) == (len(rows), sum(int(row["missing"]) for row in rows))
        return answer, rows, scores

    return predict


def model_scores(run, pixels):
    """Scores of images 0..16 by the model itself."""
    with torch.no_grad():
        return run.model_.scores(torch.from_numpy(pixels / np.float32(16))).numpy()


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
    np.testing.assert_allclose(scores, model_scores(run, DIGITS.x_test), atol=1e-5)
    np.testing.assert_array_equal(scores, run.class_scores(DIGITS.x_test[:, 0]))
    for name, x in (("flat", DIGITS.x_test.reshape(500, 64)), ("grey", DIGITS.x_test[:, 0])):
        np.savez(f"{name}.npz", x=x)
        np.testing.assert_array_equal(predict(f"{name}.npz")[2], scores)


def test_scale_is_what_the_values_are_divided_by(predict):
    np.savez("x.npz", x=DIGITS.x_test)
    scores = predict("x.npz")[2]
    np.savez("scaled.npz", x=DIGITS.x_test / 16)
    np.testing.assert_array_equal(predict("scaled.npz", "--scale", 1)[2], scores)
    np.savez("bytes.npz", x=DIGITS.x_test * np.uint8(8))
    np.testing.assert_array_equal(predict("bytes.npz", "--scale", 128)[2], scores)


def test_image_files_get_the_predictions_of_the_same_images_as_arrays(predict, run, tmp_path):
    """Neither 255 nor 65535 is a multiple of 16: 8 bits move a grey value by up to 1/510, 16 bits by 1/131070.

    So scores are close, not equal; all 500 predictions agreed when this was written.
    """
    expected = model_scores(run, DIGITS.x_test)
    answer, rows, scores = predict(save_images(tmp_path / "eight", DIGITS.x_test))
    assert answer["files"] == [str(tmp_path / "eight-predictions.csv")]
    assert [row["input"] for row in rows] == [f"{i:03}.png" for i in range(500)]
    assert (scores.argmax(1) == expected.argmax(1)).mean() >= 0.99
    np.testing.assert_allclose(scores, expected, atol=0.02)  # 0.005 when this was written
    scores = predict(save_images(tmp_path / "sixteen", DIGITS.x_test[:50], white=65535))[2]
    np.testing.assert_allclose(scores, expected[:50], atol=2e-4)


def test_enlarged_colour_photographs_of_digits_are_recognised(predict, run, tmp_path):
    expected = model_scores(run, DIGITS.x_test[:100]).argmax(1)
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
    np.testing.assert_array_equal(scores[[2, 0]], predict("one")[2])
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


# --- missing values --------------------------------------------------------------------------------------


@pytest.fixture(name="holes")
def make_holes():
    """20 rows; of every second one the middle 4×4 is missing, of the last all."""
    x = DIGITS.x_test[:20].astype(np.float32)
    x[::2, :, 2:6, 2:6] = np.nan
    x[19] = np.nan
    return x


METHODS = {
    "rounds": ("--rounds", 4),
    "draw": ("--method", "draw", "--rounds", 5),
    "posterior": ("--method", "posterior"),
}


@pytest.mark.parametrize("method", METHODS)
def test_missing_values_are_imputed_with_the_seed_and_counted(predict, run, holes, method):
    np.savez("holes.npz", x=holes)
    answer, rows, scores = predict("holes.npz", *METHODS[method])
    assert [int(row["missing"]) for row in rows] == [16, 0] * 9 + [16, 64]
    assert answer["imputed_values"] == 10 * 16 + 64
    assert np.isfinite(scores).all()
    other = predict("holes.npz", *METHODS[method], "--seed", 1)[2]
    holed = np.isnan(holes).any(axis=(1, 2, 3))
    assert (other != scores)[holed].any(axis=1).all()
    np.testing.assert_array_equal(other[~holed], run.class_scores(DIGITS.x_test[:20, 0])[~holed])
    np.testing.assert_array_equal(scores[~holed], other[~holed])


def test_it_is_impute_and_then_predict(predict, mmdgm, trained, holes):
    np.savez("holes.npz", x=holes)
    code, _, _ = mmdgm("impute", trained, "holes.npz", "--rounds", 5, "--seed", 4, "--device", "cpu")
    assert code == 0
    scores = predict("holes.npz", "--rounds", 5, "--seed", 4)[2]
    np.testing.assert_allclose(predict("holes-imputed.npz")[2], scores, atol=1e-5)


def test_by_default_it_is_what_the_estimator_predicts(predict, run, holes):
    np.savez("holes.npz", x=holes)
    np.testing.assert_allclose(predict("holes.npz")[2], run.class_scores(holes[:, 0]), atol=1e-5)


def test_imputing_holes_before_classifying_beats_black_ones(predict, run):
    """A hole of 3×3, as in the paper's Table 5."""
    x = DIGITS.x_test[:200].astype(np.float32)
    x[:, :, 3:6, 3:6] = np.nan
    np.savez("holes.npz", x=x)
    scores = {
        "rounds": predict("holes.npz")[2],
        "draw": predict("holes.npz", *METHODS["draw"])[2],
        "posterior": predict("holes.npz", *METHODS["posterior"])[2],
        "black": model_scores(run, np.nan_to_num(x)),
    }
    right = {name: (of_rows.argmax(1) == DIGITS.y_test[:200]).mean() for name, of_rows in scores.items()}
    assert right["posterior"] > max(right["rounds"], right["draw"]) + 0.03, right
    assert min(right["rounds"], right["draw"]) > right["black"] + 0.05, right


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


# --- runs of own data ------------------------------------------------------------------------------------


def test_a_table_has_its_columns_found_by_name(answer, own):
    cells = read_csv(own / "table.csv")[1:]
    said = answer("predict", own / "rows", own / "table.csv", "--out", "table.csv")
    rows = read_csv("table.csv")
    assert (said["rows"], said["imputed_values"]) == (40, 8 + 6)
    assert rows[0] == ["input", "prediction", "missing", "score_large", "score_small"]
    assert [int(row[2]) for row in rows[1:]] == [(not row[0]) + (not row[1]) for row in cells]
    run, data = library.load(own / "rows"), read_data(own / "table.csv", target="kind")
    np.testing.assert_allclose(np.array(rows[1:])[:, 3:].astype(float), run.class_scores(data.x), atol=1e-12)
    turned = [[row[2], row[1], "?", row[0]] for row in cells]  # other order, no target, another column
    with Path("turned.csv").open("w", newline="") as file:
        csv.writer(file).writerows([["height", "colour", "id", "width"], *turned])
    assert read_csv(answer("predict", own / "rows", "turned.csv")["files"][0]) == rows


@pytest.mark.parametrize("name", ["table.tsv", "table.txt", "table.parquet", "table.csv.gz"])
def test_a_table_is_predicted_alike_in_every_format(answer, own, name):
    table = pandas.read_csv(own / "table.csv")
    if name == "table.parquet":
        table["when"] = pandas.Timestamp("2026-01-01")  # a column that the model does not need may hold anything
        table.to_parquet(name)
    else:
        table.to_csv(name, sep="," if ".csv" in name else "\t", index=False)
    answer("predict", own / "rows", own / "table.csv", "--out", "expected.csv")
    (file,) = answer("predict", own / "rows", name)["files"]
    assert file == f"{Path(name).stem}-predictions.csv"
    assert read_csv(file) == read_csv("expected.csv")


def test_columns_that_the_model_does_not_know_are_named(mmdgm, own, tmp_path):
    (tmp_path / "new.csv").write_text("width,colour,height,id,kind\n1,red,2,9,small\n")
    code, _, err = mmdgm("predict", own / "rows", tmp_path / "new.csv")
    assert (code, err) == (0, f"{tmp_path / 'new.csv'}: the model was trained without these columns: id\n")


def test_a_column_of_categories_may_be_empty_or_hold_new_ones(answer, own):
    Path("new.csv").write_text("width,colour,height\n1,,2\n,,\n3,violet,4\n")
    assert answer("predict", own / "rows", "new.csv")["imputed_values"] == 4


def test_a_folder_of_images_is_read_as_in_training(answer, own, tmp_path):
    said = answer("predict", own / "pictures", own / "images" / "one", "--out", "one.csv", "--device", "cpu")
    rows = read_csv("one.csv")
    assert (said["rows"], said["skipped"]) == (4, 1)
    assert rows[0] == ["input", "prediction", "missing", "score_nought", "score_one"]
    assert [row[0] for row in rows[1:]] == ["01.png", "05.png", "09.png", "13.png"]
    data = read_data(own / "images", size="8x12")
    run = library.load(own / "pictures", device="cpu")
    expected = run.class_scores(data.x[data.y == "one"])
    np.testing.assert_allclose(np.array(rows[1:])[:, 3:].astype(float), expected, atol=1e-4)
    assert [row[1] for row in rows[1:]] == run.classes_[expected.argmax(1)].tolist()
    files = (own / "images" / "one" / "01.png", own / "images" / "nought" / "00.png")
    assert answer("predict", own / "pictures", *files, "--device", "cpu")["files"] == ["predictions.csv"]
    assert read_csv("predictions.csv")[1][1:] == rows[1][1:]


def test_an_estimator_saved_from_python_is_a_run(answer, tmp_path):
    x = np.random.default_rng(0).normal(size=(20, 2))
    model = MMVAClassifier(max_epochs=1, device="cpu").fit(x, x[:, 0] > 0)
    model.save(tmp_path / "saved")
    np.savez("x.npz", x=x)
    counts = answer("predict", "saved", "x.npz")["predictions_per_class"]
    assert counts == {"False": int((~model.predict(x)).sum()), "True": int(model.predict(x).sum())}


@pytest.mark.parametrize("kind", ["trained", "own"])
def test_images_on_another_scale_are_told_in_one_line(mmdgm, own, trained, tmp_path, monkeypatch, kind):
    """Presets' runs and own ones alike; values of at most 1 are refused, since --scale 1 would say what they are."""
    monkeypatch.chdir(tmp_path)
    run = trained if kind == "trained" else own / "digits"
    x = DIGITS.x_train[:60, 0].astype(np.float64)
    for factor, lines, expected in ((1, 0, 0), (1 / 16, 1, 2), (16, 1, 0)):
        np.savez("x.npz", x=np.where(np.arange(8) == 3, np.nan, x * factor))
        for words in (("predict",), ("impute", "--rounds", 2)):
            code, _, err = mmdgm(*words, run, "x.npz", "--json")
            assert (code, len(err.splitlines())) == (expected, lines), err
            assert expected == 0 or "--scale 1" in err
            assert lines == 0 or expected or f"between 0 and {16 * factor:g}" in err


# --- models that cannot do everything --------------------------------------------------------------------


def test_images_are_preprocessed_as_in_training(predict, run, trained, monkeypatch):
    normalising = library.load(trained, device="cpu")
    normalising.codec_ = dataclasses.replace(run.codec_, normalised=True)
    monkeypatch.setattr(command, "load", lambda *_, **__: normalising)
    np.savez("x.npz", x=DIGITS.x_test[:30])
    with torch.no_grad():
        expected = run.model_.scores(torch.from_numpy(local_contrast(DIGITS.x_test[:30] / np.float32(16))))
    np.testing.assert_allclose(predict("x.npz")[2], expected.numpy(), atol=1e-4)


def test_a_model_without_its_generative_part_classifies_what_is_complete(
    refused, predict, trained, holes, monkeypatch
):
    run = library.load(trained, device="cpu")
    run.model_.settings = dataclasses.replace(run.model_.settings, generative_weight=0.0)
    assert not run.model_.generates
    monkeypatch.setattr(command, "load", lambda *_, **__: run)
    np.savez("x.npz", x=DIGITS.x_test[:30])
    np.testing.assert_allclose(predict("x.npz")[2], model_scores(run, DIGITS.x_test[:30]), atol=1e-5)
    np.savez("holes.npz", x=holes)
    assert "cannot impute" in refused("predict", trained, "holes.npz")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("TRAINED",), "Missing argument"),
        (("run", "x.npz"), "run holds no run (config.json is missing)"),
        (("strange", "x.npz"), "the estimator is Forest, not MMCVAClassifier or MMVAClassifier"),
        (("damaged", "x.npz"), "do not make a MMVAClassifier"),
        (("several", "x.npz"), "several holds several runs; choose one, for example several/seed-0"),
        (("TRAINED", "nowhere.npz"), "nowhere.npz is missing"),
        (("TRAINED", "nowhere.png"), "nowhere.png is missing"),
        (("TRAINED", "x.npz", "good.png"), "x.npz is not alone; give one npz file, one table, one folder"),
        (("TRAINED", "x.npz", "x.npz"), "x.npz is not alone"),
        (("TRAINED", "good.png", "empty"), "empty is not alone"),
        (("TRAINED", "empty"), "empty: holds no image files"),
        (("TRAINED", "broken.png"), "broken.png: no image is left of 1"),
        (("TRAINED", "broken"), "broken: no image is left of 2"),
        (("TRAINED", "x.npy"), "make one with numpy.savez(path, x=...)"),
        (("TRAINED", "wide.npz"), "but the model was fitted on images (rows, 8, 8)"),
        (("TRAINED", "good.csv"), "was trained on images; give image files or an npz file"),
        (("TRAINED", "x.npz", "--scale", "0"), "--scale 0.0: give a number above 0"),
        (("TRAINED", "x.npz", "--scale", "nan"), "give a number above 0"),
        (("TRAINED", "good.png", "--scale", "255"), "--scale 255: is for an npz file"),
        (("TRAINED", "x.npz", "--rounds", "0"), "Invalid value for '--rounds'"),
        (("TRAINED", "x.npz", "--method", "median"), "method takes auto | rounds | draw | posterior"),
        (("TRAINED", "x.npz", "--out", "x.npz"), "would write over an input"),
        (("TRAINED", "good.png", "--out", "./good.png"), "would write over an input"),
        (("TRAINED", "x.npz", "--out", "other.png"), "give a file name that ends in .csv"),
        (("TRAINED", "x.npz", "--out", "folder.csv"), "give a file name that ends in .csv"),
        (("TRAINED", "x.npz", "--out", "x.npz/y.csv"), "cannot be written"),
        (("TRAINED", "x.npz", "--device", "tpu"), "device tpu: use auto, cpu or cuda"),
        (("OWN/rows", "other.csv"), "has no column width, colour, height"),
        (("OWN/rows", "word.csv"), "line 2, column width: 'wide' is no finite number"),
        (("OWN/rows", "x.npz"), "but the model was fitted on a table (rows, 3)"),
        (("OWN/rows", "OWN/columns.npz"), "columns with categories; give a CSV, TSV or Parquet file"),
        (("OWN/rows", "OWN/images"), "was trained on a table"),
        (("OWN/rows", "OWN/table.csv", "OWN/table.csv"), "is not alone"),
        (("OWN/rows", "OWN/table.csv", "--scale", "1"), "--scale 1: is for an npz file of images"),
        (("OWN/columns", "OWN/columns.npz", "--scale", "1"), "--scale 1: is for images"),
        (("OWN/columns", "OWN/table.csv"), "has no column 0, 1, 2"),
        (("OWN/digits", "OWN/columns.npz"), "but the model was fitted on images (rows, 8, 8)"),
    ],
)
def test_mistakes(refused, tmp_path, trained, own, words, said):
    for folder in ("empty", "broken", "folder.csv", "strange", "damaged", "several/seed-0"):
        Path(folder).mkdir(parents=True)
    Path("strange/config.json").write_text('{"estimator": "Forest"}')
    Path("damaged/config.json").write_text('{"estimator": "MMVAClassifier"}')
    Path("several/seed-0/config.json").write_text("{}")
    for name in ("strange", "damaged"):
        Path(name, "model.safetensors").touch()
    save_arrays(Path("x.npz"), {"x": DIGITS.x_test[:2]})
    save_arrays(Path("wide.npz"), {"x": np.zeros((2, 9, 9))})
    np.save("x.npy", DIGITS.x_test[:2])
    Path("good.csv").write_text("width,colour,height\n,red,1\n")
    Path("word.csv").write_text("width,colour,height\nwide,red,1\n")
    Path("other.csv").write_text("k\nx\ny\n")
    Image.fromarray(np.zeros((8, 8), np.uint8)).save("good.png")
    for name in ("broken.png", "broken/1.png", "broken/2.jpg"):
        Path(name).write_bytes(b"no image")
    for name, place in {"OWN": own, "TRAINED": trained}.items():
        words = [word.replace(name, str(place)) for word in words]
    assert said in refused("predict", *words, watched=[own, trained])


def test_names_of_classes_cannot_steer_the_terminal_or_a_spreadsheet(mmdgm, tmp_path):
    names = ["=cmd|'/c calc'!A1", "\x1b]0;owned\x07"]
    lines = [f'{i % 2}{i},"{names[i % 2]}"' for i in range(40)]
    (tmp_path / "x.csv").write_text("a,kind\n" + "\n".join(lines) + "\n")
    run = tmp_path / "run"
    code, out, err = mmdgm(
        "fit", tmp_path / "x.csv", "--target", "kind", "--epochs", 1, "--no-estimate", "--run-dir", run
    )
    assert code == 0, err
    code, more, err_too = mmdgm("predict", run, tmp_path / "x.csv", "--out", tmp_path / "p.csv")
    assert code == 0, err_too
    assert not set("\x1b\x07") & set(out + err + more + err_too)
    assert "\\x1b]0;owned\\x07" in out
    rows = read_csv(tmp_path / "p.csv")[1:]
    assert {row[1] for row in rows} <= {f"'{names[0]}", names[1]}
    assert all(np.isfinite(float(score)) for row in rows for score in row[3:])
