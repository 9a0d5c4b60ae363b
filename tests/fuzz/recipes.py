# SPDX-License-Identifier: Apache-2.0
"""How each kind of op gets its operands. What is not said here (attributes, shapes, validity) comes from its declaration."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fuzz import compare_select, detection, recurrent_ops
from fuzz.attributes import ATTRIBUTES, attributes
from fuzz.choices import Choices
from fuzz.grow import CHANNELS, SIZES, ZERO_POINTS, Accepts, Grower, Unfit
from fuzz.mixed import MixedGrower
from fuzz.signal_stages import signal_stage
from pillion.ir.graph import Graph
from pillion.ir.numerics import Arithmetic
from pillion.ir.op import Op, Quantization
from pillion.ir.types import DType, PerChannel, PerTensor, Quant, Shape, TensorType, Value, constant_value
from pillion.ops import (
    ALL_OPS,
    Add,
    AvgPool2d,
    BatchMatmul,
    Biquads,
    Compare,
    Concat,
    Conv2d,
    DepthwiseConv2d,
    Dequantize,
    Div,
    Function,
    Linear,
    LogMel,
    Lut,
    Magnitude,
    MaxPool2d,
    Normalize,
    Prelu,
    Quantize,
    Reshape,
    SignalStage,
    Slice,
    Stft,
    TransposeConv2d,
    Where,
)
from pillion.ops.biquads import COEFFICIENTS, state_rows
from pillion.ops.elementwise import Binary, ScaledBinary
from pillion.ops.lut_interpolation import ENTRIES

Recipe = Callable[[Grower, Any], Value]


def unary(rank: int | None = None) -> Recipe:
    """Ops of one activation and attributes."""

    def recipe(grower: Grower, cls: type[Op]) -> Value:
        x = grower.held(rank)
        fields = attributes(cls, grower.choices, x.shape)
        fit = cls.quantization is Quantization.OWN
        return grower.put(cls, DType.INT8, grower.result_quant(cls, x), fit=fit, x=x, **fields)

    return recipe


def lookup(grower: Grower, cls: type[Lut]) -> Value:
    if grower.choices.one_in(4):
        return wide_lookup(grower, cls)
    x = grower.held()
    return grower.lookup(x, attributes(cls, grower.choices, x.shape))


def slice_of(grower: Grower, cls: type[Slice]) -> Value:
    x = grower.held()
    found = attributes(cls, grower.choices, x.shape)
    most = [-(-(d - b) // s) for d, b, s in zip(x.shape, found["begin"], found["step"], strict=True)]
    shape = tuple(grower.choices.integer(1, n) if grower.choices.one_in(3) else n for n in most)
    return grower.put(cls, DType.INT8, x.type.quant, shape, x=x, **found)


def reshape(grower: Grower, cls: type[Reshape]) -> Value:
    return grower.reshaped(grower.held(), grower.choices.integer(1, 5))


def joined(grower: Grower, cls: type[Concat]) -> Value:
    """With others of the same shape but for an axis: values, themselves again, constants, new inputs."""
    first = grower.held()
    if first.type.rank < 1:
        raise Unfit
    axis = attributes(cls, grower.choices, first.shape)["axis"]
    xs = [first]
    for _ in range(grower.choices.integer(1, 3)):
        fitting = [v for v in grower.values if without(v.shape, axis) == without(first.shape, axis)]
        other = grower.choices.latest(fitting)
        if grower.choices.one_in(3):
            shape = tuple(grower.choices.pick(SIZES) if i == axis else d for i, d in enumerate(first.shape))
            is_constant = grower.choices.one_in(2)
            other = grower.constant(shape, first.quant) if is_constant else grower.input(shape, first.quant)
        xs.append(other if other.is_constant else grower.like(other, first.quant))
    if grower.choices.one_in(3):
        xs.reverse()
    return grower.put(cls, DType.INT8, first.quant, xs=tuple(xs), axis=axis)


def without(shape: Shape, axis: int) -> tuple[int, ...] | None:
    return (*shape[:axis], -1, *shape[axis + 1 :]) if axis < len(shape) else None


def pair(grower: Grower, cls: type[Binary]) -> Value:
    if issubclass(cls, ScaledBinary) and grower.choices.one_in(4):
        return wide_pair(grower, cls)
    a = grower.held()
    b = partner(grower, a, cls.quantization is Quantization.SHARED)
    if cls is Div and not b.is_constant and grower.choices.one_in(2):
        raise Unfit
    quant = grower.result_quant(cls, a, *((b,) if cls.kind == "mul" else ()))
    if cls is Div:
        quant = PerTensor(a.scale / b.scale / grower.choices.pick((1.0, 4.0, 0.5, 32.0)), quant.zero_point)
    fields = attributes(cls, grower.choices, a.shape)
    first, second = (b, a) if grower.choices.one_in(4) else (a, b)
    return grower.put(
        cls, DType.INT8, quant, fit=cls.quantization is Quantization.OWN, a=first, b=second, **fields
    )


def partner(grower: Grower, a: Value, shared: bool) -> Value:
    """An earlier value of the same shape (the same one too), or something that is broadcast."""
    fitting = [v for v in grower.values if v.shape == a.shape]
    how = grower.choices.pick(("value", "value", "constant", "input"))
    if how == "value" and fitting:
        b = grower.choices.pick(fitting)
        return grower.like(b, a.quant) if shared else b
    quant = a.quant if shared else grower.quant()
    shape = narrowed(grower, a.shape)
    return grower.constant(shape, quant) if how == "constant" else grower.input(shape, quant)


def narrowed(grower: Grower, shape: Shape) -> Shape:
    """A shape that is broadcast to another one."""
    how = grower.choices.pick(("same", "channels", "some", "one", "fewer"))
    match how:
        case "channels":
            return (*(1 for _ in shape[:-1]), *shape[-1:])
        case "some":
            return tuple(d if grower.choices.one_in(2) else 1 for d in shape)
        case "one":
            return (1,)
        case "fewer" if shape:
            return shape[grower.choices.integer(0, len(shape) - 1) :]
    return shape


def sloped(grower: Grower, cls: type[Prelu]) -> Value:
    x = grower.held()
    if x.type.rank < 1:
        raise Unfit
    axis = grower.choices.integer(0, x.type.rank - 1)
    shape = tuple(d if i == axis and not grower.choices.one_in(4) else 1 for i, d in enumerate(x.shape))
    shape = shape[axis:] if grower.choices.one_in(2) else shape
    quant = PerTensor(grower.choices.pick((0.01, 2.0**-7, 0.002)), grower.choices.pick((0, 5, -128, 127)))
    slope = grower.input(shape, quant) if grower.choices.one_in(4) else grower.constant(shape, quant)
    return grower.put(cls, DType.INT8, grower.own_quant(x), fit=True, x=x, slope=slope)


def wide_pair(grower: Grower, cls: type[ScaledBinary]) -> Value:
    """A sum, difference or product of an operand of 16 bits and one of 8 or 16; a result of either."""
    x, scale = grower.held(), grower.choices.pick((2.0**-11, 0.0007, 2.0**-7))
    wide = recurrent_ops.remembered(grower, narrowed(grower, x.shape), scale)
    if grower.choices.one_in(3):
        x = recurrent_ops.remembered(grower, x.shape, 0.003)
    a, b = (x, wide) if grower.choices.one_in(2) else (wide, x)
    dtype = grower.choices.pick((DType.INT8, DType.INT16))
    low, high = dtype.bounds
    levels = (high - low + 1) // 256
    quant = PerTensor(grower.choices.pick((0.05, 2.0**-5)) / levels, grower.choices.pick((low, 0, high)))
    fields = attributes(cls, grower.choices, a.shape)
    bounds = {"low": fields.pop("low") * levels, "high": fields.pop("high") * levels + levels - 1}
    return grower.put(cls, dtype, quant, a=a, b=b, **fields, **bounds)


def wide_lookup(grower: Grower, cls: type[Lut]) -> Value:
    """A function that has a name, or any table."""
    x = recurrent_ops.remembered(grower, grower.held().shape, grower.choices.pick((2.0**-11, 0.0007)))
    quant = PerTensor(
        grower.choices.pick((2.0**-15, 0.0001)), grower.choices.pick((0, 0, -(2**15), 2**15 - 1))
    )
    if grower.choices.one_in(4):
        rng = np.random.default_rng(grower.choices.integer(0, 999))
        table = constant_value(grower.name("table"), rng.integers(-(2**15), 2**15, ENTRIES).astype(np.int16))
        return grower.put(cls, DType.INT16, quant, x=x, table=table, function=Function.TABLE)
    fields = attributes(cls, grower.choices, x.shape)
    if grower.choices.one_in(2):  # one that LiteRT has, too
        function = grower.choices.pick((Function.SIGMOID, Function.TANH, Function.LEAKY_RELU))
        alpha = ATTRIBUTES["alpha"](grower.choices, x.shape) if function is Function.LEAKY_RELU else 0.0
        fields = {"function": function, "alpha": alpha}
    return grower.put(cls, DType.INT16, quant, x=x, **fields)


def normalize_axes(grower: Grower, cls: type[Normalize]) -> Value:
    """With real weights and biases for each channel or for all, one of both, or none. One operand in four has 16 bits."""
    x = grower.held()
    if grower.choices.one_in(4):
        x = recurrent_ops.remembered(grower, x.shape, 2.0**-11)
    if x.type.rank < 1:
        raise Unfit
    held: dict[str, Value] = {}
    for name, reach in (("weights", 2.0), ("bias", 1.0)):
        if not grower.choices.one_in(3):
            rng = np.random.default_rng(grower.choices.integer(0, 999))
            count = 1 if grower.choices.one_in(4) else x.shape[-1]
            held[name] = constant_value(grower.name(name), rng.uniform(-1, reach, count).astype(np.float32))
    quant = PerTensor(grower.choices.pick((0.03, 2.0**-5, 0.01)), grower.choices.pick(ZERO_POINTS))
    fields = attributes(cls, grower.choices, x.shape)
    return grower.put(cls, DType.INT8, quant, fit=True, x=x, **held, **fields)


def magnitude(grower: Grower, cls: type[Magnitude]) -> Value:
    """Of two earlier values of one shape, of one with itself or with an input; thresholds are all over the sums, and often the same."""
    a = grower.held()
    fitting = [v for v in grower.values if v.shape == a.shape]
    b = grower.choices.pick(fitting) if grower.choices.one_in(2) else grower.input(a.shape, grower.quant())
    rng = np.random.default_rng(grower.choices.integer(0, 999))
    most = 2 * (255 * max(a.scale, b.scale)) ** 2
    held = np.sort(rng.choice(most * rng.random(200) ** 3, 255)).astype(np.float32)
    thresholds = constant_value(grower.name("thresholds"), held)
    quant = PerTensor(grower.choices.pick((0.03, 2.0**-5)), grower.choices.pick(ZERO_POINTS))
    fields = attributes(cls, grower.choices, a.shape)
    return grower.put(cls, DType.INT8, quant, a=a, b=b, thresholds=thresholds, **fields)


def spectra(grower: Grower, cls: type[LogMel | Stft]) -> Value:
    """Of signals of their own: random windows, and filters of which some have no weights."""
    found = attributes(cls, grower.choices, ())
    points = found.get("points") or grower.choices.pick((64, 128))
    count = grower.choices.integer(1, points)
    shape = (grower.choices.pick((1, 2)), count + found["hop"] * grower.choices.integer(0, 2), 1)
    x = grower.source(Value(grower.name("sound"), TensorType(shape, DType.INT16, PerTensor(2.0**-15))))
    rng = np.random.default_rng(grower.choices.integer(0, 999))
    constants = {"window": (rng.random(count) + 0.01).astype(np.float32)}
    if cls is LogMel:
        filters = np.maximum(rng.random((points // 2 + 1, grower.choices.integer(1, 9))) - 0.7, 0)
        constants["filters"] = filters.astype(np.float32)
    elif grower.choices.one_in(3):
        found["power"] = 0
    values = {name: constant_value(grower.name(name), held) for name, held in constants.items()}
    dtype = grower.choices.pick((DType.INT8, DType.INT16))
    quant = PerTensor(0.1, grower.choices.pick(ZERO_POINTS)) if dtype is DType.INT8 else PerTensor(0.001)
    return grower.put(cls, dtype, quant, x=x, **values, **found)


def biquads(grower: Grower, cls: type[Biquads]) -> Value:
    """Of signals of their own, with any state."""
    found = attributes(cls, grower.choices, ())
    signals, sections = grower.choices.integer(1, 5), len(found["coefficients"]) // COEFFICIENTS
    quant = PerTensor(grower.choices.pick((2.0**-15, 1.0)))
    x, past = (
        grower.source(Value(grower.name(name), TensorType((signals, count), DType.INT16, quant)))
        for name, count in (("x", grower.choices.integer(1, 50)), ("past", state_rows(sections)))
    )
    return grower.put(cls, DType.INT16, quant, x=x, past=past, **found)


def product(grower: Grower, cls: type[BatchMatmul]) -> Value:
    a = grower.held(3)
    found = attributes(cls, grower.choices, a.shape)
    depth = a.shape[1 if found["adj_x"] else 2]
    b = factor(grower, a.shape[0], depth, found["adj_y"], a)
    return grower.put(cls, DType.INT8, grower.own_quant(a, b), fit=True, a=a, b=b, **found)


def factor(grower: Grower, batch: int, depth: int, adjoint: bool, a: Value) -> Value:
    fitting = [v for v in grower.values if v.type.rank == 3 and v.shape[0] == batch]
    fitting = [v for v in fitting if v.shape[2 if adjoint else 1] == depth]
    if fitting and grower.choices.one_in(2):
        return grower.choices.latest(fitting)
    columns = grower.choices.pick(CHANNELS)
    shape = (batch, columns, depth) if adjoint else (batch, depth, columns)
    quant = grower.quant()
    return grower.constant(shape, quant) if grower.choices.one_in(3) else grower.input(shape, quant)


def weights(grower: Grower, shape: Shape, axis: int, may_have_4_bits: bool = False) -> Value:
    rng = np.random.default_rng(grower.choices.integer(0, 999))
    quant: Quant = PerTensor(grower.choices.pick((0.01, 2.0**-7)), 0)
    if not grower.choices.one_in(4):
        quant = PerChannel(tuple(rng.uniform(0.002, 0.02, shape[axis]).tolist()), axis)
    levels = grower.levels(shape)
    if may_have_4_bits and rng.integers(3) == 0:
        return constant_value(grower.name("w"), levels >> 4, quant, DType.INT4)
    return constant_value(grower.name("w"), levels, quant)


def biases(grower: Grower, x: Value, held: Value, count: int) -> Value:
    reach = grower.choices.pick((2000, 0, 2**17, 2**24))
    rng = np.random.default_rng(grower.choices.integer(0, 999))
    data = rng.integers(-reach, reach, count, endpoint=True).astype(np.int32)
    scales = tuple(np.broadcast_to(held.channel_scales * x.scale, (count,)).tolist())
    return constant_value(grower.name("bias"), data, PerChannel(scales, 0))


def weighted(
    rank: int | None, shaped: Callable[[Grower, Value, dict[str, Any]], tuple[Shape, int]]
) -> Recipe:
    """Convolutions and linear layers: constant weights, a bias for each output channel."""

    def recipe(grower: Grower, cls: type[Op]) -> Value:
        x = grower.held(rank)
        if x.type.rank < 1:
            raise Unfit
        fields = attributes(cls, grower.choices, x.shape)
        shape, axis = shaped(grower, x, fields)
        held = weights(grower, shape, axis, cls in (Conv2d, Linear))
        bias = biases(grower, x, held, shape[axis])
        quant = grower.own_quant(x)
        return grower.put(cls, DType.INT8, quant, fit=True, x=x, weights=held, bias=bias, **fields)

    return recipe


def kernel(grower: Grower) -> tuple[int, int]:
    size = grower.choices.pick((1, 3, 2, 3, 5, 4))
    return (size, size) if not grower.choices.one_in(3) else (size, grower.choices.pick((1, 3, 2, 5, 7)))


def conv_weights(grower: Grower, x: Value, fields: dict[str, Any]) -> tuple[Shape, int]:
    groups = fields.get("groups", 1)
    out = grower.choices.pick([c for c in CHANNELS if c % groups == 0])
    return (out, *kernel(grower), x.shape[3] // groups), 0


def depthwise_weights(grower: Grower, x: Value, fields: dict[str, Any]) -> tuple[Shape, int]:
    return (1, *kernel(grower), x.shape[3] * grower.choices.pick((1, 1, 1, 2, 3))), 3


def linear_weights(grower: Grower, x: Value, fields: dict[str, Any]) -> tuple[Shape, int]:
    return (grower.choices.pick(CHANNELS), x.shape[-1]), 0


def quantized(grower: Grower, cls: type[Quantize]) -> Value:
    return grower.quantized_input(grower.shape(), grower.quant())


def finished(grower: Grower, cls: type[Dequantize]) -> Value:
    """Outputs are dequantized at the end of the graph; here, one more of them."""
    return grower.real_output(grower.held())


def compared(grower: Grower, cls: type[Compare]) -> Value:
    a = grower.held()
    b = partner(grower, a, grower.choices.one_in(3))
    first, second = (b, a) if grower.choices.one_in(4) else (a, b)
    return grower.put(cls, DType.BOOL, None, a=first, b=second, **attributes(cls, grower.choices, a.shape))


def chosen(grower: Grower, cls: type[Where]) -> Value:
    a = grower.held()
    b = partner(grower, a, True)
    condition = compare_select.flags(grower, narrowed(grower, a.shape))
    first, second = (b, a) if grower.choices.one_in(4) else (a, b)
    return grower.put(cls, DType.INT8, a.type.quant, condition=condition, a=first, b=second)


SPECIAL: dict[type[Op], Recipe] = {
    **compare_select.RECIPES,
    **recurrent_ops.RECIPES,
    **detection.RECIPES,
    Compare: compared,
    Where: chosen,
    Conv2d: weighted(4, conv_weights),
    DepthwiseConv2d: weighted(4, depthwise_weights),
    TransposeConv2d: weighted(4, conv_weights),
    Linear: weighted(None, linear_weights),
    BatchMatmul: product,
    Lut: lookup,
    Prelu: sloped,
    Normalize: normalize_axes,
    Magnitude: magnitude,
    LogMel: spectra,
    Stft: spectra,
    Biquads: biquads,
    SignalStage: signal_stage,
    Concat: joined,
    Slice: slice_of,
    Reshape: reshape,
    Quantize: quantized,
    Dequantize: finished,
}
OFTEN = (*ALL_OPS, Conv2d, DepthwiseConv2d, Conv2d, DepthwiseConv2d, AvgPool2d, MaxPool2d, Linear, Add, Lut)
"""Kinds by how often they are tried: convolutions and pools are often refused."""
NETS = (Conv2d, DepthwiseConv2d, Conv2d, DepthwiseConv2d, Linear, Add, AvgPool2d, MaxPool2d, Concat)
IMAGES = ("avg_pool2d", "max_pool2d", "resize_nearest", "resize_bilinear")


def recipe_of(cls: type[Op]) -> Recipe:
    """By the op's operands where no special one is written."""
    if cls in SPECIAL:
        return SPECIAL[cls]
    return pair if issubclass(cls, Binary) else unary(4 if cls.kind in IMAGES else None)


def grown(
    choices: Choices,
    ops: int,
    arithmetic: Arithmetic = Arithmetic.CMSIS_NN,
    *,
    largest: int = 3000,
    kinds: Sequence[type[Op]] = OFTEN,
    accepts: Accepts = lambda op: True,
) -> Graph:
    """A random program of about so many ops."""
    grower = MixedGrower(choices, arithmetic, largest, accepts)
    grower.input(grower.shape(4))
    for _ in range(4 * ops):
        if len(grower.ops) >= ops:
            break
        try:
            cls = choices.pick(kinds)
            recipe_of(cls)(grower, cls)
        except Unfit:
            continue
    if not grower.ops:
        grower.reshaped(grower.values[0], 2)
    return without_idle_outputs(grower.graph())


def without_idle_outputs(graph: Graph) -> Graph:
    """Dequantized values that became outputs of no graph are dropped with their ops."""
    made = {op.results[0] for op in graph.ops}
    read = {v for op in graph.ops for v in op.operands}
    ends = [v for v in graph.values.values() if v in made and v not in read and v not in graph.outputs]
    return graph.replace(outputs=(*graph.outputs, *ends))
