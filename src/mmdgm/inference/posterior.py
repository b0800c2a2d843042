"""The posterior mean of a row's missing values given its observed values. It minimises the squared error.

    E[x_missing | x_observed] = E[ decoder mean at z ],  z ~ p(z | x_observed) ∝ p(x_observed | z) p(z)

The recognition network was trained on complete rows, so it treats guesses in a row as observed values. Therefore
each row gets its own q, a diagonal Gaussian. Steps of Adam maximise the bound of the observed values,

    E_q[log p(x_observed | z)] − KL(q ‖ p(z)).

A row has several q. Each one starts at the recognition network's output for a different first guess. Together they
are a mixture, whose weights are proportional to the exponential of the bound that each q reached. A
class-conditional model has one q per class, so its mixture also covers the unknown label.

On held-out MNIST images (500, an MMVA of 1,000 epochs), the mean squared error is lower than that of a single draw,
and of averaging or importance-weighting late rounds of the iterative inference: with a 12×12 hole .068 against
.136, .116 and .109; with 80 % of the pixels missing .016 against .043, .039 and .035. On digits of 8×8 with a 4×4
hole (Conv-MMCVA, 50 labels) it is .081, against .140 for a draw and .129 with the classifier's label only.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from mmdgm.inference.per_row import inference
from mmdgm.models import VAE, ConditionalVAE
from mmdgm.networks.base import Encoding

ROUNDS, STEPS, DRAWS = 20, 100, 20  # for the first guesses, for Adam, for the mean
NOISES = ROUNDS + STEPS + DRAWS  # draws of z for each row, the same for all of its q
RATE = 0.05
STARTS = 4
GENERATED = 200  # images whose mean is the prior's mean


def fill_with_posterior_mean(model: VAE, seed: int) -> Callable[[Tensor, Tensor, Tensor], Tensor]:
    """Return a function that fills rows, given the rows, the missing entries, and noise `(rows, NOISES, z)`."""
    starts, begin = count_starts(model), prior_mean(model, seed)

    def fill(x: Tensor, hole: Tensor, noise: Tensor) -> Tensor:
        labels = labels_of_starts(model, len(x))
        observed = torch.where(hole, begin, x)
        guesses, holes = (part.expand(starts, *part.shape).flatten(0, 1) for part in (observed, hole))
        draws = noise.transpose(0, 1).repeat(1, starts, 1)  # (NOISES, starts · rows, z)
        for i in range(ROUNDS):
            guesses = torch.where(holes, model.reconstruct(guesses, labels=labels, noise=draws[i]), guesses)
        return posterior_mean(model, guesses.reshape(starts, *x.shape), hole, draws[ROUNDS:], labels)

    return fill


def prior_mean(model: VAE, seed: int = 0) -> Tensor:
    """Return the mean of generated rows, `(…)`, which is the guess if nothing is known about a value."""
    with inference(model, seed=seed) as device:
        z = torch.randn(GENERATED, model.encoder.z, device=device)
        if not isinstance(model, ConditionalVAE):
            return model.generate(z).mean(dim=0)
        return model.generate(z, torch.arange(GENERATED, device=device) % model.n_classes).mean(dim=0)


def count_starts(model: VAE) -> int:
    """Return how many q are fitted per row."""
    return model.n_classes if isinstance(model, ConditionalVAE) else STARTS


def labels_of_starts(model: VAE, rows: int) -> Tensor | None:
    """Return the one-hot labels `(starts · rows, K)` for a conditional model, one class per start.

    Other models need no labels: the result is None.
    """
    if not isinstance(model, ConditionalVAE):
        return None
    like = next(model.parameters())
    return model.one_hot(torch.arange(model.n_classes, device=like.device).repeat_interleave(rows), like)


def posterior_mean(
    model: VAE, guesses: Tensor, missing: Tensor, noise: Tensor, labels: Tensor | None = None
) -> Tensor:
    """Return rows `(rows, …)` with the entries marked by `missing` replaced by the posterior mean.

    `guesses` `(starts, rows, …)`: the rows with first guesses in these entries.
    `noise` `(steps + draws, starts · rows, z)`: the noise for the draws of z.
    `labels` `(starts · rows, K)`: the labels for a conditional model.
    """
    starts, rows = guesses.shape[:2]
    x, observed = guesses.flatten(0, 1), (~missing).expand(guesses.shape).flatten(0, 1)
    q = _fit(model, x, observed, labels, noise[:-DRAWS])
    total, reached = torch.zeros_like(x), -q.kl
    for draw in noise[-DRAWS:]:
        px = model.decode(q.qz.loc + q.qz.scale * draw, labels)
        total += px.mean / DRAWS
        reached = reached + (px.log_prob(x) * observed).flatten(1).sum(1) / DRAWS
    weights = reached.reshape(starts, rows).softmax(dim=0).reshape(starts, rows, *[1] * (x.ndim - 1))
    return torch.where(missing, (weights * total.reshape(guesses.shape)).sum(dim=0), guesses[0])


def _fit(model: VAE, x: Tensor, observed: Tensor, labels: Tensor | None, noise: Tensor) -> Encoding:
    """Return the q fitted to each row's observed values, with one step of Adam per draw."""
    begin = model.encoder(x, labels)
    leaves = [part.detach().float().clone().requires_grad_() for part in (begin.mean, begin.log_variance)]
    optimizer = torch.optim.Adam(leaves, lr=RATE)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, len(noise))
    samples = model.settings.samples
    with torch.enable_grad():
        for draw in noise:
            encoding = Encoding(leaves[0], leaves[1], ())
            bound = model.bound(x, encoding, labels, observed=observed, noise=draw.expand(samples, *draw.shape))
            for leaf, gradient in zip(leaves, torch.autograd.grad(-bound.elbo.sum(), leaves), strict=True):
                leaf.grad = gradient
            optimizer.step()
            schedule.step()
    return Encoding(leaves[0].detach(), leaves[1].detach(), ())
