# SPDX-License-Identifier: Apache-2.0
"""Matrix products with constant weights."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from pillion.ir import numerics
from pillion.ir.access import WHOLE, Access
from pillion.ir.numerics import Arithmetic
from pillion.ir.op import Op, op, require_rank
from pillion.ir.types import Array, DType, TensorType, Value
from pillion.ops.example_values import ZERO_POINTS, conv_bias, conv_weights, in_16_bits, make_op, value
from pillion.ops.layer import Layer
from pillion.ops.rowwise import Unary


@op("linear")
class Linear(Layer, Unary):
    """Computes y = x · weightsᵀ + bias over the last axis; weights [out, in].

    Under `tflite` the accumulator is scaled in double precision and rounded once, half away from zero; under
    `cmsis-nn`, and where results have 16 bits and operands 8, it is requantized like a convolution's."""

    takes_int16 = True
    weights_of_4_bits = True
    across_last = "its features are made together, each from all"

    @property
    def out_features(self) -> int:
        """The length of the result's last axis."""
        return self.weights.shape[0]

    @property
    def in_features(self) -> int:
        """The length of the operand's last axis."""
        return self.weights.shape[1]

    @property
    def rows(self) -> int:
        """The number of vectors."""
        return math.prod(self.x.shape[:-1])

    @property
    def macs(self) -> int:
        return self.rows * self.weights.type.elements

    def access(self, operand: Value) -> Access:
        return super().access(operand) if operand is self.x else WHOLE

    @property
    def largest_scaled_sum(self) -> float:
        """The largest accumulator in steps of the result, before it is clamped."""
        weights, bias = self.weights.constant.astype(np.float64), self.bias.constant.astype(np.float64)
        steps = numerics.INT8_STEPS if self.x.dtype is DType.INT8 else self.x.reach
        sums = np.abs(weights).sum(axis=1) * steps + np.abs(bias)
        return float((sums * self.ratios).max(initial=0))

    def infer(self) -> TensorType:
        return TensorType((*self.x.shape[:-1], self.out_features), self.result_dtype)

    def check(self) -> None:
        require_rank(self, self.weights, 2)
        if self.x.type.rank < 1 or self.x.shape[-1] != self.in_features:
            raise self.refuse(
                f"the last axis of the input has {self.in_features} elements", list(self.x.shape)
            )
        if self.bias.shape != (self.out_features,):
            raise self.refuse(f"one bias for each of {self.out_features} features", list(self.bias.shape))
        self.check_layer()

    def accumulators(self, x: Array, weights: Array, bias: Array) -> NDArray[np.int64]:
        rows = x.reshape(-1, self.in_features).astype(np.float64) - self.x.zero_point
        sums = (rows @ weights.astype(np.float64).T).astype(np.int64) + bias.astype(np.int64)
        return sums.reshape(self.y.shape)

    def reference(self, arithmetic: Arithmetic, *operands: Array) -> Array:
        if arithmetic is not Arithmetic.TFLITE or self.widens:
            return super().reference(arithmetic, *operands)
        scaled = numerics.round_half_away(self.accumulators(*operands) * self.ratios).astype(np.int64)
        return np.clip(scaled + self.y.zero_point, self.low, self.high).astype(self.y.dtype.numpy)

    @classmethod
    def _examples(cls) -> Iterator[Op]:
        shapes = (((1, 1), 1), ((3, 7), 8), ((2, 3, 9), 5), ((1, 64), 10), ((5, 33), 17), ((1, 640), 128))
        for number, (shape, out) in enumerate(shapes):
            x = value("x", shape, 2.0**-4 if number % 2 else 0.031, ZERO_POINTS[number % 4])
            weights = conv_weights((out, shape[-1]), 0, number, power_of_two=number % 2 == 1)
            y = value("y", (), (2.0**-1, 0.37)[number % 2], ZERO_POINTS[(number + 2) % 4])
            bounds = {"low": y.zero_point} if number == 3 else {}
            yield make_op(cls, y, x=x, weights=weights, bias=conv_bias(x, weights, out, number), **bounds)
            x, y, bounds = in_16_bits(x), in_16_bits(y), {"low": -(2**15), "high": 2**15 - 1}
            yield make_op(cls, y, x=x, weights=weights, bias=conv_bias(x, weights, out, number), **bounds)
