# SPDX-License-Identifier: Apache-2.0
"""What the examples of some ops leave open: every pair of operands, many sizes, and the sum, whose oracle is
another one."""

from __future__ import annotations

import numpy as np
import pytest

from pillion.emitters.tflite import emit
from pillion.errors import PillionError
from pillion.ir.graph import Graph
from pillion.ir.numerics import Arithmetic
from pillion.ir.op import Op
from pillion.ir.types import Array, DType
from pillion.ir.verify import verify_graph
from pillion.ops import Div, Prelu, ReduceSum, ResizeBilinear, ResizeNearest, TransposeConv2d
from pillion.ops.example_values import conv_bias, conv_weights, make_op, random_like, value

litert = pytest.importorskip("ai_edge_litert.interpreter")

REFERENCE = litert.OpResolverType.BUILTIN_REF
OPTIMIZED = litert.OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES


def assert_same_bytes(op: Op, *inputs: Array, resolver: object = REFERENCE) -> None:
    graph = verify_graph(Graph("g", op.activations, (op,), op.results, Arithmetic.TFLITE))
    interpreter = litert.Interpreter(
        model_content=emit(graph), experimental_op_resolver_type=resolver, num_threads=1
    )
    interpreter.allocate_tensors()
    for detail, array in zip(interpreter.get_input_details(), inputs, strict=True):
        interpreter.set_tensor(detail["index"], array)
    interpreter.invoke()
    answer = interpreter.get_tensor(interpreter.get_output_details()[0]["index"])
    assert np.array_equal(answer, graph.reference(*inputs)[0])


@pytest.mark.parametrize(
    "op",
    [op for op in ReduceSum.examples() if op.x.dtype is DType.INT8],
    ids=lambda op: f"{op.x.shape}-{op.axes}",
)
def test_sums_have_the_bytes_of_the_optimized_kernel(op: ReduceSum) -> None:
    for seed in range(5):
        assert_same_bytes(op, random_like(op.x, seed), resolver=OPTIMIZED)
    assert_same_bytes(op, np.full(op.x.shape, -128, np.int8), resolver=OPTIMIZED)


@pytest.mark.parametrize("zero_points", [(0, 0), (-128, 127), (127, -128), (5, -3)], ids=str)
@pytest.mark.parametrize("ratio", [64.0, 100.0, 127.99, 1000.0, 2.0**9])
def test_every_quotient(ratio: float, zero_points: tuple[int, int]) -> None:
    a, b = value("a", (256, 1), 0.05, zero_points[0]), value("b", (1, 255), 0.04, zero_points[1])
    op = make_op(Div, value("y", (), a.scale / (b.scale * ratio * 1.0001), 3), a=a, b=b)
    every = np.arange(-128, 128).astype(np.int8)
    assert_same_bytes(op, every[:, None], np.delete(every, zero_points[1] + 128)[None, :])


def test_division_is_refused_where_litert_leaves_quotients_undefined() -> None:
    a, b = value("a", (3,), 0.05), value("b", (3,), 0.05)
    with pytest.raises(PillionError, match="no exact TFLite form") as refusal:
        emit(Graph("g", (a, b), (op := make_op(Div, value("y", (), 0.1), a=a, b=b),), op.results))
    assert "by at most 31 places" in refusal.value.rule


@pytest.mark.parametrize("seed", range(40))
@pytest.mark.parametrize("cls", [ResizeNearest, ResizeBilinear], ids=lambda cls: cls.kind)
def test_resize_to_many_sizes(cls: type[Op], seed: int) -> None:
    rng = np.random.default_rng(seed)
    before, after = rng.integers(1, 40, 2).tolist(), tuple(rng.integers(1, 60, 2).tolist())
    align_corners, half_pixel = [(False, False), (True, False), (False, True)][seed % 3]
    x = value("x", (1 + seed % 2, *before, 1 + seed % 4), 0.1, 7)
    y = value("y", (), 0.1, 7)
    op = make_op(cls, y, x=x, size=after, align_corners=align_corners, half_pixel=half_pixel)
    assert_same_bytes(op, random_like(x, seed))


@pytest.mark.parametrize("seed", range(40))
def test_transposed_convolutions_of_many_shapes(seed: int) -> None:
    rng = np.random.default_rng(seed)
    kernel, stride = tuple(rng.integers(1, 5, 2).tolist()), tuple(rng.integers(1, 4, 2).tolist())
    more = tuple(int(rng.integers(0, s)) for s in stride)
    x = value("x", (1 + seed % 2, *rng.integers(4, 9, 2).tolist(), int(rng.integers(1, 9))), 0.03, -5)
    padding = tuple(int(rng.integers(0, min(k, 3))) for k in (*kernel, *kernel))
    weights = conv_weights(
        (int(rng.integers(1, 9)), *kernel, x.shape[3]), 0, seed, power_of_two=seed % 4 == 0
    )
    y, bias = value("y", (), 0.07, 11), conv_bias(x, weights, weights.shape[0], seed)
    fields = {"x": x, "weights": weights, "bias": bias, "stride": stride, "output_padding": more}
    op = make_op(TransposeConv2d, y, **fields, padding=padding, low=(-128, 11)[seed % 2])
    assert_same_bytes(op, random_like(x, seed))


@pytest.mark.parametrize("slope_zero_point", [0, 127, -128])
@pytest.mark.parametrize("scales", [(0.05, 0.007, 0.05), (0.25, 0.125, 0.0625), (0.011, 0.01, 0.09)], ids=str)
def test_prelu_of_every_level_and_slope(scales: tuple[float, float, float], slope_zero_point: int) -> None:
    x, slope = value("x", (256, 256), scales[0], 3), value("slope", (256,), scales[1], slope_zero_point)
    op = make_op(Prelu, value("y", (), scales[2], -9), x=x, slope=slope)
    every = np.arange(-128, 128).astype(np.int8)
    assert_same_bytes(op, np.broadcast_to(every[:, None], (256, 256)).copy(), every)
