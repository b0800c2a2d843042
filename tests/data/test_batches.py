"""One store of rows: which of them a step gets, and what the images in a batch are."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from mmdgm.data.batches import Batches, IndexStream, Reading, Store, gather, to_unit
from mmdgm.errors import InputError

CPU = torch.device("cpu")


def stream(n=20, batch_size=5, seed=(0, 1)):
    return IndexStream(n, batch_size, seed=seed, device=CPU)


def epoch_rows(index_stream, epoch):
    steps = index_stream.steps_per_epoch
    return torch.cat([index_stream[step] for step in range(epoch * steps, (epoch + 1) * steps)]).tolist()


def store(labeled=6, unlabeled=20, **parts):
    """Each image is filled with its row's number, each label is that number modulo 3; labeled rows lie anywhere."""
    n = labeled + unlabeled
    x = torch.arange(n, dtype=torch.uint8)[:, None, None, None].expand(-1, 1, 2, 2)
    y = torch.full((n,), -1)
    chosen = torch.randperm(n, generator=torch.Generator().manual_seed(1))[:labeled]
    y[chosen] = chosen % 3
    return Store(x, y, **parts)


def batches_of(rows, *, labeled_batch=3, unlabeled_batch=5, seed=0, labels="given"):
    return Batches(rows.labels(labels), labeled_batch=labeled_batch, unlabeled_batch=unlabeled_batch, seed=seed)


def gathered(rows, batches, step, reading=Reading()):
    """A step's batch and its row numbers."""
    numbers = batches.rows(range(step, step + 1))[0]
    return gather(rows, numbers, labeled=batches.sizes[0], reading=reading), numbers


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
    rows = store()
    batches = batches_of(rows)
    assert batches.steps_per_epoch == 4
    assert batches.sizes == (3, 5)
    table = batches.rows(range(4))
    assert table.shape == (4, 8)
    assert sorted(table[:, 3:].flatten().tolist()) == (rows.y < 0).nonzero()[:, 0].tolist()
    labeled = set((rows.y >= 0).nonzero()[:, 0].tolist())
    assert set(table[:2, :3].flatten().tolist()) == set(table[2:, :3].flatten().tolist()) == labeled


@settings(deadline=None)
@given(
    y=st.lists(st.integers(-1, 2), min_size=1, max_size=30),
    labeled_batch=st.integers(0, 9),
    unlabeled_batch=st.integers(0, 9),
    step=st.integers(0, 40),
)
def test_labeled_rows_come_first_and_unlabeled_ones_behind(y, labeled_batch, unlabeled_batch, step):
    y = torch.tensor(y)
    batches = Batches(y, labeled_batch=labeled_batch, unlabeled_batch=unlabeled_batch, seed=3)
    known = int((y >= 0).sum())
    sizes = min(labeled_batch, known), min(unlabeled_batch, len(y) - known)
    assert batches.sizes == sizes
    rows = batches.rows(range(step, step + 3))
    assert rows.shape == (3, sum(sizes))
    assert (y[rows[:, : sizes[0]]] >= 0).all()
    assert (y[rows[:, sizes[0] :]] < 0).all()
    for numbers in rows.tolist():
        assert len(set(numbers)) == len(numbers)
    for i in range(3):  # steps one by one are those of a range
        assert torch.equal(batches.rows(range(step + i, step + i + 1))[0], rows[i])


def test_a_batch_holds_the_rows_that_its_numbers_name():
    """`gather` against a literal loop over the store."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randint(0, 256, (26, 3, 4, 5), generator=generator, dtype=torch.uint8)
    observed = torch.rand(x.shape, generator=generator) < 0.7
    guess = torch.randint(-1, 4, (26,), generator=generator)
    rows = Store(x, store().y, observed, guess)
    batches = batches_of(rows)
    for step in range(9):
        batch, numbers = gathered(rows, batches, step, Reading(scale=256.0))
        assert batch.x.shape == (8, 3, 4, 5)
        assert batch.x.dtype == batch.observed.dtype == torch.get_default_dtype()
        for place, row in enumerate(numbers.tolist()):
            assert batch.x[place].tolist() == (x[row] / 256).tolist()
            assert batch.observed[place].bool().equal(observed[row])
        assert batch.y.tolist() == [rows.y[row].item() for row in numbers[:3].tolist()]
        assert batch.y.min() >= 0
        assert batch.guess.tolist() == [guess[row].item() for row in numbers[3:].tolist()]
        assert batch.shown is None
        assert batch.seen() is batch.x


def test_labels_stay_with_their_images():
    rows = store()
    batches = batches_of(rows)
    for step in range(5):
        batch, numbers = gathered(rows, batches, step)
        assert batch.x[:, 0, 1, 0].tolist() == numbers.tolist()
        assert batch.y.tolist() == [row % 3 for row in numbers[:3].tolist()]
        assert batch.observed is None
        assert batch.guess is None


def test_ranks_share_a_step_s_rows():
    rows = store(labeled=8, unlabeled=24)
    batches = batches_of(rows, labeled_batch=4, unlabeled_batch=8)
    whole = batches.rows(range(2, 7))
    shares = [batches.rows(range(2, 7), rank=rank, world_size=2) for rank in range(2)]
    assert [share.shape for share in shares] == [(5, 6), (5, 6)]
    for share in shares:  # labeled first in each
        assert (rows.y[share[:, :2]] >= 0).all()
        assert (rows.y[share[:, 2:]] < 0).all()
    assert torch.equal(torch.cat([share[:, :2] for share in shares], dim=1), whole[:, :4])
    assert torch.equal(torch.cat([share[:, 2:] for share in shares], dim=1), whole[:, 4:])


@pytest.mark.parametrize(("labeled_batch", "unlabeled_batch", "kind"), [(3, 8, "labeled"), (4, 5, "unlabeled")])
def test_a_batch_that_cannot_be_shared_out_is_refused(labeled_batch, unlabeled_batch, kind):
    batches = batches_of(store(), labeled_batch=labeled_batch, unlabeled_batch=unlabeled_batch)
    size = labeled_batch if kind == "labeled" else unlabeled_batch
    with pytest.raises(InputError, match=rf"\b{size} {kind}\b.*\b2\b"):
        batches.rows(range(1), rank=0, world_size=2)


def test_without_unlabeled_rows_an_epoch_is_a_pass_over_the_labeled_ones():
    rows = store(labeled=10, unlabeled=0)
    batches = batches_of(rows)
    assert batches.steps_per_epoch == 3
    assert batches.sizes == (3, 0)
    assert len(set(batches.rows(range(3)).flatten().tolist())) == 9
    batch, _ = gathered(rows, batches, 0)
    assert (batch.x.shape, batch.y.shape) == ((3, 1, 2, 2), (3,))


def test_without_labeled_rows_a_batch_has_no_labels():
    rows = store(labeled=0, unlabeled=10, guess=torch.arange(10))
    batches = batches_of(rows)
    assert batches.steps_per_epoch == 2
    assert batches.sizes == (0, 5)
    assert sorted(batches.rows(range(2)).flatten().tolist()) == list(range(10))
    batch, numbers = gathered(rows, batches, 1)
    assert (batch.x.shape, batch.y.shape, batch.y.dtype) == ((5, 1, 2, 2), (0,), torch.int64)
    assert batch.guess.tolist() == numbers.tolist()


def test_a_seed_has_orders_of_its_own_and_labeled_and_unlabeled_rows_too():
    rows = store(labeled=40, unlabeled=40)
    both = {"labeled_batch": 40, "unlabeled_batch": 40}
    first, again, other = (batches_of(rows, seed=seed, **both).rows(range(1))[0] for seed in (0, 0, 1))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    ranks = [numbers.argsort().tolist() for numbers in (first[:40], first[40:])]
    assert ranks[0] != ranks[1]


def test_propagated_labels_are_beside_those_given():
    rows = Store(torch.zeros(5, 1, 1, 1), torch.tensor([2, -1, -1, 0, -1]), guess=torch.tensor([1, 1, -1, -1, 2]))
    assert rows.labels("given") is rows.y
    assert rows.labels("propagated").tolist() == [2, 1, -1, 0, 2]
    assert rows.y.tolist() == [2, -1, -1, 0, -1]
    batches = batches_of(rows, labels="propagated", labeled_batch=9)
    assert batches.sizes == (4, 1)
    table = batches.rows(range(1))[0].tolist()
    assert (sorted(table[:4]), table[4]) == ([0, 1, 3, 4], 2)


def test_without_propagated_labels_none_can_be_trained_on():
    with pytest.raises(InputError, match="propagated"):
        store().labels("propagated")


def test_a_store_moves_as_a_whole():
    rows = store(guess=torch.zeros(26, dtype=torch.int64))
    moved = rows.to(torch.device("meta"))
    assert {part.device.type for part in moved if part is not None} == {"meta"}
    assert moved.observed is None
    assert moved.guess.shape == (26,)


@pytest.mark.parametrize("scale", [1.0, 16.0, 256.0])
def test_stored_values_are_divided_by_the_scale(scale):
    pixels = torch.arange(256, dtype=torch.uint8)
    unit = to_unit(pixels, scale)
    assert unit.dtype == torch.get_default_dtype()
    assert unit.tolist() == [pixel / scale for pixel in range(256)]


def test_binarised_pixels_are_0_or_1_with_the_grey_value_as_mean():
    torch.manual_seed(0)
    pixels = torch.tensor([0, 64, 192, 255], dtype=torch.uint8).expand(50_000, 1, 1, 4)
    rows = Store(pixels, torch.zeros(50_000, dtype=torch.int64))
    first, again = (
        gather(rows, torch.arange(50_000), labeled=50_000, reading=Reading(256.0, binarised=True)).x for _ in range(2)
    )
    assert first.unique().tolist() == [0, 1]
    assert first.mean((0, 1, 2)).tolist() == pytest.approx([0, 0.25, 0.75, 255 / 256], abs=0.01)
    assert (first != again).any()  # a new draw every time


def test_hidden_values_are_not_seen_but_counted():
    torch.manual_seed(0)
    rows = Store(torch.ones(4000, 5, 1, 1), torch.zeros(4000, dtype=torch.int64), torch.rand(4000, 5, 1, 1) < 0.5)
    numbers = torch.randperm(4000)
    batch = gather(rows, numbers, labeled=4000, reading=Reading(hide=0.5))
    assert (batch.x == 1).all()
    assert batch.seen() is batch.shown
    assert batch.shown.unique().tolist() == [0, 1]
    hidden = (batch.shown == 0).float()
    assert hidden.mean() == pytest.approx(0.25, abs=0.02)  # a share from 0 to a half of each row
    varying = 0.25 * 0.75 / 5 + 0.25 / 12 * 4 / 5  # each row has a share of its own
    assert hidden.mean(dim=(1, 2, 3)).var() == pytest.approx(varying, abs=0.003)
    assert torch.equal(batch.observed, rows.observed[numbers].float())
