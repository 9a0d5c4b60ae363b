# SPDX-License-Identifier: Apache-2.0
"""SVDF layers: filters over time as products of two vectors, in the arithmetic of LiteRT's integer kernels. Each
filter keeps the products of one vector and the last inputs in 16 bits, and weighs them by the other vector."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from pillion.ir import numerics
from pillion.ir.access import Access, identity_access
from pillion.ir.numerics import INT16_MAX, Arithmetic, Multiplier
from pillion.ir.op import Op, Quantization, op, operand, require_dtype, require_rank, result
from pillion.ir.types import Array, DType, PerTensor, TensorType, Value, constant_value
from pillion.ops.example_values import ZERO_POINTS, make_op, value
from pillion.ops.fixed16 import saturate16


class _SvdfBase(Op):
    """The base class of both halves; every row is an independent input."""

    is_identity = False
    if TYPE_CHECKING:  # not fields of this class: SvdfMemory has another operand in front
        memory: Value
        weights: Value

    @property
    def filters(self) -> int:
        """The number of filters."""
        return self.weights.shape[0]

    @property
    def length(self) -> int:
        """The number of inputs that a filter remembers."""
        return self.memory.shape[1] // self.filters

    def access(self, operand: Value) -> Access:
        return identity_access(operand, {1}, "each of its numbers is made from all of them")

    def check(self) -> None:
        require_rank(self, self.memory, 2)
        require_rank(self, self.weights, 2)
        require_dtype(self, self.memory, DType.INT16)
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
class SvdfMemory(_SvdfBase):
    """Computes the memory after a new input: everything moves on by one, and x · weights is appended."""

    x: Value = operand()
    memory: Value = operand()
    weights: Value = operand()
    y: Value = result()

    @property
    def multiplier(self) -> Multiplier:
        """The multiplier from products to the memory's scale. LiteRT computes it in float32."""
        product = np.float32(self.x.scale) * np.float32(self.weights.scale)
        return numerics.encode_multiplier(float(product / np.float32(self.memory.scale)))

    @property
    def macs(self) -> int:
        return self.x.shape[0] * self.weights.type.elements

    @property
    def largest_sum(self) -> int:
        """The largest sum of products."""
        return self.x.reach * int(np.abs(self.weights.constant.astype(np.int64)).sum(axis=1).max(initial=0))

    def largest_sums(self) -> Iterator[tuple[int, int]]:
        yield self.largest_sum, self.multiplier.shift

    def infer(self) -> TensorType:
        return TensorType(self.memory.shape, DType.INT16)

    def check(self) -> None:
        super().check()
        require_rank(self, self.x, 2)
        require_dtype(self, self.x, DType.INT8)
        require_dtype(self, self.weights, DType.INT8)
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
        shifted: Array = np.concatenate([old[:, :, 1:], new[:, :, None]], axis=2).reshape(memory.shape)
        return shifted

    @classmethod
    def examples(cls) -> Iterator[Op]:
        for number, (batch, inputs, filters, length) in enumerate(SIZES):
            rng = np.random.default_rng(number)
            x = value("x", (batch, inputs), 0.05, ZERO_POINTS[number % 4])
            memory = _example_memory("memory", (batch, filters * length))
            data = rng.integers(-127, 127, (filters, inputs), endpoint=True).astype(np.int8)
            weights = constant_value("weights", data, PerTensor(0.011))
            yield make_op(cls, _example_memory("y", ()), x=x, memory=memory, weights=weights)


@op("svdf_output")
class SvdfOutput(_SvdfBase):
    """Weighs the memory of each filter and adds the filters of each unit. Sums have 32 bits and wrap."""

    memory: Value = operand()
    weights: Value = operand()
    bias: Value = operand()
    y: Value = result()

    @property
    def units(self) -> int:
        """The number of units."""
        return self.bias.shape[0]

    @property
    def multiplier(self) -> Multiplier:
        """The multiplier from sums to the result's scale. LiteRT computes it in float32."""
        product = np.float32(self.memory.scale) * np.float32(self.weights.scale)
        return numerics.encode_multiplier(float(product / np.float32(self.y.scale)))

    @property
    def macs(self) -> int:
        return self.memory.type.elements

    def largest_sums(self) -> Iterator[tuple[int, int]]:
        yield numerics.INT32_MAX + 1, self.multiplier.shift

    def infer(self) -> TensorType:
        return TensorType((self.memory.shape[0], self.units), DType.INT8)

    def check(self) -> None:
        super().check()
        require_dtype(self, self.weights, DType.INT16)
        require_dtype(self, self.bias, DType.INT32)
        require_rank(self, self.bias, 1)
        if not self.units or self.filters % self.units or self.weights.shape[1] != self.length:
            raise self.refuse(
                "a weight for each remembered input, and as many filters for each unit",
                f"{self.weights!r}, {self.bias!r}, {self.memory!r}",
            )
        if not self.bias.is_constant:
            raise self.refuse("the bias is a constant", repr(self.bias))

    def reference(self, arithmetic: Arithmetic, *operands: Array) -> Array:
        memory, weights, bias = operands
        history = memory.reshape(-1, self.filters, self.length).astype(np.int64)
        sums = (
            (history * weights.astype(np.int64)).sum(axis=2).reshape(len(memory), self.units, -1).sum(axis=2)
        )
        m = self.multiplier
        scaled = numerics.requantize(
            numerics.wrap_to_32_bits(sums + bias.astype(np.int64)), m.mantissa, m.shift
        )
        return numerics.clamp_to_int8(scaled + self.y.zero_point, -128, 127)

    @classmethod
    def examples(cls) -> Iterator[Op]:
        for number, (batch, _, filters, length) in enumerate(SIZES):
            rng = np.random.default_rng(number)
            memory = _example_memory("memory", (batch, filters * length))
            reach = INT16_MAX if number == 3 else 900
            data = rng.integers(-reach, reach, (filters, length), endpoint=True).astype(np.int16)
            units = filters // (1, 2, 1, 3)[number % 4]
            bias = constant_value("bias", rng.integers(-9000, 9000, units).astype(np.int32))
            y = value("y", (), (0.25, 0.71)[number % 2], ZERO_POINTS[number % 4])
            yield make_op(
                cls, y, memory=memory, weights=constant_value("weights", data, PerTensor(0.0011)), bias=bias
            )


SIZES = ((1, 1, 1, 1), (2, 7, 10, 5), (1, 33, 16, 8), (3, 9, 6, 3), (1, 24, 17, 10))
"""Batch, inputs, filters and length of the examples."""


def _example_memory(name: str, shape: tuple[int, ...]) -> Value:
    return Value(name, TensorType(shape, DType.INT16, PerTensor(0.0008)))
