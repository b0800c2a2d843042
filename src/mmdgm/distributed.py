"""Training one model in several processes: the rank of this process, and means over all ranks.

In a single process, a mean over ranks is the identity.
"""

import os
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor


def world_size() -> int:
    """Return the number of processes that train together."""
    return dist.get_world_size() if dist.is_available() and dist.is_initialized() else 1


def is_first() -> bool:
    """Return whether this process writes and prints. It also works before the processes are connected."""
    if dist.is_available() and dist.is_initialized():
        return dist.get_rank() == 0
    numbers = (os.environ.get(name, "0") for name in ("RANK", "LOCAL_RANK", "NODE_RANK"))
    return all(number == "0" for number in numbers)


class _Mean(torch.autograd.Function):
    """The mean over ranks. Its gradient is also a mean over ranks."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return _averaged(x)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        return _averaged(gradients[0])


def _averaged(x: Tensor) -> Tensor:
    total = x.detach().clone(memory_format=torch.contiguous_format)
    dist.all_reduce(total)
    return total / world_size()


def mean_over_ranks(x: Tensor) -> Tensor:
    """Return the mean of a tensor over all ranks, with its gradient.

    m = (1/R) Σ_r m_r enters the loss L_r of every rank, so ∂(Σ_s L_s)/∂m_r = (1/R) Σ_s ∂L_s/∂m. DDP averages the
    weight gradients of the ranks. The result is the gradient of (1/R) Σ_s L_s, as in one process with all rows.
    """
    if world_size() == 1:
        return x
    mean: Tensor = _Mean.apply(x)
    return mean
