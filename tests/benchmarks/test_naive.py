"""The yardsticks compute what they say: the fast model's function, and the objective written out."""

import math

import pytest
import torch
from torch.nn.functional import cross_entropy

from benchmarks.speed.marginalising import accumulate_gradients, marginalising_step
from benchmarks.speed.naive import copy_weights, loader_batches, naive_model, resident_batches, training_step
from mmdgm.data.batches import Batch
from mmdgm.models import MarginalConditionalVAEConfig, MaxMarginConditionalVAEConfig

SMALL = (1, 8, 8)


def perturb(model):
    """Weights without the zeros and ones that initial biases and scales are."""
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.05 * torch.randn_like(parameter))


def random_batch(shape, *, n_classes, n=6, m=9):
    return Batch(torch.rand(n + m, *shape, dtype=torch.float64), torch.arange(n) % n_classes)


def literal_pair(shape, n_classes):
    """A fast and a naive model of the same weights, in double precision."""
    torch.manual_seed(0)
    config = MaxMarginConditionalVAEConfig(z=7, dropout=0.0, straight_through=0.1)
    fast = config.build(shape, n_classes=n_classes, n_rows=1)
    perturb(fast)
    naive = naive_model(shape, config, n_classes=n_classes, z=7)
    copy_weights(fast, naive)
    return fast.double(), naive.double()


@pytest.mark.parametrize("n_classes", [10, 3])
@pytest.mark.parametrize("shape", [(1, 28, 28), SMALL], ids=["28x28", "8x8"])
def test_naive_model_is_the_fast_one(shape, n_classes):
    fast, naive = literal_pair(shape, n_classes)
    batch = random_batch(shape, n_classes=n_classes)
    x, labels = batch.x[:6], torch.eye(n_classes, dtype=torch.float64)[batch.y]

    def same(one, other):
        torch.testing.assert_close(one, other, atol=1e-9, rtol=1e-9)

    same(naive.classifier(x), fast.classifier(x))
    for one, other in zip(naive.encoder(x, labels)[:2], fast.encoder(x, labels)[:2], strict=True):
        same(one, other)
    codes = torch.randn(len(x), 7, dtype=torch.float64)
    same(naive.decoder(codes, labels), fast.decoder(codes, labels))

    losses = []
    for model in (naive, fast):
        torch.manual_seed(1)
        losses.append(model(batch).loss)
        losses[-1].backward()
    same(*losses)
    # the first layers' gradients have come through all the others, the classifier's through the label maps too
    same(naive.classifier.stack.layers[0].conv.weight.grad, fast.classifier.stack.convs[0].conv.weight.grad)
    same(naive.encoder.stack.layers[0].conv.bias.grad, fast.encoder.stack.convs[0].conv.bias.grad)
    # and running statistics have gone the same way
    same(naive.eval().scores(x), fast.eval().scores(x))


@pytest.mark.parametrize("kind", ["resident", "loader"])
def test_naive_steps_change_every_weight(kind):
    torch.manual_seed(0)
    settings = MaxMarginConditionalVAEConfig(dropout=0.3, straight_through=0.1)
    model = naive_model(SMALL, settings, n_classes=3, z=4)
    x, y = torch.randint(256, (10, *SMALL), dtype=torch.uint8), torch.arange(10) % 3
    x_unlabeled = torch.randint(256, (20, *SMALL), dtype=torch.uint8)
    size = {"labeled_batch": 6, "unlabeled_batch": 8}
    if kind == "resident":
        batches = resident_batches(x, y, x_unlabeled, **size)
    else:
        batches = loader_batches(x / 255, y, x_unlabeled / 255, **size, device=torch.device("cpu"))
    batch = next(batches)
    assert [len(part) for part in batch[:2]] == [6 + 8, 6]
    assert batch.x.dtype == torch.float32
    assert 0 <= batch.x.min() <= batch.x.max() <= 1
    images = {tuple((255 * row).round().int().flatten().tolist()) for row in batch.x[:6]}
    assert images <= {tuple(row.int().flatten().tolist()) for row in x}  # the labeled ones come first

    before = [parameter.clone() for parameter in model.parameters()]
    step = training_step(model, batches, learning_rate=1e-3)
    for _ in range(3):
        assert step().isfinite()
    for old, new in zip(before, model.parameters(), strict=True):
        assert (old != new).any()


@pytest.fixture(name="fixed_noise")
def make_fixed_noise(monkeypatch):
    """The same draw for every row, however rows are grouped."""
    monkeypatch.setattr(
        "torch.distributions.normal._standard_normal",
        lambda shape, dtype, device: torch.linspace(-1, 1, shape[-1], dtype=dtype, device=device).expand(shape),
    )


def marginalising_model(*, dropout):
    return MarginalConditionalVAEConfig(z=4, dropout=dropout).build(SMALL, n_classes=3, n_rows=1)


def literal_marginal_loss(model, batch):
    """M2's objective, term by term."""
    k, n = model.n_classes, len(batch.y)
    labeled, unlabeled = batch.x[:n], batch.x[n:]
    scores = model.classifier(batch.x)
    q = scores[n:].softmax(dim=1)
    eye = torch.eye(k, dtype=batch.x.dtype)

    def cost(x, labels):
        return math.log(k) - model.bound(x, model.encoder(x, labels), labels).elbo

    expected = sum(q[:, c] * cost(unlabeled, eye[c].expand(len(q), k)) for c in range(k))
    entropy = -(q * q.log()).sum(dim=1)
    bounds = cost(labeled, eye[batch.y]).sum() + (expected - entropy).sum()
    return bounds / len(batch.x) + model.settings.alpha * cross_entropy(scores[:n], batch.y)


@pytest.mark.parametrize("chunk_rows", [1, 7, 1000])
def test_marginalising_gradients_are_those_of_the_objective(fixed_noise, chunk_rows):
    torch.manual_seed(0)
    model = marginalising_model(dropout=0.0)
    perturb(model.double())
    batch = random_batch(SMALL, n_classes=3, n=4, m=5)
    expected = literal_marginal_loss(model, batch)
    gradients = torch.autograd.grad(expected, list(model.parameters()))
    torch.testing.assert_close(model(batch).loss, expected, atol=1e-10, rtol=1e-10)
    torch.testing.assert_close(
        torch.autograd.grad(model(batch).loss, list(model.parameters())), gradients, atol=1e-10, rtol=1e-8
    )
    loss = accumulate_gradients(model, batch, chunk_rows=chunk_rows)
    torch.testing.assert_close(loss, expected.detach(), atol=1e-10, rtol=1e-10)
    for parameter, gradient in zip(model.parameters(), gradients, strict=True):
        torch.testing.assert_close(parameter.grad, gradient, atol=1e-10, rtol=1e-8)


def test_marginalising_step_starts_from_no_gradient(fixed_noise):
    torch.manual_seed(0)
    model = marginalising_model(dropout=0.0).double()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    batch = random_batch(SMALL, n_classes=3)
    losses, gradients = [], []
    for _ in range(2):
        losses.append(marginalising_step(model, optimizer, batch, chunk_rows=8))
        gradients.append(model.classifier.last.weight.grad.clone())
    assert not losses[0].requires_grad
    torch.testing.assert_close(*losses)
    torch.testing.assert_close(*gradients)


def test_marginalising_steps_learn():
    torch.manual_seed(0)
    model = marginalising_model(dropout=0.3)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    batch = random_batch(SMALL, n_classes=3)
    batch = batch._replace(x=batch.x.float())
    losses = [marginalising_step(model, optimizer, batch).item() for _ in range(10)]
    assert losses[-1] < losses[0]
