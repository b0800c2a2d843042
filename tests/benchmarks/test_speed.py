"""The benchmark: fair turns by a clock of our own, work counted by hand, and every figure that it promises."""

import contextlib
import functools
import json
import math
import multiprocessing
import os
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from benchmarks.speed import peers, suite, timing, workloads
from benchmarks.speed.__main__ import main
from benchmarks.speed.suite import Bench, Report, Sizes
from benchmarks.speed.workloads import (
    SHAPE,
    OurMLP,
    Steps,
    convolve,
    multiply,
    repeat,
    sample_images,
    steps_for,
    training_images,
)
from mmdgm.models import MaxMarginConditionalVAEConfig, VAEConfig
from mmdgm.training.plan import SemiSupervisedTraining, Training
from small_datasets import idx

# --- timing ----------------------------------------------------------------------------------------------


class Clock:
    """Stands still but for those who say how long they took."""

    def __init__(self):
        self.now = 100.0

    def pass_(self, seconds):
        self.now += seconds

    def perf_counter(self):
        return self.now


@pytest.fixture(name="clock")
def make_clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(timing, "time", clock)
    return clock


def test_contenders_take_turns_and_their_rates_are_medians_without_the_first(clock):
    seconds = {"ours": [40.0, 1.0, 8.0, 2.0, 4.0, 5.0], "theirs": [0.001, 20.0, 10.0, 5.0, 20.0, 40.0]}
    order = []

    def turn(name, work):
        order.append(name)
        clock.pass_(seconds[name].pop(0))
        return work

    found = timing.rates({name: functools.partial(turn, name, 40) for name in seconds}, rounds=5)
    assert order == ["ours", "theirs"] * 6
    # ours: 40, 5, 20, 10, 8 a second; theirs: 2, 4, 8, 2, 1; the warm-ups would have been 1 and 40,000
    assert found == {"ours": 10.0, "theirs": 2.0}
    assert not any(seconds.values())


def test_the_median_of_two_turns_lies_between_them(clock):
    works = iter([1000.0, 30.0, 10.0])

    def turn():
        clock.pass_(2.0)
        return next(works)

    assert timing.rates({"only": turn}, rounds=2) == {"only": 10.0}


def test_a_turn_has_as_many_steps_as_its_seconds_hold(clock):
    durations = iter([60.0, 30.0, 10.0, 0.02])  # three to warm up

    assert steps_for(lambda: clock.pass_(next(durations)), 0.5) == 25
    assert next(durations, None) is None


def test_a_turn_has_at_least_one_step(clock):
    assert steps_for(lambda: clock.pass_(5.0), 0.5) == 1


class Toy:
    """A contender that counts its epochs."""

    def __init__(self, rows, offset=0.0):
        self.rows, self.offset, self.epochs = rows, offset, 0

    def epoch(self):
        self.epochs += 1
        return self.rows * self.epochs

    def bound(self, images):
        return images.sum().item() + self.offset

    def pid(self):
        return os.getpid()


def fail(message):
    raise ValueError(message)


def children():
    return {process.pid for process in multiprocessing.active_children()}


@pytest.mark.slow  # spawned processes import torch
def test_remote_contenders_run_in_processes_of_their_own():
    before = children()
    factories = {"three": functools.partial(Toy, 3), "seven": functools.partial(Toy, 7, offset=0.5)}
    with timing.remotes(factories) as contenders:
        assert list(contenders) == ["three", "seven"]
        pids = {remote.ask("pid") for remote in contenders.values()}
        assert len(pids) == 2
        assert os.getpid() not in pids
        assert children() - before == pids
        # each keeps its own state between the questions
        assert [contenders[name].turn() for name in ("three", "three", "seven")] == [3.0, 6.0, 7.0]
        assert contenders["three"].ask("epoch") == 9
        images = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
        assert [remote.ask("bound", images) for remote in contenders.values()] == [10.0, 10.5]
        with pytest.raises(RuntimeError, match="AttributeError: 'Toy' object has no attribute 'sing'"):
            contenders["seven"].ask("sing")
    assert children() == before


@pytest.mark.slow
def test_a_remote_contender_that_cannot_be_built_says_why_and_ends_the_others():
    before = children()
    factories = {"good": functools.partial(Toy, 3), "bad": functools.partial(fail, "no weights today")}
    with pytest.raises(RuntimeError) as caught, timing.remotes(factories):
        pytest.fail("they have not all started")
    assert str(caught.value) == "ValueError: no weights today"
    assert children() == before


# --- workloads -------------------------------------------------------------------------------------------


def test_without_mnist_the_images_are_blobs(tmp_path):
    pixels, source = training_images(300, tmp_path)
    assert source == "synthetic"
    assert (pixels.shape, pixels.dtype) == ((300, 1, 28, 28), np.uint8)
    assert len(np.unique(pixels)) > 240
    assert pixels.min() == 0
    assert pixels.reshape(300, -1).max(1).min() > 230  # each has a bright middle
    assert 20 < pixels.mean() < 80  # and much darkness around it
    assert len(np.unique(pixels.reshape(300, -1), axis=0)) == 300
    np.testing.assert_array_equal(training_images(300, tmp_path)[0], pixels)


def test_where_mnist_lies_in_the_folder_its_first_images_are_taken(tmp_path, monkeypatch):
    rows = {"train": 12, "t10k": 10}
    monkeypatch.setattr("mmdgm.data.datasets.idx.ROWS", rows)
    (tmp_path / "mnist").mkdir()
    images = {part: np.random.default_rng(n).integers(0, 256, (n, 28, 28), np.uint8) for part, n in rows.items()}
    for part, n in rows.items():
        (tmp_path / "mnist" / f"{part}-images-idx3-ubyte").write_bytes(idx(images[part]))
        (tmp_path / "mnist" / f"{part}-labels-idx1-ubyte").write_bytes(idx(np.arange(n, dtype=np.uint8) % 10))
    pixels, source = training_images(7, tmp_path)
    assert source == "mnist"
    np.testing.assert_array_equal(pixels[:, 0], images["train"][:7])
    assert len(training_images(100, tmp_path)[0]) == 12  # all that there are


@pytest.fixture(scope="module", name="pixels")
def make_pixels(tmp_path_factory):
    return training_images(1100, tmp_path_factory.mktemp("no_data"))[0]


@pytest.mark.parametrize("draws", [1, 3])
def test_flops_of_an_mlp_are_those_of_its_products(pixels, draws):
    rows, z, encoder, decoder = 20, 3, [(784, 8), (8, 4), (4, 2 * 3)], [(3, 4), (4, 8), (8, 784)]
    steps = Steps(
        torch.from_numpy(pixels[:100]),
        VAEConfig(hidden=(8, 4), z=z, samples=draws),
        Training(batch=rows, execution="plain"),
        seconds=1e-9,
    )
    forward = 2 * rows * sum(a * b for a, b in encoder) + 2 * rows * draws * sum(a * b for a, b in decoder)
    images = 2 * rows * 784 * 8  # the gradient with respect to the images, which nobody needs
    assert steps.flops() == 3 * forward - images
    # and counting leaves nothing behind
    assert all(parameter.grad is None for parameter in steps.trainer.model.parameters())


@pytest.mark.parametrize(("seconds", "steps"), [(1e-9, 1), (1e6, 3)])
def test_a_turn_of_training_is_at_most_an_interval_between_log_lines(pixels, seconds, steps):
    training = Training(batch=20, log_every=3, execution="plain")
    work = Steps(torch.from_numpy(pixels[:50]), VAEConfig(hidden=(4,), z=2), training, seconds=seconds)
    before = [parameter.clone() for parameter in work.trainer.model.parameters()]
    assert (work.steps, work.rows, work.execution) == (steps, 20, "plain")
    assert work.turn() == steps * 20
    after = list(work.trainer.model.parameters())
    assert not any(torch.equal(a, b) for a, b in zip(before, after, strict=True))  # it trains


def test_semi_supervised_steps_have_one_batch_of_labeled_rows_and_all_others_unlabeled(pixels):
    training = SemiSupervisedTraining(batch=5, unlabeled_batch=7, execution="plain")
    model = MaxMarginConditionalVAEConfig(z=2)
    work = Steps(torch.from_numpy(pixels[:30]), model, training, seconds=1e-9, n_classes=3)
    store = work.stepper.store
    np.testing.assert_array_equal(store.x, pixels[:30])
    assert store.y.tolist() == [0, 1, 2, 0, 1] + [-1] * 25
    assert work.part.batches.sizes == (5, 7)
    assert work.turn() == 12


def test_our_mlp_learns(pixels):
    held_out = torch.from_numpy(pixels[1000:]).flatten(1).float() / 256
    contender = OurMLP(pixels[:1000], "cpu", "32-true", "plain")
    bounds = [contender.bound(held_out)]
    for _ in range(3):
        assert contender.epoch() == 1000
        bounds.append(contender.bound(held_out))
    assert contender.step == 6
    # at first it knows nothing, so a pixel costs it about a bit; blobs take far less
    assert bounds[0] < -784 * math.log(2)
    assert bounds == sorted(bounds)
    assert bounds[-1] > 0.5 * bounds[0]


def test_work_of_products_and_convolutions_is_what_torch_counts():
    x = torch.randn(2, 3, 6, 6)
    kernel = torch.randn(4, 3, 3, 3)
    assert multiply(torch.randn(5, 5)) == 3 * 2 * 5**3
    with FlopCounterMode(display=False) as counter:
        work = convolve(x, kernel)
    assert work == counter.get_total_flops() == 3 * 2 * (2 * 4 * 6 * 6) * (3 * 3 * 3)


def test_repeat_says_how_much_was_done():
    calls = []
    assert repeat(lambda: calls.append(1), 4, 30) == 120.0
    assert len(calls) == 4


def test_samples_have_the_classes_in_turn():
    torch.manual_seed(0)
    model = MaxMarginConditionalVAEConfig(z=4).build(SHAPE, n_classes=3, n_rows=1)
    torch.manual_seed(1)
    images = sample_images(model, 1003)
    torch.manual_seed(1)
    z = torch.randn(1003, 4)
    assert images.shape == (1003, *SHAPE)
    torch.testing.assert_close(images[:4], model.generate(z[:4], torch.tensor([0, 1, 2, 0])))
    torch.testing.assert_close(images[1000:], model.generate(z[1000:], torch.tensor([1, 2, 0])))


# --- report ----------------------------------------------------------------------------------------------


def test_a_report_keeps_units_and_five_digits():
    report = Report(about={})
    report.add("train/x", 1234567.8, "images/s")
    report.add("step/x", 0.00123456789, "ms")
    assert report.measurements == {
        "train/x": {"value": 1234600.0, "unit": "images/s"},
        "step/x": {"value": 0.0012346, "unit": "ms"},
    }
    assert report.value("train/x") == 1234600.0


def test_a_ratio_is_above_1_where_we_are_faster():
    # a machine that slows down in the second round slows both
    found = timing.Rates({"ours": [300.0, 150.0, 310.0], "theirs": [200.0, 100.0, 400.0]})
    assert found == {"ours": 300.0, "theirs": 200.0}
    assert found.ratio("ours", "theirs") == 1.5
    report = Report(about={})
    report.ratio("fast", found.ratio("ours", "theirs"))
    report.ratio("slow", 1 / 3)
    assert report.ratios == {"fast": 1.5, "slow": 0.3333}


# --- the sections ----------------------------------------------------------------------------------------

TINY = Sizes(
    images=1100,
    rounds=1,
    seconds=0.001,
    labeled=4,
    unlabeled=6,
    conv_batch=4,
    mlp_epoch=500,
    few_labeled=1,
    few_unlabeled=1,
    predicted=20,
    imputed=3,
    impute_rounds=2,
    sampled=20,
    matrix=64,
)
BOTH = ("fp32", "bf16")


@contextlib.contextmanager
def tiny_bench(data_dir):
    """A bench that measures little, in both precisions whatever the machine, and compiles nothing."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(suite, "CPU_SIZES", TINY)
        patch.setattr(suite, "LONG", 1)
        patch.setattr(suite, "computes_in_bf16", lambda device: True)
        yield Bench(device="cpu", data_dir=data_dir), patch


@pytest.fixture(scope="module", name="measured")
def measure(tmp_path_factory):
    """Report, and the rates found on the way, of all sections but the one that starts processes."""
    with tiny_bench(tmp_path_factory.mktemp("no_data")) as (bench, patch):
        found, marginalising = {}, []

        def recorded(turns, *, rounds):
            assert rounds == TINY.rounds
            answer = timing.rates(turns, rounds=rounds)
            found.update({(section.__name__, name): value for name, value in answer.items()})
            return answer

        def recorded_step(step):
            marginalising.append(timing.rate(step))
            return marginalising[-1]

        patch.setattr(suite, "rates", recorded)
        patch.setattr(suite, "rate", recorded_step)
        for section in (bench.ceilings, bench.training, bench.naive_step, bench.classes, bench.inference):
            section()
        bench.memory()
    return SimpleNamespace(report=bench.report, value=bench.report.value, found=found, marginalising=marginalising)


@pytest.mark.slow
def test_every_figure_is_there(measured):
    units = {f"ceiling/{kind}/{p}": "GFLOP/s" for kind in ("matrix-product", "convolution") for p in BOTH}
    for model in ("mmva", "conv-mmva", "conv-mmcva"):
        units[f"flops/{model}"] = "GFLOP a step"
        units[f"bytes/{model}"] = "MB a plain float32 step"
        for p in BOTH:
            units[f"train/{model}/{p}"] = "images/s"
            units[f"step/{model}/{p}"] = "ms"
            units[f"share/{model}/{p}"] = "% of the ceiling"
    for feed in ("naive", "naive-dataloader"):
        units[f"train/conv-mmcva/{feed}"] = "images/s"
        units[f"step/conv-mmcva/{feed}"] = "ms"
    for kind, rows in (("ours", 10), ("m2", 2)):
        units |= {f"classes/{kind}-{k}": f"ms a step of {rows} rows" for k in (10, 100, 1000)}
        units[f"classes/{kind}-growth"] = "times the step at 10 classes, at 1,000"
    units |= {
        "predict/conv-mmcva": "images/s",
        "impute/conv-mmcva": "images/s, 2 rounds each",
        "sample/conv-mmcva": "images/s",
        "impute/conv-mmcva/10000-images-100-rounds": "s",
        "memory/peak": "MiB",
    }
    measurements = measured.report.measurements
    assert {name: entry["unit"] for name, entry in measurements.items()} == units
    assert all(0 < entry["value"] < math.inf for entry in measurements.values())
    assert 50 < measured.value("memory/peak") < 1e5  # torch alone takes 100 or more
    json.dumps(vars(measured.report))

    about = measured.report.about
    assert (about["quick"], about["images"], about["peers"]) == (False, "synthetic", peers.available())
    assert about["device"].startswith("cpu")
    assert about["versions"]["torch"] == torch.__version__
    assert about["execution"] == dict.fromkeys(("mmva", "conv-mmva", "conv-mmcva"), "plain")


@pytest.mark.slow
def test_ratios_are_quotients_of_what_was_measured(measured):
    value, found = measured.value, measured.found
    expected = {
        f"conv-mmcva/{p}/{feed}": found["naive_step", p] / found["naive_step", feed]
        for p in BOTH
        for feed in ("naive", "naive-dataloader")
    }
    for k in (10, 100, 1000):  # a step of ours has 4 + 6 rows, of the other 1 + 1
        ours, theirs = 10 / value(f"classes/ours-{k}"), 2 / value(f"classes/m2-{k}")
        expected[f"classes/{k}/marginalising"] = ours / theirs
    assert measured.report.ratios == pytest.approx(expected, rel=1e-3)
    assert measured.report.ratios["classes/1000/marginalising"] > 5  # 1,002 evaluations instead of 10


@pytest.mark.slow
def test_figures_agree_with_each_other(measured):
    value, found = measured.value, measured.found

    def same(one, other):
        assert one == pytest.approx(other, rel=1e-3)

    rows = {"mmva": 200, "conv-mmva": 4, "conv-mmcva": 10}
    for model, n in rows.items():
        ceiling = "matrix-product" if model == "mmva" else "convolution"
        for p in BOTH:
            same(value(f"step/{model}/{p}"), 1000 * n / value(f"train/{model}/{p}"))
            reached = value(f"flops/{model}") / (value(f"step/{model}/{p}") / 1000)  # GFLOP/s
            same(value(f"share/{model}/{p}"), 100 * reached / value(f"ceiling/{ceiling}/{p}"))
    for feed in ("naive", "naive-dataloader"):
        same(value(f"train/conv-mmcva/{feed}"), found["naive_step", feed])
        same(value(f"step/conv-mmcva/{feed}"), 1000 * 10 / found["naive_step", feed])
    for k in (10, 100, 1000):
        same(value(f"classes/ours-{k}"), 1000 * 10 / found["classes", f"ours-{k}"])
    steps = measured.marginalising  # a second; of each count of classes, the first is to warm up
    assert len(steps) == 4 + 4 + 2
    for k, turns in ((10, steps[1:4]), (100, steps[5:8]), (1000, steps[9:])):
        same(value(f"classes/m2-{k}"), 1000 / np.median(turns))
    for kind in ("ours", "m2"):
        same(value(f"classes/{kind}-growth"), value(f"classes/{kind}-1000") / value(f"classes/{kind}-10"))
    # a million rounds of an image, of which there were `images/s` times 2 in a second
    same(value("impute/conv-mmcva/10000-images-100-rounds"), 1e6 / (2 * value("impute/conv-mmcva")))

    # 784-500-500-50 and back, 200 rows; the last term is the margin's part: all hidden units to 10 scores
    widths = 784 * 500 + 500 * 500 + 500 * 100 + 50 * 500 + 500 * 500 + 500 * 784
    same(value("flops/mmva"), 2 * 200 * (3 * widths - 784 * 500 + 3 * 1000 * 10) / 1e9)


def test_mlp_vae_is_compared_with_every_peer(tmp_path):
    speed = {"fp32": 300.0, "bf16": 600.0, "fp32-compiled": 450.0, "bf16-compiled": 50.0, "pyro": 100.0}
    bounds = {name: -100.0 - i for i, name in enumerate(speed)}
    with tiny_bench(tmp_path) as (bench, patch):
        factories, asked = {}, []

        class Remote(SimpleNamespace):
            def turn(self):
                return speed[self.name]

            def ask(self, question, images):
                asked.append((question, images.shape, images.min() >= 0, images.max() <= 1))
                return bounds[self.name]

        @contextlib.contextmanager
        def remotes(build):
            factories.update(build)
            yield {name: Remote(name=name) for name in build}

        patch.setattr(suite, "remotes", remotes)
        patch.setattr(suite, "rates", lambda turns, *, rounds: timing.Rates({n: [t()] for n, t in turns.items()}))
        patch.setattr(peers, "available", lambda: ["pyro"])
        bench.mlp_vae()

    assert factories.keys() == speed.keys()
    assert factories["fp32"].args[1:] == ("cpu", "32-true", "plain")
    assert factories["bf16-compiled"].args[1:] == ("cpu", "bf16-mixed", "compiled")
    np.testing.assert_array_equal(factories["fp32"].args[0], bench.pixels[:500])
    np.testing.assert_array_equal(factories["pyro"].args[1], bench.pixels[:500])  # the same for all
    assert asked == [("bound", (600, 784), True, True)] * 5  # all that is left of 1,100
    for sizes in (suite.Sizes(), suite.CPU_SIZES):
        assert sizes.images - sizes.mlp_epoch == suite.HELD_OUT
    assert bench.report.measurements == {
        **{f"train/mlp-vae/{name}": {"value": rate, "unit": "images/s"} for name, rate in speed.items()},
        **{f"bound/mlp-vae/{name}": {"value": bound, "unit": "nats after 2 epochs"} for name, bound in bounds.items()},
    }
    assert bench.report.ratios == {
        "mlp-vae/fp32/pyro": 3.0,
        "mlp-vae/bf16/pyro": 6.0,
        "mlp-vae/fp32-compiled/pyro": 4.5,
        "mlp-vae/bf16-compiled/pyro": 0.5,
    }


def test_run_takes_every_section_once_and_says_so(tmp_path):
    sections = ["ceilings", "mlp_vae", "training", "naive_step", "classes", "inference", "memory"]
    done, said = [], []
    with tiny_bench(tmp_path) as (bench, patch):
        for name in sections:
            patch.setattr(bench, name, functools.partial(done.append, name))
        bench.say = said.append
        assert bench.run() is bench.report
    assert done == sections  # shares need the ceilings, the naive step needs the training beside it
    assert len(set(said)) == 6


# --- the command -----------------------------------------------------------------------------------------


@pytest.fixture(name="ran")
def make_ran(monkeypatch):
    """The benches that ran, in no time: each reports the same two figures and one ratio."""
    benches = []

    def run(bench):
        bench.say("the naive step")
        bench.report.add("train/mmva/fp32", 12345.678, "images/s")
        bench.report.add("memory/peak", 321.0, "MiB")
        bench.report.ratio("conv-mmcva/fp32/naive", 1.5)
        benches.append(bench)
        return bench.report

    monkeypatch.setattr(Bench, "run", run)
    return benches


def test_the_report_is_printed_as_json(capsys, tmp_path, ran):
    main(["--quick", "--json", "--device", "cpu", "--data-dir", str(tmp_path)])
    out, err = capsys.readouterr()
    answer = json.loads(out)
    assert answer["measurements"] == {
        "train/mmva/fp32": {"value": 12346.0, "unit": "images/s"},
        "memory/peak": {"value": 321.0, "unit": "MiB"},
    }
    assert answer["ratios"] == {"conv-mmcva/fp32/naive": 1.5}
    assert answer.keys() == {"about", "measurements", "ratios"}
    assert (answer["about"]["quick"], answer["about"]["images"]) == (True, "synthetic")
    assert err == "the naive step …\n"
    usual = suite.CPU_SIZES
    assert [(bench.sizes.rounds, bench.sizes.seconds) for bench in ran] == [(3, usual.seconds / 2)]


def test_the_report_is_printed_as_tables(capsys, tmp_path, ran):
    main(["--device", "cpu", "--data-dir", str(tmp_path)])
    out = capsys.readouterr().out
    lines = [line.split() for line in out.splitlines()]
    assert ["train/mmva/fp32", "12,346.0", "images/s"] in lines
    assert ["memory/peak", "321.0", "MiB"] in lines
    assert ["conv-mmcva/fp32/naive", "1.50"] in lines
    assert "above 1: we are faster" in out
    assert [bench.sizes for bench in ran] == [suite.CPU_SIZES]
    assert not ran[0].report.about["quick"]


def test_help_has_an_example_and_a_wrong_device_is_one_line(capsys, ran):
    for words, code in ((["--help"], 0), (["--device", "tpu"], 2)):
        with pytest.raises(SystemExit) as ended:
            main(words)
        assert ended.value.code == code
        out, err = capsys.readouterr()
        assert code or "Example: python -m benchmarks.speed --quick --json" in out
    assert err == "python -m benchmarks.speed: device tpu: use auto, cpu or cuda\n"
    assert ran == []


def test_bytes_are_what_operations_read_and_write():
    a, b = torch.rand(10, 20), torch.rand(20, 30)
    with workloads._BytesCounter() as counter:
        product = a.t().contiguous().t() @ b  # a copy of a, and the product
        product.t().add_(1.0)  # in place: read and written
    copy, multiply, add = 2 * 200, 200 + 600 + 300, 2 * 300
    assert counter.bytes == 4 * (copy + multiply + add)
