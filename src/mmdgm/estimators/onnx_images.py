"""Images in ONNX: raw pixels → network inputs → missing pixels filled by rounds → scores, as `predict` does it.

A round's noise is a function of the row in `predict`. ONNX cannot compute that function, so in the file all rows have
the noise of one draw. The number of rounds, their start, and the mean over the later ones are the same.
"""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from mmdgm.data.codecs import ImageCodec
from mmdgm.data.contrast import contrast_of
from mmdgm.estimators.onnx_parts import ROWS, Graph, exported, tensor_info, written

ROUNDS = 20  # as in `predict`

FILL = """
fill (float[rows, c, h, w] begin, bool[rows, c, h, w] hole) => (float[rows, c, h, w] filled)
{
  holes = Cast <to = 7> (hole)
  some = ReduceMax <keepdims = 0> (holes)
  needed = Mul (some, rounds)
  nothing = Mul (begin, zero)
  last, total = Loop (needed, yes, begin, nothing) <body = step (
    int64 i, bool goes, float[rows, c, h, w] current, float[rows, c, h, w] total_in
  ) => (bool goes_on, float[rows, c, h, w] next, float[rows, c, h, w] total_out) {
    noise = Gather <axis = 0> (draws, i)
    rebuilt = Rebuild (current, noise)
    next = Where (hole, rebuilt, begin)
    sum = Add (total_in, next)
    is_late = GreaterOrEqual (i, half)
    total_out = Where (is_late, sum, total_in)
    goes_on = Identity (goes)
  }>
  mean = Div (total, kept)
  filled = Where (hole, mean, begin)
}
"""
WHOLE = "whole (float[rows, c, h, w] begin) => (float[rows, c, h, w] filled) { filled = Identity (begin) }"


class _Pixels(nn.Module):
    """Raw images `(rows, *size)` to network inputs `(rows, channels, height, width)`, and where a value is missing.

    Missing values are `start`, `(channels, height, width)`.
    """

    start: Tensor

    def __init__(self, codec: ImageCodec, start: Tensor):
        super().__init__()
        self.codec = codec
        self.register_buffer("start", start)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        codec, (_, height, width) = self.codec, self.codec.shape
        unit = (x.float() - codec.low) / (codec.high - codec.low)
        rows = unit.reshape(-1, *codec.size[:2], codec.channels).permute(0, 3, 1, 2)
        hole = rows.isnan()
        if codec.normalised:
            rows = contrast_of(rows)
        elif not codec.gaussian:
            rows = torch.where(hole, 0.0, rows).clamp(0, 1)
        border = (0, width - codec.size[1], 0, height - codec.size[0])
        rows = nn.functional.pad(rows, border)
        hole = nn.functional.pad(hole.float(), border, value=1.0) > 0
        return torch.where(hole, self.start, rows), hole


class _Round(nn.Module):
    def __init__(self, model: Any):
        super().__init__()
        self.model = model

    def forward(self, current: Tensor, noise: Tensor) -> Tensor:
        rebuilt: Tensor = self.model.reconstruct(current, noise=noise)
        return rebuilt


class _Scores(nn.Module):
    def __init__(self, model: Any):
        super().__init__()
        self.model = model

    def forward(self, filled: Tensor) -> Tensor:
        scores: Tensor = self.model.scores(filled)
        return scores


def image_parts(codec: ImageCodec, model: Any, start: Tensor) -> tuple[dict[str, Any], list[Graph]]:
    """Return the input x by its name, and the graphs from it to `scores`. `start`: first values of missing pixels.

    x is `(rows, *codec.size)`: bytes if the model was fitted on bytes, else float32, in which NaN is a missing value.
    """
    kind, example = (np.uint8, torch.uint8) if codec.of_bytes else (np.float32, torch.float32)
    inputs = {"x": tensor_info("pixels", kind, ROWS, *codec.size)}
    pixels = _Pixels(codec, start if model.generates else torch.full_like(start, torch.nan))
    raw = {"pixels": torch.zeros(2, *codec.size, dtype=example)}
    rows = torch.zeros(2, *codec.shape)
    parts = [exported(pixels, raw, ["begin", "hole"])]
    if model.generates and has_holes(codec):
        parts.append(_filling(model, rows))
    else:
        parts.append(written(WHOLE, {}))
    return inputs, [*parts, exported(_Scores(model), {"filled": rows}, ["scores"])]


def has_holes(codec: ImageCodec) -> bool:
    """Whether an image can have missing values: NaN, or the border that the networks' size adds."""
    return takes_nan(codec) or codec.shape[1:] != codec.size[:2]


def takes_nan(codec: ImageCodec) -> bool:
    """Whether pixels may be NaN. Bytes cannot, and contrast normalisation needs whole images."""
    return not (codec.of_bytes or codec.normalised)


def common_noise(z: int) -> NDArray[np.float32]:
    """The noise `(ROUNDS, z)` of all rows in the file."""
    return np.random.default_rng(0).standard_normal((ROUNDS, z), dtype=np.float32)


def _filling(model: Any, rows: Tensor) -> Graph:
    """Return the graph from `begin` and `hole` to `filled`. Without a hole it has no round."""
    z = model.encoder.z
    one_round = exported(_Round(model), {"current": rows, "noise": torch.zeros(z)}, ["rebuilt"], fixed="noise")
    constants = {"draws": common_noise(z), "rounds": ROUNDS, "half": ROUNDS // 2, "yes": True}
    constants |= {"zero": np.float32(0), "kept": np.float32(ROUNDS - ROUNDS // 2)}
    return written(FILL, constants, {"Rebuild": one_round})
