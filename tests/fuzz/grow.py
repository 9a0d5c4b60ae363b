# SPDX-License-Identifier: Apache-2.0
"""Random programs of integer ops, grown from the ops' declarations: fields, shape rule, check and reference say what fits."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from fuzz.choices import Choices
from pillion.errors import PillionError
from pillion.ir.graph import Graph
from pillion.ir.numerics import Arithmetic
from pillion.ir.op import Op, Quantization
from pillion.ir.types import Array, DType, PerTensor, Quant, Shape, TensorType, Value, constant_value
from pillion.ir.verify import verify_graph
from pillion.ops import (
    Dequantize,
    Function,
    L2Normalize,
    LogSoftmax,
    Lut,
    Quantize,
    Requantize,
    Reshape,
    Softmax,
    Transpose,
)
from pillion.ops.example_values import random_like
from pillion.ops.l2_normalize import OUTPUT as UNIT_OUTPUT
from pillion.ops.log_softmax import OUTPUT as LOG_OUTPUT
from pillion.ops.softmax import OUTPUT, OUTPUTS

SIZES = (3, 1, 5, 7, 2, 4, 8, 9, 11, 13)
CHANNELS = (8, 1, 3, 5, 7, 16, 9, 4, 2, 12, 15, 17, 24, 31, 32, 33, 48, 64)
ZERO_POINTS = (0, -128, 127, 5, -31, -1, 100)
MOST_MACS = 600_000
FINEST, COARSEST = 2.0**-16, 2.0**10
"""Scales: quantizers make none beyond these from the ranges that nets have."""
FINER = 4
"""How often a scale is divided for a result that shows no differences: some never do, as x - x."""


FIXED = {Softmax: OUTPUT, LogSoftmax: LOG_OUTPUT, L2Normalize: UNIT_OUTPUT}
"""What ops fix of their result, or usually have."""


Accepts = Callable[[Op], bool]
"""Whether an op may take part, beyond being valid."""


class Unfit(Exception):
    """These fields do not make a valid op: another one is tried."""


class Grower:
    """A graph to which ops are added. Every value that depends on an input has samples, by which scales are chosen."""

    def __init__(
        self,
        choices: Choices,
        arithmetic: Arithmetic,
        largest: int = 3000,
        accepts: Accepts = lambda op: True,
    ) -> None:
        self.choices, self.arithmetic, self.largest, self.accepts = choices, arithmetic, largest, accepts
        self.inputs: list[Value] = []
        self.ops: list[Op] = []
        self.values: list[Value] = []
        self.samples: dict[Value, Array] = {}
        self.count = 0
        self.most_macs = MOST_MACS

    # --- values

    def name(self, wish: str) -> str:
        self.count += 1
        return f"{wish}{self.count}"

    def shape(self, rank: int | None = None) -> Shape:
        """Not larger than wanted; the last axis is that of channels."""
        rank = self.choices.pick((4, 3, 2, 4, 1, 4, 5)) if rank is None else rank
        last = self.choices.pick(CHANNELS)
        rest = [self.choices.pick(SIZES) for _ in range(rank - 1)]
        if rank == 4 and not self.choices.one_in(5):
            rest[0] = 1
        shape = (*rest, last)
        while math.prod(shape) > self.largest:
            shape = (*(max(d // 2, 1) for d in shape[:-1]), max(last // 2, 1))
            last = shape[-1]
        return shape

    def quant(self) -> PerTensor:
        scale = self.choices.pick((0.05, 2.0**-4, 0.0071, 2.0**-7, 0.5, 1.37))
        return PerTensor(scale, self.choices.pick(ZERO_POINTS))

    def input(self, shape: Shape, quant: Quant | None = None) -> Value:
        """Integers, or real numbers that are moved and quantized first."""
        quant = quant or self.quant()
        if self.choices.one_in(6):
            return self.quantized_input(shape, quant)
        return self.source(Value(self.name("x"), TensorType(shape, DType.INT8, quant)))

    def source(self, value: Value) -> Value:
        self.inputs.append(value)
        self.samples[value] = random_like(value)
        if value.dtype is DType.INT8:
            self.values.append(value)
        return value

    def quantized_input(self, shape: Shape, quant: Quant) -> Value:
        real = self.source(Value(self.name("r"), TensorType(shape, DType.FLOAT32)))
        if len(shape) == 4 and self.choices.one_in(2):
            order = self.choices.pick(((0, 2, 3, 1), (0, 3, 1, 2)))
            real = self.put(Transpose, DType.FLOAT32, None, x=real, order=order)
        return self.put(Quantize, DType.INT8, quant, x=real)

    def constant(self, shape: Shape, quant: Quant) -> Value:
        return constant_value(self.name("c"), self.levels(shape), quant)

    def levels(self, shape: Shape) -> Array:
        rng = np.random.default_rng(self.choices.integer(0, 999))
        low = -128 if self.choices.one_in(6) else -127
        if self.choices.one_in(12):
            return rng.choice(np.array([low, 127], np.int8), shape)
        return rng.integers(low, 127, shape, endpoint=True).astype(np.int8)

    def held(self, rank: int | None = None) -> Value:
        """A value of the graph, the latest ones more often; reshaped to a rank where it has another."""
        if not self.values or self.choices.one_in(12):
            return self.input(self.shape(rank))
        value = self.choices.latest(self.values)
        if rank is None or value.type.rank == rank:
            return value
        fitting = [v for v in self.values if v.type.rank == rank]
        return (
            self.choices.latest(fitting) if fitting and self.choices.one_in(2) else self.reshaped(value, rank)
        )

    def reshaped(self, value: Value, rank: int) -> Value:
        return self.put(
            Reshape, value.dtype, value.type.quant, self.factors(value.type.elements, rank), x=value
        )

    def factors(self, elements: int, rank: int) -> Shape:
        """A shape of so many elements."""
        shape: list[int] = []
        for _ in range(rank - 1):
            divisors = [d for d in (1, 2, 3, 4, 5, 7, 8, 11, 13) if elements % d == 0]
            shape.append(self.choices.pick(divisors))
            elements //= shape[-1]
        return (*shape, elements)

    def like(self, value: Value, quant: Quant) -> Value:
        """The same numbers in other parameters, or the value itself."""
        return value if value.type.quant == quant else self.put(Requantize, DType.INT8, quant, x=value)

    # --- ops

    def put(
        self,
        cls: Any,
        dtype: DType,
        quant: Quant | None,
        shape: Shape = (),
        *,
        fit: bool = False,
        **fields: Any,
    ) -> Value:
        """Adds an op whose result has the inferred shape; with `fit`, a scale by which it neither saturates nor vanishes."""
        op, made = self.tried(cls, TensorType(shape, dtype, quant), fields)
        smaller = 0
        for _ in range(10 if fit else 0):
            factor = too_small_or_large(made)
            smaller += factor < 1
            if factor == 1 or smaller > FINER or not isinstance(op.y.type.quant, PerTensor):
                break
            quant = PerTensor(bounded(op.y.scale * factor), op.y.zero_point)
            op, made = self.tried(cls, TensorType(shape, dtype, quant), fields)
        self.ops.append(op)
        self.samples[op.y] = made
        if dtype is DType.INT8:
            self.values.append(op.y)
        return op.y  # type: ignore[no-any-return]  # an op's result

    def tried(self, cls: Any, type: TensorType, fields: dict[str, Any]) -> tuple[Any, Array]:
        """The op and its result for the samples, or Unfit."""
        name = f"{cls.kind}{self.count + 1}"
        try:
            draft = cls(y=Value(name, type), **fields)
            draft.check() if type.shape else None
            y = Value(name, dataclasses.replace(type, shape=draft.infer().shape))
            op = cls(y=y, **fields)
            op.check()
            if (
                y.type.elements > 4 * self.largest
                or y.type.elements < 1
                or op.macs > self.most_macs
                or not self.accepts(op)
            ):
                raise Unfit
            operands = [v.constant if v.is_constant else self.samples[v] for v in op.operands]
            with np.errstate(all="ignore"):
                made = np.asarray(op.reference(self.arithmetic, *operands))
        except (PillionError, ValueError, ZeroDivisionError, IndexError) as error:
            raise Unfit from error
        self.count += 1
        return op, made

    def own_quant(self, *operands: Value) -> PerTensor:
        """Scales that are in ratios of powers of two to the operands', or anything."""
        base = math.prod(v.scale for v in operands)
        ratio = self.choices.pick((1.0, 2.0, 0.5, 0.999, 1.001, 4.0, 0.25, 1.5, 0.37))
        scale = self.quant().scale if self.choices.one_in(4) else base * ratio
        return PerTensor(bounded(scale), self.choices.pick(ZERO_POINTS))

    def result_quant(self, cls: type[Op], x: Value, *others: Value) -> PerTensor:
        """By what the op declares of its quantization."""
        if cls is Softmax and self.choices.one_in(4):
            return self.choices.pick(OUTPUTS)
        if cls in FIXED:
            return FIXED[cls]
        return x.quant if cls.quantization is Quantization.SHARED else self.own_quant(x, *others)

    def lookup(self, x: Value, fields: dict[str, Any]) -> Value:
        if self.choices.one_in(6):
            table = constant_value(self.name("table"), self.levels((256,)))
            return self.put(Lut, DType.INT8, self.own_quant(x), x=x, table=table, function=Function.TABLE)
        fixed = fields["function"].fixed_output
        if fixed and not self.choices.one_in(4):
            return self.put(Lut, DType.INT8, PerTensor(*fixed), x=x, **fields)
        return self.put(Lut, DType.INT8, self.own_quant(x), fit=True, x=x, **fields)

    # --- the whole

    def graph(self, name: str = "fuzz") -> Graph:
        """All that nobody reads is an output, some of the rest too."""
        read = {v for op in self.ops for v in op.operands}
        made = {op.results[0] for op in self.ops}
        outputs = [v for v in self.values if v in made and (v not in read or self.choices.one_in(5))]
        if self.inputs[0].dtype is DType.INT8 and self.choices.one_in(10):
            outputs.append(self.inputs[0] if self.choices.one_in(3) else self.reshaped(self.inputs[0], 2))
        outputs = [self.real_output(v) if self.choices.one_in(6) else v for v in outputs]
        return verify_graph(Graph(name, tuple(self.inputs), tuple(self.ops), tuple(outputs), self.arithmetic))

    def real_output(self, value: Value) -> Value:
        if self.choices.one_in(4):
            quant = PerTensor(value.scale, self.choices.integer(0, 255))
            return self.put(Requantize, DType.UINT8, quant, x=value, to=DType.UINT8)
        real = self.put(Dequantize, DType.FLOAT32, None, x=value)
        if len(real.shape) == 4 and self.choices.one_in(2):
            return self.put(Transpose, DType.FLOAT32, None, x=real, order=(0, 3, 1, 2))
        return real


def bounded(scale: float) -> float:
    return min(max(scale, FINEST), COARSEST)


def too_small_or_large(made: Array) -> float:
    """By what a scale has to change so that a result says something."""
    if made.size < 4 or made.dtype not in (np.int8, np.int16):
        return 1
    least, most = np.iinfo(made.dtype).min, np.iinfo(made.dtype).max
    saturated = np.mean((made == made.min()) & ((made == least) | (made == most)))
    saturated += np.mean((made == made.max()) & (made == most)) if made.max() != made.min() else 0
    if saturated > 0.6:
        return 4
    return 0.25 if len(np.unique(made)) <= 2 else 1
