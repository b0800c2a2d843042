"""Train for a few steps, alone or as one of several ranks under torchrun, and write losses: for test_distributed.py.

Noise differs between ranks by design, so here it is a constant. In float64, since a putative label that flips with
the last bit of a score changes all that follows.
"""

import json
import sys
from pathlib import Path

import torch
from torch.distributions import normal

from mmdgm.data import datasets
from mmdgm.data.batches import Reading, Store
from mmdgm.devices import Machine, make_fabric
from mmdgm.models import MarginalConditionalVAEConfig, MaxMarginConditionalVAEConfig, MaxMarginVAEConfig
from mmdgm.training.plan import PretrainedTraining, SemiSupervisedTraining
from mmdgm.training.trainer import Trainer

CASES = {
    # a balance term that matters
    "conditional": (
        MaxMarginConditionalVAEConfig(z=8, dropout=0.0, straight_through=1e-3, balance_weight=5.0, alpha=1.0),
        SemiSupervisedTraining(epochs=2, batch=20, unlabeled_batch=40, log_every=1),
    ),
    "marginal": (
        MarginalConditionalVAEConfig(network="mlp", hidden=(16,), z=4, dropout=0.0, averaging=0.9),
        SemiSupervisedTraining(epochs=1, batch=20, unlabeled_batch=40, log_every=1),
    ),
    # a first stage that leaves the classifier untrained
    "two stages": (
        MaxMarginVAEConfig(hidden=(32, 16), z=8, features="hidden", C=10.0),
        PretrainedTraining(pretrain_epochs=1, epochs=2, batch=40, log_every=1),
    ),
}


def main(out: str) -> None:
    torch.set_default_dtype(torch.float64)
    normal._standard_normal = lambda shape, dtype, device: torch.full(shape, 0.5, dtype=dtype, device=device)
    fabric = make_fabric(Machine("cpu"))
    data = datasets.load("digits")
    x, y = torch.from_numpy(data.x_train[:400]), torch.from_numpy(data.y_train[:400])
    curves: dict[str, list[dict[str, float]]] = {}
    for name, (config, training) in CASES.items():
        torch.manual_seed(0)
        model = config.build(data.shape, n_classes=10, n_rows=200)
        semi = isinstance(training, SemiSupervisedTraining)
        store = Store(x, torch.where(torch.arange(400) < 200, y, -1)) if semi else Store(x[:200], y[:200])
        metrics: list[dict[str, float]] = []
        Trainer(model, training, fabric=fabric).fit(
            store, seed=0, reading=Reading(data.scale), on_log=[lambda r, m=metrics: m.append(r.metrics)]
        )
        curves[name] = metrics
        curves[f"{name} weights"] = [{k: v.double().sum().item() for k, v in model.state_dict().items()}]
    if fabric.is_global_zero:
        Path(out).write_text(json.dumps({"world_size": fabric.world_size, **curves}))


if __name__ == "__main__":
    main(sys.argv[1])
