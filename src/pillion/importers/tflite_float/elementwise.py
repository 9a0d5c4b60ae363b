# SPDX-License-Identifier: Apache-2.0
"""Reads elementwise operators and reductions as PyTorch functions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from pillion.codecs.tflite.read_operator import ReadOperator
from pillion.importers.tflite_float.readings import ACTIVATIONS, FloatCall, Reading, activation, float_call
from pillion.ir.types import DType
from pillion.schemas import tflite


def unary(compute: Callable[[Tensor], Tensor]) -> Reading:
    """Returns the reader of an elementwise function."""

    def row(call: ReadOperator) -> FloatCall:
        return replace(float_call(call, compute), results=(call.result_of_shape(call.operand(0).shape),))

    return row


def binary(compute: Callable[[Tensor, Tensor], Tensor]) -> Reading:
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


def softmax(call: ReadOperator) -> FloatCall:
    """Reads a softmax over the last axis."""
    beta = call.options_as(tflite.SoftmaxOptions).beta
    return float_call(call, lambda x: F.softmax(x if beta == 1 else x * beta, -1))


def leaky_relu(call: ReadOperator) -> FloatCall:
    """Reads a leaky relu."""
    alpha = call.options_as(tflite.LeakyReluOptions).alpha
    return float_call(call, lambda x: F.leaky_relu(x, alpha))


def gelu(call: ReadOperator) -> FloatCall:
    """Reads a GELU, exact or with tanh."""
    how = "tanh" if call.options_as(tflite.GeluOptions).approximate else "none"
    return float_call(call, lambda x: F.gelu(x, approximate=how))


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
    return unary(lambda x: x.to(to))(call)


ROWS: dict[str, Reading] = {
    **{name: unary(compute) for name, compute in ACTIVATIONS.items() if name != "NONE"},
    "LOGISTIC": unary(torch.sigmoid),
    "HARD_SWISH": unary(F.hardswish),
    "ELU": unary(F.elu),
    "EXP": unary(torch.exp),
    "LOG": unary(torch.log),
    "SQRT": unary(torch.sqrt),
    "RSQRT": unary(torch.rsqrt),
    "ABS": unary(torch.abs),
    "NEG": unary(torch.neg),
    "SQUARE": unary(torch.square),
    "SIN": unary(torch.sin),
    "COS": unary(torch.cos),
    "FLOOR": unary(torch.floor),
    "CEIL": unary(torch.ceil),
    "ROUND": unary(torch.round),
    "LOG_SOFTMAX": unary(lambda x: F.log_softmax(x, -1)),
    "DEQUANTIZE": unary(lambda x: x),
    "LEAKY_RELU": leaky_relu,
    "GELU": gelu,
    "SOFTMAX": softmax,
    "ADD": binary(torch.add),
    "SUB": binary(torch.sub),
    "MUL": binary(torch.mul),
    "DIV": binary(torch.div),
    "MINIMUM": binary(torch.minimum),
    "MAXIMUM": binary(torch.maximum),
    "POW": binary(torch.pow),
    "SQUARED_DIFFERENCE": binary(lambda a, b: torch.square(a - b)),
    "BATCH_MATMUL": batch_matmul,
    "FLOOR_MOD": floor_mod,
    "CAST": cast,
}
"""The readers of this file, by operator name."""
