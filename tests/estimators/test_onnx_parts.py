"""Parts of ONNX graphs are joined by the names of their inputs and outputs, and share equal weights."""

import numpy as np
import onnx
import onnxruntime
import torch
from torch import nn

from mmdgm.estimators.onnx_parts import IR_VERSION, OPSET, exported, joined, rename, tensor_info, written

TWICE = """
twice (float[rows, n] y) => (float[rows, n] z)
{
  end, all = Loop (limit, yes, y) <body = step (int64 i, bool goes, float[rows, n] now)
    => (bool goes_on, float[rows, n] next, float[rows, n] also) {
    next = Layer (now)
    also = Identity (next)
    goes_on = Identity (goes)
  }>
  z = Identity (end)
}
"""


class Affine(nn.Module):
    def __init__(self, layer):
        super().__init__()
        self.layer = layer

    def forward(self, x):
        return self.layer(x)


def test_a_module_runs_before_a_loop_that_calls_it_again():
    layer = nn.Linear(40, 40)
    example = torch.zeros(2, 40)
    first = exported(Affine(layer), {"x": example}, ["y"])
    inside = exported(Affine(layer), {"now": example}, ["next"])
    loop = written(TWICE, {"limit": 2, "yes": True}, {"Layer": inside})
    inputs, outputs = ([tensor_info(name, np.float32, "rows", 40)] for name in ("x", "z"))
    graph = joined([first, loop], inputs, outputs)
    large = [values for values in graph.initializer if onnx.numpy_helper.to_array(values).size >= 40 * 40]
    assert len(large) == 1
    rename(graph, lambda name: {"x": "größe"}.get(name, f"of {name}" if name else ""))
    proto = onnx.helper.make_model(
        graph, opset_imports=[onnx.helper.make_opsetid("", OPSET[""])], ir_version=IR_VERSION
    )
    onnx.checker.check_model(proto, full_check=True)
    session = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    for rows in (1, 7):
        x = torch.randn(rows, 40)
        (z,) = session.run(["of z"], {"größe": x.numpy()})
        np.testing.assert_allclose(z, layer(layer(layer(x))).detach(), atol=1e-5)
