"""Learning rates against values computed by hand."""

import pytest

from mmdgm.training.schedule import Schedule


def schedule(name, **options):
    return Schedule(name=name, **{"base": 0.4, "total_steps": 100, "steps_per_epoch": 10, **options})


@pytest.mark.parametrize("step", [0, 50, 99])
def test_constant(step):
    assert schedule("constant", decay_factor=0.1).rate(step) == 0.4


@pytest.mark.parametrize(
    ("step", "rate"), [(0, 0.4), (25, 0.2 * (1 + 0.5**0.5)), (50, 0.2), (75, 0.2 * (1 - 0.5**0.5)), (100, 0.0)]
)
def test_cosine(step, rate):
    assert schedule("cosine").rate(step) == pytest.approx(rate, abs=1e-15)


@pytest.mark.parametrize(("epoch", "decays"), [(0, 0), (499, 0), (500, 1), (501, 2), (509, 10)])
def test_step_divides_by_3_every_epoch_from_epoch_500(epoch, decays):
    steep = schedule("step", decay_start=500, decay_factor=1 / 3)
    for step in (10 * epoch, 10 * epoch + 9):  # the first and the last step of the epoch
        assert steep.rate(step) == pytest.approx(0.4 / 3**decays)


@pytest.mark.parametrize(("epoch", "decays"), [(1499, 0), (1500, 1), (1501, 2), (1600, 101), (2999, 1500)])
def test_step_multiplies_by_995_every_epoch_from_1500(epoch, decays):
    authors = schedule("step", steps_per_epoch=119, decay_start=1500, decay_factor=0.995)
    for step in (119 * epoch, 119 * epoch + 118):
        assert authors.rate(step) == pytest.approx(0.4 * 0.995**decays)


def test_warm_up_rises_linearly_and_never_from_0():
    rates = [schedule("constant", warmup_steps=3).rate(step) for step in range(6)]
    assert rates == pytest.approx([0.1, 0.2, 0.3, 0.4, 0.4, 0.4])


def test_warm_up_multiplies_the_decay():
    assert schedule("cosine", warmup_steps=99).rate(50) == pytest.approx(0.2 * 51 / 100)


def test_progress_rises_from_0_and_never_reaches_1():
    short = schedule("constant", total_steps=4)
    assert [short.progress(step) for step in range(4)] == [0, 0.25, 0.5, 0.75]
