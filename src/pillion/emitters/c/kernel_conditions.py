# SPDX-License-Identifier: Apache-2.0
"""Conditions that many kernels share, as verdicts."""

from __future__ import annotations

from pillion.ir.numerics import Arithmetic
from pillion.ir.op import Op
from pillion.ir.types import DType, Value
from pillion.ir.verdict import Verdict
from pillion.ops.conv import Convolution
from pillion.ops.linear import Linear
from pillion.ops.transpose_conv import TransposeConv2d


def int8(**values: Value) -> tuple[Verdict, ...]:
    """Checks whether operands and results are int8."""
    return tuple(Verdict(name, v.dtype is DType.INT8, "int8", v.dtype.value) for name, v in values.items())


def int8_or_bool(**values: Value) -> tuple[Verdict, ...]:
    """Checks whether operands and results are int8 or bool, whose bytes compare directly."""
    wanted = (DType.INT8, DType.BOOL)
    return tuple(
        Verdict(name, v.dtype in wanted, "int8 or bool", v.dtype.value) for name, v in values.items()
    )


def constants(**values: Value) -> tuple[Verdict, ...]:
    """Checks whether weights are constant, for kernels that pack them at compile time."""
    return tuple(
        Verdict(name, v.is_constant, "a constant", "a constant" if v.is_constant else "computed")
        for name, v in values.items()
    )


def layer_operands(
    op: Convolution | Linear | TransposeConv2d, arithmetic: Arithmetic | None = None
) -> tuple[Verdict, ...]:
    """Checks whether input, weights and result of a layer are int8, and whether weights and bias are constant."""
    return (*int8(x=op.x, y=op.y, weights=op.weights), *constants(weights=op.weights, bias=op.bias))


def all_int8(op: Op, arithmetic: Arithmetic | None = None) -> tuple[Verdict, ...]:
    """Checks whether all computed operands and results of an op are int8."""
    return int8(**{v.name: v for v in dict.fromkeys((*op.activations, *op.results))})


def same_shape(op: Op, *operands: Value) -> tuple[Value, ...]:
    """Returns the computed operands that have the shape of the result, which may overwrite their memory."""
    return tuple(v for v in dict.fromkeys(operands) if not v.is_constant and v.shape == op.results[0].shape)
