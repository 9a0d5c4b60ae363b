# SPDX-License-Identifier: Apache-2.0
"""Numbers of 4 bits in bytes: two in each, the first in the low half."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pillion.ir.types import Array


def pack_nibbles(numbers: Array) -> NDArray[np.int8]:
    """Packs numbers from -8 to 7 in a row of bytes; half of the last byte may be zero."""
    flat = np.pad(numbers.reshape(-1).astype(np.int8), (0, numbers.size % 2))
    return (flat[::2] & 15) | (flat[1::2] << 4)


def pack_rows(numbers: Array) -> NDArray[np.int8]:
    """Packs numbers [rows, columns]; each row begins with a byte."""
    return pack_nibbles(np.pad(numbers, ((0, 0), (0, numbers.shape[1] % 2))))


def unpack_nibbles(packed: Array, count: int) -> NDArray[np.int8]:
    """Returns the numbers in a row of bytes."""
    halves = np.stack([packed.view(np.int8) << 4, packed.view(np.int8)], axis=-1) >> 4
    return halves.reshape(-1)[:count].astype(np.int8)
