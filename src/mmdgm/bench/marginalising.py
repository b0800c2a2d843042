"""Kingma et al.'s M2 on the library's fast networks: what a point estimate of the label saves.

M2 marginalises the unknown label, where Conv-MMCVA takes the most likely one. Over n labeled and m unlabeled
rows, with q(y|x) = softmax(s(x)) and L(x, y) = −ELBO(x, y), log p(y) = −log K included:

    min  ( Σ_l L(x, y) + Σ_u U(x) ) / (n + m) + α · mean_l[ −log q(y|x) ]

    U(x) = Σ_k q(k|x) · L(x, k) − H(q(y|x)) = Σ_k q(k|x) · ( L(x, k) + log q(k|x) )

A step evaluates encoder and decoder n + m·K times. They are done in chunks, so that memory does not grow with K:
each chunk's gradient reaches encoder and decoder weighted by q, a constant there; the classifier then gets the
gradient of U and the cross entropy in one pass, with L(x, k) as constants. The sum is the gradient.

[Semi-supervised learning with deep generative models](https://arxiv.org/abs/1406.5298), equations 6 to 9.
"""

import math

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, one_hot

from mmdgm.batches import Batch
from mmdgm.layers import at_least_float32
from mmdgm.models import VAE
from mmdgm.networks import Classifier, Encoder, Shape
from mmdgm.recipes import conditional_conv_networks, conv_classifier


class MarginalisingModel(VAE):
    """A class-conditional VAE and a classifier q(y|x); `alpha` weighs the cross entropy."""

    def __init__(
        self,
        classifier: Classifier,
        encoder: Encoder,
        decoder: nn.Module,
        *,
        n_classes: int,
        alpha: float = 0.1,
        samples: int = 1,
    ):
        super().__init__(encoder, decoder, samples=samples)
        self.classifier, self.n_classes, self.alpha = classifier, n_classes, alpha

    def negative_elbo(self, x: Tensor, y: Tensor) -> Tensor:
        """L(x, y) of images and classes `(rows,)`, shape `(rows,)`."""
        labels = one_hot(y, self.n_classes).to(x.dtype)
        return math.log(self.n_classes) - self.bound(x, self.encoder(x, labels), labels).elbo


def marginalising_model(shape: Shape, *, n_classes: int, z: int, dropout: float) -> MarginalisingModel:
    """M2 with the networks of Conv-MMCVA."""
    return MarginalisingModel(
        conv_classifier(shape, n_classes=n_classes, dropout=dropout, narrow=False),
        *conditional_conv_networks(shape, z=z, n_classes=n_classes),
        n_classes=n_classes,
    )


def marginalising_step(
    model: MarginalisingModel, optimizer: torch.optim.Optimizer, batch: Batch, *, chunk_rows: int = 1000
) -> Tensor:
    """One step on the objective; encoder and decoder see `chunk_rows` rows at a time. Returns the loss."""
    optimizer.zero_grad()
    loss = accumulate_gradients(model, batch, chunk_rows=chunk_rows)
    optimizer.step()
    return loss


def accumulate_gradients(model: MarginalisingModel, batch: Batch, *, chunk_rows: int) -> Tensor:
    """Add the gradient of the objective to every parameter's, chunk by chunk; returns the loss."""
    n, m, k = len(batch.x), len(batch.x_unlabeled), model.n_classes
    x = torch.cat([batch.x, batch.x_unlabeled])
    scores = at_least_float32(model.classifier(x))
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
    loss = marginal + model.alpha * cross_entropy(scores[:n], batch.y)
    loss.backward()
    return loss.detach() + cost[:n].sum() / (n + m)
