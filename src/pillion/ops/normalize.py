# SPDX-License-Identifier: Apache-2.0
"""Layer, group, instance and RMS norms as one op: exact sums, a 30-bit reciprocal square root, and one rounding to
int8."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from pillion.ir import numerics
from pillion.ir.access import WHOLE, Access, identity_access
from pillion.ir.numerics import Arithmetic, Int64Array, Multiplier
from pillion.ir.op import Op, op, operand, optional_operand, require_dtype, result
from pillion.ir.types import Array, DType, PerTensor, Shape, TensorType, Value, constant_value
from pillion.ops.example_values import ZERO_POINTS, make_op, value

Reals = NDArray[np.float64]

MOST_ELEMENTS = {DType.INT8: 2**23, DType.FLOAT32: 2**23, DType.INT16: 2**15}
"""The maximum number of elements per mean: the sum of squares times their number fits 62 bits."""
MEAN_BITS = {DType.INT8: 22, DType.INT16: 14}
"""Fraction bits of a mean."""
POWER_BITS = 61
"""The maximum number of bits of a variance in its own fixed point."""
MOST_FRACTION = 31
"""The maximum number of fraction bits of a variance; its negative is the minimum."""
RESULT_BITS = 27
"""Bits of a result before it is rounded to int8."""
LEAST_PLACES = 4
"""The minimum number of fraction bits among these."""
FIRST, SLOPE = 1145023540, 654299166
"""2.1328 and 1.2187 in Q29: a line within 9 % of the reciprocal square root on [1/4, 1]."""
STEPS = 3
"""Newton steps; each squares the error: 9 %, 1.1 %, 2^-12, 2^-24."""


@op("normalize")
class Normalize(Op):
    """Computes (x - mean) / sqrt(variance + eps) · weights + bias, with mean and variance over all axes from
    `axis` on; with `groups`, over equal parts of the last axis. Without `centred` the mean is taken as 0, so
    the variance is the mean square.

    Weights and bias are real constants, one per index of the last axis or one for all. Sums and squares of the
    elements are exact; the result is within one step of the real one (see "numbers"). The operand may have 16
    bits; then the result may have them, too, and is within five of its steps."""

    real_constants: ClassVar[tuple[str, ...]] = ("weights", "bias")
    is_identity = False

    x: Value = operand()
    weights: Value | None = optional_operand()
    bias: Value | None = optional_operand()
    y: Value = result()
    axis: int = 1
    groups: int = 1
    centred: bool = True
    eps: float = 1e-5
    low: int = -128
    high: int = 127

    @property
    def elements(self) -> int:
        """The number of elements per mean."""
        return math.prod(self.x.shape[self.axis :]) // self.groups

    @property
    def mean_multiplier(self) -> Multiplier:
        """The multiplier from a sum to its mean, with `mean_bits` fraction bits."""
        return numerics.encode_multiplier(2.0**self.mean_bits / self.elements)

    @property
    def mean_bits(self) -> int:
        """Fraction bits of a mean."""
        return MEAN_BITS[self.x.dtype]

    @property
    def element_bits(self) -> int:
        """Bits of an element."""
        return 8 * self.x.dtype.size_bytes

    @property
    def variance_bits(self) -> int:
        """Fraction bits of the variance times the squared number of elements; negative if `eps` exceeds every
        variance."""
        most = self.elements**2 * (2 ** (2 * self.element_bits) + self.eps / self.x.scale**2)
        bits = min(POWER_BITS - math.ceil(math.log2(most)), MOST_FRACTION)
        if bits < -MOST_FRACTION:
            raise ValueError(f"eps is {self.eps / self.x.scale**2:.3g} squares of the operand's scale")
        return bits

    @property
    def added(self) -> int:
        """The value of `eps` in the variance's fixed point."""
        return round(self.elements**2 * (self.eps / self.x.scale**2) * 2.0**self.variance_bits)

    @property
    def factor_bits(self) -> int:
        """The shift from a reciprocal square root to the factor of a row. No product exceeds 31 bits, as no
        element is further from the mean than the deviation times the root of the number of elements."""
        return (self.variance_bits - 29 + self.elements.bit_length() - 1) // 2

    @property
    def step(self) -> float:
        """The real value of one unit of a normalized element."""
        return self.elements * 2.0 ** (self.variance_bits / 2 - 44.5 - self.factor_bits)

    @property
    def places(self) -> int:
        """Fraction bits of a result before it is rounded."""
        weights, bias = self._broadcast_weights_and_bias()
        most = (np.abs(weights).max() * math.sqrt(self.elements) + np.abs(bias).max()) / self.y.scale
        most += 2.0 ** (8 * self.y.dtype.size_bytes)
        places = RESULT_BITS - math.ceil(math.log2(most))
        if places < LEAST_PLACES:
            raise ValueError(f"the result may be up to {most:.3g} of its steps")
        return places

    def factors_and_offsets(self) -> tuple[Int64Array, Int64Array]:
        """Returns, per index of the last axis or for all, the integer factor of a normalized element, and the
        constant that is added to the upper half of the product: bias, zero point, and one half for rounding."""
        weights, bias = self._broadcast_weights_and_bias()
        fraction_bits = self.places
        factors = numerics.round_half_away(weights * (self.step * 2.0 ** (32 + fraction_bits) / self.y.scale))
        if np.abs(factors).max() > numerics.INT32_MAX:
            raise ValueError(
                f"weights of up to {np.abs(weights).max():.3g} for a scale of {self.y.scale:.3g}"
            )
        offsets = numerics.round_half_away(bias * (2.0**fraction_bits / self.y.scale)).astype(np.int64)
        return factors.astype(np.int64), offsets + (self.y.zero_point << fraction_bits) + (
            1 << fraction_bits >> 1
        )

    def _broadcast_weights_and_bias(self) -> tuple[Reals, Reals]:
        """Weights and bias, each as long as the other."""
        weights = np.ones(1) if self.weights is None else self.weights.constant.astype(np.float64)
        bias = np.zeros(1) if self.bias is None else self.bias.constant.astype(np.float64)
        first, second = np.broadcast_arrays(weights, bias)
        return first, second

    def largest_sums(self) -> Iterator[tuple[int, int]]:
        self.factors_and_offsets()
        yield (self.elements << self.element_bits - 1), self.mean_multiplier.shift

    def access(self, operand: Value) -> Access:
        if operand is not self.x:
            return WHOLE
        return identity_access(operand, range(self.axis, operand.type.rank), "its mean is that of all")

    def infer(self) -> TensorType:
        narrows = self.x.dtype is DType.INT16 and self.y.dtype is not DType.INT16
        return TensorType(self.x.shape, DType.INT8 if narrows else self.x.dtype)

    def check(self) -> None:
        shape = self.x.shape
        if self.x.dtype not in MOST_ELEMENTS:
            raise self.refuse("its operand is int8 or int16", self.x.dtype.value)
        if not 0 <= self.axis < len(shape):
            raise self.refuse(f"axis is one of {len(shape)}", self.axis)
        if self.groups < 1 or shape[-1] % self.groups:
            raise self.refuse("the last axis is divided into equal groups", f"{shape[-1]} by {self.groups}")
        most = MOST_ELEMENTS[self.x.dtype]
        if not 1 <= self.elements <= most:
            raise self.refuse(f"a mean is of at most {most} elements", self.elements)
        if not (self.eps >= 0 and math.isfinite(self.eps)):
            raise self.refuse("eps is not negative", self.eps)
        for parameter in filter(None, (self.weights, self.bias)):
            require_dtype(self, parameter, DType.FLOAT32)
            if not parameter.is_constant or not bool(np.isfinite(parameter.constant).all()):
                raise self.refuse("weights and bias are constants, and finite", repr(parameter))
            if parameter.shape not in ((1,), shape[-1:]):
                raise self.refuse(
                    "weights and bias are one number, or one for each index of the last axis", parameter
                )

    def reference(self, arithmetic: Arithmetic, *operands: Array) -> Array:
        x = operands[0].astype(np.int64)
        parts = self._parts(x)
        sums, squares = parts.sum(axis=(1, 3)), (parts * parts).sum(axis=(1, 3))
        factors, starts = (term[:, None, :, None] for term in self.of_rows(sums, squares))
        standard = numerics.wrap_to_32_bits(parts * factors + starts).reshape(self.x.shape)
        by, plus = self.factors_and_offsets()
        levels = (numerics.high_word(standard, by) + plus) >> self.places
        return np.clip(levels, self.low, self.high).astype(self.y.dtype.numpy)

    def _parts(self, x: Int64Array) -> Int64Array:
        """Returns the elements as [rows, positions, groups, elements of a group]."""
        rows = math.prod(self.x.shape[: self.axis])
        return x.reshape(rows, -1, self.groups, self.x.shape[-1] // self.groups)

    def of_rows(self, sums: Int64Array, squares: Int64Array) -> tuple[Int64Array, Int64Array]:
        """Returns the factor and the offset of each row, from its sum and its sum of squares."""
        count, zero = self.elements, self.x.zero_point
        if self.centred:
            m = self.mean_multiplier
            means = numerics.requantize(sums, m.mantissa, m.shift)
            variances = count * squares - sums * sums
        else:
            means = np.full_like(sums, zero << self.mean_bits)
            variances = count * (squares - 2 * zero * sums + count * zero * zero)
        bits = self.variance_bits
        fixed = (variances << max(bits, 0) >> max(-bits, 0)) + self.added
        root, halves = reciprocal_root(np.maximum(fixed, 1))
        shift = self.factor_bits - halves
        factors = np.where(shift > 0, root << np.maximum(shift, 0), numerics.shift_right(root, -shift))
        factors = np.where(variances > 0, factors, 0)
        starts = -((means * factors + (1 << self.mean_bits - 1)) >> self.mean_bits)
        return factors, numerics.wrap_to_32_bits(starts)

    @classmethod
    def examples(cls) -> Iterator[Op]:
        yield from _norm_examples(cls)
        yield from _wide_examples(cls)


def bit_lengths(values: Array) -> Int64Array:
    """Returns the number of bits of each number."""
    return np.frompyfunc(int.bit_length, 1, 1)(values.astype(object)).astype(np.int64)


def reciprocal_root(fixed: Int64Array) -> tuple[Int64Array, Int64Array]:
    """Returns 1 / sqrt(u) in Q29 and h, where the integer, from 1 to 2^62, is u · 2^31 · 4^h with u in [1/4, 1]."""
    halves = (bit_lengths(fixed) - 30) >> 1
    u = fixed << np.maximum(-2 * halves, 0) >> np.maximum(2 * halves, 0)
    root = FIRST - (u * SLOPE >> 31)
    for _ in range(STEPS):
        square = (root * root >> 30) * u >> 31  # Q28: 1, when it is found
        root = root * ((3 << 28) - square) >> 29
    return root, halves


CASES: tuple[tuple[Shape, float, dict[str, object]], ...] = (
    ((3, 8), 0.05, {}),
    ((2, 5, 7), 0.0625, {"axis": 2}),
    ((1, 1, 33), 0.004, {"axis": 2, "eps": 1e-3}),
    ((2, 3, 5, 12), 0.1, {"axis": 1, "groups": 4}),
    ((1, 5, 3, 9), 0.5, {"axis": 1, "groups": 9, "low": -20}),
    ((1, 7, 2, 17), 0.02, {"axis": 3, "centred": False}),
    ((3, 1), 2.0, {"eps": 0.0}),
    ((2, 3, 11), 0.05, {"axis": 1}),
    ((1, 1000), 0.25, {"centred": False, "eps": 0.0}),
    ((1, 2, 16), 2.0**-12, {"axis": 2, "eps": 0.1}),
)


def _norm_examples(cls: type[Op]) -> Iterator[Op]:
    """Yields examples with weights and bias per channel, with one of both, one for all, and none."""
    for number, (shape, scale, attributes) in enumerate(CASES):
        rng = np.random.default_rng(number)
        channels = 1 if number == 7 else shape[-1]
        affine: dict[str, Value] = {}
        if number % 3 != 2:
            affine["weights"] = constant_value("weights", rng.uniform(-1, 2, channels).astype(np.float32))
        if number % 4 < 2:
            affine["bias"] = constant_value("bias", rng.uniform(-2, 2, channels).astype(np.float32))
        x = value("x", shape, scale, ZERO_POINTS[number % 4])
        y = value("y", (), (0.03, 2.0**-5, 0.01)[number % 3], (0, -128, 5, 127)[number % 4])
        yield make_op(cls, y, x=x, **affine, **attributes)


def _wide_examples(cls: type[Op]) -> Iterator[Op]:
    """Yields examples with 16-bit operands."""
    for number, (shape, scale, attributes) in enumerate(CASES):
        if attributes.get("groups") or number % 2:
            rng = np.random.default_rng(number)
            quant = PerTensor(scale / 256, (-(2**15), 0, 2**15 - 1, 1300)[number % 4])
            affine = {"weights": constant_value("weights", rng.uniform(-1, 2, shape[-1]).astype(np.float32))}
            y = value("y", (), (0.03, 0.01)[number % 2], (5, -128, 127)[number % 3])
            x = Value("x", TensorType(shape, DType.INT16, quant))
            yield make_op(cls, y, x=x, **affine, **attributes)
            fine = PerTensor(y.scale / 200, (-(2**15), 700, 2**15 - 1)[number % 3])
            bounds = {"low": (-(2**15), -700)[number % 2], "high": 2**15 - 1}
            y = Value("y", TensorType((), DType.INT16, fine))
            yield make_op(cls, y, x=x, **{**affine, **attributes, **bounds})
