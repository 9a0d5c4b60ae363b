# SPDX-License-Identifier: Apache-2.0
"""Operators that compute number by number, and along axes, in PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from pillion.importers.tflite.geometry import axis_of
from pillion.importers.tflite.model import ReadOperator
from pillion.importers.tflite_float.forms import ACTIVATIONS, Made, Reading, activation, computed
from pillion.ir.types import DType
from pillion.schemas import tflite


def function(compute: Callable[[Tensor], Tensor]) -> Reading:
    """Makes the reading of a function of one number."""
    return lambda call: computed(call, compute)


def binary(compute: Callable[[Tensor, Tensor], Tensor], options: Any = None) -> Reading:
    """Makes the reading of an operator of two tensors, either of which may be a constant."""

    def row(call: ReadOperator) -> Made:
        after = activation(call, call.options_as(options).fused_activation) if options else lambda x: x
        return computed(call, lambda a, b: after(compute(a, b)), operands=(0, 1))

    return row


def reduced(compute: Callable[[Tensor, list[int], bool], Tensor]) -> Reading:
    """Makes the reading of a reduction along axes."""

    def row(call: ReadOperator) -> Made:
        rank = call.operand(0).type.rank
        axes = sorted({axis_of(call, axis, rank) for axis in call.integers(1)})
        keep = call.options_as(tflite.ReducerOptions).keep_dims
        return computed(call, lambda x: compute(x, axes, keep) if axes else x)

    return row


def softmax(call: ReadOperator) -> Made:
    """Reads a softmax over the last axis."""
    beta = call.options_as(tflite.SoftmaxOptions).beta
    return computed(call, lambda x: F.softmax(x if beta == 1 else x * beta, -1))


def leaky_relu(call: ReadOperator) -> Made:
    """Reads a leaky relu."""
    alpha = call.options_as(tflite.LeakyReluOptions).alpha
    return computed(call, lambda x: F.leaky_relu(x, alpha))


def gelu(call: ReadOperator) -> Made:
    """Reads a GELU, exact or by the hyperbolic tangent."""
    how = "tanh" if call.options_as(tflite.GeluOptions).approximate else "none"
    return computed(call, lambda x: F.gelu(x, approximate=how))


def batch_matmul(call: ReadOperator) -> Made:
    """Reads products of matrices."""
    options = call.options_as(tflite.BatchMatMulOptions)

    def forward(a: Tensor, b: Tensor) -> Tensor:
        left = a.transpose(-1, -2) if options.adj_x else a
        return torch.matmul(left, b.transpose(-1, -2) if options.adj_y else b)

    return computed(call, forward, operands=(0, 1))


TORCH = {
    DType.FLOAT32: torch.float32,
    DType.INT32: torch.int32,
    DType.BOOL: torch.bool,
    DType.UINT8: torch.uint8,
    DType.INT8: torch.int8,
    DType.INT16: torch.int16,
}
"""The types of PyTorch."""


def cast(call: ReadOperator) -> Made:
    """Reads a change of the element type."""
    to = TORCH.get(call.result.dtype)
    if to is None:
        raise call.refuse("the result is float32, int32, uint8 or bool", repr(call.result))
    return computed(call, lambda x: x.to(to))


def place(compute: Callable[[Tensor, int], Tensor]) -> Reading:
    """Makes the reading of the place of an extreme."""

    def row(call: ReadOperator) -> Made:
        axes = call.integers(1)
        if len(axes) != 1:
            raise call.refuse("there is one axis", axes)
        axis = axis_of(call, axes[0], call.operand(0).type.rank)
        return computed(call, lambda x: compute(x, axis).to(torch.int32))

    return row


ROWS: dict[str, Reading] = {
    **{name: function(compute) for name, compute in ACTIVATIONS.items() if name != "NONE"},
    "LOGISTIC": function(torch.sigmoid),
    "HARD_SWISH": function(F.hardswish),
    "ELU": function(F.elu),
    "EXP": function(torch.exp),
    "LOG": function(torch.log),
    "SQRT": function(torch.sqrt),
    "RSQRT": function(torch.rsqrt),
    "ABS": function(torch.abs),
    "NEG": function(torch.neg),
    "SQUARE": function(torch.square),
    "SIN": function(torch.sin),
    "COS": function(torch.cos),
    "FLOOR": function(torch.floor),
    "CEIL": function(torch.ceil),
    "ROUND": function(torch.round),
    "LOG_SOFTMAX": function(lambda x: F.log_softmax(x, -1)),
    "DEQUANTIZE": function(lambda x: x),
    "LEAKY_RELU": leaky_relu,
    "GELU": gelu,
    "SOFTMAX": softmax,
    "ADD": binary(torch.add, tflite.AddOptions),
    "SUB": binary(torch.sub, tflite.SubOptions),
    "MUL": binary(torch.mul, tflite.MulOptions),
    "DIV": binary(torch.div, tflite.DivOptions),
    "MINIMUM": binary(torch.minimum),
    "MAXIMUM": binary(torch.maximum),
    "POW": binary(torch.pow),
    "SQUARED_DIFFERENCE": binary(lambda a, b: torch.square(a - b)),
    "MEAN": reduced(torch.mean),
    "SUM": reduced(torch.sum),
    "REDUCE_MAX": reduced(torch.amax),
    "REDUCE_MIN": reduced(torch.amin),
    "BATCH_MATMUL": batch_matmul,
    "CAST": cast,
    "ARG_MAX": place(torch.argmax),
    "ARG_MIN": place(torch.argmin),
}
"""The readings of this file, by the operators' names."""
