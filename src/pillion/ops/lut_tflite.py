# SPDX-License-Identifier: Apache-2.0
"""Lookup tables under `tflite`: unary functions as LiteRT's reference kernels compute them.

Most are float32 functions sampled at 256 points; some are integer arithmetic. The float32 functions are taken
as correctly rounded. LiteRT takes them from the host's C library, which may be off by the last place: of three
million entries compared, one (tanh) differed."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pillion.errors import PillionError
from pillion.ir import numerics
from pillion.ir.numerics import Arithmetic, Int64Array, Multiplier
from pillion.ir.types import DType, PerTensor
from pillion.ops.clamp import Clamp
from pillion.ops.elementwise import Mul, Sub
from pillion.ops.square_root import inverse_square_root
from pillion.ops.unary_functions import Function

Lut = Any
"""An op of the class `Lut`, whose module imports this one."""
Floats = NDArray[np.float32]


ACTIVATIONS: dict[str, tuple[float, float]] = {
    "NONE": (-math.inf, math.inf),
    "RELU": (0, math.inf),
    "RELU6": (0, 6),
    "RELU_N1_TO_1": (-1, 1),
    "RELU_0_TO_1": (0, 1),
}
"""Bounds of fused activations by name; the last one exists as an operator only."""

SQRT_HALF = 1518500250
"""sqrt(1/2) in Q0.31."""
INT16_MAX = 2**15 - 1


def tflite_entries(op: Lut) -> NDArray[np.int8]:
    """Returns the table of the TFLite operator for this function, for -128, -127, … 127."""
    entries = ENTRIES.get(op.function)
    if entries is None:
        raise PillionError(
            f"lut `{op.name}`: TFLite has no int8 operator `{op.function.value}`",
            rule=f"a function under `tflite` is one of {', '.join(f.value for f in ENTRIES)}",
            here=f"{op.function.value}" + (f"  ({op.source})" if op.source else ""),
            help="write C or a .pte without --arithmetic, or leave the function out of the model: `cmsis-nn` arithmetic has it",
        )
    levels = np.arange(-128, 128, dtype=np.int64) - op.x.zero_point
    return numerics.clamp_to_int8(entries(op, levels), -128, 127)


def activation_levels(name: str, quant: PerTensor, dtype: DType = DType.INT8) -> tuple[int, int]:
    """Returns the bounds of a fused activation as levels of a type."""
    low, high = (_quantize_bound(real, quant, dtype) for real in ACTIVATIONS[name])
    return low, high


def _quantize_bound(real: float, quant: PerTensor, dtype: DType = DType.INT8) -> int:
    """Quantizes a real bound: float32 division, ties away from zero, saturating."""
    least, most = dtype.bounds
    if math.isinf(real):
        return most if real > 0 else least
    steps = numerics.round_half_away(np.float32(real) / np.float32(quant.scale))
    return int(np.clip(steps + quant.zero_point, least, most))


def rescale_levels(levels: ArrayLike, op: Lut, factor: float = 1.0) -> Int64Array:
    """Returns levels · factor · input scale / output scale + output zero point, with a float32 ratio."""
    real = float(np.float32(np.float32(op.x.scale) * np.float32(factor)) / np.float32(op.y.scale))
    return numerics.scale_by(levels, real) + op.y.zero_point


def tabulated_float32(function: Callable[[Floats], Floats]) -> Callable[[Lut, Int64Array], Int64Array]:
    """Returns a function that tabulates a float32 function: its value times the reciprocal of the output scale,
    ties away from zero."""

    def entries(op: Lut, levels: Int64Array) -> Int64Array:
        x = np.float32(op.x.scale) * levels.astype(np.float32)
        with np.errstate(all="ignore"):
            steps = function(x) * (np.float32(1) / np.float32(op.y.scale))
        steps = np.clip(np.nan_to_num(steps, nan=-np.inf), -(2.0**31), 2.0**31)
        _require_31_bits(op, steps)
        return numerics.round_half_away(steps).astype(np.int64) + op.y.zero_point

    return entries


def _require_31_bits(op: Lut, steps: Floats) -> None:
    if steps.max() >= 2**31 - 256:
        raise op.refuse(
            "the function's values fit 32 bits in steps of the output scale, LiteRT's result is undefined otherwise",
            f"{op.function.value} reaches {steps.max():.3g} steps of {op.y.scale!r}",
            "calibrate with data that the model will see",
        )


def rounded_from_double(
    function: Callable[[NDArray[np.float64]], NDArray[np.float64]],
) -> Callable[[Floats], Floats]:
    """Returns the correctly rounded float32 form of a function."""

    def rounded(x: Floats) -> Floats:
        return np.asarray(function(x.astype(np.float64)), np.float32)

    return rounded


exp32, tanh32, log32 = rounded_from_double(np.exp), rounded_from_double(np.tanh), rounded_from_double(np.log)
erfc32 = rounded_from_double(np.vectorize(math.erfc, otypes=[np.float64]))


def _logistic(x: Floats) -> Floats:
    """Computes the logistic function as LiteRT does: 1 above 16.619047, exp(x) below -9."""
    middle = np.float32(1) / (np.float32(1) + exp32(-x))
    return np.where(x > np.float32(16.619047), np.float32(1), np.where(x < -9, exp32(x), middle))


def gelu32(x: Floats) -> Floats:
    """Returns the GELU of float32 numbers."""
    return np.asarray(np.float32(0.5) * x * erfc32(-x * np.float32(math.sqrt(0.5))), np.float32)


def gelu_tanh32(x: Floats) -> Floats:
    """Returns the same by a hyperbolic tangent."""
    inner = np.float32(math.sqrt(2 / math.pi)) * (x + np.float32(0.044715) * x * x * x)
    return np.asarray(np.float32(0.5) * x * (np.float32(1) + tanh32(inner)), np.float32)


def _sigmoid(op: Lut, levels: Int64Array) -> Int64Array:
    if op.y.scale != 1 / 256:
        raise op.refuse("TFLite's LOGISTIC has output scale 1/256", op.y.scale)
    return tabulated_float32(_logistic)(op, levels)


def _sqrt(op: Lut, levels: Int64Array) -> Int64Array:
    """Computes the square root, truncated. LiteRT aborts on negative input; here it counts as zero."""
    x = np.float32(op.x.scale) * np.maximum(levels, 0).astype(np.float32)
    steps = np.sqrt(x) / np.float32(op.y.scale)
    _require_31_bits(op, steps)
    return np.asarray(np.floor(steps).astype(np.int64) + op.y.zero_point)


def _rsqrt(op: Lut, levels: Int64Array) -> Int64Array:
    """Computes 1 / sqrt by Newton's method on integers. Zero yields the largest value; LiteRT aborts on negative
    input, here it counts as zero."""
    real = 1 / (np.float32(math.sqrt(np.float32(op.x.scale))) * np.float32(op.y.scale))
    out = numerics.encode_multiplier(float(np.float32(real)))
    inverse = np.array([_rsqrt_of_level(int(level), out) if level > 0 else 255 for level in levels])
    return inverse + np.where(levels > 0, op.y.zero_point, 0)


def _rsqrt_of_level(level: int, out: Multiplier) -> int:
    """Computes out / sqrt(level), with 20 bits of headroom between the two multiplications."""
    mantissa, shift = inverse_square_root(level)
    wide = numerics.requantize(1, mantissa, shift + 20)
    return int(numerics.requantize(wide, out.mantissa, out.shift - 20))


def _abs(op: Lut, levels: Int64Array) -> Int64Array:
    return rescale_levels(np.abs(levels), op)


def _neg(op: Lut, levels: Int64Array) -> Int64Array:
    """Computes SUB(zero, x): TFLite's own NEG ignores zero points."""
    zero = np.full(levels.shape, op.x.zero_point)
    return (
        Sub(a=op.x, b=op.x, y=op.y)
        .reference(Arithmetic.TFLITE, zero, levels + op.x.zero_point)
        .astype(np.int64)
    )


def _square(op: Lut, levels: Int64Array) -> Int64Array:
    """Computes MUL(x, x)."""
    x = levels + op.x.zero_point
    return Mul(a=op.x, b=op.x, y=op.y).reference(Arithmetic.TFLITE, x, x).astype(np.int64)


def _leaky_relu(op: Lut, levels: Int64Array) -> Int64Array:
    slope = rescale_levels(levels if op.alpha >= 0 else -levels, op, abs(op.alpha))
    return np.where(levels >= 0, rescale_levels(levels, op), slope)


def _clamp(op: Lut, levels: Int64Array) -> Int64Array:
    return as_clamp(op).reference(Arithmetic.TFLITE, (levels + op.x.zero_point)).astype(np.int64)


def as_clamp(op: Lut) -> Clamp:
    """Returns the function `clamp` with its bounds as levels of the result."""
    low, high = _quantize_bound(op.low, op.y.quant), _quantize_bound(op.high, op.y.quant)
    return Clamp(x=op.x, y=op.y, low=low, high=high, source=op.source)


def _hardswish(op: Lut, levels: Int64Array) -> Int64Array:
    """Computes x · relu6(x + 3) / 6 in 16 bits, with 7 bits below the input's unit."""
    fine = np.float32(op.x.scale) / np.float32(128)
    out = numerics.encode_multiplier(float(fine / np.float32(op.y.scale)))
    gate = numerics.encode_multiplier(float(fine / np.float32(3 / 32768)))
    if out.shift > 0:
        raise op.refuse(
            "the output scale is at least 1/128 of the input scale", f"{op.x.scale!r} to {op.y.scale!r}"
        )
    if out.shift < -15:
        raise op.refuse("the output scale is at most 256 input scales", f"{op.x.scale!r} to {op.y.scale!r}")
    x = levels * 128
    scaled = _mul16(x, _mantissa16(out))
    opened = (_hardswish_gate(x, gate) + 2**15) >> 1
    product = opened * scaled
    return numerics.shift_right(np.sign(product) * (np.abs(product) >> 15), -out.shift) + op.y.zero_point


def _hardswish_gate(x: Int64Array, multiplier: Multiplier) -> Int64Array:
    """Computes x / 3 in Q0.15, saturated to ±1."""
    shift = multiplier.shift
    if shift > 0:
        x = _saturate16(x << (shift - 1))
    x = _mul16(x, _mantissa16(multiplier))
    return _saturate16(x << 1) if shift > 0 else numerics.shift_right(x, -shift)


def _mantissa16(multiplier: Multiplier) -> int:
    return min((multiplier.mantissa + 2**15) >> 16, INT16_MAX)


def _mul16(a: Int64Array, b: int) -> Int64Array:
    return (a * b + 2**14) >> 15


def _saturate16(x: Int64Array) -> Int64Array:
    return np.clip(x, -INT16_MAX - 1, INT16_MAX)


ENTRIES: dict[Function, Callable[[Lut, Int64Array], Int64Array]] = {
    Function.SIGMOID: _sigmoid,
    Function.TANH: tabulated_float32(tanh32),
    Function.HARDSWISH: _hardswish,
    Function.GELU: tabulated_float32(gelu32),
    Function.GELU_TANH: tabulated_float32(gelu_tanh32),
    Function.LEAKY_RELU: _leaky_relu,
    Function.CLAMP: _clamp,
    Function.EXP: tabulated_float32(exp32),
    Function.LOG: tabulated_float32(log32),
    Function.SQRT: _sqrt,
    Function.RSQRT: _rsqrt,
    Function.SQUARE: _square,
    Function.ABS: _abs,
    Function.NEG: _neg,
}
