# SPDX-License-Identifier: Apache-2.0
"""Reads elementwise kernels. A result that depends on one int8 tensor becomes one lookup table, however many
calls compute it: ExecuTorch's hard-swish is a minimum and a product."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from pillion.codecs.pte.signatures import LEVEL
from pillion.importers.pte.instructions import ReadCall
from pillion.importers.pte.steps import LEVELS, SameScaleStep, Seen
from pillion.importers.pte.tensor import ReadTensor, SharedQuantParams, Table, TensorView, constant_tensor
from pillion.ir import numerics
from pillion.ir.numerics import Arithmetic, Int64Array
from pillion.ir.types import DType, PerTensor, Shape, TensorType, Value
from pillion.ops import Add, Dequantize, Div, Function, Lut, Maximum, Minimum, Mul, Quantize
from pillion.ops.div import divide_in_float
from pillion.ops.elementwise import ADD_LEFT_SHIFT
from pillion.schemas.pte import ScalarType

SMALLEST_SCALE = 2.0**-120
"""The smallest scale whose reciprocal is a float32."""
Numbers = Callable[[Int64Array, Int64Array], Any]


def quantize(call: ReadCall) -> None:
    """Reads a quantization; after a dequantization it is a function of one int8 tensor."""
    view = call.view("x")
    call.require_same_dim_order(view)
    quant = _quantization_params(call)
    if view.tensor.dtype is not DType.FLOAT32:
        raise call.refuse("what is quantized is float32", view.tensor.dtype.value)
    real_of = view.tensor.real_of
    if real_of is not None:
        _table_function_result(call, real_of[0], _requantization_table(real_of[1], quant), quant)
        return
    y = call.make(view.tensor.shape, DType.INT8, _label_of_quant(quant))
    call.record_op(Quantize, y, {"x": (view.tensor, None)})


def dequantize(call: ReadCall) -> None:
    """Reads a dequantization."""
    call.require_same_dim_order(call.view("x"))
    x, quant = call.int8(call.view("x").tensor), _quantization_params(call)
    x.label.add_known_params(quant.zero_point, quant.scale)
    y = call.make(x.shape, DType.FLOAT32)
    y.real_of = (x, quant)
    call.record_op(Dequantize, y, {"x": (x, quant)})


def _quantization_params(call: ReadCall) -> PerTensor:
    scale, bounds = call.real("scale"), (call.number("low"), call.number("high"))
    if (
        not SMALLEST_SCALE <= scale <= 1 / SMALLEST_SCALE
        or bounds != (-128, 127)
        or call.number("dtype") != ScalarType.INT8
    ):
        raise call.refuse(
            "int8 from -128 to 127, the scale is positive", (scale, *bounds, call.number("dtype"))
        )
    return PerTensor(scale, call.number("zero"))


def _requantization_table(before: PerTensor, after: PerTensor) -> Table:
    """Returns the table of a dequantization and a quantization."""
    shape: Shape = (256,)
    x, y = (Value("", TensorType(shape, DType.INT8, quant)) for quant in (before, after))
    real = Value("", TensorType(shape, DType.FLOAT32))
    floats = Dequantize(x=x, y=real).reference(Arithmetic.CMSIS_NN, LEVELS)
    return Quantize(x=real, y=y).reference(Arithmetic.CMSIS_NN, floats).astype(np.int8)


def _label_of_quant(quant: PerTensor | None) -> SharedQuantParams:
    return SharedQuantParams(quant.scale, quant.zero_point) if quant else SharedQuantParams()


# Functions of one tensor


def _function_source(tensor: ReadTensor) -> tuple[ReadTensor, Table]:
    """Returns the source of an elementwise function and the function's table; for other tensors, the tensor itself
    and the identity."""
    if tensor.of is not None and tensor.table is not None:
        return tensor.of, tensor.table
    return tensor, LEVELS


def _table_function_result(
    call: ReadCall, x: ReadTensor, table: Table, quant: PerTensor | None = None
) -> ReadTensor:
    root, inner = _function_source(x)
    if root.is_constant:
        raise call.refuse("the operand is no constant", x.shape)
    table = table[inner.astype(np.int64) + 128]
    y = call.make(x.shape, DType.INT8, _label_of_quant(quant))
    _record_lookup(call, root, y, table)
    return y


def _record_lookup(call: ReadCall, root: ReadTensor, y: ReadTensor, table: Table) -> None:
    """Records that a result is a function of a tensor."""
    y.of, y.table = root, table
    x, entries = call.shaped(root, y.shape), constant_tensor(f"{y.name}_table", table)
    call.record_op(Lut, y, {"x": (x, None), "table": (entries, None)}, function=Function.TABLE)


def _binary_as_lookup(call: ReadCall, a: ReadTensor, b: ReadTensor, numbers: Numbers) -> ReadTensor | None:
    """Returns the result of a binary op that depends on one tensor only, else None."""
    (first, first_table), (second, second_table) = _function_source(a), _function_source(b)
    if a.data is not None and a.elements == 1 and b.data is None:
        root, tables, shape = second, (np.full(256, a.data.ravel()[0]), second_table), b.shape
    elif b.data is not None and b.elements == 1 and a.data is None:
        root, tables, shape = first, (first_table, np.full(256, b.data.ravel()[0])), a.shape
    elif first is second and a.shape == b.shape and a.data is None:
        root, tables, shape = first, (first_table, second_table), a.shape
    else:
        return None
    table = np.asarray(numbers(tables[0].astype(np.int64), tables[1].astype(np.int64))).astype(np.int8)
    y = call.make(shape, DType.INT8)
    _record_lookup(call, root, y, table)
    return y


def read_table_lookup(call: ReadCall) -> None:
    """Reads a lookup in a table of 256 entries."""
    call.require_same_dim_order(call.view("x"))
    x, table = call.int8(call.view("x").tensor), call.constant("table", DType.INT8)
    if table.size != 256:
        raise call.refuse("a table has 256 entries", table.shape)
    _table_function_result(call, x, table.reshape(256).astype(np.int8))


def clamp(call: ReadCall) -> None:
    """Reads a clamp to two integers; either may be omitted."""
    low, high = (None if call.is_null(name) else call.number(name) for name in ("low", "high"))
    _record_clamp(call, -128 if low is None else low, 127 if high is None else high)


def hardtanh(call: ReadCall) -> None:
    """Reads a clamp to two floats, which the kernel uses as integers on int8."""
    low, high = call.real("least_real"), call.real("most_real")
    if not (math.isfinite(low) and math.isfinite(high)):
        raise call.refuse("bounds are numbers", (low, high))
    _record_clamp(call, math.trunc(low), math.trunc(high))


def relu(call: ReadCall) -> None:
    """Reads a relu, which clamps at the integer 0."""
    _record_clamp(call, 0, 127)


def _record_clamp(call: ReadCall, low: int, high: int) -> None:
    """Records a clamp; bounds outside int8 are refused, as in ATen's kernels."""
    call.require_same_dim_order(call.view("x"))
    x = call.int8(call.view("x").tensor)
    if not (LEVEL.takes(low) and LEVEL.takes(high)):
        raise call.refuse(f"bounds are from {LEVEL.low} to {LEVEL.high}", (low, high))
    table = np.minimum(np.maximum(LEVELS, low), high).astype(np.int8)
    _table_function_result(call, x, table).label.join(x.label)


# Two operands


def _binary_operands(call: ReadCall) -> tuple[ReadTensor, ReadTensor, Shape]:
    """Returns operands of equal shapes, or an image and a vector of its channels."""
    a, b = call.view("a"), call.view("b")
    if a.sizes == b.sizes:
        call.require_same_dim_order(a, b)
        return a.tensor, call.shaped(b.tensor, a.tensor.shape), a.tensor.shape
    for small, big in ((b, a), (a, b)):
        if small.is_image and big.is_image and small.tensor.elements == small.sizes[1] == big.sizes[1]:
            image, channels = (
                call.shaped(big.tensor, big.image_shape),
                call.shaped(small.tensor, (small.sizes[1],)),
            )
            return (image, channels, image.shape) if big is a else (channels, image, image.shape)
    scalar = next((v for v in (a, b) if v.tensor.is_constant and v.tensor.elements == 1), None)
    if scalar is not None:
        operand = b if scalar is a else a
        call.require_same_dim_order(operand)
        return a.tensor, b.tensor, operand.tensor.shape
    raise call.refuse(
        "shapes are equal, or one operand has only the channels of the other", (a.sizes, b.sizes)
    )


def add(call: ReadCall) -> None:
    """Reads a sum; with a constant operand, it is a function of the other one."""
    a, b, shape = _binary_operands(call)
    call.int8(a), call.int8(b)
    zeros = [call.number(f"{name}_zero") for name in "aby"]
    multipliers = tuple(call.multiplier(f"{name}_multiplier", f"{name}_shift") for name in "aby")
    (first, second, out), bounds = multipliers, call.bounds()

    def numbers(x: Int64Array, y: Int64Array) -> Any:
        parts = (
            numerics.requantize((q - zero) << ADD_LEFT_SHIFT, m.mantissa, m.shift)
            for q, zero, m in ((x, zeros[0], first), (y, zeros[1], second))
        )
        total = numerics.requantize(sum(parts), out.mantissa, out.shift)
        return numerics.clamp_to_int8(total + zeros[2], bounds["low"], bounds["high"])

    result = _binary_as_lookup(call, a, b, numbers)
    if result is not None:
        for tensor, zero in zip((a, b, result), zeros, strict=True):
            tensor.label.add_known_params(zero)
        return
    y = call.make_int8(shape, zeros[2])
    call.record_op(Add, y, {"a": (a, zeros[0]), "b": (b, zeros[1])}, explicit=multipliers, **bounds)


def mul(call: ReadCall) -> None:
    """Reads a product; with a constant operand, it is a function of the other one."""
    a, b, shape = _binary_operands(call)
    call.int8(a), call.int8(b)
    zeros = [call.number(f"{name}_shifted_zero") for name in "ab"]
    m, out_zero = call.multiplier(), call.number("y_zero")

    def numbers(x: Int64Array, y: Int64Array) -> Any:
        product = numerics.requantize((x - zeros[0]) * (y - zeros[1]), m.mantissa, m.shift)
        return numerics.clamp_to_int8(product + out_zero, -128, 127)

    result = _binary_as_lookup(call, a, b, numbers)
    if result is not None:
        result.label.add_known_params(out_zero)
        return
    if not all(map(LEVEL.takes, zeros)):
        raise call.refuse("a zero point stands for an int8 number", zeros)
    xs: dict[str, tuple[ReadTensor, Seen]] = {"a": (a, zeros[0]), "b": (b, zeros[1])}
    call.record_op(Mul, call.make_int8(shape, out_zero), xs, explicit=(m,))


def div(call: ReadCall) -> None:
    """Reads a quotient; with a constant operand, it is a function of the other one."""
    a, b, shape = _binary_operands(call)
    call.int8(a), call.int8(b)
    zeros, ratio = [call.number(f"{name}_zero") for name in "aby"], call.real("ratio")

    def numbers(x: Int64Array, y: Int64Array) -> Any:
        quotient = divide_in_float(x - zeros[0], y - zeros[1], ratio)
        return numerics.clamp_to_int8(quotient + zeros[2], -128, 127)

    result = _binary_as_lookup(call, a, b, numbers)
    if result is not None:
        result.label.add_known_params(zeros[2])
        return
    xs: dict[str, tuple[ReadTensor, Seen]] = {"a": (a, zeros[0]), "b": (b, zeros[1])}
    call.record_op(Div, call.make_int8(shape, zeros[2]), xs, explicit_ratio=ratio)


def minimum(call: ReadCall) -> None:
    """Reads the minimum of two tensors."""
    _record_extremum(call, Minimum, np.minimum)


def maximum(call: ReadCall) -> None:
    """Reads the maximum of two tensors."""
    _record_extremum(call, Maximum, np.maximum)


def _record_extremum(call: ReadCall, make: Any, numbers: Numbers) -> None:
    first, second = call.view("a"), call.view("b")
    a, b, shape = _extremum_operands(call, first, second)
    call.int8(a), call.int8(b)
    result = _binary_as_lookup(call, a, b, numbers)
    for tensor in (b, *((result,) if result else ())):
        if not tensor.is_constant:
            tensor.label.join(a.label if not a.is_constant else tensor.label)
    if result is None:
        if a.is_constant and b.is_constant:
            raise call.refuse("an operand is no constant", (a.shape, b.shape))
        y = call.make(shape, DType.INT8, b.label if a.is_constant else a.label)
        call.reader.add(SameScaleStep(call.source, make, ("a", "b"), (a, b), y))


def _extremum_operands(
    call: ReadCall, first: TensorView, second: TensorView
) -> tuple[ReadTensor, ReadTensor, Shape]:
    """Returns the operands as the kernel broadcasts them: by logical sizes, as if contiguous."""
    a, b = first.tensor, second.tensor
    if 1 in (a.elements, b.elements) and a.elements != b.elements:
        full = first if b.elements == 1 else second
        call.require_same_dim_order(full)
        return a, b, full.tensor.shape
    if first.sizes == second.sizes:
        call.require_same_dim_order(first, second)
        return a, call.shaped(b, a.shape), a.shape
    a, b = call.plain("a"), call.plain("b")
    return a, b, call.contiguous_out_shape
