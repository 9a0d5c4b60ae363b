# SPDX-License-Identifier: Apache-2.0
"""The limits within which the kernels of the `cortex_m` library are correct. Beyond them they silently compute wrong bytes or
write outside their buffers.

Each limit follows from the type of a size in CMSIS-NN or from a count that it computes, and was verified on both sides with
programs in the real library on emulated cores. Larger sizes use another exact form or are refused."""

from __future__ import annotations

from collections.abc import Iterable

from pillion.devices.cortex_m import Isa
from pillion.emitters.pte.scratch import ScratchWindow, converts_to_regular_conv

LARGEST_SIDE = 2**16 - 1
"""The largest size that the library stores in 16 bits: sides of a transposed matrix, all sizes of a
convolution."""
GATHERED_ROWS = 8
"""The rows of a matrix that Helium transposes at once. The last one is seven rows after the first, at a
16-bit offset."""
FEWEST_ROWS_WORTH_GATHERING = 6
"""The fewest rows for a gathered column: element-by-element copies take 4 instructions each, a gathered
column 24."""

LONGEST_SOFTMAX = 2**9 - 1
"""The most elements of a row. Each adds up to 2^19 to a sum that determines the last shift; from 2^28 on it
shifts by 32, which C leaves undefined: a row of 512 equal numbers gets a result that is 1 too large."""


def sizes_beyond_limit(sizes: Iterable[int]) -> list[int]:
    """Returns the sizes that exceed the library's types."""
    return [size for size in sizes if size > LARGEST_SIDE]


def uses_matrix_transpose(rows: int, columns: int, isa: Isa) -> bool:
    """Whether the kernel for two axes is correct for these sides and faster than the one for three axes,
    which has no limit below 32 bits (with a first axis of 1)."""
    if sizes_beyond_limit((rows, columns)):
        return False
    if isa is not Isa.MVE:
        return True
    last_row = (min(rows, GATHERED_ROWS) - 1) * columns
    return rows >= FEWEST_ROWS_WORTH_GATHERING and last_row <= LARGEST_SIDE


def is_transposed_conv_exact(window: ScratchWindow) -> bool:
    """Whether the transposed convolution computes exactly the rows of its result within its scratch memory.

    If it is not converted to a regular one, it keeps some rows of accumulators and emits `stride` of them per row of the image, minus
    the padding. With a window smaller than stride plus padding, the last rows lie beyond the result. With a padding that is no multiple
    of the stride, it counts incorrectly. Its scratch size uses the vertical stride instead of the horizontal one, which can be too
    little for a window narrower than its stride."""
    if converts_to_regular_conv(window):
        return True
    (height, width), (down, right), padding = window.kernel, window.stride, window.padding[0]
    return padding % down == 0 and height >= down + padding and max(width, down) >= max(width, right)
