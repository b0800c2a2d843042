"""Signals during training: a checkpoint of that very step, and the same numbers after it."""

import signal

import pytest
import torch

from mmdgm.cli import ending_signals
from mmdgm.data import datasets
from mmdgm.data.batches import Reading, Store
from mmdgm.models import MaxMarginConditionalVAEConfig
from mmdgm.training.interruption import postponed
from mmdgm.training.loop import checkpoint_step
from mmdgm.training.plan import Stage, StagedTraining
from mmdgm.training.step import Stepper
from mmdgm.training.trainer import Trainer

MODEL = MaxMarginConditionalVAEConfig(network="mlp", hidden=(16,), z=4, dropout=0.5, averaging=0.9)
NUMBERS = [signal.SIGINT, signal.SIGTERM, *([signal.SIGHUP] if hasattr(signal, "SIGHUP") else [])]


@pytest.fixture(autouse=True)
def as_the_command_line(heeded_signals):
    with ending_signals() as came:
        yield came


def run(checkpoint, *, resume=False):
    """Train with a look at the clock after every second step; return the model and the lines of its log."""
    torch.manual_seed(0)
    model, records = MODEL.build((1, 8, 8), n_classes=10, n_rows=200), []
    stage = {"learning_rate": 1e-3, "batch": 20, "unlabeled_batch": 40, "warmup_steps": 3, "labels": "given"}
    plan = tuple(Stage(name=name, epochs=3, log_every=5, **stage) for name in ("one", "two"))
    trainer = Trainer(model, StagedTraining(planned=plan, weight_decay=1e-4, patience=0), device="cpu", stride=2)
    data = datasets.load("digits")
    y = torch.where(torch.arange(400) < 200, torch.from_numpy(data.y_train[:400]), -1)
    store = Store(torch.from_numpy(data.x_train[:400]), y)
    trainer.fit(
        store, seed=3, reading=Reading(scale=16.0), checkpoint=checkpoint, resume=resume, on_log=[records.append]
    )
    return model, records


@pytest.mark.parametrize("number", NUMBERS)
@pytest.mark.parametrize("at", [1, 3, 4, 8, 11])
def test_a_run_that_a_signal_ended_goes_on_to_the_same_numbers(tmp_path, monkeypatch, number, at):
    whole, records = run(None)
    checkpoint, steps = tmp_path / "last.safetensors", []
    take = Stepper.run

    def take_and_signal(self, batches, seed, these, *more):
        means = take(self, batches, seed, these, *more)
        steps.extend(these)
        if len(steps) >= at and number in waiting:
            signal.raise_signal(waiting.pop())
        return means

    waiting = [number]
    monkeypatch.setattr(Stepper, "run", take_and_signal)
    with pytest.raises(KeyboardInterrupt):
        run(checkpoint)
    assert checkpoint_step(checkpoint) == len(steps) < at + 2
    torch.manual_seed(99)
    again, rest = run(checkpoint, resume=True)
    for name, value in whole.state_dict().items():
        assert torch.equal(value, again.state_dict()[name]), name
    metrics = {record.step: record.metrics for record in records}
    assert {record.step: record.metrics for record in rest}.items() <= metrics.items()
    assert sorted(metrics)[-len(rest) :] == [record.step for record in rest]
    assert steps == list(range(len(steps)))  # none was taken twice


def test_without_a_checkpoint_a_signal_ends_training_at_once(monkeypatch):
    take, calls = Stepper.run, []

    def signalled(self, *words):
        calls.append(words)
        signal.raise_signal(signal.SIGTERM)
        return take(self, *words)

    monkeypatch.setattr(Stepper, "run", signalled)
    with pytest.raises(KeyboardInterrupt):
        run(None)
    assert len(calls) == 1


def test_the_second_signal_does_not_wait():
    reached = []

    def twice():
        with postponed(True) as came:
            signal.raise_signal(signal.SIGTERM)
            reached.append(list(came))
            signal.raise_signal(signal.SIGINT)
            reached.append("the end")

    with pytest.raises(KeyboardInterrupt):
        twice()
    assert reached == [[signal.SIGTERM]]


def test_what_is_ignored_stays_ignored_and_all_is_as_before_afterwards(monkeypatch):
    before = signal.signal(signal.SIGTERM, signal.SIG_IGN)
    try:
        found = [signal.getsignal(number) for number in NUMBERS]
        with postponed(True) as came:
            signal.raise_signal(signal.SIGTERM)
        assert came == []
        assert [signal.getsignal(number) for number in NUMBERS] == found
    finally:
        signal.signal(signal.SIGTERM, before)


def test_a_handler_that_goes_on_does_not_make_half_a_training_a_whole_one():
    came = []
    before = signal.signal(signal.SIGTERM, lambda number, _: came.append(number))
    try:
        with pytest.raises(KeyboardInterrupt), postponed(True):
            signal.raise_signal(signal.SIGTERM)
        assert came == [signal.SIGTERM]
    finally:
        signal.signal(signal.SIGTERM, before)
