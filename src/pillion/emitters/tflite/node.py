# SPDX-License-Identifier: Apache-2.0
"""What stands between the table, which knows ops, and the writer, which knows the format."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from pillion.ir.types import Value, constant
from pillion.schemas.flatbuffer import Table


@dataclass(frozen=True)
class Node:
    """One TFLite operator: its code, its tensors and its options.

    Values that the graph does not have (axes, an intermediate) may carry any name; the writer makes it unique."""

    code: str
    inputs: tuple[Value | None, ...]
    """None: an operand that is left out."""
    outputs: tuple[Value, ...]
    options: Table | None = None
    variables: tuple[Value, ...] = ()
    """The operands that live between runs, in tensors of the operator."""
    intermediates: tuple[Value, ...] = ()
    """What the operator makes on its way."""
    custom: bytes = b""
    """What a custom operator says of itself."""


Writing = Callable[[Any], list[Node]]
"""A row of the table: the operators that an op of one class becomes, in running order."""


def integers(name: str, numbers: ArrayLike) -> Value:
    """Makes an int32 constant: axes, sizes, paddings."""
    return constant(name, np.asarray(numbers, np.int32))
