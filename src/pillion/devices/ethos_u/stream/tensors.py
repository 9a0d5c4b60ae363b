# SPDX-License-Identifier: Apache-2.0
"""Whether the registers of a tensor are as a compiler writes them. Those that no element depends on are checked too: a stream in which
one of them is odd was damaged, or was made by rules that are not known."""

from __future__ import annotations

import math

from pillion.devices.ethos_u.stream.errors import not_modelled, wrong
from pillion.devices.ethos_u.stream.operations import FeatureMap, Layout

BRICK = 16


def want_usual(tensor: FeatureMap, at: int) -> None:
    """Raises where tiles, alignment or strides of a tensor are not as they must be, or as they always are."""
    _want_tiles(tensor, at)
    size = tensor.dtype.size_bytes
    unit = BRICK if tensor.layout is Layout.BRICKS else size
    for address in tensor.bases:
        if address % unit:
            raise wrong("an address is not aligned", f"multiples of {unit}", f"{address:#x} at word {at}")
    by_row, by_column, by_brick = tensor.strides
    if 0 in tensor.strides:
        usual = False
    elif tensor.layout is Layout.BRICKS:
        usual = by_column == BRICK * size and by_brick % by_column == 0 and by_row % by_brick == 0
    else:
        whole = math.gcd(by_row, by_column)  # a pixel of the tensor that this may be a part of
        usual = by_brick == size and whole % size == 0 and whole >= tensor.shape[2] * size
    if not usual:
        raise not_modelled(
            "the strides of a tensor", f"{tensor.strides} of {tensor.layout.name} at word {at}"
        )


def _want_tiles(tensor: FeatureMap, at: int) -> None:
    """Tiles that no element lies in start at 0, and one tile is exactly as large as its tensor."""
    rows, columns, _ = tensor.shape
    upper_left, upper_right, left = tensor.tile
    is_wide, is_high = left < columns, upper_left < rows
    used = (True, is_wide, is_high, is_wide and upper_right < rows)
    if any(base for base, is_used in zip(tensor.bases, used, strict=True) if not is_used):
        raise not_modelled("the start of a tile that is not used", f"{tensor.bases} at word {at}")
    if (
        (not is_wide and left != columns)
        or (not is_high and upper_left != rows)
        or (not is_wide and upper_right != upper_left)
    ):
        raise not_modelled(
            "a tile that is larger than its tensor", f"{tensor.tile} of {tensor.shape} at word {at}"
        )
