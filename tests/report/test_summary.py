"""The summary of a fitted estimator: its numbers are those of the data, its text stays text, it loads nothing."""

import copy
import json

import numpy as np
import pandas as pd
import pytest
from sklearn import config_context
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.pipeline import make_pipeline

import mmdgm
from html_pages import Page, check_alone
from mmdgm import MaxMarginImputer, MMCVAClassifier, MMVAClassifier
from mmdgm.report import summary

EVIL = "<script>alert(1)</script>\"'&"
DIAGRAM = "sk-top-container"  # of scikit-learn


def page_of(estimator):
    html = estimator._repr_html_()
    assert len(html) < 200_000
    page = Page(f"<body>{html}</body>".encode())
    check_alone(page)
    assert all(image.attributes["alt"].strip() for image in page.all("img"))
    assert all(cell.attributes["scope"] in ("row", "col") for cell in page.all("th"))
    assert not page.all("h1")
    return page


def facts(page):
    return {name.text: value.text for name, value in zip(page.all("dt"), page.all("dd"), strict=True)}


def pictured(page):
    return [image.attributes["alt"] for image in page.all("img")]


def test_images_show_new_ones_of_each_class_and_reconstructions(on_images):
    page = page_of(on_images)
    labels = np.bincount(load_digits().target[:100])
    assert "MMCVAClassifier trained on 400 images of 8 × 8 pixels, 100 of them labeled" in page.text
    assert facts(page)["Classes (labels)"] == ", ".join(f"{k} ({n})" for k, n in enumerate(labels))
    assert facts(page)["Model"].startswith("MaxMarginConditionalVAE: conv nets, codes of 4 numbers, ")
    assert facts(page)["Training"].startswith("1 epochs, ")
    of_classes = [f"3 generated images of class {k}" for k in range(10)]
    assert pictured(page) == [*of_classes, "8 images: image", "8 images: reconstruction"]


def test_names_of_classes_and_columns_stay_text(on_images, fitted):
    named = copy.copy(on_images)
    named.classes_ = np.array([EVIL, *"bcdefghij"])
    table = copy.copy(fitted)
    table.codec_ = fitted.codec_.named([EVIL, *"bcdefghijklm"])
    for estimator in (named, table):
        page = page_of(estimator)
        assert EVIL in page.text
        assert "<script" not in page.source


def test_many_classes_are_not_all_shown(on_images, monkeypatch):
    monkeypatch.setattr(summary, "CLASSES", 4)
    monkeypatch.setattr(summary, "NAMED", 3)
    page = page_of(on_images)
    assert len([text for text in pictured(page) if "generated" in text]) == 4
    assert "New images of the first 4 classes" in page.text
    assert facts(page)["Classes (labels)"].endswith(" and 7 more")


def test_a_table_shows_its_columns_with_the_errors_of_fills(fitted, wine):
    _, _, X, y = wine
    page = page_of(fitted)
    missing = int(np.isnan(X).sum())
    assert f"178 rows of 13 columns, {(y >= 0).sum()} of them labeled" in page.text
    assert facts(page)["Missing"] == f"{missing:,} values, {100 * missing / X.size:.1f} %"
    cells = [cell.text for cell in page.all("td")]
    lines = np.reshape(cells, (12, 6))
    assert lines[:, 2].tolist() == [f"{100 * share:.0f} %" for share in np.isnan(X).mean(axis=0)[:12]]
    model, mean = lines[:, 4].astype(float), lines[:, 5].astype(float)
    assert model.mean() < 0.95 * mean.mean()


def test_training_rows_are_in_no_file_and_no_pickle(tmp_path, on_images, fitted):
    for estimator, gone in ((on_images, "reconstruction"), (fitted, "error of fills")):
        estimator.save(tmp_path / gone)
        loaded, copied = mmdgm.load(tmp_path / gone, device="cpu"), copy.deepcopy(estimator)
        assert gone in page_of(estimator).source
        for other in (loaded, copied):
            page = page_of(other)
            assert gone not in page.source
            assert facts(page) == facts(page_of(estimator))
            assert other._some_rows is None


def test_the_run_of_a_preset_has_the_numbers_of_its_result(trained):
    counts = json.loads((trained / "result.json").read_text())["dataset"]
    page = page_of(mmdgm.load(trained, device="cpu"))
    rows = counts["labeled"] + counts["unlabeled"]
    assert f"trained on {rows:,} images of 8 × 8 pixels, {counts['labeled']} of them labeled" in page.text
    assert facts(page)["Classes (labels)"] == ", ".join(
        f"{k} ({n})" for k, n in enumerate(counts["labeled_per_class"])
    )


def test_folders_of_earlier_versions_have_a_summary(on_images):
    old = copy.copy(on_images)
    old.counts_ = old._some_rows = None
    page = page_of(old)
    assert "MMCVAClassifier trained on images of 8 × 8 pixels" in page.text
    assert facts(page)["Classes"] == "0, 1, 2, 3, 4, 5, 6, 7, 8, 9"


def test_an_imputer_shows_holes_and_what_fills_them():
    images = load_digits().images[:100]
    page = page_of(MaxMarginImputer(max_epochs=1, random_state=0).fit(images))
    assert "MaxMarginImputer trained on 100 images of 8 × 8 pixels" in page.text
    assert pictured(page) == ["8 images: with a hole", "8 images: hole filled"]


def test_an_imputer_of_a_data_frame_shows_numbers_and_categories(wine):
    frame = pd.DataFrame(wine[2][:60, :2], columns=["alcohol", EVIL])
    frame["colour"] = pd.Series(["red", "white", None] * 20, dtype="category")
    page = page_of(MaxMarginImputer(max_epochs=1, random_state=0).fit(frame))
    assert "60 rows of 3 columns" in page.text
    assert EVIL in page.text
    cells = [cell.text for cell in page.all("td")]
    assert cells[12:15] == ["category", "red, white", "33 %"]


def test_an_unconditional_model_shows_new_images_in_a_line():
    digits = load_digits()
    page = page_of(MMVAClassifier(max_epochs=1, random_state=0).fit(digits.images[:60], digits.target[:60]))
    assert pictured(page) == ["8 generated images", "8 images: image", "8 images: reconstruction"]


@pytest.mark.parametrize("kind", [MMCVAClassifier, MMVAClassifier, MaxMarginImputer])
def test_estimators_that_are_not_fitted_keep_the_diagram(kind):
    assert DIAGRAM in kind()._repr_html_()
    assert DIAGRAM in kind()._repr_mimebundle_()["text/html"]


def test_scikit_learn_decides_whether_there_is_html(fitted):
    bundle = fitted._repr_mimebundle_()
    assert bundle["text/plain"] == repr(fitted)
    assert "mmdgm-summary" in bundle["text/html"]
    assert DIAGRAM not in bundle["text/html"]
    assert DIAGRAM in clone(fitted)._repr_html_()
    assert DIAGRAM in make_pipeline(fitted)._repr_html_()
    with config_context(display="text"):
        assert not hasattr(fitted, "_repr_html_")
        assert fitted._repr_mimebundle_() == {"text/plain": repr(fitted)}
