"""How noisy the gradient estimators of `models/gradient_estimators.py` are, on scikit-learn's digits.

    OMP_NUM_THREADS=1 .venv/bin/python benchmarks/gradient_variance.py [--out FILE]

A small MMVA whose features are draws of z is trained for some hundred steps. Its weights stay, and every estimator
gives many gradients of one batch. The figure is √(total variance) / ‖mean gradient‖, for each group of weights. The
mean is that of the reparameterised gradients, in which all estimators agree. Takes two minutes on one core.
"""

import argparse
import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from sklearn.datasets import load_digits
from torch import Tensor

from mmdgm.data.batches import Batch
from mmdgm.experiments.provenance import software
from mmdgm.files import read_json, write_json
from mmdgm.models import MaxMarginVAE, MaxMarginVAEConfig

RESULTS = Path(__file__).parents[1] / "results" / "bench" / "gradient-variance.json"
CONFIG = MaxMarginVAEConfig(hidden=(64,), z=8, features="sample", C=15.0, margin=3.0)
GROUPS = {"φ": "encoder", "θ": "decoder", "λ": "classifier"}
DRAWS = (2, 10)  # L
WAYS: dict[str, dict[str, Any]] = {
    "reparameterised, analytic KL": {},
    "reparameterised, sampled KL": {"kl": "sampled"},
    "score, analytic KL": {"gradient": "score"},
    "score, sampled KL": {"gradient": "score", "kl": "sampled"},
    "score with baseline, analytic KL": {"gradient": "score", "baseline": True},
    "score with baseline, sampled KL": {"gradient": "score", "kl": "sampled", "baseline": True},
}
STEPS, ESTIMATES, ROWS = 500, 400, 100


def trained_model() -> tuple[MaxMarginVAE, Batch]:
    """Return a model after some hundred steps, and the batch whose gradients are compared."""
    pixels, labels = load_digits(return_X_y=True)
    x, y = torch.tensor(pixels / 16, dtype=torch.float32).reshape(-1, 1, 8, 8), torch.tensor(labels)
    torch.manual_seed(0)
    model: MaxMarginVAE = CONFIG.build((1, 8, 8), n_classes=10, n_rows=len(x))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for _ in range(STEPS):
        rows = torch.randint(len(x), (ROWS,))
        optimizer.zero_grad()
        model(Batch(x[rows], y[rows])).loss.backward()
        optimizer.step()
    return model, Batch(x[:ROWS], y[:ROWS])


def gradients(model: MaxMarginVAE, batch: Batch, settings: MaxMarginVAEConfig) -> dict[str, Tensor]:
    """Return independent estimates `(estimates, weights)` of the gradient for each group of weights."""
    torch.manual_seed(1)
    parts = {name: list(getattr(model, part).parameters()) for name, part in GROUPS.items()}
    found: dict[str, list[Tensor]] = {name: [] for name in GROUPS}
    for _ in range(ESTIMATES):
        model.zero_grad()
        model(batch, settings=settings).loss.backward()
        for name, weights in parts.items():
            found[name].append(torch.cat([w.grad.flatten() for w in weights if w.grad is not None]))
    return {name: torch.stack(each) for name, each in found.items()}


def measured() -> dict[str, dict[str, float]]:
    """Return the relative noise by "WAY/L" and group of weights."""
    model, batch = trained_model()
    noise: dict[str, dict[str, float]] = {}
    for samples in DRAWS:
        length: dict[str, Tensor] = {}
        for way, changes in WAYS.items():
            found = gradients(model, batch, dataclasses.replace(CONFIG, samples=samples, **changes))
            length = length or {name: values.mean(0).norm() for name, values in found.items()}
            noise[f"{way}/{samples}"] = {
                name: float(values.var(0).sum().sqrt() / length[name]) for name, values in found.items()
            }
    return noise


def markdown(noise: Mapping[str, Mapping[str, float]]) -> str:
    """Return the table of relative noise."""
    columns = [f"{name}, L = {samples}" for name in GROUPS for samples in DRAWS]
    lines = [f"| gradient | {' | '.join(columns)} |", f"| --- |{' --- |' * len(columns)}"]
    for way in WAYS:
        figures = [f"{noise[f'{way}/{samples}'][name]:.2f}" for name in GROUPS for samples in DRAWS]
        lines.append(f"| {way} | {' | '.join(figures)} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=RESULTS)
    out = parser.parse_args().out
    write_json(out, {**software(), "noise": measured()})
    print(markdown(read_json(out)["noise"]))


if __name__ == "__main__":
    main()
