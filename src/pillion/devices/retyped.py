# SPDX-License-Identifier: Apache-2.0
"""Builds values and ops of changed types without data, for fix-its."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from pillion.ir.op import Op
from pillion.ir.types import Quant, Shape, TensorType, Value

Fixit = tuple[str, Op]
"""The description of a change, and the changed op."""
Fixits = Callable[[Any], Iterator[Fixit]]
"""Yields changes of an op of the kinds that it is for."""


def with_shape_and_quant(value: Value, shape: Shape, quant: Quant | None = None) -> Value:
    """Returns the value with another shape and optionally other quantization parameters; constants stay
    constant."""
    data = None if value.data is None else np.broadcast_to(value.data.dtype.type(0), shape)
    return Value(value.name, TensorType(shape, value.dtype, quant or value.type.quant), data)


def with_quant(value: Value, quant: Quant) -> Value:
    """Returns the value with another scale and zero point."""
    return dataclasses.replace(value, type=dataclasses.replace(value.type, quant=quant))


def with_inferred_result(op: Op) -> Op:
    """Returns the op with a result whose shape is inferred from its operands and attributes."""
    y = op.results[0]
    return op.substitute({y: with_shape_and_quant(y, op.infer().shape)})
