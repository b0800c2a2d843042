"""Shallow S3VMs: the objective against literal sums and means, many at once against one by one."""

from itertools import pairwise

import pytest
import torch

from mmdgm.data.batches import Batch
from mmdgm.models.s3vm import (
    TermWeights,
    s3vm_network,
    s3vm_objective,
    s3vm_predictions,
    term_weights,
    train_s3vms,
)

ALPHA_HAT, ALPHA_BALANCE = 0.3, 0.7


def literal_losses(scores, y):
    """The paper's losses, class by class and row by row: of labeled rows, of the others, and of the balance."""
    n, k = len(y), scores.shape[1]
    putative = scores[n:].argmax(dim=1)

    def loss(row, label):
        return max((0.0 if c == label else 1.0) + row[c] - row[label] for c in range(k))

    of_labeled = sum(loss(row, int(label)) for row, label in zip(scores[:n], y, strict=True))
    of_others = sum(loss(row, int(label)) for row, label in zip(scores[n:], putative, strict=True))
    balance = 0.0
    for c in range(k):
        unlabeled = sum(row[c] for row, label in zip(scores[n:], putative, strict=True) if label == c) / len(putative)
        labeled = sum(row[c] for row, label in zip(scores[:n], y, strict=True) if label == c) / n
        balance += float(unlabeled - labeled) ** 2
    return float(of_labeled), float(of_others), balance**0.5


def test_the_objective_is_that_of_literal_means_and_sums():
    torch.manual_seed(0)
    scores, y = torch.randn(12, 3, dtype=torch.float64), torch.tensor([0, 1, 2, 1])
    labeled, unlabeled = 4, 8
    of_labeled, of_others, balance = literal_losses(scores, y)
    alphas = torch.tensor(ALPHA_HAT), torch.tensor(ALPHA_BALANCE)
    expected = {
        "means": of_labeled / labeled + ALPHA_HAT * of_others / unlabeled + ALPHA_BALANCE * balance,
        "sums": (of_labeled + ALPHA_HAT * of_others + ALPHA_BALANCE * balance) / labeled,
    }
    for reduction, value in expected.items():
        weights = term_weights(*alphas, reduction=reduction, labeled=labeled, unlabeled=unlabeled)
        assert s3vm_objective(scores, y, weights).item() == pytest.approx(value, rel=1e-6)


def batches_of_blobs(steps):
    """Rows of three classes around three points; the same batches for the same seed."""
    centres = 2 * torch.eye(3, 4)
    draws = torch.Generator().manual_seed(0)
    y = torch.arange(3).repeat(2)
    for _ in range(steps):
        classes = torch.cat([y, torch.randint(3, (9,), generator=draws)])
        yield Batch((centres[classes] + torch.randn(15, 4, generator=draws))[:, None, None], y)


@pytest.mark.parametrize("hidden", [0, 5])
def test_many_at_once_are_those_of_a_plain_loop(hidden):
    weights = TermWeights(torch.tensor([0.0, 0.3, 5.0]), torch.tensor([0.0, 2.0, 0.1]))
    torch.manual_seed(0)
    network = s3vm_network((1, 1, 4), 3, hidden=hidden)
    start = {name: p.clone() for name, p in network.state_dict().items()}
    rate = [0.1, 0.1, 0.05, 0.05, 0.02, 0.02].__getitem__
    trained = train_s3vms(network, weights, batches_of_blobs(6), rate=rate, labels_alone=2)
    assert network.state_dict().keys() == start.keys()
    assert all(torch.equal(network.state_dict()[name], start[name]) for name in start)  # it is not trained itself
    x = torch.cat([batch.x for batch in batches_of_blobs(3)])
    predicted = s3vm_predictions(network, trained, x)
    for i in range(3):
        network.load_state_dict(start)
        optimizer = torch.optim.Adam(network.parameters())
        for step, batch in enumerate(batches_of_blobs(6)):
            optimizer.param_groups[0]["lr"] = rate(step)
            optimizer.zero_grad()
            on = TermWeights(*(weight[i] if step >= 2 else torch.tensor(0.0) for weight in weights))
            s3vm_objective(network(batch.x), batch.y, on).backward()
            optimizer.step()
        for name, parameter in network.named_parameters():
            torch.testing.assert_close(trained[name][i], parameter.detach(), rtol=1e-4, atol=1e-6)
        assert torch.equal(predicted[i], network(x).argmax(dim=1))
    assert all(not torch.allclose(a, b) for a, b in pairwise(trained["1.weight"]))
