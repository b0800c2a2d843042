"""VA+Pegasos: the classifier of a model that was trained without one."""

import numpy as np
import pytest
import torch
from sklearn.svm import LinearSVC

from mmdgm.data import datasets
from mmdgm.data.batches import Reading, Store
from mmdgm.inference.evaluation import error_percent
from mmdgm.models import MaxMarginVAEConfig
from mmdgm.training.feature_svm import fit_feature_svm
from mmdgm.training.plan import Training
from mmdgm.training.trainer import Trainer


@pytest.mark.slow
def test_frozen_features_classify_as_well_as_with_scikit_learns_svm():
    data = datasets.load("digits")
    x, y = torch.from_numpy(data.x_train), torch.from_numpy(data.y_train)
    torch.manual_seed(0)
    config = MaxMarginVAEConfig(hidden=(100, 100), z=10, features="hidden", C=0.0)
    model = config.build(data.shape, n_classes=10, n_rows=len(x))
    before = {name: value.clone() for name, value in model.classifier.state_dict().items()}
    store, reading = Store(x, y), Reading(data.scale)
    Trainer(model, Training(epochs=20, batch=100), device="cpu").fit(store, seed=0, reading=reading)
    assert all(torch.equal(value, before[name]) for name, value in model.classifier.state_dict().items())

    encoder = {name: value.clone() for name, value in model.encoder.state_dict().items()}
    state = torch.random.get_rng_state()
    fit_feature_svm(model, store, reading)
    assert torch.equal(torch.random.get_rng_state(), state)
    assert all(torch.equal(value, encoder[name]) for name, value in model.encoder.state_dict().items())

    seen = [part.astype(np.float32) / data.scale for part in (data.x_train, data.x_test)]
    ours = error_percent(model, seen[1], data.y_test)
    train, test = (model.embed(torch.from_numpy(part)).numpy() for part in seen)
    svm = LinearSVC(multi_class="crammer_singer", C=0.03, max_iter=100_000).fit(train, data.y_train)
    theirs = 100 * np.mean(svm.predict(test) != data.y_test)
    assert ours < theirs + 1.0  # 500 rows: a row is 0.2 points
    assert ours < 8


def test_unlabeled_rows_have_no_say():
    generator = torch.Generator().manual_seed(0)
    x = torch.randint(0, 17, (60, 1, 4, 4), dtype=torch.uint8, generator=generator)
    y = torch.arange(60) % 3
    classifiers = []
    for store in (Store(x, torch.where(torch.arange(60) < 40, y, -1)), Store(x[:40], y[:40])):
        torch.manual_seed(0)
        model = MaxMarginVAEConfig(hidden=(8,), z=2, C=0.0).build((1, 4, 4), n_classes=3, n_rows=40)
        fit_feature_svm(model, store, Reading(16.0))
        classifiers.append(model.classifier)
    assert torch.equal(classifiers[0].weight, classifiers[1].weight)
    assert torch.equal(classifiers[0].bias, classifiers[1].bias)
    assert classifiers[0].weight.any()
