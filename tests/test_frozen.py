"""VA+Pegasos: the classifier of a model that was trained without one."""

import numpy as np
import pytest
import torch
from sklearn.svm import LinearSVC

from mmdgm.data import datasets
from mmdgm.data.batches import Batches
from mmdgm.inference.evaluation import error_percent
from mmdgm.inference.frozen import fit_frozen_classifier
from mmdgm.models import MaxMarginVAEConfig
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
    batches = Batches(x, y, x[:0], scale=data.scale, labeled_batch=100, unlabeled_batch=0, seed=0)
    Trainer(model, Training(epochs=20), device="cpu").fit(batches)
    assert all(torch.equal(value, before[name]) for name, value in model.classifier.state_dict().items())

    encoder = {name: value.clone() for name, value in model.encoder.state_dict().items()}
    state = torch.random.get_rng_state()
    fit_frozen_classifier(model, data.x_train, data.y_train, scale=data.scale)
    assert torch.equal(torch.random.get_rng_state(), state)
    assert all(torch.equal(value, encoder[name]) for name, value in model.encoder.state_dict().items())

    ours = error_percent(model, data.x_test, data.y_test, scale=data.scale)
    train, test = (
        model.embed(torch.from_numpy(part).float() / data.scale).numpy() for part in (data.x_train, data.x_test)
    )
    svm = LinearSVC(multi_class="crammer_singer", C=0.03, max_iter=100_000).fit(train, data.y_train)
    theirs = 100 * np.mean(svm.predict(test) != data.y_test)
    assert ours < theirs + 1.0  # 500 rows: a row is 0.2 points
    assert ours < 8
