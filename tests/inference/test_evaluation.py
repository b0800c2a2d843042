"""Error and bound on held-out images, against sums by hand."""

import numpy as np
import pytest
import torch

from mmdgm.inference import evaluation
from mmdgm.inference.evaluation import (
    error_percent,
    figures,
    mean_elbo,
    mean_log_likelihood,
    mean_reconstruction_error,
    predict_scores,
)
from mmdgm.models import MaxMarginVAEConfig, VAEConfig, VAESettings
from mmdgm.networks.likelihoods import BernoulliPixels, GaussianPixels


class Brightness(torch.nn.Module):
    """Class 1 where the first pixel is at least half."""

    def __init__(self):
        super().__init__()
        self.unused = torch.nn.Parameter(torch.zeros(()))

    def scores(self, x):
        return torch.stack([1 - x[:, 0, 0, 0], x[:, 0, 0, 0]], dim=1)


def test_error_counts_wrong_predictions_over_all_batches(monkeypatch):
    monkeypatch.setattr(evaluation, "BATCH", 3)
    images = np.array([0, 255, 200, 10, 0, 255, 100], np.float32).reshape(7, 1, 1, 1) / 256
    y = np.array([0, 1, 0, 0, 1, 1, 0])
    assert error_percent(Brightness(), images, y) == pytest.approx(100 * 2 / 7)
    scores = predict_scores(Brightness(), images)
    np.testing.assert_allclose(scores[:, 1], images.ravel())


def test_bound_is_the_mean_over_rows_and_a_vae_has_no_error(monkeypatch):
    torch.manual_seed(0)
    model = VAEConfig(hidden=(8,), z=2).build((1, 4, 4), n_classes=10, n_rows=1)
    images = np.random.default_rng(0).random((10, 1, 4, 4), dtype=np.float32)
    torch.manual_seed(7)
    expected = model.elbo(torch.from_numpy(images)).mean().item()
    assert mean_elbo(model, images, seed=7) == pytest.approx(expected, rel=1e-5)
    monkeypatch.setattr(evaluation, "BATCH", 4)
    model.settings = VAESettings(samples=5000)
    once = mean_elbo(model, images)
    monkeypatch.setattr(evaluation, "BATCH", 3)
    assert once == pytest.approx(mean_elbo(model, images), abs=0.05)
    assert error_percent(model, images, np.zeros(10)) is None


def test_reconstruction_error_is_that_of_the_decoded_mean_code(monkeypatch):
    torch.manual_seed(0)
    model = VAEConfig(hidden=(8,), z=2).build((1, 4, 4), n_classes=10, n_rows=1)
    images = np.random.default_rng(0).random((10, 1, 4, 4), dtype=np.float32)
    with torch.no_grad():
        mean = model.decoder(model.encoder(torch.from_numpy(images)).mean).sigmoid().numpy()
    monkeypatch.setattr(evaluation, "BATCH", 4)
    assert mean_reconstruction_error(model, images) == pytest.approx(np.square(mean - images).mean(), rel=1e-5)


class Binary(torch.nn.Module):
    """Bounds that tell whether an image is binary, and which it is."""

    def __init__(self, draws):
        super().__init__()
        self.draws, self.unused = draws, torch.nn.Parameter(torch.zeros(()))
        self.seen = []

    def elbo(self, x):
        torch.rand(self.draws)
        self.seen.append(x.clone())
        return ((x == 0) | (x == 1)).flatten(1).all(1).float()

    def log_likelihood(self, x, *, draws):
        return draws * self.elbo(x)


def test_binarised_figures_are_of_the_same_binary_images_for_every_model():
    images = np.random.default_rng(0).uniform(0.1, 0.9, (2500, 1, 2, 2)).astype(np.float32)
    models = [Binary(draws) for draws in (0, 7)]
    for model in models:
        assert mean_elbo(model, images) == 0
        assert mean_log_likelihood(model, images, draws=3) == 0
        model.seen.clear()
        assert mean_elbo(model, images, binarised=True) == 1
        assert mean_log_likelihood(model, images, draws=3, binarised=True) == 3
    first, second = (torch.cat(model.seen) for model in models)
    assert torch.equal(first, second)
    assert torch.equal(first[:2500], first[2500:])
    assert abs(first.mean().item() - images.mean()) < 0.02


def test_figures_are_those_that_a_model_has():
    torch.manual_seed(0)
    x, y = np.random.default_rng(0).random((30, 1, 4, 4), dtype=np.float32), np.arange(30) % 3
    model = MaxMarginVAEConfig(hidden=(8,), z=2).build((1, 4, 4), n_classes=3, n_rows=30)
    assert isinstance(model.likelihood, BernoulliPixels)
    assert figures(model, x, y, draws=5) == {
        "error_percent": error_percent(model, x, y),
        "elbo": mean_elbo(model, x),
        "elbo_binarised": mean_elbo(model, x, binarised=True),
        "log_likelihood": mean_log_likelihood(model, x, draws=5),
        "log_likelihood_binarised": mean_log_likelihood(model, x, draws=5, binarised=True),
    }
    config = MaxMarginVAEConfig(hidden=(8,), z=2, likelihood="gaussian")
    gaussian = config.build((1, 4, 4), n_classes=3, n_rows=30)
    assert isinstance(gaussian.likelihood, GaussianPixels)
    assert set(figures(gaussian, x, y)) == {"error_percent", "elbo"}
    alone = MaxMarginVAEConfig(hidden=(8,), z=2, generative_weight=0.0).build((1, 4, 4), n_classes=3, n_rows=30)
    assert figures(alone, x, y, draws=5) == {"error_percent": error_percent(alone, x, y), "elbo": None}
