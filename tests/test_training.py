"""The loop: resuming, stages, stopping, precision, many seeds with one trainer."""

import dataclasses
import functools
import os
import subprocess
import sys

import pytest
import torch

from mmdgm.data import datasets
from mmdgm.data.batches import Batches, Rows
from mmdgm.errors import InputError, TrainingStopped
from mmdgm.experiments.presets import PRESETS, find_preset
from mmdgm.files import read_tensors
from mmdgm.models import AveragedConditionalVAEConfig, MaxMarginConditionalVAEConfig, MaxMarginVAEConfig
from mmdgm.training.plan import ClassifierFirstTraining, PretrainedTraining, SemiSupervisedTraining, Training
from mmdgm.training.step import Objective
from mmdgm.training.trainer import Trainer, compiles_well, replaced_attributes

MMVA = MaxMarginVAEConfig(network="mlp", hidden=(16, 16), z=4, features="hidden", C=15.0, margin=3.0)
MMCVA = MaxMarginConditionalVAEConfig(z=4, straight_through=1e-3, straight_through_fades=True)
TWO_STAGES = PretrainedTraining(
    pretrain_epochs=2, epochs=3, batch=40, log_every=4, checkpoint_seconds=0.0, warmup_steps=3, weight_decay=1e-4
)
SEMI = SemiSupervisedTraining(epochs=3, batch=20, unlabeled_batch=40, log_every=3, checkpoint_seconds=0.0)
AVERAGED = AveragedConditionalVAEConfig(z=4, averaging=0.9, straight_through=1e-3, turn=10.0, shift=1.0)


def in_a_fresh_process(test):
    """Run a test where nothing was compiled before: after hundreds of other tests the compiler may fail."""

    @functools.wraps(test)
    def run():
        if os.environ.get("MMDGM_TEST_ALONE"):
            return test()
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"{__file__}::{test.__name__}"]
        alone = {**os.environ, "MMDGM_TEST_ALONE": "1"}
        done = subprocess.run(command, env=alone, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout[-3000:]

    return run


def build(config, seed=0):
    torch.manual_seed(seed)
    return config.build((1, 8, 8), n_classes=10, n_rows=200)


def digits(*, unlabeled=True, seed=0, training=TWO_STAGES):
    data = datasets.load("digits")
    x, y = torch.from_numpy(data.x_train), torch.from_numpy(data.y_train)
    return Batches(
        x[:200],
        y[:200],
        x[200:400] if unlabeled else x[:0],
        scale=data.scale,
        labeled_batch=training.batch,
        unlabeled_batch=getattr(training, "unlabeled_batch", 0),
        seed=seed,
        binarised=not unlabeled,
    )


def fit(config, training, *, seed=0, **more):
    model = build(config, seed)
    trainer = Trainer(model, training, device="cpu")
    summary = trainer.fit(
        digits(unlabeled=isinstance(training, SemiSupervisedTraining), seed=seed, training=training), **more
    )
    return model, summary


class Killed(Exception):
    pass


def kill_at(step):
    def listener(record):
        if record.step >= step:
            raise Killed

    return listener


def assert_same_weights(one, other):
    for name, value in one.state_dict().items():
        assert torch.equal(value, other.state_dict()[name]), name


@pytest.mark.parametrize(("config", "training"), [(MMVA, TWO_STAGES), (MMCVA, SEMI), (AVERAGED, SEMI)])
@pytest.mark.parametrize("step", [4, 10, 13])
def test_resumed_run_computes_the_same_numbers(tmp_path, config, training, step):
    whole_records, records = [], []
    whole, summary = fit(config, training, on_log=[whole_records.append])
    checkpoint = tmp_path / "checkpoint.safetensors"
    with pytest.raises(Killed):
        fit(config, training, checkpoint=checkpoint, on_log=[records.append, kill_at(step)])
    kept = read_tensors(checkpoint)[1]["total_step"] if checkpoint.exists() else 0
    assert kept < step <= summary.steps
    torch.manual_seed(99)  # nothing may hang on the process's own random state
    resumed, again = fit(config, training, checkpoint=checkpoint, resume=True, on_log=[records.append])
    assert_same_weights(whole, resumed)
    assert again.steps == summary.steps
    metrics = {record.step: record.metrics for record in records}
    assert metrics == {record.step: record.metrics for record in whole_records}


def test_same_seed_same_weights_other_seed_other_weights():
    first, _ = fit(MMVA, TWO_STAGES)
    assert_same_weights(first, fit(MMVA, TWO_STAGES)[0])
    other, _ = fit(MMVA, TWO_STAGES, seed=1)
    assert not torch.equal(first.classifier.weight, other.classifier.weight)


def test_one_trainer_for_many_seeds_equals_a_trainer_each():
    trainer = Trainer(build(MMVA, 0), TWO_STAGES, device="cpu")
    for seed in (0, 1):
        trainer.model.load_state_dict(build(MMVA, seed).state_dict())
        trainer.fit(digits(unlabeled=False, seed=seed))
        assert_same_weights(trainer.model, fit(MMVA, TWO_STAGES, seed=seed)[0])


def test_pretraining_leaves_the_classifier_alone_and_counts_epochs_over_stages():
    records = []
    before = build(MMVA).classifier.weight.clone()
    weights = []

    def watch(record):
        records.append(record)
        weights.append(model.classifier.weight.clone())

    model = build(MMVA)
    Trainer(model, TWO_STAGES, device="cpu").fit(digits(unlabeled=False), on_log=[watch])
    assert [(r.stage, r.step, r.epoch) for r in records] == [
        ("pretrain", 4, 0.8),
        ("pretrain", 8, 1.6),
        ("pretrain", 10, 2.0),
        ("train", 14, 2.8),
        ("train", 18, 3.6),
        ("train", 22, 4.4),
        ("train", 25, 5.0),
    ]
    assert torch.equal(weights[2], before)
    assert not torch.equal(weights[3], before)
    assert model.C == 15.0


def test_pretraining_of_0_epochs_is_skipped():
    stages = dataclasses.replace(TWO_STAGES, pretrain_epochs=0).stages()
    assert [stage.name for stage in stages] == ["train"]


def test_training_lowers_the_loss_and_follows_the_schedule():
    records = []
    training = dataclasses.replace(TWO_STAGES, pretrain_epochs=0, epochs=120, learning_rate=1e-2)
    fit(MMVA, training, on_log=[records.append])
    assert records[-1].metrics["loss"] < 0.8 * records[0].metrics["loss"]
    assert records[-1].metrics["hinge"] < 1.5 < records[0].metrics["hinge"]
    assert records[0].learning_rate == pytest.approx(1e-2, rel=0.01)
    assert records[-1].learning_rate < 1e-4


def test_the_model_is_told_how_much_of_a_stage_is_left():
    model, seen = build(MMVA), []
    model.register_forward_hook(lambda *_: seen.append(model.left.item()))
    Trainer(model, TWO_STAGES, device="cpu").fit(digits(unlabeled=False))
    stages = ([1 - step / total for step in range(total)] for total in (10, 15))
    assert seen == pytest.approx([left for stage in stages for left in stage])
    assert model.left == 1  # as in a new model
    assert "left" not in model.state_dict()


def test_bf16_follows_float32():
    losses = []
    for precision in ("32-true", "bf16-mixed"):
        records = []
        fit(MMCVA, dataclasses.replace(SEMI, precision=precision), on_log=[records.append])
        losses.append([record.metrics["loss"] for record in records])
    assert losses[0] != losses[1]
    assert losses[1] == pytest.approx(losses[0], rel=0.05)


def test_weight_decay_shrinks_weights_but_not_biases():
    norms = []
    training = dataclasses.replace(TWO_STAGES, pretrain_epochs=0, epochs=10, learning_rate=1e-2)
    for decay in (0.0, 1e4):
        model, _ = fit(MMVA, dataclasses.replace(training, weight_decay=decay))
        norms.append((model.decoder.out.weight.norm().item(), model.decoder.out.bias.norm().item()))
    assert norms[1][0] < 0.7 * norms[0][0]
    assert norms[1][1] > 0.7 * norms[0][1]


def test_nan_stops_the_run_and_keeps_the_last_good_checkpoint(tmp_path):
    checkpoint = tmp_path / "checkpoint.safetensors"
    model = build(MMVA)

    def spoil(record):
        if record.step == 14:
            model.encoder.stack.layers[0].weight.data[0, 0] = float("nan")

    trainer = Trainer(model, TWO_STAGES, device="cpu")
    with pytest.raises(TrainingStopped) as stopped:
        trainer.fit(digits(unlabeled=False), checkpoint=checkpoint, on_log=[spoil])
    message = str(stopped.value)
    assert "stopped at step 18: loss, elbo, kl, hinge" in message
    assert f"the last good checkpoint, step 10, is kept in {checkpoint}" in message
    assert "\n" not in message
    assert read_tensors(checkpoint)[1]["total_step"] == 10


def test_a_dead_objective_stops_the_run(tmp_path):
    # a rate so small that the classifier stays where it starts: all classes alike
    training = Training(epochs=40, batch=40, learning_rate=1e-12, log_every=5, patience=20)
    model = build(MMVA)
    torch.nn.init.zeros_(model.classifier.weight)
    with pytest.raises(TrainingStopped, match="at step 20: for 20 steps the classifier scores all classes alike"):
        Trainer(model, training, device="cpu").fit(digits(unlabeled=False))
    checkpoint = tmp_path / "checkpoint.safetensors"
    eager = dataclasses.replace(training, checkpoint_seconds=0.0)
    with pytest.raises(TrainingStopped) as stopped:
        Trainer(model, eager, device="cpu").fit(digits(unlabeled=False), checkpoint=checkpoint)
    assert "last good checkpoint" not in str(stopped.value)
    assert not checkpoint.exists()  # a dead state is no good checkpoint
    for_ever = dataclasses.replace(training, patience=0)
    assert Trainer(model, for_ever, device="cpu").fit(digits(unlabeled=False)).steps == 200


def test_a_weight_that_breaks_in_the_last_step_stops_the_run():
    training = Training(epochs=1, batch=200, learning_rate=1e38, schedule="constant", log_every=1)
    with pytest.raises(TrainingStopped, match="a weight became infinite or no number"):
        fit(MMVA, training)


def test_no_rows_are_refused():
    batches = digits(unlabeled=False)
    empty = Batches(
        batches.store.x[:0],
        batches.store.y[:0],
        batches.store.x[:0],
        scale=16.0,
        labeled_batch=5,
        unlabeled_batch=5,
        seed=0,
    )
    with pytest.raises(InputError, match="no rows"):
        Trainer(build(MMVA), Training(), device="cpu").fit(empty)


def test_replaced_attributes_come_back_after_an_error():
    model = build(MMVA)
    seen = []

    def fail():
        seen.append(model.C)
        raise Killed

    with pytest.raises(Killed), replaced_attributes(model, {"C": 0.0}):
        fail()
    assert (seen, model.C) == ([0.0], 15.0)


@pytest.mark.slow
@in_a_fresh_process
def test_compiled_seeds_share_one_compilation_and_follow_the_plain_run():
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    training = dataclasses.replace(TWO_STAGES, pretrain_epochs=0)
    plain, compiled = [], []
    trainer = Trainer(build(MMVA), dataclasses.replace(training, execution="compiled"), device="cpu")
    for seed in (0, 1, 2):
        fit(MMVA, training, seed=seed, on_log=[plain.append])
        trainer.model.load_state_dict(build(MMVA, seed).state_dict())
        trainer.fit(digits(unlabeled=False, seed=seed), on_log=[compiled.append])
        if seed == 0:
            graphs = torch._dynamo.utils.counters["stats"]["unique_graphs"]
    assert graphs >= 1
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == graphs
    assert [r.metrics["loss"] for r in compiled] == pytest.approx([r.metrics["loss"] for r in plain], rel=1e-4)


def test_auto_executes_as_pays():
    batches = digits(unlabeled=False)
    long = dataclasses.replace(TWO_STAGES, epochs=2000)
    execution = {
        (name, epochs): Trainer(build(config), training, device="cpu", runs=runs).execution(batches)
        for name, config in (("mlp", MMVA), ("conv", MMCVA))
        for epochs, training, runs in (("short", TWO_STAGES, 1), ("long", long, 1), ("many", TWO_STAGES, 400))
    }
    compiled = "compiled" if compiles_well(build(MMVA)) else "plain"  # without a C++ compiler there is no choice
    assert execution == {
        ("mlp", "short"): "plain",
        ("mlp", "long"): compiled,
        ("mlp", "many"): compiled,
        ("conv", "short"): "plain",
        ("conv", "long"): "plain",
        ("conv", "many"): "plain",
    }


def test_capturing_is_refused_without_a_gpu():
    training = dataclasses.replace(TWO_STAGES, execution="captured")
    with pytest.raises(InputError, match="steps are captured on a single GPU only; use auto"):
        fit(MMVA, training)


def test_a_failed_compilation_falls_back_with_one_line(monkeypatch, caplog):
    def broken(*args, **options):
        raise RuntimeError("no compiler\nand much more")

    monkeypatch.setattr(torch, "compile", broken)
    model, summary = fit(MMVA, dataclasses.replace(TWO_STAGES, execution="compiled"))
    assert summary.execution == "plain"
    assert [record.getMessage() for record in caplog.records if record.levelname == "WARNING"] == [
        "mmdgm: a compiled step failed (RuntimeError: no compiler); going on plain"
    ]
    assert_same_weights(model, fit(MMVA, TWO_STAGES)[0])


@pytest.mark.parametrize("preset", [preset.name for preset in PRESETS])
def test_every_preset_is_traced_in_one_graph_with_all_its_gradients(preset):
    torch._dynamo.reset()  # what other tests have compiled counts towards a limit
    config = find_preset(preset).config
    shape = {"digits": (1, 8, 8), "svhn": (3, 32, 32), "norb": (1, 32, 32)}.get(config.data.dataset, (1, 28, 28))
    x = torch.randint(0, 16, (20, *shape), dtype=torch.uint8)
    unlabeled = isinstance(config.training, SemiSupervisedTraining)
    batches = Batches(
        x,
        torch.arange(20) % 10,
        x if unlabeled else x[:0],
        scale=16.0,
        labeled_batch=10,
        unlabeled_batch=10 if unlabeled else 0,
        seed=0,
        binarised=config.data.binarised,
    )
    objective = Objective(config.model.build(shape, n_classes=10, n_rows=20))
    objective.reads(batches)
    labeled, others = batches.rows(range(1))
    traced = torch.compile(objective, backend="eager", fullgraph=True)  # raises where the graph breaks
    trained = [parameter for parameter in objective.parameters() if parameter.requires_grad]
    state = {name: value.clone() for name, value in objective.state_dict().items()}
    gradients = []
    for module in (objective, traced):
        objective.load_state_dict(state)
        torch.manual_seed(0)
        loss = module(batches.store, Rows(labeled[0], others[0])).loss
        gradients.append(torch.autograd.grad(loss, trained, allow_unused=True))
    for parameter, plain, of_traced in zip(trained, *gradients, strict=True):
        zero = torch.zeros_like(parameter)
        torch.testing.assert_close(
            zero if of_traced is None else of_traced, zero if plain is None else plain, rtol=1e-3, atol=1e-6
        )


@pytest.mark.slow
@in_a_fresh_process
def test_compiled_conditional_model_is_the_plain_one():
    # in float64: in float32 a putative label near a tie flips with the last bit, and changes what follows
    training = dataclasses.replace(SEMI, epochs=4)
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        curves = []
        for execution in ("plain", "compiled"):
            records = []
            model = build(MaxMarginConditionalVAEConfig(z=4, straight_through=1e-2))
            trainer = Trainer(model, dataclasses.replace(training, execution=execution), device="cpu")
            summary = trainer.fit(digits(training=SEMI), on_log=[records.append])
            assert (summary.execution, summary.steps) == (execution, 20)
            curves.append([record.metrics for record in records])
    finally:
        torch.set_default_dtype(before)
    for plain, compiled in zip(*curves, strict=True):
        assert compiled == pytest.approx(plain, rel=1e-6)


def test_the_classifier_is_trained_first_without_bound_and_dropout():
    torch.manual_seed(0)
    model = MaxMarginVAEConfig(network="conv", z=4, C=100.0, dropout=0.4).build((1, 8, 8), n_classes=10, n_rows=1)
    seen = []
    stack = model.encoder.stack
    stack.register_forward_hook(lambda *_: seen.append((model.generative_weight, model.encoder.dropout)))
    decoder = {name: value.clone() for name, value in model.decoder.state_dict().items()}
    kept = []

    def keep(record):
        if record.stage == "classifier":
            kept.append(
                all(torch.equal(value, decoder[name]) for name, value in model.decoder.state_dict().items())
            )

    batches = digits(unlabeled=False)
    training = ClassifierFirstTraining(
        classifier_epochs=1, epochs=1, batch=batches.labeled.batch_size, log_every=1
    )
    Trainer(model, training, device="cpu").fit(batches, on_log=[keep])
    half = batches.steps_per_epoch
    assert seen == [(0.0, 0.0)] * half + [(1.0, 0.4)] * half
    assert kept == [True] * half
    assert (model.generative_weight, stack.dropout) == (1.0, 0.4)
