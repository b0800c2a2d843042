"""Sampled rows of tables are like the training rows; those of images are the decoder's means."""

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.datasets import load_digits

import mmdgm
from conftest import QUICK
from mmdgm import MMCVAClassifier, MMVAClassifier
from mmdgm.errors import InputError

KINDS = (MMCVAClassifier, MMVAClassifier)


def table(n, seed=0):
    """A class, a whole number and a price with two decimals that depend on it and on each other, a colour."""
    rng = np.random.default_rng(seed)
    y = np.where(rng.random(n) < 0.3, "rare", "usual")
    centre = np.where(y == "rare", 1.0, 0.0)
    size = rng.normal(size=n)
    rooms = np.clip(np.round(4 + 1.2 * size + 2 * centre), 1, 12)
    price = np.round(np.exp(0.5 * size + 0.3 * rng.normal(size=n) + centre), 2)
    colour = np.where(rng.random(n) < 1 / (1 + np.exp(-3 * size)), "red", "blue").astype(object)
    weight = rng.normal(size=n)
    return pd.DataFrame({"rooms": rooms, "price": price, "colour": colour, "weight": weight}), y


@pytest.fixture(scope="module", params=KINDS)
def sampled(request):
    """A model of each kind, its training rows and labels, new rows and their classes."""
    X, y = table(1200)
    holes = X.mask(np.random.default_rng(1).random(X.shape) < 0.05)
    model = request.param(random_state=0, device="cpu").fit(holes, y)
    wanted = np.repeat(["rare", "usual"], 2000)
    new = pd.DataFrame(model.sample(4000, y=wanted, random_state=1), columns=X.columns).astype(X.dtypes)
    return model, X, y, new, wanted


def test_numbers_keep_to_the_observed_range_and_decimals(sampled):
    _, X, _, new, _ = sampled
    assert (new["rooms"] % 1 == 0).all()
    assert (new["price"] == new["price"].round(2)).all()
    assert set(new["colour"]) == {"red", "blue"}
    for name in ("rooms", "price", "weight"):
        assert new[name].min() >= X[name].min()
        assert new[name].max() <= X[name].max()
    assert set(new["rooms"]) <= set(X["rooms"])
    assert new["weight"].nunique() > 0.9 * len(new)  # a draw is rarely an observed value


def test_each_class_has_its_marginals(sampled):
    _, X, y, new, wanted = sampled
    for label in ("rare", "usual"):
        real, made = X[y == label], new[wanted == label]
        for name in ("rooms", "price", "weight"):
            assert made[name].mean() == pytest.approx(real[name].mean(), abs=0.15 * real[name].std())
            assert made[name].std() == pytest.approx(real[name].std(), rel=0.12)
        assert (made["colour"] == "red").mean() == pytest.approx((real["colour"] == "red").mean(), abs=0.06)


def test_columns_depend_on_each_other_as_in_the_training_rows(sampled):
    _, X, y, new, wanted = sampled
    for label in ("rare", "usual"):
        real, made = X[y == label], new[wanted == label]
        assert real["rooms"].corr(real["price"], method="spearman") > 0.7
        for other in ("price", "weight"):
            expected = real["rooms"].corr(real[other], method="spearman")
            assert made["rooms"].corr(made[other], method="spearman") == pytest.approx(expected, abs=0.1)
        by_colour = [rows.groupby("colour")["rooms"].mean() for rows in (real, made)]
        gaps = [float(means["red"] - means["blue"]) for means in by_colour]
        assert gaps[0] > 1
        assert gaps[1] == pytest.approx(gaps[0], rel=0.35)


def test_without_y_classes_have_the_shares_of_the_training_rows(sampled):
    model, X, y, *_ = sampled
    np.testing.assert_allclose(model.sampler_.shares, [(y == "rare").mean(), (y == "usual").mean()])
    new = model.sample(4000, random_state=2)
    assert new[:, 0].astype(float).mean() == pytest.approx(X["rooms"].mean(), abs=0.2)


def test_means_are_those_of_the_decoder_at_the_same_codes(sampled):
    model = sampled[0]
    y = np.array(["rare", "usual", "usual"])
    means, codes = model.sample(3, y=y, random_state=3, mean=True, return_codes=True)
    rows, again = model.sample(3, y=y, random_state=3, return_codes=True)
    np.testing.assert_array_equal(codes, again)
    given = (torch.tensor(codes), torch.tensor([0, 1, 1]))[: 2 if isinstance(model, MMCVAClassifier) else 1]
    expected = model.codec_.decode(model.model_.generate(*given).numpy(), exact=True)
    np.testing.assert_allclose(means[:, [0, 1, 3]].astype(float), expected[:, [0, 1, 3]].astype(float), atol=1e-5)
    assert (means[:, 0].astype(float) % 1 != 0).all()
    assert (rows[:, 0].astype(float) % 1 == 0).all()


def test_a_saved_model_samples_the_same_rows(sampled, tmp_path):
    model = sampled[0]
    model.save(tmp_path / "model")
    again = mmdgm.load(tmp_path / "model", device="cpu")
    for name, tensor in model.sampler_.state_dict().items():
        assert torch.equal(tensor, again.sampler_.state_dict()[name])
    np.testing.assert_array_equal(again.sample(50, random_state=4), model.sample(50, random_state=4))


def test_imputed_numbers_keep_to_the_observed_range_and_decimals(sampled):
    model, X, *_ = sampled
    holes = X.mask(np.random.default_rng(5).random(X.shape) < 0.4)
    for filled in (model.impute(holes), *map(pd.DataFrame, model.impute(holes, n_draws=2))):
        rooms, price = (filled.iloc[:, i].to_numpy(float) for i in (0, 1))
        assert (rooms % 1 == 0).all()
        assert (price == np.round(price, 2)).all()
        assert price.min() >= X["price"].min()
        assert price.max() <= X["price"].max()


def test_classes_of_unlabeled_rows_are_predicted():
    X, y = table(300, seed=7)
    some = np.where(np.arange(300) < 60, y, "")
    model = MMCVAClassifier(**QUICK, unlabeled="").fit(X, some)
    predicted = np.where(some == "", model.predict(X), some)
    np.testing.assert_allclose(model.sampler_.shares, [(predicted == name).mean() for name in ("rare", "usual")])


def test_images_are_decoder_means_at_codes_of_the_prior(on_images):
    assert on_images.sampler_ is None
    images, codes = on_images.sample(500, y=3, random_state=0, return_codes=True)
    expected = on_images.model_.generate(torch.tensor(codes), torch.full((500,), 3)).numpy()
    np.testing.assert_allclose(images, on_images.codec_.decode(expected), rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(codes.std(axis=0), 1, atol=0.15)
    np.testing.assert_array_equal(on_images.sample(500, y=3, random_state=0, mean=True), images)


def test_images_of_a_class_want_a_conditional_model():
    X = np.random.default_rng(0).random((20, 8, 8))
    model = MMVAClassifier(max_epochs=1, random_state=0, device="cpu", z=2).fit(X, np.arange(20) % 2)
    assert model.sample(2).shape == (2, 8, 8)
    with pytest.raises(InputError, match="leave y out"):
        model.sample(2, y=0)
    with pytest.raises(InputError, match="give 1 or more"):
        model.sample(0)


def test_codes_are_decoded_with_the_wanted_classes(on_images):
    images, codes = on_images.sample(3, y=4, random_state=0, return_codes=True)
    np.testing.assert_array_equal(on_images.generate(codes, 4), images)
    mixed = on_images.generate(codes, [4, 5, 4])
    np.testing.assert_allclose(mixed[[0, 2]], images[[0, 2]], rtol=1e-5)
    assert np.abs(mixed[1] - images[1]).max() > 0.01
    assert on_images.directions(2).shape == (2, 4)
    for wrong in (codes[:, :3], codes[0], np.full_like(codes, np.nan)):
        with pytest.raises(InputError, match="give codes"):
            on_images.generate(wrong, 4)
    with pytest.raises(InputError, match="give y"):
        on_images.generate(codes)
    with pytest.raises(InputError, match="1 or more"):
        on_images.directions(0)


def test_rounds_of_imputation_are_images_on_the_scale_of_the_data(on_images):
    X = load_digits().images[:2].copy()
    X[:, 2:5, 2:5] = np.nan
    rounds = on_images.impute_rounds(X, 3, 2, random_state=7)
    assert rounds.shape == (4, 2, 2, 8, 8)
    for i in range(2):
        draw = on_images.impute(X, n_iter=3, method="draw", random_state=7 + i)
        np.testing.assert_allclose(rounds[3, i], draw, atol=1e-4)
    seen = np.broadcast_to(~np.isnan(X), rounds.shape)
    np.testing.assert_array_equal(rounds[seen], np.broadcast_to(X, rounds.shape)[seen])
    assert np.abs(rounds[1, 0] - rounds[1, 1])[np.isnan(X)].max() > 0
