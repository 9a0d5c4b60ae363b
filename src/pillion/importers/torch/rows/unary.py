# SPDX-License-Identifier: Apache-2.0
"""Rows of functions of one number: named functions, and tables filled by torch."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np
import torch

from pillion.importers.torch.fx_nodes import operator_name, torch_operators
from pillion.importers.torch.layout import Builder, LayoutValue
from pillion.importers.torch.rows.quantization import lut, rule_of_op
from pillion.importers.torch.rows.table import aten, lowers, unsupported_call_error
from pillion.importers.torch.scalar_function import evaluate_steps, is_smooth
from pillion.ir import numerics
from pillion.ir.numerics import Int64Array
from pillion.ir.types import DType, PerTensor, TensorType, Value, constant_value
from pillion.ops import Clamp, Dequantize, Function, Lut
from pillion.ops.lut_interpolation import Reals, entry_levels, tabulate

TABULATED = (
    *torch_operators(
        "acos acosh asin asinh atan atanh ceil celu cos cosh deg2rad digamma erf erfc erfinv exp2 "
        "expm1 floor frac hardshrink i0 lgamma log10 log1p log2 log_sigmoid logit mish nan_to_num "
        "rad2deg round selu sgn sign sin sinc sinh softshrink special_bessel_j0 special_bessel_j1 "
        "special_entr special_erfcx special_i0e special_i1 special_i1e special_log_ndtr "
        "special_ndtri tan threshold trunc"
    ),
    *torch_operators("fmod remainder", "Scalar"),
    aten.pow.Tensor_Scalar,
    aten.round.decimals,
    evaluate_steps,
)


def unary(b: Builder, x: LayoutValue, function: Function, **options: Any) -> LayoutValue:
    """Emits a function of one number."""
    return x.with_value(b.emit(Lut, x=x.value, function=function, **options))


FUNCTIONS: dict[Any, Function] = {
    target: Function(target.overloadpacket.__name__)
    for target in torch_operators(
        "abs exp hardsigmoid hardswish log neg reciprocal rsqrt sigmoid silu sqrt square tanh"
    )
}
"""Functions of one number without further arguments."""
for _target, _function in FUNCTIONS.items():
    lowers(_target, quantized=lut(_function))(partial(unary, function=_function))


@lowers(aten.relu.default, quantized=rule_of_op(Clamp))
def relu(b: Builder, x: LayoutValue) -> LayoutValue:
    """Lowers to a clamp at 0."""
    return unary(b, x, Function.CLAMP, low=0.0)


@lowers(aten.clamp.default, quantized=rule_of_op(Clamp))
def clamp(b: Builder, x: LayoutValue, min: float | None = None, max: float | None = None) -> LayoutValue:
    """Lowers a clamp; either bound may be None."""
    low, high = -math.inf if min is None else float(min), math.inf if max is None else float(max)
    return unary(b, x, Function.CLAMP, low=low, high=high)


@lowers(aten.leaky_relu.default, quantized=lut(Function.LEAKY_RELU))
def leaky_relu(b: Builder, x: LayoutValue, negative_slope: float = 0.01) -> LayoutValue:
    """Lowers a leaky relu with a constant slope."""
    return unary(b, x, Function.LEAKY_RELU, alpha=float(negative_slope))


@lowers(aten.elu.default, quantized=lut(Function.ELU))
def elu(
    b: Builder, x: LayoutValue, alpha: float = 1, scale: float = 1, input_scale: float = 1
) -> LayoutValue:
    """Lowers an elu; one with its own scales becomes a table."""
    if (scale, input_scale) != (1, 1):
        return tabulated(b, x)
    return unary(b, x, Function.ELU, alpha=float(alpha))


@lowers(aten.gelu.default, quantized=lut(Function.GELU))
def gelu(b: Builder, x: LayoutValue, *, approximate: str = "none") -> LayoutValue:
    """Lowers a gelu, exact or by tanh."""
    return unary(b, x, Function.GELU_TANH if approximate == "tanh" else Function.GELU)


@lowers(aten.softplus.default, quantized=lut(Function.SOFTPLUS))
def softplus(b: Builder, x: LayoutValue, beta: float = 1, threshold: float = 20) -> LayoutValue:
    """Lowers a softplus; one with beta other than 1 becomes a table."""
    if beta != 1:
        return tabulated(b, x)
    return unary(b, x, Function.SOFTPLUS)


@lowers(*TABULATED, quantized=lut(Function.TABLE))
def tabulated(b: Builder, x: LayoutValue, *_: Any, **__: Any) -> LayoutValue:
    """Lowers a function to a table of its results for all 256 operand values.

    Infinite results saturate. Undefined results take the value of the nearest operand with a defined one:
    rounding may turn an operand of 1 into 1.004, for which `acos` must still be 0."""
    known = next((op for op in reversed(b.ops) if isinstance(op, Dequantize) and op.y is x.value), None)
    output = output_quant(b.node)
    if known is None or output is None:
        raise unsupported_call_error(
            f"{operator_name(b.node)} stays in float",
            "operand and result are quantized",
            b.node.name,
            "compile the float model: pillion quantizes it",
        )
    if known.x.dtype is DType.INT16:
        return x.with_value(b.emit(Dequantize, x=_int16_table_result(b, known.x, output)))
    table = constant_value(b.names.fresh(f"{b.hint}_table"), _int8_table_entries(b.node, known.x, output))
    integers = b.emit(Lut, x=known.x, table=table, dtype=DType.INT8, quant=output, name=f"{b.hint}_i8")
    return x.with_value(b.emit(Dequantize, x=integers))


def _int16_table_result(b: Builder, x: Value, output: PerTensor) -> Value:
    """Returns the function's int16 result, from an interpolated table."""
    y = Value("y", TensorType(x.shape, DType.INT16, output))
    by_octaves = not x.zero_point and not is_smooth(b.node)
    levels = entry_levels(by_octaves) - x.zero_point

    def defined(reals: Reals) -> Reals:
        return _replace_nan_entries(_function_values(b.node, reals), levels)

    table = constant_value(b.names.fresh(f"{b.hint}_table"), tabulate(defined, x, y, by_octaves))
    return b.emit(Lut, x=x, table=table, dtype=DType.INT16, quant=output, name=f"{b.hint}_i16")


def _function_values(node: Any, reals: Reals) -> Reals:
    with torch.no_grad():
        answers: Reals = node.target(torch.from_numpy(reals), *node.args[1:], **node.kwargs).numpy()
    return answers


def output_quant(node: Any) -> PerTensor | None:
    """Returns the quantization of the result; None unless exactly one quantize reads it."""
    users = list(node.users)
    if len(users) != 1 or users[0].target is not torch.ops.quantized_decomposed.quantize_per_tensor.default:
        return None
    return PerTensor(float(users[0].args[1]), int(users[0].args[2]))


def _int8_table_entries(node: Any, x: Value, output: PerTensor) -> np.ndarray[Any, np.dtype[np.int8]]:
    levels: Int64Array = np.arange(-128, 128) - x.zero_point
    values = _replace_nan_entries(_function_values(node, levels * np.float64(x.scale)), levels)
    with np.errstate(all="ignore"):
        rounded = numerics.round_half_away(values / output.scale + output.zero_point)
    return numerics.clamp_to_int8(np.nan_to_num(rounded, nan=-128, posinf=127, neginf=-128), -128, 127)


def _replace_nan_entries(values: np.ndarray[Any, Any], levels: Int64Array) -> np.ndarray[Any, Any]:
    """Replaces NaN by the value at the nearest level with a defined one; of two equally near, the one towards zero."""
    known = np.flatnonzero(~np.isnan(values))
    if not len(known):
        return np.zeros_like(values)
    distance = np.abs(levels[:, None] - levels[known])
    towards_zero = np.abs(levels[known]) / (4 * np.abs(levels).max())
    return values[known[np.argmin(distance + towards_zero, axis=1)]]
