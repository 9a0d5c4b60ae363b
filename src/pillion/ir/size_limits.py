# SPDX-License-Identifier: Apache-2.0
"""Limits on tensor sizes. A file can request any size in a few bytes; sizes that no chip can address are refused
before allocation."""

from __future__ import annotations

import math

from pillion.errors import PillionError
from pillion.ir.op import Op
from pillion.ir.types import Pair, Shape, Value

LARGEST = 2**30
"""The largest tensor in bytes: the external RAM region in the memory map of Armv6-M to Armv8-M."""


def check_sizes(op: Op) -> None:
    """Raises if an operand, a result or a padded image exceeds the limit."""
    for value in (*op.operands, *op.results):
        check_size(value, op.source)
    numbers = [
        n
        for attribute in op.attributes.values()
        for n in (attribute if isinstance(attribute, tuple) else (attribute,))
    ]
    if any(isinstance(n, int) and not -LARGEST <= n <= LARGEST for n in numbers):
        raise op.refuse(f"numbers are at most {LARGEST}", op.attributes)
    image = padded_image_shape(op)
    if image is not None and math.prod(image) > LARGEST:
        raise op.refuse(f"an image has at most {LARGEST} bytes with all around it", list(image))


def check_size(value: Value, place: str = "") -> None:
    """Raises if a value exceeds the limit."""
    if value.type.size_bytes > LARGEST:
        raise PillionError(
            f"`{value.name[:100]}` is larger than any memory of a microcontroller",
            rule=f"a tensor has at most {LARGEST} bytes",
            here=f"{value.type.size_bytes} bytes: {list(value.shape)}" + (f"  ({place})" if place else ""),
            help="smaller images, batches or strides",
        )


def padded_image_shape(op: Op) -> Shape | None:
    """Returns the shape of the padded image, or of a transposed convolution's result before cropping; None for
    other ops."""
    padding = op.attributes.get("padding")
    if padding is None:
        return None
    uncropped: Pair | None = getattr(op, "whole", None)
    n, height, width, channels = op.operands[0].shape if op.operands[0].type.rank == 4 else (1, 1, 1, 1)
    if uncropped is not None:
        return (n, *uncropped, op.results[0].shape[-1])
    top, left, bottom, right = padding
    return n, height + top + bottom, width + left + right, channels
