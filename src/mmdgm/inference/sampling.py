"""Images from the prior."""

from typing import Any

import torch
from numpy.typing import NDArray

from mmdgm.inference.evaluation import inference
from mmdgm.models import VAE, ConditionalVAE


def sample_grid(model: VAE, *, columns: int, rows: int, seed: int = 0) -> dict[str, NDArray[Any]]:
    """Decoder means for codes from the prior: `x` `(rows, columns, channels, height, width)` and `z`.

    A conditional model gives one row per class and one code per column, and `y` beside them.
    """
    with inference(model, seed=seed) as device:
        if isinstance(model, ConditionalVAE):
            rows = model.n_classes
            z = torch.randn(columns, model.encoder.z, device=device).repeat(rows, 1)
            y = torch.arange(rows, device=device).repeat_interleave(columns)
            x = model.generate(z, y)
        else:
            z = torch.randn(rows * columns, model.encoder.z, device=device)
            x = model.generate(z)
    grid = {"x": x.reshape(rows, columns, *x.shape[1:]), "z": z.reshape(rows, columns, -1)}
    if isinstance(model, ConditionalVAE):
        grid["y"] = y.reshape(rows, columns)
    return {name: tensor.cpu().numpy() for name, tensor in grid.items()}
