# SPDX-License-Identifier: Apache-2.0
"""The rows of the operators that are one op each, and the requirements of LiteRT's kernels."""

from __future__ import annotations

from math import frexp
from typing import Any

from pillion import ops
from pillion.codecs.tflite.exact import inexact_op_error, int8_only, int8_or_16_only
from pillion.codecs.tflite.geometry import axes_in_order, resized_shape
from pillion.codecs.tflite.operands import INT8_OR_16, require_int8
from pillion.codecs.tflite.operator_row import ANY, INT8, Row, readers_by_operator, writers_by_op
from pillion.codecs.tflite.read_operator import ReadOperator
from pillion.codecs.tflite.window_row import WINDOW_ROWS
from pillion.ir.types import DType, Value
from pillion.ops.elementwise import AddOrSub
from pillion.ops.softmax import OUTPUT, OUTPUT_OF_8_BITS
from pillion.ops.softmax16 import OUTPUT_16
from pillion.schemas import tflite

PAIR = ("a", "b")
INT32, BOOL = (DType.INT32,), (DType.BOOL,)
MOST_AXES = 4
"""The most axes along which LiteRT's kernels broadcast."""
SAME_SCALES = "operands of a 16-bit comparison have one scale: LiteRT compares their numbers as they are"
DIVISIONS = (ops.Calculation.FLOOR_DIV, ops.Calculation.FLOOR_MOD, ops.Calculation.TRUNC_DIV)


def require_few_axes(op: Any, most: int = MOST_AXES) -> None:
    """Raises if operands need a broadcast along more axes than LiteRT supports."""
    if len({v.shape for v in op.operands}) > 1 and op.y.type.rank > most:
        raise inexact_op_error(
            op, f"LiteRT broadcasts at most {most} axes", repr(op.y), "join axes by a reshape"
        )


def _require_small_growth(op: AddOrSub) -> None:
    """Raises on left shifts: LiteRT's ADD aborts and its SUB is undefined if the ratio of the common scale to
    the result's does not round to less than 1."""
    if op.rescale[2].shift > 0:
        rule = f"{op.kind.upper()}: the result's scale is more than 2^-19 of the larger operand scale"
        raise inexact_op_error(op, rule, f"{op.y.scale!r} of {max(op.a.scale, op.b.scale)!r}")


def _require_defined_quotients(op: ops.Div) -> None:
    """Raises if LiteRT's shift is undefined. LiteRT also fails if a computed divisor is zero."""
    if not op.is_defined_in_litert:
        rule = "DIV: the ratio of the scales lets LiteRT shift every quotient by at most 31 places"
        raise inexact_op_error(op, rule, f"{op.ratio!r}", "multiply by the reciprocal")


def _require_litert_steps(op: ops.Softmax) -> None:
    if op.y.type.quant == OUTPUT_OF_8_BITS:
        return
    int8_or_16_only(op)
    if op.y.quant != (OUTPUT_16 if op.y.dtype is DType.INT16 else OUTPUT):
        rule, help = (
            "LiteRT's softmax has steps of 1/256, or of 2^-15 in 16 bits",
            "saving a program as .tflite gives it the usual ones",
        )
        raise inexact_op_error(op, rule, f"steps of {op.y.scale:g}", help)


def _require_readable_div(call: ReadOperator, op: ops.Div) -> None:
    if not op.is_defined_in_litert:
        rule = "the ratio of the scales is so large that LiteRT defines every quotient"
        raise call.refuse(rule, repr(op.ratio))


def _require_readable_softmax(call: ReadOperator, op: ops.Softmax) -> None:
    beta = call.options_as(tflite.SoftmaxOptions).beta
    if beta != 1:
        help = "multiply by beta in the layer before, whose weights can hold it"
        raise call.refuse("beta is 1", beta, help)
    if (op.x.dtype, op.y.dtype) != (DType.INT8, DType.INT16):
        require_int8(call, types=INT8_OR_16)
    if op.y.dtype is DType.INT8 and op.y.type.quant != OUTPUT:
        raise call.refuse("the result has scale 1/256 and zero point -128", repr(op.y))


def _require_comparable(op: ops.Compare) -> None:
    """Raises on operands that LiteRT does not compare. Booleans support only equality."""
    require_few_axes(op)
    if op.a.dtype is DType.INT8:
        int8_only(op, op.a, op.b)
        coarse = next((v for v in (op.a, op.b) if v.scale >= 1), None)
        if coarse is not None:
            rule = "LiteRT compares operands whose scales are below 1"
            raise inexact_op_error(
                op, rule, f"`{coarse.name}`: {coarse.scale:.6g}", "divide both by a number"
            )
    elif op.a.dtype is DType.INT16 and op.a.type.quant != op.b.type.quant:
        raise inexact_op_error(op, SAME_SCALES, f"{op.a!r} and {op.b!r}", "requantize one of them")
    elif op.a.dtype is DType.BOOL and op.relation not in (ops.Relation.EQUAL, ops.Relation.NOT_EQUAL):
        rule = "LiteRT compares booleans for equality"
        raise inexact_op_error(op, rule, op.relation.value, "logical_and and logical_not say the same")
    elif op.a.dtype not in (DType.BOOL, DType.INT16, DType.INT32):
        raise inexact_op_error(op, "int8, int16, int32 or bool is compared", repr(op.a), "quantize the model")


def _require_readable_comparison(call: ReadOperator, op: ops.Compare) -> None:
    if op.a.dtype is DType.INT16 and not (op.a.is_quantized and op.a.type.quant == op.b.type.quant):
        raise call.refuse(SAME_SCALES, f"{op.a!r} and {op.b!r}", "give both the same range in calibration")


def _require_no_activation(call: ReadOperator, _: ops.IntegerArithmetic) -> None:
    activation = getattr(call.options, "fused_activation", 0)
    if activation:
        raise call.refuse("calculations with whole numbers have no activation", activation)


def _require_calculable(op: ops.IntegerArithmetic) -> None:
    """Raises on calculations that LiteRT does not define. It fails on a division by 0."""
    require_few_axes(op)
    is_safe = op.b.is_constant and int(op.b.constant.min()) > 0
    if op.calculation in DIVISIONS and not is_safe:
        rule = "LiteRT stops at a divisor of 0: it is a constant above 0"
        raise inexact_op_error(op, rule, repr(op.b), "write C: -o folder/")
    if op.calculation is ops.Calculation.SHIFT_RIGHT and not _is_shift_amount(op.b):
        rule = "LiteRT moves by 0 to 31 places, and by one of these where more or less is asked for: the places are constants"
        raise inexact_op_error(op, rule, repr(op.b), "write C: -o folder/")


def _is_shift_amount(amount: Value) -> bool:
    return amount.is_constant and int(amount.constant.min()) >= 0 and int(amount.constant.max()) < 32


def _sum_row(code: str, op: type[Any], options: Any) -> Row:
    """Returns the row of a sum or difference. The option is for int16 tensors; LiteRT's default is true."""
    fixed_options = {"pot_scale_int16": False}
    return Row(
        code,
        op,
        PAIR,
        options,
        fixed_options=fixed_options,
        is_bounded=True,
        types=INT8_OR_16,
        check_read=_require_multiplied_sum,
        check_written=_require_small_growth,
    )


def _require_multiplied_sum(call: ReadOperator, op: AddOrSub) -> None:
    """Raises if LiteRT shifts the operands of a 16-bit sum instead of multiplying them: by an option, and scales that
    are powers of two."""
    scales = [v.scale for v in (op.a, op.b, op.y)] if op.y.dtype is DType.INT16 else []
    if scales and getattr(call.options, "pot_scale_int16", True) and all(frexp(s)[0] == 0.5 for s in scales):
        rule = (
            "operands of a 16-bit sum are multiplied: pot_scale_int16 is false, or a scale is no power of two"
        )
        raise call.refuse(rule, scales, "convert with other calibration data")


def _calculation_row(code: str, calculation: ops.Calculation, options: Any = None) -> Row:
    fixed = {"calculation": calculation}
    checks: Any = {"check_read": _require_no_activation, "check_written": _require_calculable}
    return Row(code, ops.IntegerArithmetic, PAIR, options, fixed=fixed, types=INT32, **checks)


def _comparison_row(relation: ops.Relation) -> Row:
    more = BOOL if relation in (ops.Relation.EQUAL, ops.Relation.NOT_EQUAL) else ()
    types, fixed = (*INT8_OR_16, DType.INT32, *more), {"relation": relation}
    checks: Any = {"check_read": _require_readable_comparison, "check_written": _require_comparable}
    return Row(relation.name, ops.Compare, PAIR, fixed=fixed, types=types, **checks)


def _lut_row(code: str, function: ops.Function, options: Any = None, **more: Any) -> Row:
    return Row(code, ops.Lut, options=options, fixed={"function": function}, **more)


def _reduction_row(code: str, op: type[Any], types: tuple[DType, ...] = (DType.INT8,)) -> Row:
    fields = {"keepdims": "keep_dims"}
    return Row(code, op, options=tflite.ReducerOptions, fields=fields, numbers="axes", types=types)


def _resize_row(code: str, op: type[Any], options: type[Any]) -> Row:
    fields = {"align_corners": "align_corners", "half_pixel": "half_pixel_centers"}
    types = INT8_OR_16 if op.takes_int16 else INT8
    return Row(
        code, op, options=options, fields=fields, numbers="size", read_numbers=resized_shape, types=types
    )


ROWS = (
    _sum_row("ADD", ops.Add, tflite.AddOptions),
    _sum_row("SUB", ops.Sub, tflite.SubOptions),
    Row("MUL", ops.Mul, PAIR, tflite.MulOptions, is_bounded=True, types=INT8_OR_16),
    Row(
        "DIV",
        ops.Div,
        PAIR,
        tflite.DivOptions,
        is_bounded=True,
        check_read=_require_readable_div,
        check_written=_require_defined_quotients,
    ),
    Row("MINIMUM", ops.Minimum, PAIR, tflite.MaximumMinimumOptions, types=INT8_OR_16),
    Row("MAXIMUM", ops.Maximum, PAIR, tflite.MaximumMinimumOptions, types=INT8_OR_16),
    Row("SQUARED_DIFFERENCE", ops.SquaredDifference, PAIR, check_written=require_few_axes),
    Row("PRELU", ops.Prelu, ("x", "slope")),
    Row("LOGICAL_AND", ops.Minimum, PAIR, types=BOOL),
    Row("LOGICAL_OR", ops.Maximum, PAIR, types=BOOL),
    *map(_comparison_row, ops.Relation),
    _calculation_row("ADD", ops.Calculation.ADD, tflite.AddOptions),
    _calculation_row("SUB", ops.Calculation.SUB, tflite.SubOptions),
    _calculation_row("MUL", ops.Calculation.MUL, tflite.MulOptions),
    _calculation_row("MINIMUM", ops.Calculation.MINIMUM, tflite.MaximumMinimumOptions),
    _calculation_row("MAXIMUM", ops.Calculation.MAXIMUM, tflite.MaximumMinimumOptions),
    _calculation_row("DIV", ops.Calculation.TRUNC_DIV, tflite.DivOptions),
    _calculation_row("FLOOR_DIV", ops.Calculation.FLOOR_DIV),
    _calculation_row("FLOOR_MOD", ops.Calculation.FLOOR_MOD),
    _calculation_row("BITWISE_XOR", ops.Calculation.XOR),
    _calculation_row("RIGHT_SHIFT", ops.Calculation.SHIFT_RIGHT),
    _lut_row("LOGISTIC", ops.Function.SIGMOID, types=INT8_OR_16),
    _lut_row("TANH", ops.Function.TANH, types=INT8_OR_16),
    _lut_row("HARD_SWISH", ops.Function.HARDSWISH, tflite.HardSwishOptions),
    _lut_row(
        "GELU", ops.Function.GELU, tflite.GeluOptions, fixed_options={"approximate": False}, types=INT8_OR_16
    ),
    _lut_row(
        "GELU",
        ops.Function.GELU_TANH,
        tflite.GeluOptions,
        fixed_options={"approximate": True},
        types=INT8_OR_16,
    ),
    _lut_row("EXP", ops.Function.EXP, tflite.ExpOptions, types=INT8_OR_16),
    _lut_row("LOG", ops.Function.LOG, types=INT8_OR_16),
    _lut_row("SQRT", ops.Function.SQRT, types=INT8_OR_16),
    _lut_row("RSQRT", ops.Function.RSQRT, types=INT8_OR_16),
    _lut_row("ABS", ops.Function.ABS, tflite.AbsOptions, types=INT8_OR_16),
    _lut_row(
        "LEAKY_RELU",
        ops.Function.LEAKY_RELU,
        tflite.LeakyReluOptions,
        fields={"alpha": "alpha"},
        types=INT8_OR_16,
    ),
    Row(
        "SOFTMAX",
        ops.Softmax,
        options=tflite.SoftmaxOptions,
        fixed_options={"beta": 1.0},
        types=ANY,
        check_read=_require_readable_softmax,
        check_written=_require_litert_steps,
    ),
    Row("LOG_SOFTMAX", ops.LogSoftmax),
    _reduction_row("MEAN", ops.Mean, INT8_OR_16),
    _reduction_row("SUM", ops.ReduceSum, INT8_OR_16),
    _reduction_row("REDUCE_MAX", ops.ReduceMax, INT8_OR_16),
    _reduction_row("REDUCE_MIN", ops.ReduceMin, INT8_OR_16),
    _reduction_row("REDUCE_ANY", ops.ReduceMax, BOOL),
    _reduction_row("REDUCE_ALL", ops.ReduceMin, BOOL),
    Row(
        "TRANSPOSE",
        ops.Transpose,
        options=tflite.TransposeOptions,
        numbers="order",
        read_numbers=axes_in_order,
        types=ANY,
    ),
    _resize_row("RESIZE_BILINEAR", ops.ResizeBilinear, tflite.ResizeBilinearOptions),
    _resize_row("RESIZE_NEAREST_NEIGHBOR", ops.ResizeNearest, tflite.ResizeNearestNeighborOptions),
)
READERS, WRITERS = readers_by_operator((*ROWS, *WINDOW_ROWS)), writers_by_op((*ROWS, *WINDOW_ROWS))
