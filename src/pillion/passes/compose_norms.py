# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pillion import ops
from pillion.ir.graph import UniqueNames
from pillion.ir.op import Op
from pillion.ir.rewriting import Replacement, RewriteSweep, rewrite_pass
from pillion.ir.types import DType, PerChannel, PerTensor, Shape, TensorType, Value, constant_value

STEPS, SIDE = 255, 127
"""Steps between the smallest and the largest int8 value, and from 0 to the largest."""
OFF_CENTRE = 0.75
"""The assumed largest distance of an element from its mean, as a part of the operand's range."""
FEW, SPREAD = 2.0, 3.0
"""The assumed least distance of a row's furthest element from the mean, in deviations, and the assumed ratio
of the largest deviation to the usual one."""
CLOSER = 4.0
"""The assumed ratio of the largest reciprocal deviation to the usual one."""
LARGEST_BIAS = 2.0**30


@rewrite_pass(ops.Normalize, also_in_loops=True)
def compose_norms(op: ops.Normalize, at: RewriteSweep) -> Replacement:
    """Expands norms into means, products, square roots and a 1x1 convolution, for formats and runtimes
    without norms.

    Every intermediate result is rounded to 8 bits. Its range was not calibrated; it is derived from the
    ranges of operand and result. The result is coarser than that of the op."""
    return _NormDecomposition(op, at.names).ops()


@dataclass
class _NormDecomposition:
    """Builds the ops that replace one norm."""

    op: ops.Normalize
    names: UniqueNames
    made: list[Op] = field(default_factory=list)

    def ops(self) -> list[Op]:
        """Returns the ops in running order."""
        rows = self.rows()
        centred = self.centred(rows)
        standard = self.product(centred, self.reciprocal_length(centred))
        self.apply_affine(self.back(standard))
        return self.made

    # --- ranges

    @property
    def real_range(self) -> tuple[float, float]:
        """The smallest and the largest real value of the operand."""
        x = self.op.x
        return x.scale * (-128 - x.zero_point), x.scale * (127 - x.zero_point)

    @property
    def max_mean_distance(self) -> float:
        """The assumed largest distance of an element from its mean."""
        low, high = self.real_range
        return OFF_CENTRE * (high - low) if self.op.centred else max(-low, high)

    @property
    def max_deviations(self) -> float:
        """The largest distance of an element from its mean, in deviations, that the result can hold."""
        y, (weights, bias) = self.op.y, self.affine_reals()
        largest = y.scale * y.reach + float(np.abs(bias).max())
        weight = max(float(np.abs(weights).max()), largest / math.sqrt(self.op.elements))
        return min(max(largest / weight, FEW), max(math.sqrt(self.op.elements), 1.0))

    @property
    def expected_deviation(self) -> float:
        """The expected deviation."""
        low, high = self.real_range
        return ((high - low) / 2 if self.op.centred else self.max_mean_distance) / self.max_deviations

    def affine_reals(self) -> tuple[Any, Any]:
        """Returns weight and bias of each channel as real numbers."""
        channels = self.op.x.shape[-1]
        weights, bias = (
            np.full(channels, otherwise) if value is None else value.constant.astype(np.float64)
            for value, otherwise in ((self.op.weights, 1.0), (self.op.bias, 0.0))
        )
        return np.broadcast_to(weights, channels), np.broadcast_to(bias, channels)

    # --- ops

    def put(self, cls: Any, what: str, shape: Shape, quant: PerTensor, **fields: Any) -> Value:
        """Adds an op and returns its result."""
        y = Value(self.names.fresh(f"{self.op.name}_{what}"), TensorType(shape, DType.INT8, quant))
        self.made.append(cls(y=y, source=self.op.source, **fields))
        return y

    def rows(self) -> Value:
        """Returns the operand as [rows, elements], one row per mean."""
        x, op = self.op.x, self.op
        if op.groups > 1:
            rows = math.prod(x.shape[: op.axis])
            parts = (rows, -1, op.groups, x.shape[-1] // op.groups)
            shape = (*parts[:1], x.type.elements // (rows * x.shape[-1]), *parts[2:])
            x = self.put(ops.Reshape, "parts", shape, x.quant, x=x)
            order = (0, 2, 1, 3)
            x = self.put(ops.Transpose, "grouped", tuple(shape[a] for a in order), x.quant, x=x, order=order)
        rows_shape = (x.type.elements // op.elements, op.elements)
        return self.put(ops.Reshape, "rows", rows_shape, x.quant, x=x)

    def centred(self, rows: Value) -> Value:
        """Subtracts the mean from each row."""
        if not self.op.centred:
            return rows
        mean = self.put(ops.Mean, "mean", (rows.shape[0], 1), rows.quant, x=rows, axes=(1,), keepdims=True)
        quant = PerTensor(2 * self.max_mean_distance / STEPS, 0)
        return self.put(ops.Sub, "centred", rows.shape, quant, a=rows, b=mean)

    def reciprocal_length(self, centred: Value) -> Value:
        """Computes 1 / sqrt(sum of squares) of each row, as [rows, 1]."""
        count, length = centred.shape
        most = length * min(SPREAD * self.expected_deviation, self.max_mean_distance) ** 2
        quant = PerTensor(most / STEPS, -128)
        row, column = (
            self.put(ops.Reshape, what, shape, centred.quant, x=centred)
            for what, shape in (("row", (count, 1, length)), ("column", (count, length, 1)))
        )
        total = self.put(ops.BatchMatmul, "squares", (count, 1, 1), quant, a=row, b=column)
        eps = length * self.op.eps
        if eps > quant.scale / 2:
            epsilon = constant_value(
                self.names.fresh(f"{self.op.name}_eps"),
                np.full((1, 1, 1), SIDE, np.int8),
                PerTensor(eps / SIDE, 0),
            )
            wider = PerTensor((most + eps) / STEPS, -128)
            total = self.put(ops.Add, "squares_eps", total.shape, wider, a=total, b=epsilon)
        typical = math.sqrt(self.expected_deviation**2 + self.op.eps)
        inverse = PerTensor(CLOSER / (typical * math.sqrt(length)) / STEPS, -128)
        root = self.put(ops.Lut, "reciprocal", total.shape, inverse, x=total, function=ops.Function.RSQRT)
        return self.put(ops.Reshape, "reciprocals", (count, 1), inverse, x=root)

    def product(self, centred: Value, reciprocal: Value) -> Value:
        """Scales each row to length 1."""
        quant = PerTensor(self.max_deviations / math.sqrt(self.op.elements) / SIDE, 0)
        return self.put(ops.Mul, "standard", centred.shape, quant, a=centred, b=reciprocal)

    def back(self, standard: Value) -> Value:
        """Restores the operand's order of elements, as an image of one pixel per element."""
        op, channels = self.op, self.op.x.shape[-1]
        if op.groups > 1:
            rows = math.prod(op.x.shape[: op.axis])
            shape = (rows, op.groups, op.x.type.elements // (rows * channels), channels // op.groups)
            parts = self.put(ops.Reshape, "groups", shape, standard.quant, x=standard)
            order = (0, 2, 1, 3)
            moved = tuple(shape[a] for a in order)
            standard = self.put(ops.Transpose, "joined", moved, standard.quant, x=parts, order=order)
        pixels = (1, op.x.type.elements // channels, 1, channels)
        return self.put(ops.Reshape, "pixels", pixels, standard.quant, x=standard)

    def apply_affine(self, pixels: Value) -> None:
        """Applies weight and bias to rows of length 1."""
        op, channels = self.op, pixels.shape[-1]
        weights, bias = self.affine_reals()
        real = weights * math.sqrt(op.elements)
        scales = np.maximum(np.abs(real) / SIDE, np.abs(bias) / (pixels.scale * LARGEST_BIAS))
        scales = np.maximum(scales, max(float(scales.max()), 1e-6) * 1e-6)
        quant = PerChannel(tuple(scales.tolist()), 0 if channels == 1 else 3)
        levels = np.rint(real / quant.scales).astype(np.int8).reshape(1, 1, 1, channels)
        sums = PerChannel(tuple((pixels.scale * np.array(quant.scales)).tolist()), 0)
        fields = {
            "weights": constant_value(self.names.fresh(f"{op.name}_weights"), levels, quant),
            "bias": constant_value(
                self.names.fresh(f"{op.name}_bias"), np.rint(bias / sums.scales).astype(np.int32), sums
            ),
        }
        cls: Any = ops.Conv2d if channels == 1 else ops.DepthwiseConv2d
        y = self.put(
            cls, "pixels_out", pixels.shape, op.y.quant, x=pixels, low=op.low, high=op.high, **fields
        )
        self.made.append(ops.Reshape(x=y, y=op.y, source=op.source))
