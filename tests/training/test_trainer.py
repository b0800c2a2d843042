"""The loop: resuming, stages, stopping, precision, many seeds with one trainer."""

import dataclasses
import functools
import os
import subprocess
import sys

import pytest
import torch

from mmdgm.data import datasets
from mmdgm.data.appearance import Appearance
from mmdgm.data.augmentation import Distortion
from mmdgm.data.batches import Batches, Reading, Store
from mmdgm.errors import InputError, TrainingStopped
from mmdgm.experiments.presets import PRESETS, find_preset
from mmdgm.files import read_tensors
from mmdgm.models import MarginalConditionalVAEConfig, MaxMarginConditionalVAEConfig, MaxMarginVAEConfig, VAEConfig
from mmdgm.training import trainer as trainer_module
from mmdgm.training.loop import checkpoint_step
from mmdgm.training.plan import (
    ClassifierFirstTraining,
    PretrainedTraining,
    SemiSupervisedTraining,
    Stage,
    StagedTraining,
    Training,
)
from mmdgm.training.step import Objective
from mmdgm.training.trainer import Trainer, compiles_well

MMVA = MaxMarginVAEConfig(network="mlp", hidden=(16, 16), z=4, features="hidden", C=15.0, margin=3.0)
MMCVA = MaxMarginConditionalVAEConfig(z=4, straight_through=1e-3, straight_through_fades=True)
TWO_STAGES = PretrainedTraining(
    pretrain_epochs=2, epochs=3, batch=40, log_every=4, checkpoint_seconds=0.0, warmup_steps=3, weight_decay=1e-4
)
SEMI = SemiSupervisedTraining(epochs=3, batch=20, unlabeled_batch=40, log_every=3, checkpoint_seconds=0.0)
AVERAGED = MaxMarginConditionalVAEConfig(
    z=4, averaging=0.9, straight_through=1e-3, distortion=Distortion(turn=10.0, shift=1.0)
)
MODERN = dataclasses.replace(
    AVERAGED,
    classifier="fast",
    standardise=True,
    smoothing=0.3,
    weak_shift=1.0,
    accept=0.1,
    bound_share=0.25,
    appearance=Appearance(contrast=0.5, brightness=0.3, invert=0.5, blur=1.0, cutout=4),
)
DECOUPLED = dataclasses.replace(SEMI, weight_decay=1e-2, decoupled_decay=True, beta2=0.99)
M2 = MarginalConditionalVAEConfig(network="mlp", hidden=(16, 16), z=4, averaging=0.9)
READING = Reading(scale=16.0)
BINARISED = Reading(scale=16.0, binarised=True)


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


def digits(*, unlabeled=True, guess=False):
    """200 labeled digits, and 200 unlabeled ones, in one order or the other."""
    data = datasets.load("digits")
    x, y = torch.from_numpy(data.x_train[:400]), torch.from_numpy(data.y_train[:400])
    if not unlabeled:
        return Store(x[:200], y[:200])
    given = torch.where(torch.arange(400) < 200, y, -1)
    order = torch.randperm(400, generator=torch.Generator().manual_seed(0))
    return Store(x[order], given[order], guess=y[order] if guess else None)


def rows_of(training):
    """The rows that a training is for, and how they are read."""
    semi = isinstance(training, SemiSupervisedTraining)
    return digits(unlabeled=semi), READING if semi else BINARISED


def fit(config, training, *, seed=0, **more):
    model = build(config, seed)
    store, reading = rows_of(training)
    return model, Trainer(model, training, device="cpu").fit(store, seed=seed, reading=reading, **more)


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


@pytest.mark.parametrize(
    ("config", "training"),
    [(MMVA, TWO_STAGES), (MMCVA, SEMI), (AVERAGED, SEMI), (MODERN, DECOUPLED), (M2, SEMI)],
)
@pytest.mark.parametrize("step", [4, 10, 13])
def test_resumed_run_computes_the_same_numbers(tmp_path, config, training, step):
    whole_records, records = [], []
    whole, summary = fit(config, training, on_log=[whole_records.append])
    checkpoint = tmp_path / "checkpoint.safetensors"
    with pytest.raises(Killed):
        fit(config, training, checkpoint=checkpoint, on_log=[records.append, kill_at(step)])
    assert checkpoint_step(checkpoint) < step <= summary.steps
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
        trainer.fit(digits(unlabeled=False), seed=seed, reading=BINARISED)
        assert_same_weights(trainer.model, fit(MMVA, TWO_STAGES, seed=seed)[0])


def test_pretraining_leaves_the_classifier_alone_and_counts_epochs_over_stages():
    records = []
    before = build(MMVA).classifier.weight.clone()
    weights = []

    def watch(record):
        records.append(record)
        weights.append(model.classifier.weight.clone())

    model = build(MMVA)
    Trainer(model, TWO_STAGES, device="cpu").fit(digits(unlabeled=False), seed=0, reading=BINARISED, on_log=[watch])
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
    assert model.settings.C == 15.0


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


def test_the_objective_is_told_how_much_of_a_stage_is_done():
    model, seen = build(MMVA), []
    model.register_forward_pre_hook(lambda _, args, more: seen.append(more), with_kwargs=True)
    Trainer(model, TWO_STAGES, device="cpu").fit(digits(unlabeled=False), seed=0, reading=BINARISED)
    assert [more["progress"].item() for more in seen] == [step / total for total in (10, 15) for step in range(total)]
    assert all(more["progress"].dtype == torch.float64 for more in seen)
    assert [more["settings"].C for more in seen] == [0.0] * 10 + [15.0] * 15
    assert model.settings is MMVA


def test_bf16_follows_float32():
    losses = []
    for precision in ("32-true", "bf16-mixed"):
        records = []
        fit(MMCVA, dataclasses.replace(SEMI, precision=precision), on_log=[records.append])
        losses.append([record.metrics["loss"] for record in records])
    assert losses[0] != losses[1]
    assert losses[1] == pytest.approx(losses[0], rel=0.05)


@pytest.mark.parametrize(("training", "kind"), [(SEMI, torch.optim.Adam), (DECOUPLED, torch.optim.AdamW)])
def test_the_optimizer_is_the_one_that_the_training_says(monkeypatch, training, kind):
    made = []
    make_adam = trainer_module.make_adam
    monkeypatch.setattr(
        trainer_module, "make_adam", lambda *args, **more: made.append(make_adam(*args, **more)) or made[-1]
    )
    fit(MMCVA, dataclasses.replace(training, epochs=1))
    (adam,) = made
    assert type(adam) is kind
    for group in adam.param_groups:
        assert group["betas"] == (0.9, training.beta2)
    assert max(group["weight_decay"] for group in adam.param_groups) == training.weight_decay


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
        trainer.fit(digits(unlabeled=False), seed=0, reading=BINARISED, checkpoint=checkpoint, on_log=[spoil])
    message = str(stopped.value)
    for words in ("step 18", "loss, elbo, kl, hinge", "step 10", str(checkpoint)):
        assert words in message
    assert "\n" not in message
    assert checkpoint_step(checkpoint) == 10


def test_a_dead_objective_stops_the_run(tmp_path):
    # a rate so small that the classifier stays where it starts: all classes alike
    training = Training(epochs=40, batch=40, learning_rate=1e-12, log_every=5, patience=20)
    model = build(MMVA)
    torch.nn.init.zeros_(model.classifier.weight)
    with pytest.raises(TrainingStopped, match=r"step 20: for 20 steps .* alike"):
        Trainer(model, training, device="cpu").fit(digits(unlabeled=False), seed=0, reading=READING)
    checkpoint = tmp_path / "checkpoint.safetensors"
    eager = dataclasses.replace(training, checkpoint_seconds=0.0)
    with pytest.raises(TrainingStopped) as stopped:
        Trainer(model, eager, device="cpu").fit(
            digits(unlabeled=False), seed=0, reading=READING, checkpoint=checkpoint
        )
    assert str(checkpoint) not in str(stopped.value)
    assert not checkpoint.exists()  # a dead state is no good checkpoint
    for_ever = dataclasses.replace(training, patience=0)
    assert Trainer(model, for_ever, device="cpu").fit(digits(unlabeled=False), seed=0, reading=READING).steps == 200


def test_a_weight_that_breaks_in_the_last_step_stops_the_run():
    training = Training(epochs=1, batch=200, learning_rate=1e38, schedule="constant", log_every=1)
    with pytest.raises(TrainingStopped, match="weight"):
        fit(MMVA, training)


def test_no_rows_are_refused():
    store = digits(unlabeled=False)
    with pytest.raises(InputError, match="no rows"):
        Trainer(build(MMVA), Training(), device="cpu").fit(Store(store.x[:0], store.y[:0]), seed=0)


def test_stages_of_propagated_labels_want_some():
    training = StagedTraining(planned=(stage("first", labels="propagated"),))
    with pytest.raises(InputError, match="propagated"):
        Trainer(build(MMVA), training, device="cpu").fit(digits(), seed=0, reading=READING)


def test_a_stage_cannot_change_what_is_no_setting():
    training = StagedTraining(planned=(stage("first", changes={"nothing": 1}),))
    with pytest.raises(TypeError, match="nothing"):
        Trainer(build(MMVA), training, device="cpu").fit(digits(), seed=0, reading=READING)


def test_without_a_labeled_row_a_model_trains_on_the_bound():
    store = digits()
    store = store._replace(y=torch.full_like(store.y, -1))
    for config in (MMVA, dataclasses.replace(MMVA, C=0.0), MMCVA, M2):
        model, records = build(config), []
        before = {name: value.clone() for name, value in model.decoder.state_dict().items()}
        summary = Trainer(model, dataclasses.replace(SEMI, epochs=1), device="cpu").fit(
            store, seed=0, reading=READING, on_log=[records.append]
        )
        assert summary.steps == 10  # 400 rows, 40 at a time
        assert all(record.metrics.get("hinge", 0) == record.metrics.get("balance", 0) == 0 for record in records)
        assert all(not torch.equal(value, before[name]) for name, value in model.decoder.state_dict().items())


# --- stages that go by other labels ----------------------------------------------------------------------


def stage(name, **changes):
    values = {"epochs": 2, "learning_rate": 1e-3, "batch": 20, "unlabeled_batch": 40, "warmup_steps": 2}
    return Stage(name=name, **values | {"log_every": 4} | changes)


BY_LABELS = (
    stage("propagated", labels="propagated", batch=50),
    stage("labels", changes={"hat_weight": 0.5, "alpha": 0.3}),
)
STAGED = StagedTraining(planned=BY_LABELS, checkpoint_seconds=0.0, weight_decay=1e-4, patience=0)


@pytest.mark.parametrize("config", [MMCVA, AVERAGED, M2])
def test_two_stages_are_two_fits_one_after_the_other(config):
    """Each counts its own steps, since it has its own rows; the optimizer begins anew."""
    planned = BY_LABELS if config is not M2 else (BY_LABELS[0], stage("labels", changes={"alpha": 0.3}))
    store, records = digits(guess=True), []
    whole = build(config)
    trainer = Trainer(whole, dataclasses.replace(STAGED, planned=planned), device="cpu")
    summary = trainer.fit(store, seed=3, reading=READING, on_log=[records.append])
    assert (summary.steps, summary.epochs, summary.planned_epochs) == (16 + 10, 4, 4)
    parts, apart = build(config), []
    as_given = Store(store.x, store.labels("propagated"))
    for one, rows in ((dataclasses.replace(planned[0], labels="given"), as_given), (planned[1], store)):
        training = dataclasses.replace(STAGED, planned=(one,))
        Trainer(parts, training, device="cpu").fit(rows, seed=3, reading=READING, on_log=[apart.append])
    assert_same_weights(whole, parts)
    assert [r.metrics for r in records] == [r.metrics for r in apart]
    assert torch.equal(trainer.store.y, store.y)


def test_stages_of_the_same_labels_count_their_steps_on():
    planned = (*BY_LABELS, stage("again", labels="propagated", batch=50), stage("more", epochs=1))
    trainer = Trainer(build(MMCVA), dataclasses.replace(STAGED, planned=planned), device="cpu")
    parts = trainer.parts(digits(guess=True), seed=0)
    assert [part.batches.sizes for part in parts] == [(50, 0), (20, 40), (50, 0), (20, 40)]
    assert [(part.steps, part.first) for part in parts] == [(16, 0), (10, 0), (16, 16), (5, 10)]
    assert [part.settings.alpha for part in parts] == [0.1, 0.3, 0.1, 0.1]


@pytest.mark.parametrize("step", [8, 16, 20, 24])
def test_a_run_resumed_in_a_later_stage_computes_the_same_numbers(tmp_path, step):
    checkpoint, store = tmp_path / "checkpoint.safetensors", digits(guess=True)
    whole, resumed, records = build(AVERAGED), build(AVERAGED), []
    Trainer(whole, STAGED, device="cpu").fit(store, seed=3, reading=READING)
    with pytest.raises(Killed):
        Trainer(resumed, STAGED, device="cpu").fit(
            store, seed=3, reading=READING, checkpoint=checkpoint, on_log=[kill_at(step)]
        )
    resumed = build(AVERAGED, seed=5)
    torch.manual_seed(99)
    Trainer(resumed, STAGED, device="cpu").fit(
        store, seed=3, reading=READING, checkpoint=checkpoint, resume=True, on_log=[records.append]
    )
    assert_same_weights(whole, resumed)
    assert [record.step for record in records] == [at for at in (4, 8, 12, 16, 20, 24, 26) if at >= step]


def with_holes():
    store = digits(guess=True)
    x = store.x.float() / 16
    observed = torch.rand(x.shape, generator=torch.Generator().manual_seed(1)) < 0.7
    return Store(torch.where(observed, x, 0.5), store.y, observed, store.guess)


def revising(model):
    """What an estimator does: fill in what is missing by the model as it is."""

    def revise(store):
        model.eval()
        store.x.copy_(torch.where(store.observed, store.x, model.reconstruct(store.x)))
        model.train()

    return revise


@pytest.mark.parametrize("step", [8, 16, 20, 24])
def test_a_resumed_run_goes_on_with_the_values_that_were_filled_in(tmp_path, step):
    checkpoint, store = tmp_path / "checkpoint.safetensors", with_holes()
    config = MaxMarginConditionalVAEConfig(network="mlp", hidden=(16, 16), z=4)

    def run(model, **more):
        trainer = Trainer(model, STAGED, device="cpu")
        trainer.fit(store, seed=3, revise=revising(model), **more)
        return trainer.store.x

    whole, killed, resumed = (build(config) for _ in range(3))
    filled = run(whole)
    assert not torch.equal(filled, store.x)
    assert torch.equal(filled[store.observed], store.x[store.observed])
    with pytest.raises(Killed):
        run(killed, checkpoint=checkpoint, on_log=[kill_at(step)])
    kept = read_tensors(checkpoint)[0]["store/x"]
    assert not torch.equal(kept, store.x)
    assert torch.equal(kept[store.observed], store.x[store.observed])
    torch.manual_seed(99)
    assert torch.equal(run(resumed, checkpoint=checkpoint, resume=True), filled)
    assert_same_weights(whole, resumed)


def test_the_store_is_copied_and_values_are_saved_only_where_they_change(tmp_path):
    store, checkpoint = with_holes(), tmp_path / "checkpoint.safetensors"
    before = store.x.clone()
    model = build(MMCVA)
    Trainer(model, STAGED, device="cpu").fit(store, seed=0, revise=revising(model))
    assert torch.equal(store.x, before)
    Trainer(build(MMCVA), STAGED, device="cpu").fit(store, seed=0, checkpoint=checkpoint)
    assert not any(name.startswith("store/") for name in read_tensors(checkpoint)[0])


def test_one_trainer_for_many_seeds_of_staged_labels_equals_a_trainer_each():
    one, other = digits(guess=True), digits(guess=True)
    other = other._replace(guess=other.guess.flip(0), y=other.y)
    trainer = Trainer(build(MMCVA), STAGED, device="cpu")
    for seed, store in ((0, one), (1, other), (2, one)):
        trainer.model.load_state_dict(build(MMCVA, seed).state_dict())
        trainer.fit(store, seed=seed, reading=READING)
        alone = build(MMCVA, seed)
        Trainer(alone, STAGED, device="cpu").fit(store, seed=seed, reading=READING)
        assert_same_weights(trainer.model, alone)


def test_training_ends_where_a_listener_or_the_clock_says_so():
    def stop(record):
        if record.step == 20:
            raise StopIteration

    summary = Trainer(build(MMCVA), STAGED, device="cpu").fit(
        digits(guess=True), seed=0, reading=READING, on_log=[stop]
    )
    assert (summary.steps, summary.epochs, summary.planned_epochs) == (20, 2, 4)
    calls, records = [], []
    summary = Trainer(build(MMCVA), STAGED, device="cpu", stride=3).fit(
        digits(guess=True),
        seed=0,
        reading=READING,
        is_over=lambda: calls.append(0) or len(calls) >= 9,
        on_log=[records.append],
    )
    # on a CPU asked after every step, after every stride and after the log line: over in the middle of an interval
    assert [record.step for record in records] == [4, 6]
    assert summary.steps == 6


# --- executions ------------------------------------------------------------------------------------------


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
        trainer.fit(digits(unlabeled=False), seed=seed, reading=BINARISED, on_log=[compiled.append])
        if seed == 0:
            graphs = torch._dynamo.utils.counters["stats"]["unique_graphs"]
    assert graphs >= 1
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == graphs
    assert [r.metrics["loss"] for r in compiled] == pytest.approx([r.metrics["loss"] for r in plain], rel=1e-4)


def test_auto_executes_as_pays():
    execution = {
        (name, length): Trainer(build(config), TWO_STAGES, device="cpu", runs=runs).execution(steps)
        for name, config in (("mlp", MMVA), ("conv", MMCVA))
        for length, steps, runs in (("short", 25, 1), ("long", 10_000, 1), ("many", 25, 400))
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
    with pytest.raises(InputError, match="single GPU"):
        fit(MMVA, training)


def test_a_failed_compilation_falls_back_with_one_line(monkeypatch, caplog):
    def broken(*args, **options):
        raise RuntimeError("no compiler\nand much more")

    monkeypatch.setattr(torch, "compile", broken)
    model, summary = fit(MMVA, dataclasses.replace(TWO_STAGES, execution="compiled"))
    assert summary.execution == "plain"
    (message,) = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    for words in ("compiled", "RuntimeError: no compiler", "plain"):
        assert words in message
    assert "\n" not in message
    assert_same_weights(model, fit(MMVA, TWO_STAGES)[0])


@pytest.mark.parametrize("preset", [preset.name for preset in PRESETS])
def test_every_preset_is_traced_in_one_graph_with_all_its_gradients(preset):
    torch._dynamo.reset()  # what other tests have compiled counts towards a limit
    config = find_preset(preset).config
    shape = {"digits": (1, 8, 8), "svhn": (3, 32, 32), "norb": (1, 32, 32)}.get(config.data.dataset, (1, 28, 28))
    store = Store(torch.randint(0, 16, (20, *shape), dtype=torch.uint8), torch.arange(20) % 10)
    unlabeled = isinstance(config.training, SemiSupervisedTraining)
    if unlabeled:
        store = store._replace(y=torch.where(torch.arange(20) < 10, store.y, -1))
    objective = Objective(config.model.build(shape, n_classes=10, n_rows=20))
    objective.reading, objective.labeled = Reading(16.0, binarised=config.data.binarised), 10
    (rows,) = Batches(store.y, labeled_batch=10, unlabeled_batch=10, seed=0).rows(range(1))
    assert len(rows) == (20 if unlabeled else 10)
    progress = torch.tensor(0.4, dtype=torch.float64)
    traced = torch.compile(objective, backend="eager", fullgraph=True)  # raises where the graph breaks
    trained = [parameter for parameter in objective.parameters() if parameter.requires_grad]
    state = {name: value.clone() for name, value in objective.state_dict().items()}
    gradients = []
    for module in (objective, traced):
        objective.load_state_dict(state)
        torch.manual_seed(0)
        loss = module(store, rows, progress).loss
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
            summary = trainer.fit(digits(), seed=0, reading=READING, on_log=[records.append])
            assert (summary.execution, summary.steps) == (execution, 20)
            curves.append([record.metrics for record in records])
    finally:
        torch.set_default_dtype(before)
    for plain, compiled in zip(*curves, strict=True):
        assert compiled == pytest.approx(plain, rel=1e-6)


def test_the_classifier_is_trained_first_without_bound_and_dropout():
    torch.manual_seed(0)
    config = MaxMarginVAEConfig(network="conv", z=4, C=100.0, dropout=0.4)
    model = config.build((1, 8, 8), n_classes=10, n_rows=1)
    weights, dropout = [], []
    model.register_forward_pre_hook(
        lambda _, args, more: weights.append(more["settings"].generative_weight), with_kwargs=True
    )
    model.encoder.register_forward_pre_hook(lambda _, args, more: dropout.append(more["dropout"]), with_kwargs=True)
    decoder = {name: value.clone() for name, value in model.decoder.state_dict().items()}
    kept = []

    def keep(record):
        if record.stage == "classifier":
            kept.append(all(torch.equal(value, decoder[name]) for name, value in model.decoder.state_dict().items()))

    training = ClassifierFirstTraining(classifier_epochs=1, epochs=1, batch=40, log_every=1)
    Trainer(model, training, device="cpu").fit(digits(unlabeled=False), seed=0, reading=READING, on_log=[keep])
    assert weights == [0.0] * 5 + [1.0] * 5
    assert dropout == [0.0] * 5 + [0.4] * 5
    assert kept == [True] * 5
    assert model.settings is config


def test_a_vae_trains_too():
    records = []
    training = Training(epochs=60, batch=40, learning_rate=1e-2, log_every=50)
    fit(VAEConfig(hidden=(16,), z=4), training, on_log=[records.append])
    assert records[-1].metrics["elbo"] > records[0].metrics["elbo"] + 3
