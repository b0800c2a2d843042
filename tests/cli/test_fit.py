"""`mmdgm fit`: arrays, images and tables in, runs out, which go on where they were interrupted."""

import json
import sys
from pathlib import Path

import numpy as np
import pandas
import pytest

import mmdgm as library
from conftest import image_size, write_images, write_npz, write_table
from mmdgm.data import datasets
from mmdgm.data.labeled_files import read_data
from mmdgm.estimators import MMCVAClassifier, MMVAClassifier
from mmdgm.experiments import honest_estimate
from mmdgm.experiments.fit_runs import FitOptions, fit_run
from mmdgm.experiments.run_folder import RunFolder
from mmdgm.files import read_json
from mmdgm.training.loop import Loop, checkpoint_step

DIGITS = datasets.load("digits")
SHORT = ("--epochs", 2, "--device", "cpu", "--no-estimate")


def test_a_run_of_arrays_holds_counts_and_the_estimator(answer, tmp_path):
    write_npz(tmp_path / "digits.npz")
    result = answer("fit", "digits.npz", "--run-dir", "run", "--seed", 3, *SHORT)
    assert (result["status"], result["seed"], result["epochs"], result["planned_epochs"]) == ("done", 3, 2, 2)
    counts = result["data"]
    assert (counts["kind"], counts["rows"], counts["labeled"], counts["unlabeled"]) == ("npz", 60, 20, 40)
    y = DIGITS.y_train[:20]
    assert counts["labeled_per_class"] == {str(k): int((y == k).sum()) for k in np.unique(y)}
    assert read_json(Path("run/result.json")) == result
    run = library.load("run")
    assert isinstance(run, MMCVAClassifier)
    x = DIGITS.x_train[:20, 0].astype(np.float64)
    assert result["training_accuracy_on_labeled_rows"] == (run.predict(x) == y).mean()
    assert read_json(Path("run/config.json"))["run"]["data"]["place"] == str(tmp_path / "digits.npz")
    assert {path.name for path in Path("run/figures").iterdir()} == {
        "samples.png",
        "imputations.png",
        "curves.png",
    }


def test_a_run_of_images_resizes_them_and_skips_what_is_broken(mmdgm, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_images(tmp_path / "images")
    code, out, err = mmdgm("fit", "images", "--run-dir", "run", "--size", "10x14", *SHORT, "--json")
    assert code == 0, err
    assert "images/one/broken.png: cannot be read as an image (" in err
    result = json.loads(out)["data"]
    assert (result["kind"], result["shape"], result["skipped_files"]) == ("images", [16, 10, 14], 1)
    assert (result["labeled_per_class"], result["unlabeled"]) == ({"nought": 4, "one": 4}, 8)
    width, height = image_size("run/figures/samples.png")  # ten columns, a line for each of two classes
    assert width > 5 * height


def test_a_run_of_a_table_knows_its_columns(answer, tmp_path):
    cells = write_table(tmp_path / "table.csv")
    counts = answer("fit", "table.csv", "--target", "kind", "--run-dir", "run", *SHORT)["data"]
    assert (counts["columns"], counts["target"]) == (["width", "colour", "height"], "kind")
    assert counts["missing_values"] == sum(not row[0] for row in cells) + sum(not row[1] for row in cells)
    assert counts["unlabeled"] == 14
    assert set(counts["labeled_per_class"]) == {"large", "small"}
    assert library.load("run").codec_.names == ["width", "colour", "height"]
    assert [path.name for path in Path("run/figures").iterdir()] == ["curves.png"]


@pytest.mark.parametrize(("name", "kind"), [("table.tsv", "tsv"), ("table.parquet", "parquet")])
def test_a_table_trains_alike_in_every_format(answer, own, name, kind):
    table = pandas.read_csv(own / "table.csv")
    table.to_parquet(name) if kind == "parquet" else table.to_csv(name, sep="\t", index=False)
    counts = answer("fit", name, "--target", "kind", "--run-dir", "run", "--seed", 1, *SHORT)["data"]
    before = read_json(own / "rows" / "result.json")["data"]
    assert counts == {**before, "path": name, "kind": kind}
    assert Path("run/model.safetensors").read_bytes() == (own / "rows" / "model.safetensors").read_bytes()


def test_labels_and_types_of_a_parquet_file(answer):
    """Labels with gaps become fractions in pandas; the classes are whole numbers again."""
    rng = np.random.default_rng(0)
    table = pandas.DataFrame({"size": rng.normal(size=30), "code": pandas.Categorical(["1", "02", "3"] * 10)})
    table["flag"] = pandas.array([True, None, False] * 10, "boolean")
    table["class"] = [1, 2, None, None, 1, 2] * 5
    table.to_parquet("t.parquet")
    counts = answer("fit", "t.parquet", "--target", "class", "--run-dir", "run", *SHORT)["data"]
    assert (counts["labeled_per_class"], counts["unlabeled"]) == ({"1": 10, "2": 10}, 10)
    assert counts["missing_values"] == 10
    assert library.load("run").codec_.numeric == [True, False, True]


def test_tables_need_an_extra(refused, own, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    line = refused("fit", own / "table.csv", "--target", "kind", watched=[own])
    assert line.endswith('table.csv: tables need pandas and pyarrow: pip install "mmdgm[tables]"')


def test_the_folder_is_named_after_the_data_and_the_seed(mmdgm, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    x = np.random.default_rng(0).normal(size=(30, 3))
    np.savez("small.npz", x=x, y=(x[:, 0] > 0).astype(int))
    code, out, _ = mmdgm("fit", "small.npz", "--seed", 7, "--model", "mmva", *SHORT)
    assert code == 0
    lines = out.splitlines()
    assert [line.split() for line in lines[1:4]] == [
        ["0", str((x[:, 0] <= 0).sum())],
        ["1", str((x[:, 0] > 0).sum())],
        ["unlabeled", "0"],
    ]
    assert "not estimated" in lines[-3]
    assert lines[-1] == "runs/small/seed-7"
    assert isinstance(library.load("runs/small/seed-7"), MMVAClassifier)


def test_the_same_seed_gives_the_same_run_as_python_does(answer, own):
    answer("fit", own / "digits.npz", "--run-dir", "again", "--seed", 1, *SHORT)
    assert Path("again/model.safetensors").read_bytes() == (own / "digits" / "model.safetensors").read_bytes()
    data = read_data(own / "digits.npz")
    model = MMCVAClassifier(max_epochs=2, random_state=1, device="cpu").fit(data.x, data.y)
    np.testing.assert_array_equal(model.class_scores(data.x), library.load("again").class_scores(data.x))


def test_a_file_of_costs_is_kept_in_the_run_and_must_fit_its_resumption(answer, refused, own, tmp_path):
    (costs := tmp_path / "costs.csv").write_text("true,1,0\n0,7,0\n1,0,0\n")
    words = ("fit", own / "columns.npz", "--run-dir", tmp_path / "run", "--model", "mmva", "--seed", 1, *SHORT)
    result = answer(*words, "--cost-matrix", costs)
    assert result["cost_matrix"] == [[0, 2], [0, 0]]
    run, data = library.load(tmp_path / "run", device="cpu"), read_data(own / "columns.npz")
    np.testing.assert_array_equal(run.cost_matrix, result["cost_matrix"])
    model = MMVAClassifier(max_epochs=2, random_state=1, device="cpu", cost_matrix=[[0, 2], [0, 0]])
    model.fit(data.x, data.y)
    np.testing.assert_array_equal(run.class_scores(data.x), model.class_scores(data.x))
    plain = library.load(own / "columns", device="cpu").class_scores(data.x)
    assert not np.array_equal(run.class_scores(data.x), plain)
    assert answer(*words, "--cost-matrix", costs, "--resume") == result
    line = refused(*words, "--resume", watched=[tmp_path / "run"])
    assert "with cost_matrix=[[0.0, 2.0], [0.0, 0.0]], not None" in line
    costs.write_text("true,1,0\n0,7,0\n2,0,0\n")
    assert "the class '1'" in refused(*words[:3], tmp_path / "no", "--cost-matrix", costs, watched=[tmp_path / "run"])
    assert not (tmp_path / "no").exists()


def test_minus_one_is_a_class_beside_another_marker(answer, tmp_path):
    x = np.random.default_rng(0).normal(size=(60, 2))
    y = np.where(np.arange(60) % 3, np.sign(x[:, 0]), np.nan)
    np.savez(tmp_path / "x.npz", x=x, y=y)
    result = answer("fit", "x.npz", "--unlabeled", "nan", "--run-dir", "run", *SHORT)
    assert result["data"]["unlabeled"] == 20
    predicted = library.load("run").predict(x)
    assert result["training_accuracy_on_labeled_rows"] == (predicted == y)[~np.isnan(y)].mean()


def test_a_run_that_ends_by_max_time_says_so(mmdgm, own, tmp_path):
    words = (own / "columns.npz", "--run-dir", tmp_path / "r", "--epochs", 9_000, "--device", "cpu")
    code, out, err = mmdgm("fit", *words, "--max-time", 1, "--json")
    assert code == 0
    result = json.loads(out)
    assert result["planned_epochs"] == 9_000 > result["epochs"]
    assert f"max_time: ended after {result['epochs']} of 9000 epochs" in err
    assert (result["estimate"]["folds"], result["estimate"]["planned_folds"]) == (1, 5)
    assert "max_time: the estimate ended after 1 of 5 folds" in err


def test_a_trained_model_outlasts_what_fails_after_training(own, tmp_path, monkeypatch, quiet):
    monkeypatch.setattr(MMVAClassifier, "score", lambda *_: 1 / 0)
    data = read_data(own / "columns.npz")
    options = FitOptions(model="mmva", seed=1, epochs=2, device="cpu")
    with pytest.raises(ZeroDivisionError):
        fit_run(data, RunFolder(tmp_path / "run"), options, console=quiet)
    kept = library.load(tmp_path / "run", device="cpu")
    expected = library.load(own / "columns", device="cpu").class_scores(data.x)
    np.testing.assert_array_equal(kept.class_scores(data.x), expected)


# --- going on --------------------------------------------------------------------------------------------


def interrupt(monkeypatch, *, at):
    """Training saves a checkpoint at every log line, and is interrupted at a step."""
    log, save_if_due = Loop.log, Loop.save_if_due

    def save_now(self):
        self.saved_at = -1e9
        save_if_due(self)

    def log_and_fail(self, *args):
        log(self, *args)
        if self.checkpoint is not None and self.steps_done() >= at:  # not while missing values are learned
            raise KeyboardInterrupt

    monkeypatch.setattr(Loop, "save_if_due", save_now)
    monkeypatch.setattr(Loop, "log", log_and_fail)


def test_an_interrupted_run_goes_on_to_where_it_would_have_come(mmdgm, own, tmp_path):
    """With missing values, whose fills are learned again, through both stages."""
    words = ("fit", own / "table.csv", "--target", "kind", "--seed", 2, "--epochs", 40, *SHORT[2:])
    assert mmdgm(*words, "--run-dir", tmp_path / "whole")[0] == 0
    with pytest.MonkeyPatch.context() as patch:
        interrupt(patch, at=25)
        code, _, err = mmdgm(*words, "--run-dir", tmp_path / "run")
    assert code == 130
    step = checkpoint_step(RunFolder(tmp_path / "run").checkpoint)
    assert 0 < step < 40
    assert f"--resume goes on from step {step}" in " ".join(err.split())
    result = read_json(tmp_path / "run" / "result.json")
    assert result["status"] == "running"
    code, out, err = mmdgm(*words, "--run-dir", tmp_path / "run", "--resume", "--json")
    assert code == 0, err
    assert f"going on from step {step}" in err
    whole = read_json(tmp_path / "whole" / "result.json")
    unlike = {"seconds", "versions", "git_commit"}
    assert {k: v for k, v in json.loads(out).items() if k not in unlike} == {
        k: v for k, v in whole.items() if k not in unlike
    }
    weights = [(tmp_path / name / "model.safetensors").read_bytes() for name in ("run", "whole")]
    assert weights[0] == weights[1]
    steps = [line.split(",")[1] for line in (tmp_path / "run" / "metrics.csv").read_text().splitlines()]
    assert steps == [line.split(",")[1] for line in (tmp_path / "whole" / "metrics.csv").read_text().splitlines()]


def test_an_unfinished_run_answers_no_other_command(mmdgm, refused, own, tmp_path):
    with pytest.MonkeyPatch.context() as patch:
        interrupt(patch, at=1)
        words = ("fit", own / "columns.npz", "--epochs", 40, "--device", "cpu", "--run-dir", tmp_path / "run")
        assert mmdgm(*words)[0] == 130
    for words in (("predict", "run", own / "columns.npz"), ("sample", "run"), ("export", "run", "--onnx")):
        assert "run: training has not finished; go on with it by --resume" in refused(*words)


def test_a_finished_run_is_not_trained_again(answer, own, tmp_path):
    words = ("fit", own / "columns.npz", "--model", "mmva", "--run-dir", "run", *SHORT[:-1])
    result = answer(*words)
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*") if path.is_file()}
    assert answer(*words, "--resume") == result
    after = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*") if path.suffix in (".json", ".safetensors")}
    assert after == {path: before[path] for path in after}


def test_the_estimate_is_printed_and_resume_adds_a_missing_one(mmdgm, answer, own, tmp_path):
    words = ("fit", own / "columns.npz", "--model", "mmva", "--run-dir", "run", *SHORT)
    assert answer(*words)["estimate"] is None
    assert answer(*words, "--resume")["estimate"] is None  # --no-estimate
    weights = Path("run/model.safetensors").read_bytes()
    code, out, err = mmdgm(*words[:-1], "--resume")
    assert code == 0, err
    estimate = read_json(Path("run/result.json"))["estimate"]
    assert (estimate["labeled_rows"], estimate["folds"]) == (30, 5)
    numbers = [f"{100 * estimate[name]:.1f}" for name in ("accuracy", "low", "high")]
    line = out.splitlines()[-3]
    assert [word for word in line.replace("(", "").split() if word in numbers] == numbers
    assert "30 labeled rows, held out in 5 folds" in line
    assert "fold 5/5" in err
    assert Path("run/model.safetensors").read_bytes() == weights


def test_an_interrupted_estimate_leaves_a_run_that_works(mmdgm, own, tmp_path, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(honest_estimate, "_errors", interrupted)
    words = (own / "columns.npz", "--model", "mmva", "--run-dir", tmp_path / "run", *SHORT[:-1])
    code, _, err = mmdgm("fit", *words)
    assert code == 130
    assert "the model is saved; --resume goes on with the estimate" in " ".join(err.split())
    assert read_json(tmp_path / "run" / "result.json")["status"] == "done"
    assert mmdgm("predict", tmp_path / "run", own / "columns.npz", "--out", tmp_path / "p.csv")[0] == 0


def test_resume_without_a_run_begins_one(answer, own):
    assert answer("fit", own / "columns.npz", "--run-dir", "new", "--resume", *SHORT)["status"] == "done"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("OWN/digits.npz", "--run-dir", "OWN/digits"), "already holds a run; go on with it by --resume, or"),
        (("OWN/digits.npz", "--run-dir", "OWN/digits", "--resume"), "holds a run of seed 1, not 0; use --seed 1"),
        (
            ("OWN/digits.npz", "--run-dir", "OWN/digits", "--resume", "--seed", "1", "--epochs", "3"),
            "holds a run with epochs=2, not 3; resume it as it was",
        ),
        (
            ("OWN/columns.npz", "--run-dir", "OWN/digits", "--resume", "--seed", "1", "--epochs", "2"),
            "holds a run with data=OWN/digits.npz, not OWN/columns.npz",
        ),
        (
            (*("OWN/digits.npz", "--run-dir", "OWN/digits", "--resume", "--seed", "1"), "--model", "mmva"),
            "holds a run with model=mmcva, not mmva",
        ),
        (
            (
                "OWN/table.csv",
                *("--run-dir", "OWN/rows", "--resume", "--seed", "1"),
                "--epochs",
                "2",
                "--target",
                "colour",
            ),
            "holds a run with columns=['width', 'colour', 'height'], not ['width', 'height', 'kind']",
        ),
        (
            ("OWN/digits.npz", "--run-dir", "TRAINED", "--resume", "--seed", "3"),
            "TRAINED holds a run of a preset; go on with it by `mmdgm train --resume`",
        ),
    ],
)
def test_what_cannot_be_gone_on_with(refused, own, trained, words, said):
    for name, place in {"OWN": own, "TRAINED": trained}.items():
        words, said = [word.replace(name, str(place)) for word in words], said.replace(name, str(place))
    assert said in refused("fit", *words, watched=[own, trained])


# --- mistakes --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "Missing argument 'DATA'"),
        (("OWN/digits.npz", "--set", "z=3"), "No such option: --set"),
        (("OWN/digits.npz", "--model", "svm"), "--model svm: use mmcva or mmva"),
        (("OWN/digits.npz", "--epochs", "0"), "Invalid value for '--epochs'"),
        (("OWN/digits.npz", "--target", "y"), "--target is for a table"),
        (("OWN/digits.npz", "--size", "8x8"), "--size is for a folder of images"),
        (("OWN/digits.npz", "--device", "tpu"), "device tpu: use auto, cpu or cuda"),
        (("OWN/digits.npz", "--unlabeled", "none"), "y holds numbers"),
        (("absent.npz",), "absent.npz is missing"),
        (("empty.doc",), "give an npz file, a folder of images or a table"),
        (("x.npz",), "holds x, but no y"),
        (("short.npz",), "y has the shape (3,), but x has 2 rows"),
        (("one.npz",), "one.npz: y has one class"),
        (("none.npz",), "none.npz: no row is labeled"),
        (("inf.npz",), "x holds infinite values"),
        (("text.npz",), "numbers are expected"),
        (("nan.npz",), "give --unlabeled nan"),
        (("nan.npz", "--unlabeled", "9"), "give --unlabeled nan"),
        (("real.npz",), "real.npz: Unknown label type"),
        (("void.npz",), "void.npz: row 1 of x has no value; leave it out"),
        (("OWN/table.csv",), "give --target, the column with the labels; there are width, colour"),
        (("OWN/table.csv", "--target", "sort"), "--target sort: is no column"),
        (
            ("real.csv", "--target", "k"),
            "real.csv: column k holds numbers with fractions, such as 13.5, which are no classes",
        ),
        (("hollow.csv", "--target", "k"), "column b has no value in any row"),
        (("row.csv", "--target", "k"), "line 3 has no value beside k"),
        (("only.csv", "--target", "k"), "has no column beside k"),
        (("dates.parquet", "--target", "k"), "dates.parquet: column a holds datetime64 values; give numbers"),
        (("dates.parquet", "--target", "a"), "dates.parquet: column a holds datetime64 values; give numbers"),
        (("row.parquet", "--target", "k"), "row.parquet: row 1 has no value beside k"),
        (("latin.tsv", "--target", "k"), "latin.tsv: is no UTF-8 text"),
        (("empty",), "has no subfolders"),
        (("void",), "a: holds no image files"),
        (("broken",), "broken/a: none of its 1 image files can be read"),
        (("OWN/images", "--size", "8"), "--size 8: give height and width"),
    ],
)
def test_mistakes(refused, tmp_path, own, words, said):
    for folder in ("empty", "void/a", "broken/a", "broken/b"):
        Path(folder).mkdir(parents=True)
    Path("empty.doc").touch()
    Path("broken/a/1.png").write_bytes(b"no image")
    x = np.eye(2)
    np.savez("x.npz", x=x)
    np.savez("short.npz", x=x, y=[0, 1, 0])
    np.savez("one.npz", x=x, y=[1, 1])
    np.savez("none.npz", x=x, y=[-1, -1])
    np.savez("inf.npz", x=[[np.inf, 1], [1, 1]], y=[0, 1])
    np.savez("text.npz", x=x.astype(str), y=[0, 1])
    np.savez("nan.npz", x=x, y=[0, np.nan])
    np.savez("real.npz", x=x, y=[0.5, 1.25])
    np.savez("void.npz", x=[[1, 2], [np.nan, np.nan]], y=[0, 1])
    Path("real.csv").write_text("a,k\n1,12\n2,13.5\n3,\n4,1e2\n")
    Path("hollow.csv").write_text("a,b,k\n1,,x\n2,,y\n")
    Path("row.csv").write_text("a,b,k\n1,2,x\n,,y\n")
    Path("only.csv").write_text("k\nx\ny\n")
    Path("latin.tsv").write_bytes("a\tk\n1\té\n".encode("latin-1"))
    pandas.DataFrame({"a": pandas.date_range("2026", periods=2), "k": ["x", "y"]}).to_parquet("dates.parquet")
    pandas.DataFrame({"a": [1, None], "b": ["x", ""], "k": ["x", "y"]}).to_parquet("row.parquet")
    assert said in refused("fit", *(word.replace("OWN", str(own)) for word in words), watched=[own])
