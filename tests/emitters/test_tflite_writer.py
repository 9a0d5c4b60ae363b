# SPDX-License-Identifier: Apache-2.0
"""Every op as a TFLite file, run by LiteRT's reference kernels: the same bytes as the op's reference."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import numpy as np
import pytest

from pillion.emitters.tflite import emit
from pillion.emitters.tflite.table import ROWS
from pillion.errors import PillionError
from pillion.ir.graph import Graph
from pillion.ir.numerics import Arithmetic
from pillion.ir.op import Op
from pillion.ir.types import Array, DType, PerTensor, TensorType, Value, constant_value
from pillion.ir.verify import verify_graph
from pillion.ops import ALL_OPS
from pillion.ops.clamp import (
    Clamp,
)
from pillion.ops.compare_select import Compare, Relation
from pillion.ops.conv import Conv2d, DepthwiseConv2d
from pillion.ops.detections import Detections
from pillion.ops.div import Div
from pillion.ops.elementwise import Add
from pillion.ops.example_values import random_like, value
from pillion.ops.indexing import Gather
from pillion.ops.integer_arithmetic import IntegerArithmetic
from pillion.ops.lut import (
    Lut,
)
from pillion.ops.lut_tflite import ENTRIES, tflite_entries
from pillion.ops.movement import Pad, Reshape
from pillion.ops.pool import AvgPool2d
from pillion.ops.reduce import ReduceSum
from pillion.ops.softmax import Softmax
from pillion.ops.unary_functions import (
    Function,
)
from pillion.schemas import tflite
from pillion.schemas.flatbuffer import read_root_table

litert = pytest.importorskip("ai_edge_litert.interpreter")

INEXACT = {
    "avg_pool2d-3",
    "avg_pool2d-8",
    "avg_pool2d_up-3",
    "transpose_conv2d-7",
    "transpose_conv2d-15",
    *(
        f"softmax-{n}"
        for n, op in enumerate(Softmax.examples())
        if op.results[0].scale < 1 / 256 and op.results[0].dtype is DType.INT8
    ),
}
"""Examples that TFLite cannot say: padding before a window that counts its pixels, a dilated transposed convolution,
fine steps of a softmax."""


def run_litert(data: bytes, *inputs: Array) -> list[Array]:
    """What LiteRT's reference kernels answer."""
    resolver = litert.OpResolverType.BUILTIN_REF
    interpreter = litert.Interpreter(
        model_content=data, experimental_op_resolver_type=resolver, num_threads=1
    )
    interpreter.allocate_tensors()
    for detail, array in zip(interpreter.get_input_details(), inputs, strict=True):
        interpreter.set_tensor(detail["index"], array)
    interpreter.invoke()
    return [interpreter.get_tensor(detail["index"]) for detail in interpreter.get_output_details()]


def graph_of(op: Op) -> Graph:
    return verify_graph(Graph("g", op.activations, (op,), op.results, Arithmetic.TFLITE))


def assert_same_bytes(graph: Graph, *inputs: Array) -> None:
    answers = run_litert(emit(graph), *inputs)
    for wanted, answer in zip(graph.reference(*inputs), answers, strict=True):
        assert (answer.dtype, answer.shape) == (wanted.dtype, wanted.shape)
        differing = np.flatnonzero(answer != wanted)
        assert not differing.size, (
            differing.size,
            wanted.ravel()[differing[:5]],
            answer.ravel()[differing[:5]],
        )


def inputs_of(op: Op) -> Iterator[list[Array]]:
    """Random inputs, then inputs at the ends of the range, at the zero points, and of alternating extremes."""
    for seed in range(4):
        yield [in_domain(op, v, random_like(v, seed)) for v in op.activations]
    for fill in boundary_fills(op):
        yield [in_domain(op, v, fill(v)) for v in op.activations]


def boundary_fills(op: Op) -> list:  # type: ignore[type-arg]  # of functions of a value
    if is_wide(op):
        return []
    if op.activations[0].dtype is DType.FLOAT32:
        halves = [
            lambda v: ((np.arange(v.type.elements) - 33) / 2 * op.y.scale).reshape(v.shape).astype(np.float32)
        ]
        return [
            *halves,
            lambda v: np.full(v.shape, 1e6, np.float32),
            lambda v: np.full(v.shape, -1e6, np.float32),
        ]
    return [
        lambda v: np.full(v.shape, v.dtype.bounds[0], v.dtype.numpy),
        lambda v: np.full(v.shape, v.dtype.bounds[1], v.dtype.numpy),
        lambda v: np.full(v.shape, v.zero_point if v.is_quantized else 0, v.dtype.numpy),
        lambda v: np.resize(np.array(v.dtype.bounds, v.dtype.numpy), v.shape),
    ]


def is_wide(op: Op) -> bool:
    """LiteRT's reference softmax ends the process where its exponentials sum up to more than 512."""
    return isinstance(op, Softmax) and op.x.shape[-1] > 512


def in_domain(op: Op, v: Value, array: Array) -> Array:
    """LiteRT stops at the square root of a negative number and at division by zero, too."""
    if is_wide(op):
        return np.where(np.arange(v.shape[-1]) % 8 == 0, array, v.dtype.bounds[0]).astype(array.dtype)
    if isinstance(op, Lut) and op.function in (Function.SQRT, Function.RSQRT):
        return np.maximum(array, v.zero_point).astype(v.dtype.numpy)
    if isinstance(op, Div) and v is op.b:
        return np.where(array == v.zero_point, v.zero_point ^ 1, array).astype(np.int8)
    if isinstance(op, Gather) and v is op.indices:  # LiteRT stops at rows that there are not
        return (array % op.x.shape[op.axis]).astype(array.dtype)
    return array


def is_refused(op: Op) -> bool:
    try:
        emit(graph_of(op))
    except PillionError:
        return True
    return False


def lacks_a_form(op: Op) -> bool:
    """Comparisons, quotients and places of 16-bit tensors, orders of booleans, small quotients, smallest values."""
    if op.activations[0].dtype is DType.INT16:
        return op.kind in ("arg_max", "arg_min", "compare", "div", "top_places", "top_values")
    if op.kind in ("top_values", "top_places"):
        return not op.largest  # type: ignore[attr-defined]  # both have it
    if isinstance(op, Div):
        return op.a.scale < 64 * op.b.scale * op.y.scale
    is_equality = isinstance(op, Compare) and op.relation in (Relation.EQUAL, Relation.NOT_EQUAL)
    return op.kind == "compare" and op.activations[0].dtype is DType.BOOL and not is_equality


CASES = [
    pytest.param(op, id=f"{cls.kind}-{number}")
    for cls in ALL_OPS
    if ROWS.get(cls) is not None
    for number, op in enumerate(cls.examples())
    if cls is not ReduceSum  # REF takes int8 for uint8; test_tflite_more.py has another oracle
    if f"{cls.kind}-{number}" not in INEXACT and not (isinstance(op, Lut) and op.function not in ENTRIES)
    if not ((isinstance(op, IntegerArithmetic) or lacks_a_form(op)) and is_refused(op))
    if not op.has_own_int16_form(Arithmetic.TFLITE)
    # LiteRT leaves what stands behind the last box as it was: tests/importers/test_tflite_detections.py compares the rest.
    if not isinstance(op, Detections)
]


@pytest.mark.turns(6)
@pytest.mark.parametrize("op", CASES)
def test_every_example_has_the_bytes_of_litert(op: Op) -> None:
    graph = graph_of(op)
    for inputs in inputs_of(op):
        assert_same_bytes(graph, *inputs)


@pytest.mark.parametrize("cls", ALL_OPS, ids=lambda cls: cls.kind)
def test_every_op_has_a_row(cls: type[Op]) -> None:
    assert cls in ROWS, f"{cls.kind}: add a row to emitters/tflite/table.py (None = refused on purpose)"


PARAMETERS = [
    (0.043, -128, 0.05, 127),
    (2.0**-4, 0, 2.0**-5, 0),
    (2.0**-5, 127, 2.0**-3, -128),
    (0.0117, 17, 0.009, -77),
    (2.0**-3, -31, 2.0**-2, 64),
    (0.31, -3, 0.6, 5),
]


@pytest.mark.parametrize("function", ENTRIES, ids=lambda f: f.value)
@pytest.mark.parametrize("parameters", PARAMETERS, ids=str)
def test_tables_of_functions(function: Function, parameters: tuple[float, int, float, int]) -> None:
    scale, zero_point, out_scale, out_zero_point = parameters
    out_scale = 1 / 256 if function is Function.SIGMOID else out_scale
    x, y = value("x", (256,), scale, zero_point), value("y", (256,), out_scale, out_zero_point)
    bounds = {"low": -0.5, "high": 2.25} if function is Function.CLAMP else {}
    alpha = {"alpha": float(np.float32(0.2))} if function is Function.LEAKY_RELU else {}
    op = Lut(x=x, y=y, function=function, **bounds, **alpha)
    every = in_domain(op, x, np.arange(-128, 128).astype(np.int8))
    if function is Function.EXP and scale * (127 - zero_point) > 20:
        with pytest.raises(PillionError, match="undefined"):
            emit(graph_of(op))
    else:
        assert (
            run_litert(emit(graph_of(op)), every)[0].tolist()
            == tflite_entries(op)[every.astype(int) + 128].tolist()
        )


@pytest.mark.parametrize("alpha", [0.0, 0.01, 1.0, 1.5, -0.3])
def test_leaky_relu_of_any_slope(alpha: float) -> None:
    x, y = value("x", (256,), 0.1, -20), value("y", (256,), 0.07, 30)
    op = Lut(x=x, y=y, function=Function.LEAKY_RELU, alpha=float(np.float32(alpha)))
    assert_same_bytes(graph_of(op), np.arange(-128, 128).astype(np.int8))


BOUNDS = {
    "NONE": (-128, 127),
    "RELU": (3, 127),
    "RELU6": (3, 63),
    "RELU_N1_TO_1": (-7, 13),
    "RELU_0_TO_1": (3, 13),
}


@pytest.mark.parametrize("bounds", [*BOUNDS.values(), (-40, 50), (-128, 20), (9, 127), (4, 4)], ids=str)
@pytest.mark.parametrize("same", [True, False], ids=["same scale", "other scale"])
def test_clamp_with_any_bounds(bounds: tuple[int, int], same: bool) -> None:
    x = value("x", (256,), 0.1 if same else 0.034, 3 if same else -90)
    op = Clamp(x=x, y=value("y", (256,), 0.1, 3), low=bounds[0], high=bounds[1])
    assert_same_bytes(graph_of(op), np.arange(-128, 128).astype(np.int8))


def codes_in(data: bytes) -> list[str]:
    model = read_root_table(tflite.Model, data, tflite.IDENTIFIER)
    codes = [tflite.OPERATORS[code.builtin_code] for code in model.operator_codes]
    return [codes[operator.opcode_index] for operator in model.subgraphs[0].operators]


def convolution(**fields: object) -> Conv2d:
    """3x3 over 8x8 pixels of two channels."""
    weights = constant_value("w", np.ones((2, 3, 3, 2), np.int8), PerTensor(0.01))
    bias = constant_value("b", np.arange(2, dtype=np.int32))
    made = Conv2d(x=value("x", (1, 8, 8, 2), 0.1, 3), weights=weights, bias=bias, y=value("y", ()), **fields)
    y = value("y", made.output_shape, 0.1, 3)
    return Conv2d(x=made.x, weights=weights, bias=bias, y=y, **fields)  # type: ignore[arg-type]  # the options of a case


@pytest.mark.parametrize(
    ("fields", "codes", "padding"),
    [
        ({}, ["CONV_2D"], "VALID"),
        ({"padding": (1, 1, 1, 1)}, ["CONV_2D"], "SAME"),
        ({"padding": (0, 0, 1, 1), "stride": (2, 2)}, ["CONV_2D"], "SAME"),
        ({"padding": (1, 1, 1, 1), "stride": (2, 2)}, ["PAD", "CONV_2D"], "VALID"),
        ({"padding": (2, 0, 0, 1)}, ["PAD", "CONV_2D"], "VALID"),
        ({"padding": (2, 2, 2, 2), "dilation": (2, 2)}, ["CONV_2D"], "SAME"),
        ({"padding": (0, 0, 1, 0), "stride": (4, 4)}, ["CONV_2D"], "VALID"),
    ],
    ids=str,
)
def test_padding_is_said_in_the_shortest_exact_way(
    fields: dict[str, object], codes: list[str], padding: str
) -> None:
    graph = graph_of(convolution(**fields))
    data = emit(graph)
    options = read_root_table(tflite.Model, data, tflite.IDENTIFIER).subgraphs[0].operators[-1].options
    assert isinstance(options, tflite.Conv2DOptions)
    assert (codes_in(data), tflite.Padding(options.padding).name) == (codes, padding)
    assert_same_bytes(graph, random_like(graph.inputs[0]))


@pytest.mark.parametrize(
    ("name", "bounds"), [(n, b) for n, b in BOUNDS.items() if n != "RELU_0_TO_1"], ids=str
)
def test_bounds_become_an_activation(name: str, bounds: tuple[int, int]) -> None:
    data = emit(graph_of(convolution(low=bounds[0], high=bounds[1])))
    options = read_root_table(tflite.Model, data, tflite.IDENTIFIER).subgraphs[0].operators[0].options
    assert isinstance(options, tflite.Conv2DOptions)
    assert (codes_in(data), tflite.Activation(options.fused_activation).name) == (["CONV_2D"], name)


def test_other_bounds_become_a_minimum_and_a_maximum() -> None:
    graph = graph_of(convolution(low=-100, high=90))
    assert codes_in(emit(graph)) == ["CONV_2D", "MINIMUM", "MAXIMUM"]
    assert_same_bytes(graph, random_like(graph.inputs[0]))


def test_tflite_tensors_have_shapes_types_and_scales_of_values() -> None:
    op = next(iter(DepthwiseConv2d.examples()))
    assert isinstance(op, DepthwiseConv2d)
    model = read_root_table(tflite.Model, emit(graph_of(op)), tflite.IDENTIFIER)
    tensors = {t.name: t for t in model.subgraphs[0].tensors}
    quantized = {name: tensor.quantization for name, tensor in tensors.items()}
    assert set(tensors) == {"x", "weights", "bias", "y"}
    assert quantized["x"] == tflite.Quantization(scale=[op.x.scale], zero_point=[op.x.zero_point])
    assert quantized["weights"].quantized_dimension == 3  # type: ignore[union-attr]  # a quantized tensor has it
    accumulator = [np.float32(op.x.scale * s) for s in op.weights.channel_scales]
    assert quantized["bias"].scale == accumulator  # type: ignore[union-attr]  # a quantized tensor has it
    assert (model.version, model.buffers[0].data) == (3, None)


def test_every_buffer_is_aligned() -> None:
    data = emit(graph_of(convolution(padding=(2, 0, 0, 1))))
    base = np.frombuffer(data, np.uint8).__array_interface__["data"][0]
    model = read_root_table(tflite.Model, data, tflite.IDENTIFIER)
    starts = [b.data.__array_interface__["data"][0] - base for b in model.buffers if b.data is not None]
    assert [start % 16 for start in starts] == [0, 0, 0]


def test_names_made_up_on_the_way_do_not_collide() -> None:
    conv = convolution(padding=(2, 0, 0, 1))
    rename = Value("y/padded", conv.x.type)
    graph = graph_of(conv.substitute({conv.x: rename}))
    names = [
        t.name for t in read_root_table(tflite.Model, emit(graph), tflite.IDENTIFIER).subgraphs[0].tensors
    ]
    assert sorted(names) == ["b", "w", "y", "y/padded", "y/padded_2", "y/paddings"]
    assert_same_bytes(graph, random_like(rename))


def test_inputs_and_constants_may_be_outputs() -> None:
    x, y = value("x", (2, 3), 0.1, 3), value("y", (2, 3), 0.1, 3)
    fixed = constant_value("c", np.arange(6, dtype=np.int8).reshape(2, 3), PerTensor(0.1, 3))
    graph = Graph("g", (x,), (Clamp(x=x, y=y, low=-3, high=4),), (x, y, fixed, y), Arithmetic.TFLITE)
    assert_same_bytes(graph, random_like(x))


def pool(padding: tuple[int, int, int, int]) -> AvgPool2d:
    return AvgPool2d(
        x=value("x", (1, 6, 6, 1)), y=value("y", (1, 3, 3, 1)), kernel=(3, 3), stride=(2, 2), padding=padding
    )


def refused_ops() -> Iterator[tuple[Op, str]]:
    yield pool((1, 1, 1, 1)), "counts the pixels inside"
    yield Lut(x=value("x", (3,)), y=value("y", (3,)), function=Function.SILU), "silu"
    yield Lut(x=value("x", (3,)), y=value("y", (3,), 0.1), function=Function.SIGMOID), "1/256"
    yield Lut(x=value("x", (3,), 2.0), y=value("y", (3,), 0.001), function=Function.HARDSWISH), "1/128"
    yield Add(a=value("a", (3,), 1.0), b=value("b", (3,), 1.0), y=value("y", (3,), 1e-7)), "2\\^-19"
    six = value("x", (1, 1, 1, 1, 1, 2))
    yield Pad(x=six, y=value("y", (1, 1, 1, 1, 1, 3)), before=(0,) * 6, after=(0, 0, 0, 0, 0, 1)), "5 axes"
    yield Reshape(x=value("x", (2,)), y=value("y", (1,) * 8 + (2,))), "8 axes"
    real = TensorType((3,), DType.FLOAT32)
    yield Add(a=Value("a", real), b=Value("b", real), y=Value("y", real)), "int8"
    conv = convolution()
    shifted = Value("w", TensorType(conv.weights.shape, DType.INT8, PerTensor(0.1, 4)), conv.weights.data)
    yield conv.substitute({conv.weights: shifted}), "zero point 0"
    yield conv.substitute({conv.weights: Value("w", conv.weights.type)}), "constants"


@pytest.mark.parametrize(("op", "words"), list(refused_ops()), ids=lambda p: getattr(p, "kind", p))
def test_ops_without_a_tflite_form_are_refused(op: Op, words: str) -> None:
    with pytest.raises(PillionError, match=words) as caught:
        emit(Graph("g", op.activations, (op,), op.results))
    assert all((caught.value.rule, caught.value.here))


def test_padding_that_is_that_of_same_is_not_refused() -> None:
    assert_same_bytes(graph_of(pool((0, 0, 1, 1))), random_like(value("x", (1, 6, 6, 1))))


def test_writing_needs_neither_torch_nor_tensorflow() -> None:
    code = (
        "import sys; from pillion.emitters.tflite import emit; from pillion.ir.graph import Graph; emit(Graph('g', (), (), ()));"
        "print(sorted({'torch', 'tensorflow', 'ai_edge_litert'} & set(sys.modules)))"
    )
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == "[]"
