# SPDX-License-Identifier: Apache-2.0
"""Filters over time as products of two vectors (SVDF): each remembers what one vector made of the last inputs, in 16 bits, and weighs it
by the other. The arithmetic is that of LiteRT's integer kernels."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from pillion.ir import numerics
from pillion.ir.along import Along, Course
from pillion.ir.numerics import INT16_MAX, Arithmetic, Multiplier
from pillion.ir.op import Op, Quantization, op, operand, result, want_dtype, want_rank
from pillion.ir.types import Array, DType, PerTensor, TensorType, Value, constant
from pillion.ops.fixed16 import saturate16
from pillion.ops.samples import ZERO_POINTS, make, value


class _OfMemory(Op):
    """The base of both halves: rows are inputs of their own."""

    is_idle = False
    crosses_rows = "each of its numbers is made from all of a row"
    memory: Value
    weights: Value

    @property
    def filters(self) -> int:
        """The filters; each has a row of weights."""
        return self.weights.shape[0]

    @property
    def length(self) -> int:
        """The inputs that a filter remembers."""
        return self.memory.shape[1] // self.filters

    def along(self, operand: Value, axis: int) -> Course:
        return Along(0) if axis == 0 else "each of its numbers is made from all of them"

    def check(self) -> None:
        want_rank(self, self.memory, 2)
        want_rank(self, self.weights, 2)
        want_dtype(self, self.memory, DType.INT16)
        if not self.weights.is_constant or not self.filters or self.memory.shape[1] % self.filters:
            raise self.refuse(
                "weights are constants, with a row for each filter, and filters remember as many inputs",
                f"{self.weights!r}, {self.memory!r}",
            )
        for v in (self.memory, self.weights):
            if not isinstance(v.type.quant, PerTensor) or v.zero_point:
                raise self.refuse(
                    "memory and weights have one scale and zero point 0", f"{v!r}: {v.type.quant}"
                )


@op("svdf_memory", quantization=Quantization.SHARED)
class SvdfMemory(_OfMemory):
    """Gives what filters remember after a new input: all moves on by one, and behind the rest comes x · weights."""

    x: Value = operand()
    memory: Value = operand()
    weights: Value = operand()
    y: Value = result()

    @property
    def multiplier(self) -> Multiplier:
        """The multiplier from products to steps of the memory. LiteRT forms it in float32."""
        product = np.float32(self.x.scale) * np.float32(self.weights.scale)
        return numerics.encode(float(product / np.float32(self.memory.scale)))

    @property
    def macs(self) -> int:
        return self.x.shape[0] * self.weights.type.elements

    def check_scales(self, arithmetic: Arithmetic) -> None:
        _ = self.multiplier

    @property
    def largest_sum(self) -> int:
        """The largest sum of products."""
        reach = max(127 - self.x.zero_point, self.x.zero_point + 128)
        return reach * int(np.abs(self.weights.constant.astype(np.int64)).sum(axis=1).max(initial=0))

    def largest_sums(self) -> Iterator[tuple[int, int]]:
        yield self.largest_sum, self.multiplier.shift

    def infer(self) -> TensorType:
        return TensorType(self.memory.shape, DType.INT16)

    def check(self) -> None:
        super().check()
        want_rank(self, self.x, 2)
        want_dtype(self, self.x, DType.INT8)
        want_dtype(self, self.weights, DType.INT8)
        batch = self.memory.shape[0]
        if self.x.shape != (batch, self.weights.shape[1]):
            raise self.refuse(f"{batch} inputs of {self.weights.shape[1]} numbers", repr(self.x))
        if self.y.type.quant != self.memory.type.quant:
            raise self.refuse("the memory keeps its scale", f"{self.memory.type.quant}, {self.y.type.quant}")
        if self.largest_sum > numerics.INT32_MAX:
            raise self.refuse("sums fit 32 bits", self.largest_sum)

    def reference(self, arithmetic: Arithmetic, *operands: Array) -> Array:
        x, memory, weights = operands
        sums = (x.astype(np.float64) - self.x.zero_point) @ weights.astype(np.float64).T
        m = self.multiplier
        new = saturate16(numerics.requantize(sums.astype(np.int64), m.mantissa, m.shift)).astype(np.int16)
        old = memory.reshape(-1, self.filters, self.length)
        made: Array = np.concatenate([old[:, :, 1:], new[:, :, None]], axis=2).reshape(memory.shape)
        return made

    @classmethod
    def examples(cls) -> Iterator[Op]:
        for number, (batch, inputs, filters, length) in enumerate(SIZES):
            rng = np.random.default_rng(number)
            x = value("x", (batch, inputs), 0.05, ZERO_POINTS[number % 4])
            memory = _memory("memory", (batch, filters * length), 0.0008)
            data = rng.integers(-127, 127, (filters, inputs), endpoint=True).astype(np.int8)
            weights = constant("weights", data, PerTensor(0.011))
            yield make(cls, _memory("y", (), 0.0008), x=x, memory=memory, weights=weights)


@op("svdf_output")
class SvdfOutput(_OfMemory):
    """Gives what filters make of what they remember: each weighs it, and as many of them as there are to a unit are added up. Sums are
    of 32 bits, and wrap."""

    memory: Value = operand()
    weights: Value = operand()
    bias: Value = operand()
    y: Value = result()

    @property
    def units(self) -> int:
        """The numbers of the result."""
        return self.bias.shape[0]

    @property
    def multiplier(self) -> Multiplier:
        """The multiplier from sums to steps of the result. LiteRT forms it in float32."""
        product = np.float32(self.memory.scale) * np.float32(self.weights.scale)
        return numerics.encode(float(product / np.float32(self.y.scale)))

    @property
    def macs(self) -> int:
        return self.memory.type.elements

    def check_scales(self, arithmetic: Arithmetic) -> None:
        _ = self.multiplier

    def largest_sums(self) -> Iterator[tuple[int, int]]:
        yield numerics.INT32_MAX + 1, self.multiplier.shift

    def infer(self) -> TensorType:
        return TensorType((self.memory.shape[0], self.units), DType.INT8)

    def check(self) -> None:
        super().check()
        want_dtype(self, self.weights, DType.INT16)
        want_dtype(self, self.bias, DType.INT32)
        want_rank(self, self.bias, 1)
        if not self.units or self.filters % self.units or self.weights.shape[1] != self.length:
            raise self.refuse(
                "a weight for each remembered input, and as many filters for each unit",
                f"{self.weights!r}, {self.bias!r}, {self.memory!r}",
            )
        if not self.bias.is_constant:
            raise self.refuse("the bias is a constant", repr(self.bias))

    def reference(self, arithmetic: Arithmetic, *operands: Array) -> Array:
        memory, weights, bias = operands
        held = memory.reshape(-1, self.filters, self.length).astype(np.int64)
        sums = (held * weights.astype(np.int64)).sum(axis=2).reshape(len(memory), self.units, -1).sum(axis=2)
        m = self.multiplier
        scaled = numerics.requantize(numerics.wrap32(sums + bias.astype(np.int64)), m.mantissa, m.shift)
        return numerics.saturate(scaled + self.y.zero_point, -128, 127)

    @classmethod
    def examples(cls) -> Iterator[Op]:
        for number, (batch, _, filters, length) in enumerate(SIZES):
            rng = np.random.default_rng(number)
            memory = _memory("memory", (batch, filters * length), 0.0008)
            reach = INT16_MAX if number == 3 else 900
            data = rng.integers(-reach, reach, (filters, length), endpoint=True).astype(np.int16)
            units = filters // (1, 2, 1, 3)[number % 4]
            bias = constant("bias", rng.integers(-9000, 9000, units).astype(np.int32))
            y = value("y", (), (0.25, 0.71)[number % 2], ZERO_POINTS[number % 4])
            yield make(cls, y, memory=memory, weights=constant("weights", data, PerTensor(0.0011)), bias=bias)


SIZES = ((1, 1, 1, 1), (2, 7, 10, 5), (1, 33, 16, 8), (3, 9, 6, 3), (1, 24, 17, 10))
"""Batch, inputs, filters and length of the examples."""


def _memory(name: str, shape: tuple[int, ...], scale: float) -> Value:
    return Value(name, TensorType(shape, DType.INT16, PerTensor(scale)))
