# SPDX-License-Identifier: Apache-2.0
"""Random ops of every kind, of 16 to 100,000 elements, for counting the instructions of kernels."""

from __future__ import annotations

import itertools
import random
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parents[1] / "tests"))

import numpy as np

from fuzz.choices import from_seed
from fuzz.grow import Grower, Unfit
from fuzz.recipes import recipe_of
from kernels.layers16_ops import with_8_bit_operands
from pillion.devices.cortex_m.cores import IMAGE_BITS
from pillion.errors import PillionError
from pillion.ir.numerics import Arithmetic
from pillion.ir.op import Op
from pillion.ir.types import Array, DType, PerChannel, PerTensor, Shape, TensorType, Value, constant_value
from pillion.ops import (
    ALL_OPS,
    Add,
    ArgMax,
    ArgMin,
    AvgPool2d,
    BatchMatmul,
    Clamp,
    Conv2d,
    DepthwiseConv2d,
    Dequantize,
    Div,
    EmbeddingBag,
    Gather,
    Linear,
    Lut,
    MaxPool2d,
    Mean,
    Mul,
    Normalize,
    Quantize,
    ReduceMax,
    ReduceMin,
    ReduceSum,
    Requantize,
    Reshape,
    ResizeBilinear,
    Softmax,
    Sub,
    TopPlaces,
    TopValues,
    Transpose,
    TransposeConv2d,
    WindowStatistic,
)
from pillion.ops.embedding_bag import table_of_4_bits
from pillion.ops.example_values import in_16_bits, make_op, random_like, with_4_bits
from pillion.ops.softmax import OUTPUT_OF_8_BITS
from pillion.ops.softmax16 import OUTPUT_16

CHANNELS = (1, 2, 3, 4, 5, 7, 8, 12, 13, 16, 17, 24, 31, 32, 33, 40, 48, 64, 67, 96, 128, 160, 257)
NARROW = 0, 2 ** min(IMAGE_BITS.values()) - 1
"""The numbers of images for which all processors have their fastest kernels of 3x3."""
FEWEST, MOST = 16, 100_000
"""The elements of operands and results."""
MOST_MACS = 4_000_000
LAYERS = (Conv2d, DepthwiseConv2d, Linear, TransposeConv2d)
KINDS_16 = (*LAYERS, Clamp, MaxPool2d, AvgPool2d, Mean, Quantize)
WIDENED = (
    *(ArgMax, ArgMin, TopValues, TopPlaces, ReduceMax, ReduceMin, ReduceSum, Div, ResizeBilinear, Lut),
    *(Softmax, BatchMatmul, Dequantize, Requantize, Transpose, WindowStatistic, Mul),
)
"""Kinds that are drawn in 8 bits, and widened as they are."""
NUMBER = constant_value("b", np.array([99], np.int8), PerTensor(0.01))
"""By which 16-bit tensors are multiplied."""
BOUNDS_16 = {"low": -(2**15), "high": 2**15 - 1}
KINDS = (*(kind for kind in ALL_OPS if kind is not Reshape), *[Conv2d] * 8, *[DepthwiseConv2d] * 6)
"""Kinds by how often they are drawn; convolutions have many kernels."""


class LargeGrower(Grower):
    """A grower of single ops with operands up to MOST elements. References are not computed."""

    def __init__(self, seed: int) -> None:
        super().__init__(from_seed(seed), Arithmetic.CMSIS_NN, largest=MOST)
        self.random = random.Random(seed)
        self.most_macs = MOST_MACS

    def shape(self, rank: int | None = None) -> Shape:
        """Log-uniform in the elements; batches other than 1 in one case of five."""
        rank = self.choices.pick((4, 4, 4, 3, 2, 1, 5)) if rank is None else rank
        elements = round(FEWEST * (MOST / FEWEST) ** self.random.random())
        if rank == 1:
            return (elements,)
        last = (
            self.choices.pick(CHANNELS)
            if rank > 2 or self.choices.one_in(2)
            else self.random.randint(1, 1000)
        )
        left = max(elements // last, 1)
        rest = []
        for axis in range(rank - 2):
            is_batch = axis == 0 and rank == 4
            most = 3 if is_batch else left
            size = (
                round(most ** self.random.uniform(0.2, 0.8)) if not is_batch or self.choices.one_in(5) else 1
            )
            rest.append(max(min(size, left), 1))
            left = max(left // rest[-1], 1)
        return (*rest, left, last)

    def tried(self, cls: Any, type: TensorType, fields: dict[str, Any]) -> tuple[Any, Array]:
        """The op and random data in the place of its result, or Unfit."""
        try:
            draft = cls(y=Value("y", type), **fields)
            shape = draft.infer().shape if not type.shape else type.shape
            op = cls(y=Value(f"{cls.kind}{self.count}", TensorType(shape, type.dtype, type.quant)), **fields)
            op.check()
        except (PillionError, ValueError, ZeroDivisionError, IndexError) as error:
            raise Unfit from error
        if not 0 < op.y.type.elements <= MOST or op.macs > self.most_macs:
            raise Unfit
        self.count += 1
        return op, random_like(op.y) if op.y.dtype in (DType.INT8, DType.INT16) else random_like(
            op.y.like("y")
        )


def random_op(seed: int, kind: type[Op]) -> Op | None:
    """Returns a random op of a kind, or None if the drawn fields do not fit together."""
    grower = LargeGrower(seed)
    try:
        recipe_of(kind)(grower, kind)
    except Unfit:
        return None
    return next((op for op in reversed(grower.ops) if type(op) is kind), None)


def random_ops(count: int, seed: int, kinds: Sequence[type[Op]] = KINDS) -> Iterator[Op]:
    """Yields random ops, of each kind in turn."""
    seeds = itertools.count(seed * 10_000_019)
    for kind in itertools.islice(itertools.cycle(kinds), count):
        yield next(op for one in seeds if (op := random_op(one, kind)) is not None)


def random_ops_16(count: int, seed: int) -> Iterator[Op]:
    """Yields random ops with 16-bit operands and results in the place of bytes, without zero points; of
    convolutions those by windows of one pixel, too, of images of one pixel, and of rectified ones, of depthwise ones those by 3x3, and all
    from operands of 8 bits, too."""
    for op in random_ops(count, seed, KINDS_16):
        x = op.activations[0]
        if len(op.activations) > 1 or (x.dtype is not DType.INT8 and not isinstance(op, Quantize)):
            continue
        fields: dict[str, Any] = {"x": in_16_bits(x) if x.dtype is DType.INT8 else x}
        fields |= bounds_16(op) if "low" in op.attributes else {}
        fields |= {name: getattr(op, name) for name in ("weights", "bias") if isinstance(op, LAYERS)}
        attributes = {name: value for name, value in op.attributes.items() if name not in BOUNDS_16}
        forms = [fields | attributes]
        if isinstance(op, Conv2d) and op.groups == 1:
            first = np.ascontiguousarray(op.weights.constant[:, :1, :1])
            fields["weights"] = constant_value("w", first, op.weights.type.quant)
            forms += [fields, fields | {"x": in_16_bits(op.x.like("x", shape=(1, 1, 1, op.in_channels)))}]
            forms += [fields | form for form in of_narrow_images(op)]
        if isinstance(op, DepthwiseConv2d):
            forms += [fields | form for form in by_3x3(op)]
        for form in forms:
            with suppress(PillionError):
                yield (wide := make_op(type(op), in_16_bits(op.y), **form))
                if isinstance(op, DepthwiseConv2d):
                    yield of_bytes(wide, x)


def of_narrow_images(op: Conv2d) -> list[dict[str, Any]]:
    """Returns images within 14 bits, of eights of channels, with weights by 3x3 and padding."""
    image = op.x.like("x", shape=(*op.x.shape[:3], -(-op.in_channels // 8) * 8))
    square = np.resize(op.weights.constant, (op.out_channels, 3, 3, image.shape[3]))
    weights = constant_value("w", square, op.weights.type.quant)
    return [{"x": in_16_bits(image), "weights": weights, "padding": (1, 1, 1, 1), "x_bounds": NARROW}]


def by_3x3(op: DepthwiseConv2d) -> list[dict[str, Any]]:
    """Returns weights, padding and strides of a depthwise convolution by 3x3."""
    square = np.resize(op.weights.constant, (1, 3, 3, op.out_channels))
    weights = constant_value("w", square, op.weights.type.quant)
    return [{"weights": weights, "padding": (1, 1, 1, 1), "stride": (size, size)} for size in (1, 2)]


def bounds_16(op: Any) -> dict[str, int]:
    """Returns the bounds of results in 16 bits: those of a ReLU where results in 8 bits have bounds."""
    return BOUNDS_16 | ({"low": 0} if (op.low, op.high) != op.y.dtype.bounds else {})


def of_bytes(layer: Any, x: Value) -> Op:
    """Returns a layer with operands of 8 bits, of a scale, and with results whose scale the vector kernels take."""
    finest = 2.001 * x.scale * max(layer.weights.channel_scales)
    y = TensorType(layer.y.shape, DType.INT16, PerTensor(max(layer.y.scale, finest)))
    return replace(layer, x=x.like(x.name, shape=layer.x.shape), y=Value(layer.y.name, y))


def widened_ops(count: int, seed: int) -> Iterator[Op]:
    """Yields random ops of further kinds whose int8 operands and results are widened, and sums in the same steps."""
    for op in random_ops(count, seed, WIDENED):
        values = {v: in_16_bits(v) for v in (*op.activations, *op.results) if v.dtype is DType.INT8}
        if isinstance(op, Softmax):
            values[op.y] = Value(op.y.name, TensorType(op.y.shape, DType.INT16, OUTPUT_16))
            shares = TensorType(op.y.shape, DType.INT16, OUTPUT_OF_8_BITS)
            yield op.substitute({op.y: Value(op.y.name, shares)})
        if isinstance(op, Requantize):
            yield from conversions(op)
        elif all(v in values for v in op.operands):
            wide = op.substitute(values, **(BOUNDS_16 if "low" in op.attributes else {}))
            with suppress(PillionError, ValueError):
                wide.check()
                wide.check_scales(Arithmetic.CMSIS_NN)
                yield wide
    for op in random_ops(count // len(WIDENED), seed, (Add, Sub)):
        same = {v: v.like(v.name, dtype=DType.INT16, quant=PerTensor(0.01)) for v in (op.a, op.b, op.y)}
        yield op.substitute(same, **bounds_16(op))
    for op in random_ops(count // len(WIDENED), seed, (Mul, Normalize)):
        x = op.activations[0]
        fields = (
            {"x": in_16_bits(x), "weights": op.weights, "bias": op.bias, "axis": op.axis}
            if isinstance(op, Normalize)
            else {"a": in_16_bits(x), "b": NUMBER}
        )
        with suppress(PillionError):
            yield make_op(type(op), in_16_bits(op.y), **fields, **BOUNDS_16)


def conversions(op: Requantize) -> Iterator[Op]:
    """Yields conversions between 8 and 16 bits, and from 16 to 32, in the place of one of 8 bits."""
    wide = in_16_bits(op.x)
    words = Value(op.y.name, TensorType(op.y.shape, DType.INT32, PerTensor(op.y.scale)))
    for x, y in ((wide, op.y), (wide, in_16_bits(op.y)), (op.x, in_16_bits(op.y)), (wide, words)):
        yield make_op(Requantize, y, x=x, to=y.dtype)


def random_layers(count: int, seed: int) -> Iterator[list[Any]]:
    """Yields random layers; of convolutions those of one pixel, by windows of one pixel, and by 3x3 over full vectors of channels, too."""
    inputs = itertools.cycle((5, 24, 40, 16, 48, 56, 64))
    for op in random_ops(count, seed, (Conv2d, Linear)):
        if not isinstance(op.operands[1].type.quant, PerChannel):
            continue
        forms: list[Any] = [op]
        if isinstance(op, Conv2d) and op.groups == 1:
            image = op.x.like("x", shape=(1, *op.kernel, op.in_channels))
            fields = {"x": image, "weights": op.weights, "bias": op.bias, "low": op.low, "high": op.high}
            forms.append(make_op(Conv2d, op.y, **fields))
            for side, channels in ((1, next(inputs)), (3, 16 + next(inputs) // 24 * 16)):
                data = np.resize(op.weights.constant, (op.out_channels, side, side, channels))
                fields["weights"] = constant_value("w", data, op.weights.type.quant)
                fields["x"] = op.x.like("x", shape=(*op.x.shape[:3], channels))
                if fields["x"].type.elements <= MOST:
                    forms.append(make_op(Conv2d, op.y, **fields, padding=(side // 2,) * 4, stride=op.stride))
        yield forms


def random_ops_8(count: int, seed: int) -> Iterator[Op]:
    """Yields random layers of 8 bits; of depthwise convolutions those by 3x3, too."""
    yield from itertools.chain.from_iterable(random_layers(count, seed))
    for op in random_ops(count // 3, seed, (DepthwiseConv2d,)):
        assert isinstance(op, DepthwiseConv2d)
        yield op
        fields = {name: getattr(op, name) for name in ("x", "bias", "low", "high")}
        yield from (make_op(DepthwiseConv2d, op.y, **fields, **form) for form in by_3x3(op))


def random_ops_8_16(count: int, seed: int) -> Iterator[Op]:
    """Yields random layers with 8-bit operands and 16-bit results."""
    layers = itertools.chain.from_iterable(random_layers(count, seed))
    of_bytes = (replace(op, **bounds_16(op)) for op in layers if op.weights.dtype is DType.INT8)
    yield from with_8_bit_operands(of_bytes)


def random_ops_4(count: int, seed: int) -> Iterator[Op]:
    """Yields random layers and tables with weights of 4 bits."""
    for forms in random_layers(count, seed):
        yield from with_4_bits(forms)
    layers = (op for op in random_ops_16(count, seed) if isinstance(op, Conv2d | Linear))
    of_channels = (op for op in layers if isinstance(op.weights.type.quant, PerChannel))
    yield from with_4_bits(of_channels, DType.INT16)
    for op in random_ops(count, seed, (EmbeddingBag,)):
        assert isinstance(op, EmbeddingBag)
        if op.table.dtype is DType.INT8:
            yield replace(op, table=table_of_4_bits(op.table))


def random_data(op: Op, rng: np.random.Generator) -> tuple[Array, ...]:
    """Returns data for the operands that are no constants; indices lie inside what they point into."""
    return tuple(_random_array(op, v, rng) for v in op.activations)


def _random_array(op: Op, v: Value, rng: np.random.Generator) -> Array:
    if v.dtype is DType.FLOAT32:
        reach = 50 * op.y.scale if isinstance(op, Quantize) else 3
        return (rng.standard_normal(v.shape) * reach).astype(np.float32)
    low, high = v.dtype.bounds
    if isinstance(op, Conv2d) and op.x_bounds:
        low, high = op.x_bounds
    if isinstance(op, (Gather, EmbeddingBag)) and v is op.indices:
        axis = op.axis if isinstance(op, Gather) else 0
        low, high = 0, op.operands[0].shape[axis] - 1
    return rng.integers(max(low, -30_000), min(high, 30_000), v.shape, endpoint=True).astype(v.dtype.numpy)
