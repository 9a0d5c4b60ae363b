# SPDX-License-Identifier: Apache-2.0
"""One step of an LSTM, as LiteRT's integer kernels define it: 16-bit gates, 16-bit cell, 8-bit output."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from pillion.ir import numerics
from pillion.ir.access import Access, identity_access
from pillion.ir.numerics import Arithmetic, Int64Array, Multiplier, Multipliers
from pillion.ir.op import Op, Quantization, op, operand, require_dtype, require_rank, result
from pillion.ir.types import Array, DType, PerChannel, PerTensor, TensorType, Value, constant_value
from pillion.ops.example_values import ZERO_POINTS, make_op, value
from pillion.ops.fixed16 import logistic16, saturate16, tanh16

GATE_SCALE = 2.0**-12
"""The scale of a gate's sum: three integer bits."""
FRACTION_BITS = 15
"""Fraction bits of a gate's result."""
MOST_TANH_BITS = 6
"""The maximum number of integer bits for which the hyperbolic tangent is defined."""


class LstmGates(Op):
    """The base class of both halves of a step: gates are sums over the input and over the output of the previous
    step."""

    x: Value = operand()
    h: Value = operand()
    c: Value = operand()
    input_weights: Value = operand()
    recurrent_weights: Value = operand()
    bias: Value = operand()
    y: Value = result()

    is_identity = False
    gates = 1

    @property
    def cells(self) -> int:
        """The number of cells."""
        return self.c.shape[1]

    @property
    def macs(self) -> int:
        return self.x.shape[0] * (self.input_weights.type.elements + self.recurrent_weights.type.elements)

    @property
    def cell_exponent(self) -> int:
        """The exponent of the cell's scale, a power of two."""
        return math.frexp(self.c.scale)[1] - 1

    def multipliers(self, x: Value, weights: Value) -> Multipliers:
        """Returns one multiplier per gate, from products to the gate's sum. LiteRT computes it in float32."""
        scales = weights.channel_scales[:: self.cells]
        ratios = (np.float32(s) * np.float32(x.scale) / np.float32(GATE_SCALE) for s in scales)
        return tuple(numerics.encode_multiplier(float(ratio)) for ratio in ratios)

    @property
    def input_multipliers(self) -> Multipliers:
        """The multipliers of the sums over the input."""
        return self.multipliers(self.x, self.input_weights)

    @property
    def recurrent_multipliers(self) -> Multipliers:
        """The multipliers of the sums over the previous output."""
        return self.multipliers(self.h, self.recurrent_weights)

    def check_scales(self, arithmetic: Arithmetic) -> None:
        exponent = self.cell_exponent
        is_power = math.ldexp(1, exponent) == self.c.scale and self.c.zero_point == 0
        if not is_power or not -FRACTION_BITS <= exponent <= MOST_TANH_BITS - FRACTION_BITS:
            largest = MOST_TANH_BITS - FRACTION_BITS
            raise ValueError(
                f"a cell has zero point 0 and a power of two from 2^-15 to 2^{largest} as its scale"
            )
        super().check_scales(arithmetic)

    def largest_sums(self) -> Iterator[tuple[int, int]]:
        bias = int(np.abs(self.bias.constant.astype(np.int64)).max(initial=0))
        first = self._largest_gate_sum(self.x, self.input_weights) + bias
        yield first, max(m.shift for m in self.input_multipliers)
        recurrent = self._largest_gate_sum(self.h, self.recurrent_weights)
        yield recurrent, max(m.shift for m in self.recurrent_multipliers)

    def _largest_gate_sum(self, x: Value, weights: Value) -> int:
        magnitudes = np.abs(weights.constant.astype(np.int64)).sum(axis=1)
        return x.reach * int(magnitudes.max(initial=0))

    def access(self, operand: Value) -> Access:
        return identity_access(operand, {1}, "each of its numbers is made from all of them")

    def check(self) -> None:
        for v in (self.x, self.h, self.c, self.input_weights, self.recurrent_weights):
            require_rank(self, v, 2)
        for v in (self.x, self.h, self.input_weights, self.recurrent_weights):
            require_dtype(self, v, DType.INT8)
        require_dtype(self, self.c, DType.INT16)
        require_dtype(self, self.bias, DType.INT32)
        if not all(v.is_constant for v in (self.input_weights, self.recurrent_weights, self.bias)):
            raise self.refuse("weights and bias are constants", "computed")
        rows, batch = self.gates * self.cells, self.x.shape[0]
        expected = ((batch, self.cells), (rows, self.x.shape[1]), (rows, self.h.shape[1]), (rows,), batch)
        weights = self.input_weights.shape, self.recurrent_weights.shape
        if expected != (self.c.shape, *weights, self.bias.shape, self.h.shape[0]):
            raise self.refuse(
                f"weights of {self.gates} gates for each of {self.cells} cells",
                f"{self.x!r}, {self.h!r}, {self.c!r}, {self.input_weights!r}, {self.recurrent_weights!r}",
            )
        if max(largest for largest, _ in self.largest_sums()) > numerics.INT32_MAX:
            raise self.refuse("sums fit 32 bits", [largest for largest, _ in self.largest_sums()])

    def sums(self, x: Array, h: Array, weights: Array, recurrent: Array, bias: Array) -> list[Int64Array]:
        """Returns the 16-bit sum of each gate."""
        sums = []
        for gate in range(self.gates):
            rows = slice(gate * self.cells, (gate + 1) * self.cells)
            from_input = _dot_products(x, self.x.zero_point, weights[rows]) + bias[rows].astype(np.int64)
            first = saturate16(_requantize_gate_sums(from_input, self.input_multipliers, gate))
            from_output = _dot_products(h, self.h.zero_point, recurrent[rows])
            second = _requantize_gate_sums(from_output, self.recurrent_multipliers, gate)
            sums.append(saturate16(second + first))
        return sums


def _dot_products(x: Array, zero_point: int, weights: Array) -> Int64Array:
    sums: NDArray[np.float64] = (x.astype(np.float64) - zero_point) @ weights.astype(np.float64).T
    return sums.astype(np.int64)


def _requantize_gate_sums(sums: Int64Array, multipliers: Multipliers, gate: int) -> Int64Array:
    m = multipliers[gate % len(multipliers)]
    return numerics.requantize(sums, m.mantissa, m.shift)


@op("lstm_cell", quantization=Quantization.SHARED)
class LstmCell(LstmGates):
    """Computes the new cell of an LSTM: forget · c + input · candidate, in 16 bits.

    Weights and biases of three gates follow one another: input, forget, candidate, each with its own scale. The
    scale of the cell `c` is a power of two; `clip` bounds it to that many steps around 0."""

    gates = 3

    clip: int = 0

    def infer(self) -> TensorType:
        return TensorType(self.c.shape, DType.INT16)

    def check(self) -> None:
        super().check()
        if not 0 <= self.clip <= numerics.INT16_MAX:
            raise self.refuse(f"a cell is clipped to at most {numerics.INT16_MAX} steps", self.clip)
        if self.y.type.quant != self.c.type.quant:
            raise self.refuse("a cell keeps its scale", f"{self.c.type.quant}, {self.y.type.quant}")

    def reference(self, arithmetic: Arithmetic, *operands: Array) -> Array:
        x, h, c, *constants = operands
        let_in, keep, candidate = self.sums(x, h, *constants)
        retained = saturate16(numerics.shift_right(logistic16(keep) * c.astype(np.int64), FRACTION_BITS))
        new = logistic16(let_in) * tanh16(candidate, 3)
        added = saturate16(numerics.shift_right(new, 2 * FRACTION_BITS + self.cell_exponent))
        cell = saturate16(retained + added)
        return (np.clip(cell, -self.clip, self.clip) if self.clip else cell).astype(np.int16)

    @classmethod
    def examples(cls) -> Iterator[Op]:
        for number, fields in enumerate(_example_layers(cls.gates)):
            y = Value("y", TensorType((), DType.INT16, fields["c"].type.quant))
            yield make_op(cls, y, **fields, clip=(0, 3000)[number % 2])


@op("lstm_output")
class LstmOutput(LstmGates):
    """Computes the output of an LSTM step: the output gate times the hyperbolic tangent of the new cell `c`."""

    @property
    def multiplier(self) -> Multiplier:
        """The multiplier from products of two fractions to the result's scale."""
        return numerics.encode_multiplier(float(np.float32(2.0**-30) / np.float32(self.y.scale)))

    def largest_sums(self) -> Iterator[tuple[int, int]]:
        yield from super().largest_sums()
        yield 1 << 2 * FRACTION_BITS, self.multiplier.shift

    def infer(self) -> TensorType:
        return TensorType(self.c.shape, DType.INT8)

    def reference(self, arithmetic: Arithmetic, *operands: Array) -> Array:
        x, h, c, *constants = operands
        (gate,) = self.sums(x, h, *constants)
        gated = logistic16(gate) * tanh16(c, FRACTION_BITS + self.cell_exponent)
        m = self.multiplier
        return numerics.clamp_to_int8(
            numerics.requantize(gated, m.mantissa, m.shift) + self.y.zero_point, -128, 127
        )

    @classmethod
    def examples(cls) -> Iterator[Op]:
        for number, fields in enumerate(_example_layers(cls.gates)):
            yield make_op(
                cls, value("y", (), (2.0**-7, 0.0071)[number % 2], (0, -9, 127, -128)[number % 4]), **fields
            )


def _example_layers(gates: int) -> Iterator[dict[str, Value]]:
    """Yields operands of layers of several sizes, with cells of several scales."""
    sizes = ((1, 1, 1, 1), (2, 7, 5, 5), (1, 33, 16, 16), (3, 9, 4, 8), (1, 24, 17, 17), (1, 5, 3, 3))
    for number, (batch, inputs, outputs, cells) in enumerate(sizes):
        rng = np.random.default_rng(number)
        x = value("x", (batch, inputs), 0.05, ZERO_POINTS[number % 4])
        h = value("h", (batch, outputs), 2.0**-7, (0, -9, 127)[number % 3])
        scale = 2.0 ** (-11, -9, -15, -10)[number % 4]
        c = Value("c", TensorType((batch, cells), DType.INT16, PerTensor(scale)))
        scales = np.repeat(rng.uniform(0.002, 0.02, gates), cells)
        rows = gates * cells
        weights = {
            name: constant_value(
                name,
                rng.integers(-127, 127, (rows, width), endpoint=True).astype(np.int8),
                PerChannel(tuple(scales.tolist()), 0),
            )
            for name, width in (("input_weights", inputs), ("recurrent_weights", outputs))
        }
        bias = constant_value("bias", rng.integers(-3000, 3000, rows).astype(np.int32))
        yield {"x": x, "h": h, "c": c, **weights, "bias": bias}
