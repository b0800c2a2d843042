"""What only a GPU can show: captured and compiled steps, resuming, seeds that share one graph, imputation."""

import dataclasses
import logging

import numpy as np
import pytest
import torch

from mmdgm.data import datasets
from mmdgm.data.batches import Batches
from mmdgm.inference.evaluation import inference
from mmdgm.inference.imputation import impute
from mmdgm.models import AveragedConditionalVAEConfig, MaxMarginConditionalVAEConfig, MaxMarginVAEConfig
from mmdgm.propagation.deformation import bent_distance, gradients
from mmdgm.propagation.graph import handwriting_graph
from mmdgm.training.plan import SemiSupervisedTraining, Training
from mmdgm.training.trainer import Trainer

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")

CONFIGS = {
    "MMVA": MaxMarginVAEConfig(network="mlp", hidden=(32, 16), z=8, features="hidden", C=15.0, margin=3.0),
    "Conv-MMVA": MaxMarginVAEConfig(network="conv", C=100.0),
    "Conv-MMCVA": MaxMarginConditionalVAEConfig(z=8, hat_weight=0.0, balance_weight=0.0),
}
TRAINING = Training(epochs=4, batch=200, log_every=1, precision="32-true", checkpoint_seconds=0.0)


@pytest.fixture(autouse=True, name="no_tf32")
def make_no_tf32(monkeypatch):
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)


def build(config, seed=0):
    torch.manual_seed(seed)
    return config.build((1, 8, 8), n_classes=10, n_rows=1000)


def digits(*, seed=0, unlabeled=0):
    data = datasets.load("digits")
    x, y = torch.from_numpy(data.x_train).cuda(), torch.from_numpy(data.y_train).cuda()
    return Batches(
        x[:1000],
        y[:1000],
        x[1000 : 1000 + unlabeled],
        scale=data.scale,
        labeled_batch=200,
        unlabeled_batch=unlabeled,
        seed=seed,
        binarised=True,
    )


def losses(model, training, batches, **more):
    records = []
    trainer = Trainer(model, training, device="cuda")
    summary = trainer.fit(batches, on_log=[records.append], **more)
    return [record.metrics["loss"] for record in records], summary


@pytest.mark.parametrize("execution", ["captured", "compiled+captured"])
@pytest.mark.parametrize("name", CONFIGS)
def test_fast_executions_follow_the_plain_one(name, execution):
    plain, summary = losses(build(CONFIGS[name]), dataclasses.replace(TRAINING, execution="plain"), digits())
    assert summary.execution == "plain"
    fast, summary = losses(build(CONFIGS[name]), dataclasses.replace(TRAINING, execution=execution), digits())
    assert summary.execution == execution  # it did not fall back
    assert len(plain) == 20
    assert fast == pytest.approx(plain, rel=1e-4)


@pytest.mark.parametrize("execution", ["captured", "compiled+captured"])
def test_an_averaged_model_begins_as_the_plain_one(execution):
    """Later a guess near a tie flips with the last bit, and changes what follows."""
    distortion = {"turn": 10.0, "shift": 1.0, "bend": 0.5, "fading": 0.5}
    config = AveragedConditionalVAEConfig(z=8, averaging=0.9, straight_through=1e-3, **distortion)
    settings = {"epochs": 8, "unlabeled_batch": 400, "log_every": 1, "precision": "32-true"}
    curves = []
    for how in ("plain", execution):
        training = SemiSupervisedTraining(batch=200, execution=how, **settings)
        curve, summary = losses(build(config), training, digits(unlabeled=400))
        assert summary.execution == how
        curves.append(curve)
    assert len(curves[0]) == 8
    assert curves[1][:3] == pytest.approx(curves[0][:3], rel=1e-3)


def test_seeds_share_a_graph_and_compute_what_each_would_alone():
    training = dataclasses.replace(TRAINING, execution="captured", log_every=7)
    shared = Trainer(build(CONFIGS["MMVA"]), training, device="cuda")
    for seed in (0, 1):
        shared.model.load_state_dict(build(CONFIGS["MMVA"], seed).state_dict())
        records = []
        shared.fit(digits(seed=seed), on_log=[records.append])
        alone, _ = losses(build(CONFIGS["MMVA"], seed), training, digits(seed=seed))
        assert [record.metrics["loss"] for record in records] == pytest.approx(alone, rel=1e-6)


def test_a_resumed_run_goes_on_as_it_would_have(tmp_path):
    training = dataclasses.replace(TRAINING, execution="captured", log_every=5)
    whole, _ = losses(build(CONFIGS["MMVA"]), training, digits())
    checkpoint = tmp_path / "checkpoint.safetensors"

    def stop(record):
        if record.step == 15:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Trainer(build(CONFIGS["MMVA"]), training, device="cuda").fit(
            digits(), checkpoint=checkpoint, on_log=[stop]
        )
    torch.manual_seed(99)
    rest, _ = losses(build(CONFIGS["MMVA"], seed=5), training, digits(), checkpoint=checkpoint, resume=True)
    assert rest == pytest.approx(whole[2:], rel=1e-6)


def test_a_model_that_cannot_be_captured_is_trained_all_the_same(caplog):
    class Syncing(type(build(CONFIGS["MMVA"]))):
        def forward(self, batch):
            terms = super().forward(batch)
            assert terms.loss.item() < 1e9  # reads from the device
            return terms

    model = build(CONFIGS["MMVA"])
    model.__class__ = Syncing
    with caplog.at_level(logging.WARNING, logger="mmdgm"):
        curve, summary = losses(model, dataclasses.replace(TRAINING, execution="captured"), digits())
    assert summary.execution == "plain"
    plain, _ = losses(build(CONFIGS["MMVA"]), dataclasses.replace(TRAINING, execution="plain"), digits())
    assert curve == pytest.approx(plain, rel=1e-5)
    (message,) = [record.getMessage() for record in caplog.records if record.name == "mmdgm"]
    assert "a captured step failed" in message
    assert "\n" not in message


def test_bf16_is_the_default_and_follows_float32():
    semi = SemiSupervisedTraining(epochs=3, batch=200, unlabeled_batch=100, log_every=3, execution="captured")
    curves = [
        losses(
            build(MaxMarginConditionalVAEConfig(z=8)),
            dataclasses.replace(semi, precision=p),
            digits(unlabeled=100),
        )
        for p in ("32-true", "auto")
    ]
    (exact, _), (short, _) = curves
    assert exact != short
    assert short == pytest.approx(exact, rel=0.05)


def test_captured_imputation_is_the_plain_one():
    model = build(CONFIGS["Conv-MMVA"]).cuda().eval()
    x = np.random.default_rng(0).random((50, 1, 8, 8), np.float32)
    missing = np.random.default_rng(1).random(x.shape) < 0.4
    filled = impute(model, x, missing, rounds=5, seed=3)
    with inference(model, seed=3):
        hole, observed = torch.from_numpy(missing).cuda(), torch.from_numpy(x).cuda()
        current = torch.where(hole, torch.rand_like(observed), observed)
        for _ in range(5):
            current = torch.where(hole, model.reconstruct(current), observed)
    np.testing.assert_allclose(filled, current.cpu().numpy(), atol=1e-5)


def test_neighbours_are_those_of_the_cpu():
    x = torch.from_numpy(datasets.load("digits").x_train[:600]).float() / 16
    x = torch.nn.functional.interpolate(x, scale_factor=2, mode="bilinear")
    slopes = gradients(x)
    pairs = slopes[:300], slopes[300:]
    torch.testing.assert_close(
        bent_distance(*(part.cuda() for part in pairs)).cpu(), bent_distance(*pairs), rtol=1e-4, atol=1e-4
    )
    here, there = (handwriting_graph(images).toarray() for images in (x, x.cuda()))
    assert ((here > 0) == (there > 0)).mean() > 0.999  # but where two are equally far
