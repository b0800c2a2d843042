"""Tables in ONNX: raw columns → encoded rows → missing values filled → scores, as `predict` does it.

The Gaussian's conditional mean needs Σ_oo⁻¹, and the observed columns o differ between rows. ONNX has no solver, so
conjugate gradients solve the systems of all rows at once. With R the correlations, and O = diag(o) of a row:

    (O R O) s = O u,   u = the row in standard deviations from the mean;   conditional mean = R O s

They are exact after d iterations up to rounding, so numbers are double. They stop when all rows have converged.
"""

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from mmdgm.data.codecs import TableCodec
from mmdgm.data.tables import BULK, Column
from mmdgm.errors import InputError
from mmdgm.estimators.onnx_parts import ROWS, Graph, exported, packages, tensor_info, written
from mmdgm.models.filler import RIDGE, Filler, ShrunkGaussian

ITERATIONS = 4  # × d, at most: rounding slows the solution down where columns are almost copies of each other
PRECISION = 1e-20  # squared, relative to the right side

NUMBERS = """
numbers (float[rows, n] numbers) => (float[rows, n] scaled)
{
  wide = Cast <to = 11> (numbers)
  centred = Sub (wide, centre)
  v = Div (centred, unit)
  size = Abs (v)
  excess = Sub (size, bulk)
  beyond = Max (excess, zero)
  more = Add (beyond, one)
  grown = Log (more)
  long = Add (bulk, grown)
  side = Sign (v)
  far = Mul (side, long)
  is_far = Greater (beyond, zero)
  squashed = Where (is_far, far, v)
  scaled = Cast <to = 1> (squashed)
}
"""
GAUSSIAN = """
gaussian (float[rows, d] encoded) => (float[rows, d] expected)
{
  exact = Cast <to = 11> (encoded)
  apart = Sub (exact, mean)
  u = Div (apart, deviation)
  hole = IsNaN (u)
  seen = Not (hole)
  o = Cast <to = 11> (seen)
  holes = Cast <to = 11> (hole)
  any_hole = ReduceMax <keepdims = 1> (holes, along)
  known = Where (hole, nothing, u)
  right = Mul (known, any_hole)
  size = ReduceSumSquare <keepdims = 1> (right, along)
  enough = Mul (size, precision)
  begin = Mul (right, nothing)
  open = Greater (size, enough)
  open_rows = Cast <to = 6> (open)
  rows_left = ReduceMax <keepdims = 0> (open_rows)
  some_left = Cast <to = 9> (rows_left)
  s, last_residual, last_direction, last_size = Loop (limit, some_left, begin, right, right, size) <body = step (
    int64 i, bool goes, double[rows, d] s_in, double[rows, d] r_in, double[rows, d] p_in, double[rows, one] size_in
  ) => (
    bool goes_on, double[rows, d] s_out, double[rows, d] r_out, double[rows, d] p_out, double[rows, one] size_out
  ) {
    p_all = MatMul (p_in, correlation)
    product = Mul (p_all, o)
    curved = Mul (p_in, product)
    curvature = ReduceSum <keepdims = 1> (curved, along)
    curvature_above = Max (curvature, tiny)
    length = Div (size_in, curvature_above)
    s_step = Mul (length, p_in)
    s_out = Add (s_in, s_step)
    r_step = Mul (length, product)
    r_out = Sub (r_in, r_step)
    size_out = ReduceSumSquare <keepdims = 1> (r_out, along)
    size_above = Max (size_in, tiny)
    share = Div (size_out, size_above)
    kept = Mul (share, p_in)
    p_out = Add (r_out, kept)
    open_now = Greater (size_out, enough)
    open_count = Cast <to = 6> (open_now)
    left = ReduceMax <keepdims = 0> (open_count)
    goes_on = Cast <to = 9> (left)
  }>
  answer = MatMul (s, correlation)
  wide_answer = Mul (answer, deviation)
  moved = Add (wide_answer, mean)
  expected = Cast <to = 1> (moved)
}
"""


class _FilledScores(nn.Module):
    """Encoded rows, in which NaN is missing, to scores. `expected`: the Gaussian's answer, if there is one."""

    def __init__(self, model: Any, filler: Filler):
        super().__init__()
        self.model, self.filler = model, filler

    def forward(self, encoded: Tensor, expected: Tensor | None = None) -> Tensor:
        missing = encoded.isnan()
        x, observed = torch.where(missing, 0.0, encoded), (~missing).to(encoded.dtype)
        network = self.filler.network.predict(x, observed)
        both = torch.stack([network if expected is None else expected, network])
        scores: Tensor = self.model.scores(self.filler.mixed(x, observed, both)[:, :, None, None])
        return scores


def table_parts(codec: TableCodec, model: Any, filler: Filler) -> tuple[dict[str, Any], list[Graph]]:
    """Return the inputs by their public names, and the graphs from them to `scores`.

    If all columns are numbers, there is one input x `(rows, columns)`. Else each column is an input `(rows, 1)`.
    """
    columns = codec.table.columns
    if all(codec.numeric):
        inputs = {"x": tensor_info("numbers", np.float32, ROWS, len(columns))}
    else:
        if len(set(codec.names)) < len(columns) or "" in codec.names:
            raise InputError(f"each column needs a name of its own to be exported, not {', '.join(codec.names)}")
        kinds = [np.float32 if number else object for number in codec.numeric]
        infos = [tensor_info(f"column{i}", kind, ROWS, 1) for i, kind in enumerate(kinds)]
        inputs = dict(zip(codec.names, infos, strict=True))
    examples = {"encoded": torch.zeros(2, codec.table.width)}
    parts = encoding_parts(columns)
    if filler.gaussian is not None:
        parts.append(gaussian_part(filler.gaussian, filler.groups.scale))
        examples["expected"] = torch.ones(2, codec.table.width)
    return inputs, [*parts, exported(_FilledScores(model, filler), examples, ["scores"])]


def encoding_parts(columns: tuple[Column, ...]) -> list[Graph]:
    """Return the graphs from raw columns to `encoded` `(rows, d)`."""
    onnx, _ = packages()
    node, constant = onnx.helper.make_node, onnx.numpy_helper.from_array
    numbers = [i for i, column in enumerate(columns) if column.kind != "category"]
    before, after, blocks = onnx.GraphProto(), onnx.GraphProto(), [f"encoded{i}" for i in range(len(columns))]
    if len(numbers) == len(columns):
        blocks = ["scaled"]
    elif numbers:
        before.node.append(node("Concat", [f"column{i}" for i in numbers], ["numbers"], axis=1))
        after.node.append(node("Split", ["scaled"], [blocks[i] for i in numbers], axis=1, num_outputs=len(numbers)))
    for i, column in enumerate(columns):
        if column.kind == "category":
            after.node.extend(_category_nodes(i, category_texts(column)))
            after.initializer.append(constant(np.arange(column.width), f"codes{i}"))
    if len(numbers) < len(columns):
        values = {"unknown": np.array(np.nan, np.float32), "first code": np.array(0)}
        after.initializer.extend(constant(value, name) for name, value in values.items())
    after.node.append(node("Concat", blocks, ["encoded"], axis=1))
    return [before, *([numbers_part([columns[i] for i in numbers])] if numbers else []), after]


def numbers_part(columns: list[Column]) -> Graph:
    """Return the graph from `numbers` to `scaled`."""
    ends = [(c.centre, c.scale) if c.kind == "number" else (c.values[0], c.values[1] - c.values[0]) for c in columns]
    centre, unit = np.array(ends, np.float64).T
    return written(NUMBERS, {"centre": centre, "unit": unit, "bulk": BULK, "zero": 0.0, "one": 1.0})


def gaussian_part(gaussian: ShrunkGaussian, scale: Tensor) -> Graph:
    """Return the graph from `encoded` to `expected`, both `(rows, d)`. The Gaussian is one of x / scale."""
    d = len(gaussian.mean)
    covariance = gaussian.covariance.double().numpy() + RIDGE * np.eye(d)
    deviation, unit = np.sqrt(np.diag(covariance)), scale.double().numpy()
    constants = {
        "correlation": covariance / np.outer(deviation, deviation),
        "mean": gaussian.mean.double().numpy() * unit,
        "deviation": deviation * unit,
        "precision": PRECISION,
        "tiny": np.finfo(np.float64).tiny,
        "nothing": 0.0,
        "along": np.array([1]),
        "limit": np.array(ITERATIONS * d),
    }
    return written(GAUSSIAN, constants)


def _category_nodes(i: int, texts: list[str]) -> list[Any]:
    """Return nodes from a column of text to one 0/1 column per category; a text that is none of them becomes NaN."""
    onnx, _ = packages()
    node, keys = onnx.helper.make_node, {"keys_strings": texts, "values_int64s": range(len(texts))}
    return [
        node("LabelEncoder", [f"column{i}"], [f"code{i}"], domain="ai.onnx.ml", default_int64=-1, **keys),
        node("Equal", [f"code{i}", f"codes{i}"], [f"is{i}"]),
        node("Cast", [f"is{i}"], [f"shares{i}"], to=onnx.TensorProto.FLOAT),
        node("Less", [f"code{i}", "first code"], [f"is_unknown{i}"]),
        node("Where", [f"is_unknown{i}", "unknown", f"shares{i}"], [f"encoded{i}"]),
    ]


def category_texts(column: Column) -> list[str]:
    """Return a column's categories as the texts that stand for them in the file's input."""
    texts = [value.decode() if isinstance(value, bytes) else str(value) for value in column.values]
    if len(set(texts)) < len(texts):
        raise InputError(
            f"column {column.name} has different values of the same text; make them all text or all numbers"
        )
    return texts
