"""Parts of ONNX graphs: exported by PyTorch, or written as text. Parts are joined where tensors have the same name."""

import logging
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from mmdgm.errors import InputError

OPSET = {"": 18, "ai.onnx.ml": 2}
IR_VERSION = 10  # that of OPSET's time; newer ones need a newer onnxruntime
ROWS = "rows"  # name of the first dimension

Graph = Any  # onnx.GraphProto


def packages() -> tuple[Any, Any]:
    """Return the modules onnx and onnxruntime."""
    try:
        import onnx
        import onnxruntime
        import onnxscript  # noqa: F401 - torch's exporter needs it
    except ImportError:
        raise InputError("export needs onnx and onnxruntime: pip install 'mmdgm[export]'") from None
    return onnx, onnxruntime


def exported(module: nn.Module, inputs: Mapping[str, Tensor], outputs: Sequence[str], *, fixed: str = "") -> Graph:
    """Return the graph of a module in evaluation mode.

    `inputs`: names and examples of two or more rows, since the exporter takes a single row for a constant. All have
    rows along the first dimension, except the input `fixed`.
    """
    rows = torch.export.Dim(ROWS)
    with _quiet():
        program = torch.onnx.export(
            module.eval(),
            tuple(inputs.values()),
            dynamo=True,
            input_names=list(inputs),
            output_names=list(outputs),
            dynamic_shapes=tuple({} if name == fixed else {0: rows} for name in inputs),
            opset_version=OPSET[""],
            verbose=False,
        )
    assert program is not None
    graph = program.model_proto.graph
    within(graph, f"to {outputs[0]}")
    return graph


def written(text: str, constants: Mapping[str, Any], calls: Mapping[str, Graph] = {}) -> Graph:
    """Return the graph of a text in ONNX's own syntax, with these constants.

    Where the text names an operator of `calls`, the nodes of that graph are inserted.
    """
    onnx, _ = packages()
    graph = onnx.parser.parse_graph(text)
    _insert(graph, calls)
    for part in calls.values():
        graph.initializer.extend(part.initializer)
    graph.initializer.extend(onnx.numpy_helper.from_array(np.asarray(v), name) for name, v in constants.items())
    within(graph, graph.name)
    return graph


def _insert(graph: Graph, calls: Mapping[str, Graph]) -> None:
    nodes = list(graph.node)
    del graph.node[:]
    for node in nodes:
        for body in bodies(node):
            _insert(body, calls)
        graph.node.extend(calls[node.op_type].node if node.op_type in calls else [node])


def bodies(node: Any) -> list[Graph]:
    """Return the graphs inside a node, such as a loop's."""
    return [attribute.g for attribute in node.attribute if attribute.HasField("g")]


def within(graph: Graph, prefix: str) -> None:
    """Put a prefix before all names except those of inputs and outputs, so that parts share only these."""
    kept = {"", *(value.name for value in (*graph.input, *graph.output))}
    rename(graph, lambda name: name if name in kept else f"{prefix}/{name}")


def joined(parts: Iterable[Graph], inputs: Sequence[Any], outputs: Sequence[Any]) -> Graph:
    """Return one graph of parts in the order of computation. Weights that several parts have are kept once."""
    onnx, _ = packages()
    whole, seen, same = onnx.GraphProto(name="mmdgm"), dict[Any, str](), dict[str, str]()
    for part in parts:
        whole.node.extend(part.node)
        for weights in part.initializer:
            values = onnx.numpy_helper.to_array(weights)
            first = seen.setdefault((values.dtype, values.shape, values.tobytes()), weights.name)
            same[weights.name] = first
            if first == weights.name:
                whole.initializer.append(weights)
    rename(whole, lambda name: same.get(name, name))
    whole.input.extend(inputs)
    whole.output.extend(outputs)
    return whole


def rename(graph: Graph, new: Callable[[str], str]) -> None:
    """Rename all tensors, and drop the exporter's notes, which include stack traces with paths of this machine."""
    for named in (*graph.input, *graph.output, *graph.initializer):
        named.name = new(named.name)
        del named.metadata_props[:]
    del graph.value_info[:], graph.metadata_props[:]
    for node in graph.node:
        node.input[:], node.output[:] = map(new, node.input), map(new, node.output)
        node.name, node.doc_string = "", ""
        del node.metadata_props[:]
        for body in bodies(node):
            rename(body, new)


def tensor_info(name: str, kind: Any, *shape: Any) -> Any:
    """Return the description of an input or output; `kind`: a numpy dtype."""
    onnx, _ = packages()
    return onnx.helper.make_tensor_value_info(name, onnx.helper.np_dtype_to_tensor_dtype(np.dtype(kind)), shape)


@contextmanager
def _quiet() -> Iterator[None]:
    """Hide the exporter's warnings, which concern torch's own code and packages that are not needed here."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)
