# SPDX-License-Identifier: Apache-2.0
"""Reads elementwise operators and reductions as PyTorch functions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from pillion.codecs.tflite.read_operator import ReadOperator
from pillion.importers.tflite_float.readings import ACTIVATIONS, FloatCall, Reading, activation, float_call
from pillion.ir.types import DType
from pillion.schemas import tflite


def unary_reader(compute: Callable[[Tensor], Tensor]) -> Reading:
    """Returns the reader of an elementwise function."""

    def row(call: ReadOperator) -> FloatCall:
        return replace(float_call(call, compute), results=(call.result_of_shape(call.operand(0).shape),))

    return row


def binary_reader(compute: Callable[[Tensor, Tensor], Tensor]) -> Reading:
    """Returns the reader of a binary operator; either operand may be a constant."""

    def row(call: ReadOperator) -> FloatCall:
        after = activation(call)
        made = float_call(call, lambda a, b: after(compute(a, b)), operands=(0, 1))
        try:
            shape = np.broadcast_shapes(call.operand(0).shape, call.operand(1).shape)
        except ValueError:
            raise call.refuse("its operands fit together", call.inputs) from None
        return replace(made, results=(call.result_of_shape(shape),))

    return row


def with_options(cls: type[Any], compute: Callable[[Tensor, Any], Tensor]) -> Reading:
    """Returns the reader of an elementwise function or a softmax with options."""

    def row(call: ReadOperator) -> FloatCall:
        options = call.options_as(cls)
        return unary_reader(lambda x: compute(x, options))(call)

    return row


def floor_mod(call: ReadOperator) -> FloatCall:
    """Reads a remainder with the divisor's sign."""
    a, b = call.operand(0), call.operand(1)
    is_one_number = b.dtype is DType.FLOAT32 and b.is_constant and b.type.elements == 1
    if a.is_constant or not is_one_number:
        return float_call(call, torch.remainder, operands=(0, 1))
    divisor = float(b.constant.reshape(()))
    return float_call(call, lambda x: torch.remainder(x, divisor))


def batch_matmul(call: ReadOperator) -> FloatCall:
    """Reads matrix products."""
    options = call.options_as(tflite.BatchMatMulOptions)

    def forward(a: Tensor, b: Tensor) -> Tensor:
        left = a.transpose(-1, -2) if options.adj_x else a
        return torch.matmul(left, b.transpose(-1, -2) if options.adj_y else b)

    return float_call(call, forward, operands=(0, 1))


TORCH = {
    DType.FLOAT32: torch.float32,
    DType.INT32: torch.int32,
    DType.BOOL: torch.bool,
    DType.UINT8: torch.uint8,
    DType.INT8: torch.int8,
    DType.INT16: torch.int16,
}
"""PyTorch's element types."""


def cast(call: ReadOperator) -> FloatCall:
    """Reads a change of the element type."""
    to = TORCH.get(call.result.dtype)
    if to is None:
        raise call.refuse("the result is float32, int32, uint8 or bool", repr(call.result))
    return unary_reader(lambda x: x.to(to))(call)


SAME_NAMES = ("EXP", "LOG", "SQRT", "RSQRT", "ABS", "NEG", "SQUARE", "SIN", "COS", "FLOOR", "CEIL", "ROUND")
"""Functions of one tensor with PyTorch's names."""
ROWS: dict[str, Reading] = {
    **{name: unary_reader(compute) for name, compute in ACTIVATIONS.items() if name != "NONE"},
    **{name: unary_reader(getattr(torch, name.lower())) for name in SAME_NAMES},
    **{
        name: binary_reader(getattr(torch, name.lower()))
        for name in ("ADD", "SUB", "MUL", "DIV", "MINIMUM", "MAXIMUM", "POW")
    },
    "LOGISTIC": unary_reader(torch.sigmoid),
    "HARD_SWISH": unary_reader(F.hardswish),
    "ELU": unary_reader(F.elu),
    "LOG_SOFTMAX": unary_reader(lambda x: F.log_softmax(x, -1)),
    "DEQUANTIZE": unary_reader(lambda x: x),
    "LEAKY_RELU": with_options(tflite.LeakyReluOptions, lambda x, options: F.leaky_relu(x, options.alpha)),
    "GELU": with_options(
        tflite.GeluOptions,
        lambda x, options: F.gelu(x, approximate="tanh" if options.approximate else "none"),
    ),
    "SOFTMAX": with_options(
        tflite.SoftmaxOptions, lambda x, options: F.softmax(x if options.beta == 1 else x * options.beta, -1)
    ),
    "SQUARED_DIFFERENCE": binary_reader(lambda a, b: torch.square(a - b)),
    "BATCH_MATMUL": batch_matmul,
    "FLOOR_MOD": floor_mod,
    "CAST": cast,
}
"""The readers of this file, by operator name."""
