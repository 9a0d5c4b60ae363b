# SPDX-License-Identifier: Apache-2.0
"""Rows of functions of bytes. Bytes are int8 inside a program, with zero point -128 and steps of one."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from pillion.importers.torch.byte_functions import convolve_bytes, look_up_bytes
from pillion.importers.torch.layout import Builder, LayoutValue, from_logical_order
from pillion.importers.torch.rows.convolutions import conv2d
from pillion.importers.torch.rows.quantization import rule_of_op
from pillion.importers.torch.rows.table import lowers
from pillion.ir.types import BYTES, DType, PerTensor, Value, constant_value
from pillion.ops import Cast, Conv2d, DepthwiseConv2d, Lut, Requantize

BYTE = PerTensor(1.0, -128)
"""The parameters of int8 numbers that are bytes."""


def as_int8(b: Builder, x: LayoutValue) -> LayoutValue:
    """Returns bytes as int8."""
    if x.value.is_constant and x.value.dtype is DType.UINT8:
        numbers = (x.value.constant.astype(np.int16) - 128).astype(np.int8)
        return x.with_value(b.constant(constant_value(x.value.name, numbers, BYTE)))
    if x.value.dtype is not DType.UINT8:
        return x
    return x.with_value(b.emit(Requantize, x=x.value, dtype=DType.INT8, quant=BYTE))


def as_uint8(b: Builder, x: LayoutValue) -> LayoutValue:
    """Returns bytes as uint8."""
    if x.value.dtype is not DType.INT8:
        return x
    unit = PerTensor(1.0, 0)
    return x.with_value(b.emit(Requantize, x=x.value, dtype=DType.UINT8, quant=unit, to=DType.UINT8))


def in_one_type(b: Builder, tensors: Sequence[LayoutValue]) -> Sequence[LayoutValue]:
    """Returns tensors of bytes in one type: int8, or int32 if one has it."""
    types = {x.value.dtype for x in tensors}
    if not types & set(BYTES) or (len(types) == 1 and not any(x.value.is_constant for x in tensors)):
        return tensors
    if DType.INT32 not in types:
        return [as_int8(b, x) for x in tensors]
    small = [as_uint8(b, x) for x in tensors]
    return [
        x if x.value.dtype is DType.INT32 else x.with_value(b.emit(Cast, x=x.value, to=DType.INT32))
        for x in small
    ]


@lowers(look_up_bytes, quantized=rule_of_op(Lut, numbers=True))
def lookup(b: Builder, x: LayoutValue, table: LayoutValue) -> LayoutValue:
    """Lowers a lookup in a table of bytes."""
    entries = (table.value.constant.astype(np.int16) - 128).astype(np.int8)
    fields: dict[str, Any] = {"table": b.constant(constant_value(table.value.name, entries))}
    x = as_int8(b, x)
    return x.with_value(b.emit(Lut, x=x.value, dtype=DType.INT8, quant=BYTE, **fields))


@lowers(convolve_bytes, quantized=rule_of_op(Conv2d, numbers=True, also=(DepthwiseConv2d,)))
def convolution(
    b: Builder, x: LayoutValue, weight: LayoutValue, bias: LayoutValue, places: int, window: Any
) -> LayoutValue:
    """Lowers a layer of bytes. Its bias subtracts the offset that programs add for rounding: half, and one step of a
    sum, because they round twice."""
    taken = bias.value.constant - (1 << (places - 1)) - 1
    steps = dataclasses.replace(
        weight.value, type=dataclasses.replace(weight.value.type, quant=PerTensor(2.0**-places, 0))
    )
    start: Value = b.constant(constant_value(bias.value.name, taken.astype(np.int32)))
    image, factors = as_int8(b, x), from_logical_order(steps)
    return conv2d(b, image, factors, from_logical_order(start), *window, dtype=DType.INT8, quant=BYTE)
