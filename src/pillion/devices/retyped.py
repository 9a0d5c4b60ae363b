# SPDX-License-Identifier: Apache-2.0
"""Values and ops of other types, with no data behind them: what a changed op is made of."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator

import numpy as np

from pillion.ir.op import Op
from pillion.ir.types import Quant, Shape, TensorType, Value

Change = tuple[str, Op]
"""A change in words, and the op after it."""
Changes = Callable[[Op], Iterator[Change]]


def retyped(value: Value, shape: Shape, quant: Quant | None = None) -> Value:
    """Gives a value another shape and, if given, other parameters; constants stay constants."""
    data = None if value.data is None else np.broadcast_to(value.data.dtype.type(0), shape)
    return Value(value.name, TensorType(shape, value.dtype, quant or value.type.quant), data)


def with_quant(value: Value, quant: Quant) -> Value:
    """Gives a value with another scale and zero point."""
    return dataclasses.replace(value, type=dataclasses.replace(value.type, quant=quant))


def fitted(op: Op) -> Op:
    """Gives an op a result of the shape that follows from its operands and parameters."""
    y = op.results[0]
    return op.substitute({y: retyped(y, op.infer().shape)})
