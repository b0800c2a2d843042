"""A step of Kingma et al.'s M2 (`mmdgm.models.m2`) for any number of classes: what a point estimate saves.

Encoder and decoder are evaluated n + m·K times, in chunks, so that memory does not grow with K: each chunk's
gradient reaches them weighted by q(y|x), a constant there; the classifier then gets the gradient of U and the
cross entropy in one pass, with L(x, k) as constants. The sum is the gradient of the objective.
"""

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from mmdgm.data.batches import Batch
from mmdgm.models import MarginalConditionalVAE


def marginalising_step(
    model: MarginalConditionalVAE, optimizer: torch.optim.Optimizer, batch: Batch, *, chunk_rows: int = 1000
) -> Tensor:
    """One step on the objective; encoder and decoder see `chunk_rows` rows at a time. Returns the loss."""
    optimizer.zero_grad()
    loss = accumulate_gradients(model, batch, chunk_rows=chunk_rows)
    optimizer.step()
    return loss


def accumulate_gradients(model: MarginalConditionalVAE, batch: Batch, *, chunk_rows: int) -> Tensor:
    """Add the gradient of the objective to every parameter's, chunk by chunk; returns the loss."""
    x, n, k = batch.x, len(batch.y), model.n_classes
    m = len(x) - n
    scores = model.training_scores(x, model.settings)
    log_q = scores[n:].log_softmax(dim=1)
    q = log_q.exp()

    # pairs (row, class) with their weights: labeled rows with their own class, unlabeled rows with each
    row = torch.arange(n + m, device=x.device)
    row = torch.cat([row[:n], row[n:].repeat_interleave(k)])
    y = torch.cat([batch.y, torch.arange(k, device=x.device).repeat(m)])
    weight = torch.cat([q.new_ones(n), q.detach().flatten()]) / (n + m)
    costs = []
    for pairs in torch.arange(len(row), device=x.device).split(chunk_rows):
        cost = model.negative_elbo(x[row[pairs]], y[pairs])
        (weight[pairs] * cost).sum().backward()
        costs.append(cost.detach())
    cost = torch.cat(costs)

    marginal = (q * (cost[n:].reshape(m, k) + log_q)).sum() / (n + m)
    loss: Tensor = marginal + model.settings.alpha * cross_entropy(scores[:n], batch.y)
    loss.backward()
    return loss.detach() + cost[:n].sum() / (n + m)
