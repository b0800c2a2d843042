"""Own data on the command line: arrays, images and tables in; runs, predictions, imputations and samples out."""

import csv
import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from mmdgm.data import datasets
from mmdgm.estimators import MMCVAClassifier, MMVAClassifier
from mmdgm.experiments import own_runs
from mmdgm.experiments.own_runs import load_own
from mmdgm.experiments.run_folder import RunFolder

DIGITS = datasets.load("digits")
SHORT = ("--epochs", 2, "--device", "cpu", "--json")
TABLE = "width,colour,height,kind\n"


@pytest.fixture(name="answer")
def make_answer(mmdgm, tmp_path, monkeypatch):
    """Run a command in an empty folder; returns its answer."""
    monkeypatch.chdir(tmp_path)

    def answer(*words):
        code, out, err = mmdgm(*words, "--json")
        assert code == 0, err
        return json.loads(out)

    return answer


def read_csv(path):
    with Path(path).open(newline="", encoding="utf-8") as file:
        return list(csv.reader(file))


def write_npz(path, n=60):
    """Digits 0..16 of which a third is labeled."""
    y = DIGITS.y_train[:n].astype(np.int64)
    y[n // 3 :] = -1
    np.savez(path, x=DIGITS.x_train[:n, 0].astype(np.float64), y=y)


def write_images(folder):
    """Two classes and unlabeled images, of several sizes and modes, and a broken file."""
    for i, (name, digit) in enumerate([("nought", 0), ("one", 1), ("unlabeled", 0), ("unlabeled", 1)] * 4):
        image = DIGITS.x_train[DIGITS.y_train == digit][i, 0]
        picture = Image.fromarray((image * 15).astype(np.uint8)).resize((20 + i, 30))
        (folder / name).mkdir(parents=True, exist_ok=True)
        picture.convert(["L", "RGB", "P", "LA"][i // 4]).save(folder / name / f"{i:02}.png")
    (folder / "one" / "broken.png").write_bytes(b"no image")
    (folder / ".hidden").mkdir()


def write_table(path, n=40):
    """Two kinds, every third without a label, every fifth width and every seventh colour empty."""
    rng = np.random.default_rng(0)
    rows = []
    for i in range(n):
        kind = i % 2
        width, height = f"{rng.normal(4 * kind):.3f}", f"{rng.normal(-kind):.2e}"
        colour = ("red", "blue")[kind] if rng.random() < 0.9 else "deep, green"
        rows.append(
            [width if i % 5 else "", colour if i % 7 else "", height, ("small", "large")[kind] if i % 3 else ""]
        )
    with path.open("w", newline="", encoding="utf-8") as file:
        file.write(TABLE)
        csv.writer(file).writerows(rows)
    return rows


@pytest.fixture(scope="module", name="own")
def train_all(tmp_path_factory):
    """A folder with data of each kind and runs of them; tests must not write into it."""
    folder = tmp_path_factory.mktemp("own")
    write_npz(folder / "digits.npz")
    write_images(folder / "images")
    write_table(folder / "table.csv")
    x = np.random.default_rng(0).normal(size=(30, 3))
    np.savez(folder / "columns.npz", x=x, y=(x[:, 0] > 0).astype(int))
    data = {
        "digits": own_runs.read_npz_data(folder / "digits.npz", None),
        "pictures": own_runs.read_image_data(folder / "images", None, (8, 12)),
        "rows": own_runs.read_csv_data(folder / "table.csv", None, "kind"),
        "columns": own_runs.read_npz_data(folder / "columns.npz", None),
    }
    for name, each in data.items():
        model = "mmva" if name == "columns" else "mmcva"
        own_runs.train_own(each, RunFolder(folder / name), model=model, seed=1, epochs=2, device="cpu")
    return folder


def test_arrays_from_training_to_samples(answer, tmp_path):
    write_npz(tmp_path / "digits.npz")
    result = answer("train", "--data", "digits.npz", "--run-dir", "run", "--seed", 3, *SHORT)
    assert (result["status"], result["seed"], result["epochs"]) == ("done", 3, 2)
    assert 0 <= result["training_accuracy_on_labeled_rows"] <= 1
    counts = result["data"]
    assert (counts["kind"], counts["rows"], counts["labeled"], counts["unlabeled"]) == ("npz", 60, 20, 40)
    y = DIGITS.y_train[:20]
    assert counts["labeled_per_class"] == {str(k): int((y == k).sum()) for k in np.unique(y)}
    assert json.loads(Path("run/result.json").read_text()) == result
    assert {path.name for path in Path("run").iterdir()} >= {"config.json", "model.safetensors", "figures"}
    assert Path("run/figures/samples.png").exists()

    run = MMCVAClassifier.load("run")
    x = DIGITS.x_train[:60, 0].astype(np.float64)
    said = answer("predict", "run", "digits.npz", "--device", "cpu")
    rows = read_csv(said["files"][0])
    assert said["files"] == ["digits-predictions.csv"]
    assert rows[0] == ["input", "prediction", "missing", *(f"score_{name}" for name in run.classes_)]
    assert [row[1] for row in rows[1:]] == run.predict(x).astype(str).tolist()
    np.testing.assert_array_equal(np.array(rows[1:])[:, 3:].astype(float), run.decision_function(x))
    assert sum(said["predictions_per_class"].values()) == said["rows"] == 60

    holes = x[:5].copy()
    holes[:, 2:5, 2:5] = np.nan
    np.savez("holes.npz", x=holes)
    said = answer("impute", "run", "holes.npz", "--rounds", 3, "--device", "cpu")
    assert said == {"files": ["holes-imputed.png", "holes-imputed.npz"], "filled_values": 45}
    with np.load("holes-imputed.npz") as filled:
        np.testing.assert_array_equal(filled["missing"], np.isnan(holes))
        np.testing.assert_array_equal(filled["x"][~np.isnan(holes)], holes[~np.isnan(holes)])
        assert ((filled["x"] >= 0) & (filled["x"] <= 16)).all()
    rows = read_csv(answer("predict", "run", "holes.npz")["files"][0])
    assert [row[2] for row in rows[1:]] == ["9"] * 5

    assert answer("sample", "run", "--columns", 3)["files"] == ["run/samples.png", "run/samples.npz"]
    with np.load("run/samples.npz") as samples:
        assert samples["x"].shape == (3 * len(run.classes_), 8, 8)
        assert samples["y"].tolist() == run.classes_.repeat(3).tolist()


def test_a_folder_of_images_from_training_to_samples(answer, mmdgm, tmp_path):
    write_images(tmp_path / "images")
    code, out, err = mmdgm("train", "--data", "images", "--run-dir", "run", "--size", "10x14", *SHORT)
    assert code == 0, err
    assert "images/one/broken.png: cannot be read as an image (" in err
    result = json.loads(out)["data"]
    assert (result["kind"], result["shape"], result["skipped_files"]) == ("images", [16, 10, 14], 1)
    assert (result["labeled_per_class"], result["unlabeled"]) == ({"nought": 4, "one": 4}, 8)
    with Image.open("run/figures/samples.png") as picture:
        assert picture.size[0] > picture.size[1]
    said = answer("predict", "run", "images/one", "--device", "cpu")
    rows = read_csv(said["files"][0])
    assert (said["files"], said["rows"], said["skipped"]) == (["images/one-predictions.csv"], 4, 1)
    assert rows[0] == ["input", "prediction", "missing", "score_nought", "score_one"]
    scores = np.array(rows[1:])[:, 3:].astype(float)
    np.testing.assert_array_equal(scores[:, 0], -scores[:, 1])
    assert [row[1] for row in rows[1:]] == [("nought", "one")[k] for k in scores.argmax(1)]
    assert [row[0] for row in rows[1:]] == ["01.png", "05.png", "09.png", "13.png"]
    assert answer("predict", "run", "images/one/01.png", "images/nought/00.png")["files"] == ["predictions.csv"]
    assert read_csv("predictions.csv")[1][1:] == rows[1][1:]
    x = np.full((2, 10, 14), 7.0)
    x[0, 0, 0] = np.nan
    np.savez("holes.npz", x=x)
    assert answer("impute", "run", "holes.npz")["filled_values"] == 1
    assert answer("sample", "run", "--columns", 2, "--out", "drawn")["files"] == ["drawn.png", "drawn.npz"]


def test_images_on_another_scale_are_told_in_one_line(mmdgm, own, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    x = DIGITS.x_train[:60, 0].astype(np.float64)
    for factor, lines in ((1, 0), (1 / 16, 1), (16, 1)):
        np.savez("x.npz", x=np.where(np.arange(8) == 3, np.nan, x * factor))
        for command in (("predict",), ("impute", "--rounds", 2)):
            code, _, err = mmdgm(*command, own / "digits", "x.npz", "--json")
            assert (code, len(err.splitlines())) == (0, lines)
            assert not lines or f"X lies between 0 and {16 * factor:g}, but the images that the model" in err


def test_a_table_from_training_to_samples(answer, tmp_path):
    cells = write_table(tmp_path / "table.csv")
    words = ("train", "--data", "table.csv", "--target", "kind", "--run-dir", "run")
    counts = answer(*words, *SHORT)["data"]
    assert (counts["columns"], counts["target"]) == (["width", "colour", "height"], "kind")
    assert counts["missing_values"] == sum(not row[0] for row in cells) + sum(not row[1] for row in cells)
    assert counts["unlabeled"] == 14
    assert set(counts["labeled_per_class"]) == {"large", "small"}
    assert not Path("run/figures").exists()

    said = answer("predict", "run", "table.csv")
    rows = read_csv(said["files"][0])
    assert said["files"] == ["table-predictions.csv"]
    assert rows[0] == ["input", "prediction", "missing", "score_large", "score_small"]
    assert [int(row[2]) for row in rows[1:]] == [(not row[0]) + (not row[1]) for row in cells]
    turned = [[row[2], row[1], "?", row[0]] for row in cells]  # other order, no target, another column
    with Path("turned.csv").open("w", newline="") as file:
        csv.writer(file).writerows([["height", "colour", "id", "width"], *turned])
    assert read_csv(answer("predict", "run", "turned.csv")["files"][0]) == rows

    said = answer("impute", "run", "table.csv", "--rounds", 3)
    filled = read_csv(said["files"][0])
    assert said == {"files": ["table-imputed.csv"], "filled_values": counts["missing_values"]}
    assert ",".join(filled[0]) + "\n" == TABLE
    for before, after in zip(cells, filled[1:], strict=True):
        assert [b == a for b, a in zip(before, after, strict=True)] == [bool(b) for b in before[:3]] + [True]
        float(after[0])
        assert after[1] in ("red", "blue", "deep, green")

    assert answer("sample", "run", "--columns", 4)["files"] == ["run/samples.csv"]
    rows = read_csv("run/samples.csv")
    assert rows[0] == ["width", "colour", "height", "kind"]
    assert [row[3] for row in rows[1:]] == ["large"] * 4 + ["small"] * 4
    assert answer("predict", "run", "run/samples.csv")["rows"] == 8


def test_a_column_of_categories_may_be_empty_or_hold_new_ones(answer, own):
    Path("new.csv").write_text("width,colour,height\n1,,2\n,,\n3,,4\n")
    assert answer("predict", own / "rows", "new.csv")["imputed_values"] == 5
    Path("new.csv").write_text("width,colour,height\n1,violet,2\n,red,3\n")
    answer("impute", own / "rows", "new.csv")
    rows = read_csv("new-imputed.csv")
    assert (rows[1], rows[2][1:]) == (["1", "violet", "2"], ["red", "3"])


def test_a_model_for_many_labels_of_columns(answer, own):
    run = load_own(own / "columns", device="cpu")
    assert isinstance(run.estimator, MMVAClassifier)
    assert run.columns is None
    assert answer("sample", own / "columns", "--columns", 2, "--rows", 3, "--out", "s")["files"] == ["s.npz"]
    with np.load("s.npz") as samples:
        assert samples["x"].shape == (6, 3)
        assert list(samples) == ["x"]
    np.savez("x.npz", x=[[1.0, np.nan, 0.0]])
    assert answer("impute", own / "columns", "x.npz")["files"] == ["x-imputed.npz"]


def test_the_same_seed_gives_the_same_run(answer, own):
    answer("train", "--data", own / "digits.npz", "--run-dir", "again", "--seed", 1, *SHORT)
    assert Path("again/model.safetensors").read_bytes() == (own / "digits" / "model.safetensors").read_bytes()


def test_unlabeled_rows_are_marked_as_the_user_says(tmp_path, own):
    x = np.zeros((4, 2))
    for y, mark, marker, unlabeled in (
        ([0, 1, -1, -1], None, -1, 2),
        ([0, 1, 9, 0], "9", 9, 1),
        (["a", "b", "", "b"], "", "", 1),
        ([0.0, 1.0, np.nan, 1.0], "nan", np.nan, 1),
        ([-1, 1, -1, 1], None, None, 0),
    ):
        np.savez(tmp_path / "x.npz", x=x, y=y)
        data = own_runs.read_npz_data(tmp_path / "x.npz", mark)
        assert data.unlabeled == marker or (marker != marker and data.unlabeled != data.unlabeled)
        assert own_runs.check_labels(data)["unlabeled"] == unlabeled
    (tmp_path / "t.csv").write_text("a,k\n1,x\n2,y\n3,?\n4, \n")
    counts = own_runs.check_labels(own_runs.read_csv_data(tmp_path / "t.csv", "?", "k"))
    assert (counts["labeled_per_class"], counts["unlabeled"]) == ({"x": 1, "y": 1}, 2)
    counts = own_runs.check_labels(own_runs.read_image_data(own / "images", "one", (8, 8)))
    assert (set(counts["labeled_per_class"]), counts["unlabeled"]) == ({"nought", "unlabeled"}, 4)


@pytest.mark.parametrize("labels", ["1.0 2.0 3.0", "1.5 a 2", "v1.2 v1.3 v2", "1e3 2e3 1e3", "2.5 1 2"])
def test_classes_may_be_whole_numbers_or_text_with_points(tmp_path, labels):
    cells = labels.split()
    (tmp_path / "t.csv").write_text("a,k\n" + "".join(f"{i},{cell}\n" for i, cell in enumerate(cells)))
    data = own_runs.read_csv_data(tmp_path / "t.csv", "2.5" if "2.5" in cells else None, "k")
    assert set(own_runs.check_labels(data)["labeled_per_class"]) == set(cells) - {"2.5"}


@pytest.mark.parametrize(
    ("labels", "mark", "told"),
    [
        ("0 1 -1 -1", None, "-1"),
        ("0 1 -1.0 2", None, "-1.0"),
        ("0 1 nan 0", None, "nan"),
        ("0 1 -1 -1", "-1", None),
        ("0 1 -1 9", "9", None),
        ("-1 1 1 -1", None, None),  # without it one class would be left
        ("-1 a b a", None, None),
        ("0 1 2 1", None, None),
    ],
)
def test_labels_that_may_mark_unlabeled_rows_are_told(tmp_path, labels, mark, told):
    (tmp_path / "t.csv").write_text("a,k\n" + "".join(f"{i},{cell}\n" for i, cell in enumerate(labels.split())))
    line = f"labels include {told}, taken as a class; if it marks unlabeled rows, give --unlabeled {told}"
    notes = own_runs.read_csv_data(tmp_path / "t.csv", mark, "k").notes
    assert notes == ([line] if told else [])


def test_minus_one_is_a_class_beside_another_marker(answer, tmp_path):
    x = np.random.default_rng(0).normal(size=(60, 2))
    y = np.where(np.arange(60) % 3, np.sign(x[:, 0]), np.nan)
    np.savez(tmp_path / "x.npz", x=x, y=y)
    result = answer("train", "--data", "x.npz", "--unlabeled", "nan", "--run-dir", "run", *SHORT)
    assert result["data"]["unlabeled"] == 20
    predicted = MMCVAClassifier.load("run").predict(x)
    assert result["training_accuracy_on_labeled_rows"] == (predicted == y)[~np.isnan(y)].mean()


def test_a_trained_model_outlasts_what_fails_after_training(own, tmp_path, monkeypatch):
    monkeypatch.setattr(MMVAClassifier, "score", lambda *_: 1 / 0)
    data = own_runs.read_npz_data(own / "columns.npz", None)
    with pytest.raises(ZeroDivisionError):
        own_runs.train_own(data, RunFolder(tmp_path / "run"), model="mmva", seed=1, epochs=2, device="cpu")
    kept = load_own(tmp_path / "run", device="cpu")
    np.testing.assert_array_equal(kept.scores(data.x), load_own(own / "columns", device="cpu").scores(data.x))


def test_images_are_grey_unless_one_has_colour(tmp_path):
    write_images(tmp_path / "images")
    assert own_runs.read_image_data(tmp_path / "images", None, (8, 8)).x.shape == (16, 8, 8)
    Image.new("RGB", (5, 5), "red").save(tmp_path / "images" / "one" / "red.bmp")
    x = own_runs.read_image_data(tmp_path / "images", None, (8, 8)).x
    assert (x.shape, x.dtype) == ((17, 8, 8, 3), np.uint8)


def test_whole_numbers_of_images_do_not_wrap_around(tmp_path):
    np.savez(tmp_path / "x.npz", x=np.full((2, 8, 8), 1000), y=[0, 1])
    assert own_runs.read_npz_data(tmp_path / "x.npz", None).x.max() == 1000


def test_a_run_that_ends_by_max_time_says_so(mmdgm, own, tmp_path):
    words = ("--data", own / "columns.npz", "--run-dir", tmp_path / "r", "--epochs", 100_000, "--device", "cpu")
    code, out, err = mmdgm("train", *words, "--max-time", 1, "--json")
    assert code == 0
    result = json.loads(out)
    assert result["planned_epochs"] == 100_000 > result["epochs"]
    assert f"max_time: ended after {result['epochs']} of 100000 epochs" in err


def test_the_answer_in_words(mmdgm, own, tmp_path):
    words = ("--data", own / "columns.npz", "--run-dir", tmp_path / "r", "--epochs", 2, "--device", "cpu")
    code, out, _ = mmdgm("train", *words, "--model", "mmva", "--max-time", 5)
    assert code == 0
    assert "accuracy on the labeled rows it was trained on:" in out
    assert out.splitlines()[-1] == str(tmp_path / "r")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("train",), "Missing argument: give a PRESET"),
        (("train", "digits-mmcva-50", "--data", "OWN/digits.npz"), "give a preset or --data, not both"),
        (("train", "digits-mmcva-50", "--epochs", "3"), "--epochs is for --data; a preset's epochs"),
        (("train", "digits-mmcva-50", "--target", "kind"), "--target is for --data"),
        (("train", "digits-mmcva-50", "--run-dir", "OWN/rows", "--resume"), "cannot be resumed"),
        (("train", "--data", "OWN/digits.npz", "--resume"), "--resume is not available with --data"),
        (("train", "--data", "OWN/digits.npz", "--set", "z=3"), "--set is for presets"),
        (("train", "--data", "OWN/digits.npz", "--run-dir", "OWN/rows"), "already holds a run"),
        (("train", "--data", "OWN/digits.npz", "--model", "svm"), "--model svm: use mmcva or mmva"),
        (("train", "--data", "OWN/digits.npz", "--target", "y"), "--target is for a CSV file"),
        (("train", "--data", "OWN/digits.npz", "--size", "8x8"), "--size is for a folder of images"),
        (("train", "--data", "OWN/digits.npz", "--device", "tpu"), "device tpu: use auto, cpu or cuda"),
        (("train", "--data", "OWN/digits.npz", "--unlabeled", "none"), "y holds numbers"),
        (("train", "--data", "absent.npz"), "absent.npz is missing"),
        (("train", "--data", "empty.txt"), "give an npz file, a folder of images or a CSV file"),
        (("train", "--data", "x.npz"), "holds x, but no y"),
        (("train", "--data", "short.npz"), "y has the shape (3,), but x has 2 rows"),
        (("train", "--data", "one.npz"), "one.npz: y has one class"),
        (("train", "--data", "none.npz"), "none.npz: no row is labeled"),
        (("train", "--data", "inf.npz"), "x holds infinite values"),
        (("train", "--data", "text.npz"), "numbers are expected"),
        (("train", "--data", "nan.npz"), "give --unlabeled nan"),
        (("train", "--data", "nan.npz", "--unlabeled", "9"), "give --unlabeled nan"),
        (("train", "--data", "real.npz"), "real.npz: Unknown label type"),
        (
            ("train", "--data", "OWN/table.csv"),
            "give --target, the column with the labels; there are width, colour",
        ),
        (("train", "--data", "OWN/table.csv", "--target", "sort"), "--target sort: is no column"),
        (
            ("train", "--data", "real.csv", "--target", "k"),
            "real.csv: column k holds numbers with fractions, such as 13.5, which are no classes; "
            "give a column of classes by --target, or write the classes as words",
        ),
        (("train", "--data", "hollow.csv", "--target", "k"), "column b has no value in any row"),
        (("train", "--data", "row.csv", "--target", "k"), "line 3 has no value beside k"),
        (("train", "--data", "only.csv", "--target", "k"), "has no column beside k"),
        (("train", "--data", "empty"), "has no subfolders"),
        (("train", "--data", "void"), "a: holds no image files"),
        (("train", "--data", "broken"), "broken/a: none of its 1 image files can be read"),
        (("train", "--data", "OWN/images", "--size", "8"), "--size 8: give height and width"),
        (("evaluate", "OWN/rows"), "evaluate is not available"),
        (("predict", "OWN/rows", "absent.csv"), "absent.csv is missing"),
        (("predict", "OWN/rows", "only.csv"), "has no column width, colour, height"),
        (("predict", "OWN/rows", "word.csv"), "line 2, column width: 'wide' is no finite number"),
        (("predict", "OWN/rows", "x.npz"), "but OWN/rows takes (rows, 3)"),
        (("predict", "OWN/rows", "OWN/columns.npz"), "columns with categories; give a CSV file"),
        (("predict", "OWN/rows", "OWN/images"), "was trained on a table"),
        (("predict", "OWN/rows", "OWN/table.csv", "OWN/table.csv"), "is not alone"),
        (("predict", "OWN/rows", "OWN/table.csv", "--scale", "1"), "--scale is for runs of presets"),
        (("predict", "OWN/rows", "OWN/table.csv", "--rounds", "5"), "--rounds is for runs of presets"),
        (("predict", "OWN/columns", "OWN/table.csv"), "was not trained on a CSV file"),
        (("predict", "OWN/digits", "x.npz"), "but OWN/digits takes (rows, 8, 8)"),
        (("predict", "OWN/digits", "broken/a"), "no image is left of 1"),
        (("impute", "OWN/digits", "OWN/images"), "give an npz file in which NaN is missing"),
        (("impute", "OWN/rows", "word.csv", "--out", "word.csv"), "'wide' is no finite number"),
        (("impute", "OWN/rows", "good.csv", "--out", "good.csv"), "would write over the input"),
        (("impute", "OWN/rows", "good.csv", "--seed", "2"), "--seed is for runs of presets"),
        (("sample", "OWN/rows", "--out", "empty"), "give a file name"),
        (("predict", "strange", "x.npz"), "holds Forest; known are MMCVAClassifier and MMVAClassifier"),
        (("predict", "damaged", "x.npz"), "do not make a MMVAClassifier"),
    ],
)
def test_mistakes_end_with_one_clear_line_exit_code_2_and_nothing_written(
    mmdgm, tmp_path, own, monkeypatch, words, said
):
    monkeypatch.chdir(tmp_path)
    for folder in ("empty", "void/a", "broken/a", "broken/b", "strange", "damaged"):
        Path(folder).mkdir(parents=True)
    Path("empty.txt").touch()
    Path("broken/a/1.png").write_bytes(b"no image")
    Path("strange/config.json").write_text('{"estimator": "Forest"}')
    Path("damaged/config.json").write_text('{"estimator": "MMVAClassifier"}')
    x = np.eye(2)
    np.savez("x.npz", x=x)
    np.savez("short.npz", x=x, y=[0, 1, 0])
    np.savez("one.npz", x=x, y=[1, 1])
    np.savez("none.npz", x=x, y=[-1, -1])
    np.savez("inf.npz", x=[[np.inf, 1], [1, 1]], y=[0, 1])
    np.savez("text.npz", x=x.astype(str), y=[0, 1])
    np.savez("nan.npz", x=x, y=[0, np.nan])
    np.savez("real.npz", x=x, y=[0.5, 1.25])
    Path("real.csv").write_text("a,k\n1,12\n2,13.5\n3,\n4,1e2\n")
    Path("hollow.csv").write_text("a,b,k\n1,,x\n2,,y\n")
    Path("row.csv").write_text("a,b,k\n1,2,x\n,,y\n")
    Path("only.csv").write_text("k\nx\ny\n")
    Path("word.csv").write_text("width,colour,height\nwide,red,1\n")
    Path("good.csv").write_text("width,colour,height\n,red,1\n")
    before = {path: path.read_bytes() for path in (*tmp_path.rglob("*"), *own.rglob("*")) if path.is_file()}
    code, out, err = mmdgm(*(word.replace("OWN", str(own)) for word in words))
    assert (code, out) == (2, "")
    assert said.replace("OWN", str(own)) in " ".join(err.split())
    assert "Traceback" not in err
    assert len([line for line in err.splitlines() if not line.endswith("; skipped")]) == 1
    after = {path: path.read_bytes() for path in (*tmp_path.rglob("*"), *own.rglob("*")) if path.is_file()}
    assert after == before


def test_a_folder_of_anything_else_holds_no_own_run(tmp_path, trained):
    assert load_own(tmp_path) is None
    assert load_own(trained) is None


def test_an_estimator_saved_from_python_is_a_run(answer, tmp_path):
    x = np.random.default_rng(0).normal(size=(20, 2))
    MMVAClassifier(max_epochs=1, device="cpu").fit(x, x[:, 0] > 0).save(tmp_path / "saved")
    np.savez("x.npz", x=x)
    assert set(answer("predict", "saved", "x.npz")["predictions_per_class"]) == {"False", "True"}
