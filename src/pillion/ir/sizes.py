# SPDX-License-Identifier: Apache-2.0
"""How large tensors may be. Files and models can ask for any size in a few bytes; what no chip could address is refused
before anything of it is allocated."""

from __future__ import annotations

import math

from pillion.errors import PillionError
from pillion.ir.op import Op
from pillion.ir.types import Pair, Shape, Value

LARGEST = 2**30
"""Bytes in one piece: the external RAM in the memory map of Armv6-M to Armv8-M, the largest region that is not a device."""


def check_sizes(op: Op) -> None:
    """Raises where an operand, a result, or the image that its windows go over is larger than any memory."""
    for value in (*op.operands, *op.results):
        check_size(value, op.source)
    numbers = [n for held in op.attributes.values() for n in (held if isinstance(held, tuple) else (held,))]
    if any(isinstance(n, int) and not -LARGEST <= n <= LARGEST for n in numbers):
        raise op.refuse(f"numbers are at most {LARGEST}", op.attributes)
    image = windowed(op)
    if image is not None and math.prod(image) > LARGEST:
        raise op.refuse(f"an image has at most {LARGEST} bytes with all around it", list(image))


def check_size(value: Value, place: str = "") -> None:
    """Raises where a value is larger than any memory."""
    if value.type.size_bytes > LARGEST:
        raise PillionError(
            f"`{value.name[:100]}` is larger than any memory of a microcontroller",
            rule=f"a tensor has at most {LARGEST} bytes",
            here=f"{value.type.size_bytes} bytes: {list(value.shape)}" + (f"  ({place})" if place else ""),
            help="smaller images, batches or strides",
        )


def windowed(op: Op) -> Shape | None:
    """Gives the image with its padding, or the result of a transposed convolution before it is cut; None for other ops."""
    padding = op.attributes.get("padding")
    if padding is None:
        return None
    whole: Pair | None = getattr(op, "whole", None)
    n, height, width, channels = op.operands[0].shape if op.operands[0].type.rank == 4 else (1, 1, 1, 1)
    if whole is not None:
        return (n, *whole, op.results[0].shape[-1])
    top, left, bottom, right = padding
    return n, height + top + bottom, width + left + right, channels
