# SPDX-License-Identifier: Apache-2.0
"""TFLite operators on values: the interface between the table, which knows ops, and the writer, which knows
the format."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from pillion.ir.types import DType, Value, constant_value
from pillion.schemas.flatbuffer import Table


@dataclass(frozen=True)
class Node:
    """One TFLite operator: its code, its tensors and its options.

    Values outside the graph (axes, intermediates) may have any name; the writer makes it unique."""

    code: str
    inputs: tuple[Value | None, ...]
    """The operands; None is an omitted one."""
    outputs: tuple[Value, ...]
    options: Table | None = None
    variables: tuple[Value, ...] = ()
    """Operands that are states, in variable tensors."""
    intermediates: tuple[Value, ...] = ()
    """Intermediate tensors, for their quantization."""
    custom: bytes = b""
    """The options of a custom operator."""

    @property
    def int64(self) -> Value | None:
        """The operand that the file has in int64: the bias of a layer on 16 bits."""
        is_wide = self.code in LAYERS and self.outputs[0].dtype is DType.INT16
        return self.inputs[-1] if is_wide else None


LAYERS = ("CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED", "TRANSPOSE_CONV")
"""Operators whose last operand is a bias."""
Writing = Callable[[Any], list[Node]]
"""A row of the table: returns the operators of an op, in execution order."""


def int32_constant(name: str, numbers: ArrayLike) -> Value:
    """Returns an int32 constant for axes, sizes or paddings."""
    return constant_value(name, np.asarray(numbers, np.int32))
