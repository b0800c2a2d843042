"""The shallow S3VM of paper §4.1: a max-margin classifier of few labeled and many unlabeled rows, without a bound.

    min  mean_l[hinge] + w_U · mean_u[hat] + w_B · balance

The paper's final objective sums the losses over N_L labeled and N_U unlabeled rows. Divided by N_L, it is the same
with other weights:

    Σ_l hinge + α_U Σ_u hat + α_B balance  =  N_L · ( mean_l[hinge] + α_U N_U/N_L · mean_u[hat] + α_B/N_L · balance )

`train_s3vms` trains classifiers with many pairs of weights at once. At first it can leave unlabeled rows out, because
the hat loss locks in the classifier's predictions.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap

from mmdgm.data.batches import Batch, Shape
from mmdgm.models import losses
from mmdgm.networks.layers import dense

Reduction = Literal["means", "sums"]
Parameters = Mapping[str, Tensor]


class TermWeights(NamedTuple):
    """Weights of the mean hat loss and of the label balance, beside a weight 1 of the mean hinge loss."""

    hat: Tensor  # w_U
    balance: Tensor  # w_B


def term_weights(
    alpha_hat: Tensor, alpha_balance: Tensor, *, reduction: Reduction, labeled: int, unlabeled: int
) -> TermWeights:
    """Return the weights that α_U and α_B mean if the objective takes means of the losses, or sums over all rows."""
    if reduction == "means":
        return TermWeights(alpha_hat, alpha_balance)
    return TermWeights(alpha_hat * unlabeled / labeled, alpha_balance / labeled)


def s3vm_network(shape: Shape, n_classes: int, *, hidden: int) -> nn.Sequential:
    """Return a linear classifier, or one with a hidden layer of ReLUs."""
    size = torch.Size(shape).numel()
    if not hidden:
        return nn.Sequential(nn.Flatten(), dense(size, n_classes))
    return nn.Sequential(nn.Flatten(), dense(size, hidden), nn.ReLU(), dense(hidden, n_classes))


def s3vm_objective(scores: Tensor, y: Tensor, weights: TermWeights, *, margin: float = 1.0) -> Tensor:
    """Return the objective, `()`, from the scores `(rows, K)` of labeled rows with labels `(n,)`, then of others."""
    n = len(y)
    hat = losses.hat(scores[n:], scores[n:].argmax(dim=1), margin=margin).mean()
    balance = losses.label_balance(scores[:n], y, scores[n:])
    return losses.hinge(scores[:n], y, margin=margin).mean() + weights.hat * hat + weights.balance * balance


def train_s3vms(
    network: nn.Module,
    weights: TermWeights,
    batches: Iterable[Batch],
    *,
    rate: Callable[[int], float],
    labels_alone: int = 0,
) -> dict[str, Tensor]:
    """Train G copies of a network, one for each pair of weights `(G,)`; return their parameters, `(G, …)` each.

    All copies begin with the network's weights and see the same batches. `rate`: Adam's rate of a step.
    `labels_alone`: first steps, in which both weights are 0.
    """
    g = len(weights.hat)
    parameters = {
        name: p.detach().repeat(g, *[1] * p.dim()).requires_grad_() for name, p in network.named_parameters()
    }
    optimizer = torch.optim.Adam(parameters.values(), fused=True)

    def objective(own: Parameters, hat: Tensor, balance: Tensor, batch: Batch) -> Tensor:
        return s3vm_objective(functional_call(network, dict(own), batch.x), batch.y, TermWeights(hat, balance))

    of_all = vmap(objective, in_dims=(0, 0, 0, None))
    for step, batch in enumerate(batches):
        optimizer.param_groups[0]["lr"] = rate(step)
        optimizer.zero_grad()
        hat, balance = (weight * (step >= labels_alone) for weight in weights)
        of_all(parameters, hat, balance, batch).sum().backward()
        optimizer.step()
    return {name: parameter.detach() for name, parameter in parameters.items()}


@torch.no_grad()
def s3vm_predictions(network: nn.Module, parameters: Parameters, x: Tensor) -> Tensor:
    """Return the classes `(G, rows)` that G trained copies predict."""

    def of_one(own: Parameters) -> Tensor:
        scores: Tensor = functional_call(network, dict(own), x)
        return scores.argmax(dim=1)

    predictions: Tensor = vmap(of_one)(parameters)
    return predictions
