# SPDX-License-Identifier: Apache-2.0
"""Executes each operation bit-exactly."""

from __future__ import annotations

import numpy as np

from pillion.devices.ethos_u.accelerators import Accelerator
from pillion.devices.ethos_u.stream.arithmetic import leading_zeros, saturate32, scale_and_round
from pillion.devices.ethos_u.stream.lookup_tables import Tables
from pillion.devices.ethos_u.stream.memory import StreamMemory
from pillion.devices.ethos_u.stream.operations import (
    ConvolutionKind,
    Convolve,
    Elementwise,
    ElementwiseFunction,
    FeatureMap,
    KernelWindow,
    PoolKind,
    PoolOperation,
    Rounding,
    Scale,
    ScaleMode,
    TensorOperation,
    Upscale,
)
from pillion.devices.ethos_u.stream.stream_errors import not_modelled_error, require_modelled, require_valid
from pillion.devices.ethos_u.stream.weight_stream import scales_of, weights_of
from pillion.ir.numerics import (
    INT32_MAX,
    INT32_MIN,
    Int64Array,
    divide_half_away,
    shift_right,
    wrap_to_32_bits,
)
from pillion.ir.types import DType

_NOWHERE = -(1 << 40)
"""The padding value of a maximum: less than any element."""
_MOST_PLACES = 63
_HALF = 1 << 30
"""The factor that Vela encodes with the shift of a 32-bit product; the NPU ignores it."""
_OPERAND_SHIFTS = {DType.INT8: 20, DType.UINT8: 20, DType.INT16: 15}


def execute_operation(
    op: TensorOperation, memory: StreamMemory, tables: Tables, accelerator: Accelerator
) -> None:
    """Executes one operation on the memory."""
    match op:
        case Convolve():
            accumulators = _convolve(op, memory, accelerator)
        case PoolOperation():
            accumulators = _compute_pool(op, memory)
        case Elementwise():
            accumulators = _compute_elementwise(op, memory)
        case _:
            raise not_modelled_error("an operation", op)
    memory.store(op.y, _apply_output_stage(op, accumulators, tables))


def _apply_output_stage(op: TensorOperation, accumulators: Int64Array, tables: Tables) -> Int64Array:
    """Returns the results after the last step of every operation: the zero point, then bounds or a lookup
    table."""
    accumulators = accumulators + op.y.zero_point
    if op.activation.table is not None:
        index = np.clip(accumulators, op.activation.low, op.activation.high)
        return tables.look_up(op.activation.table, index, op.y.dtype)
    return np.clip(accumulators, op.activation.low, op.activation.high)


def _load_operand(x: FeatureMap, memory: StreamMemory) -> Int64Array:
    """Returns the elements minus their zero point; 32-bit operands have none."""
    elements = memory.load(x)
    return elements if x.dtype is DType.INT32 else elements - x.zero_point


def _upscale_operand(x: Int64Array, upscale: Upscale, y: FeatureMap, kernel: KernelWindow) -> Int64Array:
    """Returns the operand upscaled by 2, cut to the rows and columns that the windows reach."""
    if upscale is Upscale.NONE:
        return x
    large = np.zeros((2 * x.shape[0], 2 * x.shape[1], x.shape[2]), np.int64)
    if upscale is Upscale.ZEROS:
        large[::2, ::2] = x
    else:
        large = x.repeat(2, axis=0).repeat(2, axis=1)
    top, left, bottom, right = kernel.pads
    height = (y.shape[0] - 1) * kernel.stride[0] + (kernel.height - 1) * kernel.dilation[0] + 1 - top - bottom
    width = (y.shape[1] - 1) * kernel.stride[1] + (kernel.width - 1) * kernel.dilation[1] + 1 - left - right
    return large[:height, :width]


def _pad_operand(x: Int64Array, kernel: KernelWindow, value: int) -> Int64Array:
    top, left, bottom, right = kernel.pads
    return np.pad(x, ((top, bottom), (left, right), (0, 0)), constant_values=value)


def _kernel_tap_inputs(
    x: Int64Array, kernel: KernelWindow, row: int, column: int, y: FeatureMap
) -> Int64Array:
    """Returns the elements that one tap of the kernel reads for all results."""
    down, across = kernel.stride
    top, left = row * kernel.dilation[0], column * kernel.dilation[1]
    return x[
        top : top + (y.shape[0] - 1) * down + 1 : down, left : left + (y.shape[1] - 1) * across + 1 : across
    ]


def _convolve(op: Convolve, memory: StreamMemory, accelerator: Accelerator) -> Int64Array:
    weights = weights_of(op, memory.read(op.weights), accelerator)
    bias, numbers, shifts = scales_of(memory.read(op.scales), op.y.shape[2])
    x = _upscale_operand(_load_operand(op.x, memory), op.upscale, op.y, op.kernel)
    x = _pad_operand(x, op.kernel, 0).astype(np.float64)  # sums stay far below 2^53
    require_valid(
        op.product is ConvolutionKind.CONVOLUTION or op.x.shape[2] == op.y.shape[2],
        "a depthwise convolution has as many inputs as results",
        str(op.y.shape[2]),
        op.x.shape[2],
    )
    total = np.zeros(op.y.shape, np.float64)
    for row in range(op.kernel.height):
        for column in range(op.kernel.width):
            seen, factors = (
                _kernel_tap_inputs(x, op.kernel, row, column, op.y),
                weights[:, row, column].astype(np.float64),
            )
            total += seen * factors[:, 0] if op.product is ConvolutionKind.DEPTHWISE else seen @ factors.T
    sums = total.astype(np.int64) + bias
    _require_32_bits(sums)
    if op.scale is not None:
        numbers, shifts = np.int64(op.scale.number), np.int64(op.scale.shift)
    return scale_and_round(sums, numbers, shifts, op.rounding)


def _require_32_bits(sums: Int64Array) -> None:
    """Raises if a sum exceeds 32 bits: the NPU's result is then unknown."""
    require_modelled(
        sums.min() >= INT32_MIN and sums.max() <= INT32_MAX,
        "sums beyond 32 bits",
        f"{sums.min()} to {sums.max()}",
    )


def _compute_pool(op: PoolOperation, memory: StreamMemory) -> Int64Array:
    x = _upscale_operand(_load_operand(op.x, memory), op.upscale, op.y, op.kernel)
    assert op.scale is not None
    if op.kind is PoolKind.SUM:
        return _channel_sum(op, x)
    require_valid(
        op.x.shape[2] == op.y.shape[2],
        "a pool has as many inputs as results",
        str(op.y.shape[2]),
        op.x.shape[2],
    )
    taps = [(row, column) for row in range(op.kernel.height) for column in range(op.kernel.width)]
    if op.kind is PoolKind.MAX:
        bordered = _pad_operand(x, op.kernel, _NOWHERE)
        pooled = np.max([_kernel_tap_inputs(bordered, op.kernel, *tap, op.y) for tap in taps], axis=0)
        return scale_and_round(pooled, op.scale.number, op.scale.shift, op.rounding)
    bordered = _pad_operand(x, op.kernel, 0)
    pooled = np.sum([_kernel_tap_inputs(bordered, op.kernel, *tap, op.y) for tap in taps], axis=0)
    if not any(op.kernel.pads):
        return scale_and_round(pooled, op.scale.number, op.scale.shift, op.rounding)
    require_modelled(op.scale == Scale(1, 0), "a scaled mean of windows that reach into the border", op.scale)
    ones = _pad_operand(np.ones((*x.shape[:2], 1), np.int64), op.kernel, 0)
    counts = np.sum([_kernel_tap_inputs(ones, op.kernel, *tap, op.y) for tap in taps], axis=0)
    return divide_half_away(pooled, counts)


def _channel_sum(op: PoolOperation, x: Int64Array) -> Int64Array:
    assert op.scale is not None
    require_modelled(
        (op.y.shape[2], op.kernel.height, op.kernel.width) == (1, 1, 1),
        "a sum over channels of windows",
        op.kernel,
    )
    sums = x.sum(axis=2, keepdims=True)
    return scale_and_round(saturate32(sums), op.scale.number, op.scale.shift, op.rounding)


def _compute_elementwise(op: Elementwise, memory: StreamMemory) -> Int64Array:
    x = _load_operand(op.x, memory)
    assert op.scale is not None
    if op.second is None:
        result = np.abs(x) if op.kind is ElementwiseFunction.ABS else leading_zeros(x)
        return _scaled_result(op, result)
    if isinstance(op.second, int):
        second = np.full((1, 1, 1), op.second - op.second_zero_point, np.int64)
    else:
        second = _load_operand(op.second, memory)
    if op.kind in (ElementwiseFunction.ADD, ElementwiseFunction.SUB):
        return _add_or_subtract(op, x, second)
    x, second = np.broadcast_arrays(*((second, x) if op.reversed else (x, second)))
    return _scaled_result(op, _combine_operands(op, x, second))


def _combine_operands(op: Elementwise, left: Int64Array, right: Int64Array) -> Int64Array:
    match op.kind:
        case ElementwiseFunction.MUL:
            return left * right
        case ElementwiseFunction.MIN:
            return np.minimum(left, right)
        case ElementwiseFunction.MAX:
            return np.maximum(left, right)
        case ElementwiseFunction.SHL:
            return wrap_to_32_bits(left << np.minimum(_shift_amounts(right), 32))
        case ElementwiseFunction.SHR:
            return _shifted_right(left, _shift_amounts(right), op)
    raise not_modelled_error("an elementwise operation", op.kind.name)


def _shift_amounts(by: Int64Array) -> Int64Array:
    """Returns shift amounts up to 63: Vela's softmax of many equal numbers shifts by more than 31."""
    require_modelled(
        by.min() >= 0 and by.max() <= _MOST_PLACES,
        "a shift by more places than a number has",
        f"{by.min()} to {by.max()}",
    )
    return by


def _shifted_right(x: Int64Array, by: Int64Array, op: Elementwise) -> Int64Array:
    require_modelled(op.rounding is Rounding.NATURAL, "the rounding of a shift", op.rounding.name)
    by = np.minimum(by, _MOST_PLACES - 1)  # a 32-bit number is shifted out completely
    return (x + np.where(by > 0, np.int64(1) << np.maximum(by - 1, 0), 0)) >> by


def _scaled_result(op: Elementwise, values: Int64Array) -> Int64Array:
    """Returns the scaled result. Of 32-bit operations, only products are scaled, by their shift alone."""
    assert op.scale is not None
    if op.x.dtype is not DType.INT32:
        return scale_and_round(values, op.scale.number, op.scale.shift, op.rounding)
    if op.kind is ElementwiseFunction.MUL:
        require_modelled(
            op.scale.number in ((1, _HALF) if op.scale.shift else (1,)),
            "the scale of a product of 32-bit numbers",
            op.scale,
        )
        return (
            saturate32(scale_and_round(values, 1, op.scale.shift, op.rounding))
            if op.scale.shift < 31
            else _high_product(op, values)
        )
    require_modelled(
        op.scale == Scale(1, 0), "a scaled result of 32-bit operands", f"{op.kind.name}, {op.scale}"
    )
    return saturate32(values)


def _high_product(op: Elementwise, exact: Int64Array) -> Int64Array:
    """Returns the upper half of 32-bit products."""
    assert op.scale is not None
    require_modelled(
        op.rounding is Rounding.DOUBLE, "the rounding of a product of 32-bit numbers", op.rounding.name
    )
    return saturate32(shift_right((exact + (1 << 30)) >> 31, op.scale.shift - 31))


def _add_or_subtract(op: Elementwise, x: Int64Array, y: Int64Array) -> Int64Array:
    assert op.scale is not None
    if op.x.dtype is DType.INT32:
        is_plain = (op.mode, op.first_scale, op.second_scale) == (ScaleMode.BOTH, Scale(1, 0), 1)
        require_modelled(is_plain, "a sum of scaled 32-bit operands")
        first, second = x, y
    else:
        first, second = _scaled_operands(op, x, y)
    if op.kind is ElementwiseFunction.SUB:
        first, second = (second, -first) if op.reversed else (first, -second)
    total = first + second
    if op.x.dtype is DType.INT32:
        return _scaled_result(op, total)
    return scale_and_round(total, op.scale.number, op.scale.shift, op.rounding)


def _scaled_operands(op: Elementwise, x: Int64Array, y: Int64Array) -> tuple[Int64Array, Int64Array]:
    """Returns both operands at a common scale: each multiplied by 16 bits, or one by 32 bits and the other
    shifted."""
    first, second = op.first_scale, op.second_scale
    if op.mode is ScaleMode.BOTH:
        require_modelled(not first.shift, "a shift of operands that are scaled by 16 bits", first.shift)
        return x * first.number, y * second
    require_modelled(not second, "a scale of the operand that is not scaled", second)
    up = _OPERAND_SHIFTS[op.x.dtype]
    if (op.mode is ScaleMode.FIRST) != op.reversed:
        return scale_and_round(x << up, first.number, first.shift + up, Rounding.DOUBLE), y << (up - 1)
    return x << (up - 1), scale_and_round(y << up, first.number, first.shift + up, Rounding.DOUBLE)
