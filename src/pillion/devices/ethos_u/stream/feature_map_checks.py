# SPDX-License-Identifier: Apache-2.0
"""Checks that a tensor's registers have the form that Vela writes, including registers without effect: an odd
value means a damaged or unknown command stream."""

from __future__ import annotations

import math

from pillion.devices.ethos_u.stream.operations import FeatureMap, TensorLayout
from pillion.devices.ethos_u.stream.stream_errors import require_modelled, require_valid

BRICK = 16


def require_known_form(tensor: FeatureMap) -> None:
    """Raises if the tiles, alignment or strides of a tensor are invalid or unknown."""
    _require_tiles(tensor)
    size = tensor.dtype.size_bytes
    unit = BRICK if tensor.layout is TensorLayout.BRICKS else size
    for address in tensor.bases:
        require_valid(
            address % unit == 0, "an address is not aligned", f"multiples of {unit}", f"{address:#x}"
        )
    by_row, by_column, by_brick = tensor.strides
    if 0 in tensor.strides:
        is_supported = False
    elif tensor.layout is TensorLayout.BRICKS:
        is_supported = by_column == BRICK * size and by_brick % by_column == 0 and by_row % by_brick == 0
    else:
        pixel_step = math.gcd(by_row, by_column)  # the pixel of the containing tensor
        is_supported = (
            by_brick == size and pixel_step % size == 0 and pixel_step >= tensor.stored_shape[2] * size
        )
    require_modelled(is_supported, "the strides of a tensor", f"{tensor.strides} of {tensor.layout.name}")


def _require_tiles(tensor: FeatureMap) -> None:
    """Raises unless unused tiles start at 0 and a single tile has its tensor's size."""
    rows, columns, _ = tensor.stored_shape
    upper_left, upper_right, left = tensor.tile
    is_wide, is_high = left < columns, upper_left < rows
    used = (True, is_wide, is_high, is_wide and upper_right < rows)
    is_known = not any(base for base, is_used in zip(tensor.bases, used, strict=True) if not is_used)
    require_modelled(is_known, "the start of a tile that is not used", tensor.bases)
    fits = (is_wide or (left == columns and upper_right == upper_left)) and (is_high or upper_left == rows)
    require_modelled(fits, "a tile that is larger than its tensor", f"{tensor.tile} of {tensor.shape}")
