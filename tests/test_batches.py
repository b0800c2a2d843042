"""Which rows a step gets, and what the images in a batch are."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from mmdgm.data.batches import Batches, IndexStream

CPU = torch.device("cpu")


def stream(n=20, batch_size=5, seed=(0, 1)):
    return IndexStream(n, batch_size, seed=seed, device=CPU)


def epoch_rows(index_stream, epoch):
    steps = index_stream.steps_per_epoch
    return torch.cat([index_stream[step] for step in range(epoch * steps, (epoch + 1) * steps)]).tolist()


def batches(labeled=6, unlabeled=20, *, labeled_batch=3, unlabeled_batch=5, **options):
    """Each image is filled with its row's number, from 0 (labeled) and from 100 (unlabeled)."""
    x = torch.arange(labeled, dtype=torch.uint8)[:, None, None, None].expand(-1, 1, 2, 2)
    rest = (100 + torch.arange(unlabeled, dtype=torch.uint8))[:, None, None, None].expand(-1, 1, 2, 2)
    return Batches(
        x,
        torch.arange(labeled) % 3,
        rest,
        labeled_batch=labeled_batch,
        unlabeled_batch=unlabeled_batch,
        **{"scale": 1.0, "seed": (0,), **options},
    )


@settings(deadline=None)
@given(n=st.integers(1, 60), batch_size=st.integers(1, 70), epoch=st.integers(0, 3))
def test_an_epoch_visits_each_row_at_most_once_and_misses_less_than_a_batch(n, batch_size, epoch):
    rows = epoch_rows(stream(n, batch_size), epoch)
    assert len(set(rows)) == len(rows)
    assert set(rows) <= set(range(n))
    assert 0 <= n - len(rows) < batch_size
    if n % batch_size == 0:
        assert sorted(rows) == list(range(n))


def test_epochs_and_seeds_have_orders_of_their_own():
    orders = [epoch_rows(stream(seed=seed), epoch) for seed in ((0, 1), (0, 2), (1, 1)) for epoch in range(3)]
    assert len(set(map(tuple, orders))) == 9


def test_rows_are_a_function_of_the_step():
    one, other = stream(), stream()
    in_order = [one[step].tolist() for step in range(12)]
    for step in (11, 0, 7, 7, 3, 4, 10, 1):
        assert other[step].tolist() == in_order[step]


@pytest.mark.parametrize(
    ("n", "batch_size", "steps"), [(59_900, 500, 119), (60_000, 500, 120), (499, 500, 1), (0, 500, 0)]
)
def test_steps_per_epoch(n, batch_size, steps):
    assert stream(n, batch_size).steps_per_epoch == steps


def test_a_batch_larger_than_the_data_is_all_of_it():
    small = stream(n=7, batch_size=100)
    assert small.batch_size == 7
    assert sorted(small[3].tolist()) == list(range(7))


def test_an_epoch_is_a_pass_over_the_unlabeled_rows():
    data = batches()
    assert data.steps_per_epoch == 4
    assert data.rows_per_step == 8
    seen = torch.cat([data[step].x_unlabeled[:, 0, 0, 0] for step in range(4)])
    assert sorted(seen.tolist()) == list(range(100, 120))


def test_labels_stay_with_their_images():
    data = batches()
    for step in range(5):
        x, y, *_ = data[step]
        assert x.shape == (3, 1, 2, 2)
        assert (x[:, 0, 0, 0] % 3).tolist() == y.tolist()


def test_first_guesses_stay_with_their_images():
    data = batches()
    data.begin_with(torch.arange(20) % 4 - 1)
    for step in range(4):
        assert torch.equal(data[step].first_guess, (data[step].x_unlabeled[:, 0, 0, 0] - 100) % 4 - 1)
    assert batches()[0].first_guess is None


def test_without_unlabeled_rows_an_epoch_is_a_pass_over_the_labeled_ones():
    data = batches(labeled=10, unlabeled=0, labeled_batch=3, unlabeled_batch=0)
    assert data.steps_per_epoch == 3
    assert data.rows_per_step == 3
    assert data[0].x_unlabeled.shape == (0, 1, 2, 2)
    assert len({value for step in range(3) for value in data[step].x[:, 0, 0, 0].tolist()}) == 9


def test_pixels_are_divided_by_the_scale():
    data = batches(labeled=256, labeled_batch=256, scale=256.0)
    values = data[0].x[:, 0, 0, 0]
    assert values.dtype == torch.get_default_dtype()
    assert values.sort().values.tolist() == [pixel / 256 for pixel in range(256)]
    unlabeled = data[0].x_unlabeled
    assert unlabeled.min() >= 100 / 256
    assert unlabeled.max() <= 119 / 256


def test_binarised_pixels_are_0_or_1_with_the_grey_value_as_mean():
    torch.manual_seed(0)
    pixels = torch.tensor([0, 64, 192, 255], dtype=torch.uint8).expand(50_000, 1, 1, 4)
    data = Batches(
        pixels,
        torch.zeros(50_000, dtype=torch.int64),
        pixels,
        scale=256.0,
        labeled_batch=50_000,
        unlabeled_batch=50_000,
        seed=0,
        binarised=True,
    )
    first, again = data[0], data[0]
    for x in (first.x, first.x_unlabeled):
        assert x.unique().tolist() == [0, 1]
        assert x.mean((0, 1, 2)).tolist() == pytest.approx([0, 0.25, 0.75, 255 / 256], abs=0.01)
    assert (first.x != again.x).any()  # a new draw every time


def test_hidden_values_are_not_seen_but_counted():
    x = torch.ones(40, 5, 1, 1)
    observed = torch.rand(40, 5, 1, 1) < 0.5
    data = Batches(
        x,
        torch.zeros(40, dtype=torch.int64),
        x[:0],
        scale=1.0,
        labeled_batch=40,
        unlabeled_batch=0,
        seed=0,
        observed=observed,
        observed_unlabeled=observed[:0],
        hide=0.5,
    )
    batch = data[0]
    assert (batch.images() == 1).all()
    hidden = batch.seen() == 0
    assert 0.1 < hidden.float().mean() < 0.4
    torch.testing.assert_close(batch.observed, observed[data.labeled[0]].float())
