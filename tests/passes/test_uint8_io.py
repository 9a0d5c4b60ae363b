# SPDX-License-Identifier: Apache-2.0
"""uint8 inputs and outputs hold the same real numbers as int8 ones, with larger zero points."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import pillion
from pillion.ir.graph import Graph
from pillion.ir.types import DType, PerTensor, TensorType, Value
from pillion.ir.verify import verify_graph
from pillion.ops import Clamp, Dequantize, Quantize, Requantize, Softmax
from pillion.passes.int8_io import int8_io
from pillion.passes.uint8_io import uint8_io


def net(zero: int) -> Graph:
    """Real numbers in, quantized; out what a clamp makes, int8 and real, and a softmax's result."""
    real = Value("x", TensorType((2, 3, 40), DType.FLOAT32))
    x, y = (Value(n, TensorType(real.shape, DType.INT8, PerTensor(0.05, zero))) for n in ("xq", "y"))
    p = Value("p", TensorType(real.shape, DType.INT8, PerTensor(1 / 256, -128)))
    back = Value("back", real.type)
    ops = (
        Quantize(x=real, y=x),
        Clamp(x=x, y=y, low=-100, high=90),
        Softmax(x=y, y=p),
        Dequantize(x=p, y=back),
    )
    return verify_graph(Graph("net", (real,), ops, (y, back)))


@pytest.mark.parametrize("zero", [-128, 0, 127])
def test_the_same_numbers_128_higher(zero: int) -> None:
    narrow, wide = int8_io(net(zero)), verify_graph(uint8_io(net(zero)))
    assert [v.dtype for v in (*wide.inputs, *wide.outputs)] == [DType.UINT8] * 3
    assert [v.name for v in wide.inputs] == ["x"]
    assert [(v.scale, v.zero_point - 128) for v in (*wide.inputs, *wide.outputs)] == [
        (v.scale, v.zero_point) for v in (*narrow.inputs, *narrow.outputs)
    ]
    levels = np.random.default_rng(5).integers(0, 256, (2, 3, 40)).astype(np.uint8)
    for low, high in zip(narrow.reference((levels ^ 128).view(np.int8)), wide.reference(levels), strict=True):
        assert (low.view(np.uint8) ^ 128).tolist() == high.tolist()


def test_uint8_io_is_idempotent() -> None:
    graph = uint8_io(net(3))
    assert sum(isinstance(op, Requantize) for op in graph) == 3
    assert [op.name for op in uint8_io(graph)] == [op.name for op in graph]


def test_an_input_that_is_an_output_stays_one_value() -> None:
    inner = int8_io(net(3))
    graph = verify_graph(uint8_io(inner.replace(outputs=(*inner.outputs, inner.inputs[0]))))
    assert graph.outputs[2] is graph.inputs[0]
    assert graph.inputs[0].dtype is DType.UINT8


def test_loops_keep_int8_inside() -> None:
    """Only the borders of the program become uint8, not those of the body of a loop."""
    x = torch.linspace(-1, 1, 5 * 4).reshape(1, 5, 4)
    gru = torch.nn.GRU(4, 3, batch_first=True).eval()
    uint8, int8 = (
        pillion.compile(gru, (x,), target="cortex-m3", io_dtype=dtype) for dtype in ("uint8", "int8")
    )
    levels = np.random.default_rng(2).integers(0, 256, (1, 5, 4)).astype(np.uint8)
    narrow = int8.graph.reference((levels ^ 128).view(np.int8))
    for low, high in zip(narrow, uint8.graph.reference(levels), strict=True):
        assert (low.view(np.uint8) ^ 128).tolist() == high.tolist()
