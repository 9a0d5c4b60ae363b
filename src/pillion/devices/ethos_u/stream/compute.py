# SPDX-License-Identifier: Apache-2.0
"""Executes each operation bit-exactly."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pillion.devices.ethos_u.stream import operations as npu
from pillion.devices.ethos_u.stream.arithmetic import leading_zeros, saturate32, scale_and_round
from pillion.devices.ethos_u.stream.lookup_tables import Tables
from pillion.devices.ethos_u.stream.memory import StreamMemory
from pillion.devices.ethos_u.stream.stream_errors import not_modelled_error, require_modelled, require_valid
from pillion.devices.ethos_u.stream.weight_stream import scales_of, weights_of
from pillion.ir.numerics import Int64Array, divide_half_away, shift_right, wrap_to_32_bits
from pillion.ir.types import DType

_BEYOND = 1 << 40
"""More than any element."""
_EXTREMES = {npu.PoolKind.MAX: (-_BEYOND, np.max), npu.PoolKind.MIN: (_BEYOND, np.min)}
"""The padding value and the function of an extreme."""
_UNIT_BITS = 16
"""The bits by which a resize shifts its results in addition to the parts of a pixel."""
_MOST_PLACES = 63
_HALF = 1 << 30
"""The factor that Vela encodes with the shift of a 32-bit product; the NPU ignores it."""


def execute_operation(op: npu.TensorOperation, memory: StreamMemory, tables: Tables) -> None:
    """Executes one operation on the memory."""
    match op:
        case npu.Convolve():
            accumulators: Int64Array | None = _convolve(op, memory)
        case npu.PoolOperation():
            accumulators = _compute_pool(op, memory)
        case npu.Elementwise():
            accumulators = _compute_elementwise(op, memory)
        case npu.MatrixProduct():
            accumulators = _compute_matrix_product(op, memory)
        case npu.Resize():
            accumulators = _compute_resize(op, memory)
        case _:
            raise not_modelled_error("an operation", op)
    if accumulators is not None:
        results = _apply_output_stage(op, accumulators, tables)
        fits = len(results.shape) == len(op.y.shape) and all(
            own in (1, size) for own, size in zip(results.shape, op.y.shape, strict=True)
        )
        require_valid(fits, "results have the shape of their feature map", str(op.y.shape), results.shape)
        memory.store(op.y, np.broadcast_to(results, op.y.shape))


def _apply_output_stage(op: npu.TensorOperation, accumulators: Int64Array, tables: Tables) -> Int64Array:
    """Returns the results after the last step of every operation: the zero point, then bounds or a lookup
    table."""
    accumulators = accumulators + op.y.zero_point
    if op.activation.table is not None:
        index = np.clip(accumulators, op.activation.low, op.activation.high)
        return tables.look_up(op.activation.table, index, op.y.dtype)
    return np.clip(accumulators, op.activation.low, op.activation.high)


def _load_operand(x: npu.FeatureMap, memory: StreamMemory) -> Int64Array:
    """Returns the elements minus their zero point; 32-bit operands have none."""
    elements = memory.load(x)
    return elements if x.dtype is DType.INT32 else elements - x.zero_point


def _upscale_operand(
    x: Int64Array, upscale: npu.Upscale, y: npu.FeatureMap, kernel: npu.KernelWindow
) -> Int64Array:
    """Returns the operand upscaled by 2, cut to the rows and columns that the windows reach."""
    if upscale is npu.Upscale.NONE:
        return x
    large = np.zeros((2 * x.shape[0], 2 * x.shape[1], x.shape[2]), np.int64)
    if upscale is npu.Upscale.ZEROS:
        large[::2, ::2] = x
    else:
        large = x.repeat(2, axis=0).repeat(2, axis=1)
    top, left, bottom, right = kernel.pads
    height = (y.shape[0] - 1) * kernel.stride[0] + (kernel.height - 1) * kernel.dilation[0] + 1 - top - bottom
    width = (y.shape[1] - 1) * kernel.stride[1] + (kernel.width - 1) * kernel.dilation[1] + 1 - left - right
    return large[:height, :width]


def _pad_operand(x: Int64Array, kernel: npu.KernelWindow, value: int) -> Int64Array:
    top, left, bottom, right = kernel.pads
    return np.pad(x, ((top, bottom), (left, right), (0, 0)), constant_values=value)


def _kernel_tap_inputs(
    x: Int64Array, kernel: npu.KernelWindow, row: int, column: int, y: npu.FeatureMap
) -> Int64Array:
    """Returns the elements that one tap of the kernel reads for all results."""
    down, across = kernel.stride
    top, left = row * kernel.dilation[0], column * kernel.dilation[1]
    return x[
        top : top + (y.shape[0] - 1) * down + 1 : down, left : left + (y.shape[1] - 1) * across + 1 : across
    ]


def _convolve(op: npu.Convolve, memory: StreamMemory) -> Int64Array | None:
    weights = weights_of(op, [memory.read(stream) for stream in op.weights])
    bias, numbers, shifts = scales_of(op, memory.read(op.scales))
    x = _upscale_operand(_load_operand(op.x, memory), op.upscale, op.y, op.kernel)
    x = _pad_operand(x, op.kernel, 0).astype(np.float64)  # sums stay far below 2^53
    require_valid(
        op.product is npu.ConvolutionKind.CONVOLUTION or op.x.shape[2] == op.y.shape[2],
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
            total += seen * factors[:, 0] if op.product is npu.ConvolutionKind.DEPTHWISE else seen @ factors.T
    if (sums := _continued_sums(op, total, memory)) is None:
        return None
    sums = sums + bias
    _require_bits(sums, 32 if op.x.dtype is not DType.INT16 else 48 if op.form.is_u85 else 40)
    if op.scale is not None:
        numbers, shifts = np.int64(op.scale.number), np.int64(op.scale.shift)
    return scale_and_round(sums, numbers, shifts, op.rounding)


def _continued_sums(
    op: npu.TensorOperation, total: NDArray[Any], memory: StreamMemory, combine: Callable[..., Any] = np.sum
) -> Int64Array | None:
    """Returns the sums, or extremes, of an operation and of the operations that it continues; None if the next one
    continues them."""
    sums = total.astype(np.int64)
    if op.sums.continued:
        before = memory.sums if memory.sums is not None else np.zeros(0, np.int64)
        rule = "the previous operation has the same results"
        require_valid(before.shape == sums.shape, "sums are continued that are not there", rule)
        sums = combine([sums, before], axis=0)
    memory.sums = sums if op.sums.hidden else None
    return None if op.sums.hidden else sums


def _require_bits(sums: Int64Array, bits: int) -> None:
    """Raises if a sum exceeds the accumulators: the NPU's result is then unknown."""
    limit = 1 << (bits - 1)
    require_modelled(
        sums.min() >= -limit and sums.max() < limit,
        f"sums beyond {bits} bits",
        f"{sums.min()} to {sums.max()}",
    )


def _compute_pool(op: npu.PoolOperation, memory: StreamMemory) -> Int64Array | None:
    x = _upscale_operand(_load_operand(op.x, memory), op.upscale, op.y, op.kernel)
    assert op.scale is not None
    if op.kind is npu.PoolKind.CHANNEL_SUM:
        return _channel_sum(op, x)
    require_valid(
        op.x.shape[2] == op.y.shape[2],
        "a pool has as many inputs as results",
        str(op.y.shape[2]),
        op.x.shape[2],
    )
    taps = [(row, column) for row in range(op.kernel.height) for column in range(op.kernel.width)]
    if op.kind in _EXTREMES:
        border, extreme = _EXTREMES[op.kind]
        bordered = _pad_operand(x, op.kernel, border)
        pooled = extreme([_kernel_tap_inputs(bordered, op.kernel, *tap, op.y) for tap in taps], axis=0)
        if (whole := _continued_sums(op, pooled, memory, extreme)) is None:
            return None
        return scale_and_round(whole, op.scale.number, op.scale.shift, op.rounding)
    bordered = _pad_operand(x, op.kernel, 0)
    pooled = np.sum([_kernel_tap_inputs(bordered, op.kernel, *tap, op.y) for tap in taps], axis=0)
    if not op.divides:
        return scale_and_round(pooled, op.scale.number, op.scale.shift, op.rounding)
    is_unit = op.scale.number == 1 << op.scale.shift
    require_modelled(is_unit, "a scaled mean of windows that reach into the border", op.scale)
    ones = _pad_operand(np.ones((*x.shape[:2], 1), np.int64), op.kernel, 0)
    counts = np.sum([_kernel_tap_inputs(ones, op.kernel, *tap, op.y) for tap in taps], axis=0)
    return divide_half_away(pooled, counts)


def _channel_sum(op: npu.PoolOperation, x: Int64Array) -> Int64Array:
    assert op.scale is not None
    require_modelled(
        (op.y.shape[2], op.kernel.height, op.kernel.width) == (1, 1, 1),
        "a sum over channels of windows",
        op.kernel,
    )
    sums = x.sum(axis=2, keepdims=True)
    return scale_and_round(saturate32(sums), op.scale.number, op.scale.shift, op.rounding)


def _compute_matrix_product(op: npu.MatrixProduct, memory: StreamMemory) -> Int64Array | None:
    assert op.scale is not None
    x, second = (_load_operand(operand, memory).astype(np.float64) for operand in (op.x, op.second))
    if (sums := _continued_sums(op, x @ second[0].T, memory)) is None:
        return None
    _require_bits(sums, 48 if op.x.dtype is DType.INT16 else 32)
    return scale_and_round(sums, op.scale.number, op.scale.shift, op.rounding)


def _compute_resize(op: npu.Resize, memory: StreamMemory) -> Int64Array:
    assert op.scale is not None
    x = _load_operand(op.x, memory)
    for axis in (0, 1):
        x = _resize_axis(x, op, axis)
    return scale_and_round(x << _UNIT_BITS, op.scale.number, op.scale.shift, op.rounding)


def _resize_axis(x: Int64Array, op: npu.Resize, axis: int) -> Int64Array:
    """Returns the pixels along an axis: the nearest ones, or sums of two, each times its share in parts."""
    parts, last = op.parts[axis], x.shape[axis] - 1
    position = op.position(axis, np.arange(op.y.shape[axis], dtype=np.int64))
    index, part = position // parts, position % parts
    if op.kind is npu.ResizeKind.NEAREST:
        return x.take(np.clip(index + (2 * part >= parts), 0, last), axis)
    part = np.expand_dims(part, tuple({0, 1, 2} - {axis}))
    before, behind = (x.take(np.clip(index + step, 0, last), axis) for step in (0, 1))
    return before * (parts - part) + behind * part


def _compute_elementwise(op: npu.Elementwise, memory: StreamMemory) -> Int64Array:
    x = _load_operand(op.x, memory)
    assert op.scale is not None
    if op.second is None:
        result = np.abs(x) if op.kind is npu.ElementwiseFunction.ABS else leading_zeros(x)
        return _scaled_result(op, result)
    if isinstance(op.second, int):
        second = np.full((1, 1, 1), op.second - op.second_zero_point, np.int64)
    else:
        second = _load_operand(op.second, memory)
    if op.kind in (npu.ElementwiseFunction.ADD, npu.ElementwiseFunction.SUB):
        return _add_or_subtract(op, x, second)
    x, second = np.broadcast_arrays(*((second, x) if op.reversed else (x, second)))
    return _scaled_result(op, _combine_operands(op, x, second))


def _combine_operands(op: npu.Elementwise, left: Int64Array, right: Int64Array) -> Int64Array:
    match op.kind:
        case npu.ElementwiseFunction.MUL:
            return left * right
        case npu.ElementwiseFunction.MIN:
            return np.minimum(left, right)
        case npu.ElementwiseFunction.MAX:
            return np.maximum(left, right)
        case npu.ElementwiseFunction.SHL:
            return wrap_to_32_bits(left << np.minimum(_shift_amounts(right), 32))
        case npu.ElementwiseFunction.SHR:
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


def _shifted_right(x: Int64Array, by: Int64Array, op: npu.Elementwise) -> Int64Array:
    require_modelled(op.rounding is npu.Rounding.NATURAL, "the rounding of a shift", op.rounding.name)
    by = np.minimum(by, _MOST_PLACES - 1)  # a 32-bit number is shifted out completely
    return (x + np.where(by > 0, np.int64(1) << np.maximum(by - 1, 0), 0)) >> by


def _scaled_result(op: npu.Elementwise, values: Int64Array) -> Int64Array:
    """Returns the scaled result. Of 32-bit operations, only products are scaled, by their shift alone."""
    assert op.scale is not None
    if op.x.dtype is not DType.INT32:
        return scale_and_round(values, op.scale.number, op.scale.shift, op.rounding)
    if op.kind is npu.ElementwiseFunction.MUL:
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
    return saturate32(scale_and_round(values, op.scale.number, op.scale.shift, op.rounding))


def _high_product(op: npu.Elementwise, exact: Int64Array) -> Int64Array:
    """Returns the upper half of 32-bit products."""
    assert op.scale is not None
    require_modelled(
        op.rounding is npu.Rounding.DOUBLE, "the rounding of a product of 32-bit numbers", op.rounding.name
    )
    return saturate32(shift_right((exact + (1 << 30)) >> 31, op.scale.shift - 31))


def _add_or_subtract(op: npu.Elementwise, x: Int64Array, y: Int64Array) -> Int64Array:
    assert op.scale is not None
    if op.x.dtype is DType.INT32:
        is_plain = all(one == npu.Scale(1, 0, one.early) for one in (op.first_scale, op.second_scale))
        require_modelled(is_plain, "a sum of scaled 32-bit operands")
        first, second = x, y
    else:
        first, second = _scaled_operand(x, op.first_scale), _scaled_operand(y, op.second_scale)
    if op.kind is npu.ElementwiseFunction.SUB:
        first, second = (second, -first) if op.reversed else (first, -second)
    total = first + second
    if op.x.dtype is DType.INT32:
        return _scaled_result(op, total)
    return scale_and_round(total, op.scale.number, op.scale.shift, op.rounding)


def _scaled_operand(x: Int64Array, scale: npu.Scale) -> Int64Array:
    return scale_and_round(x << scale.early, scale.number, scale.shift + scale.early, npu.Rounding.DOUBLE)
