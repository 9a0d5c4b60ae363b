# SPDX-License-Identifier: Apache-2.0
"""Where the kernels of the `cortex_m` library are right. Beyond these limits they answer wrong bytes, or write where they
must not, and say nothing.

Each limit follows from a type in which CMSIS-NN holds a size, or from a count that it makes, and programs on both sides
of it were run in the real library on emulated cores. What exceeds one gets another exact form, or is refused."""

from __future__ import annotations

from collections.abc import Iterable

from pillion.devices.cortex_m import Isa
from pillion.emitters.pte.scratch import Window, reverses

LARGEST_SIDE = 2**16 - 1
"""The largest of what the library holds in 16 bits: the sides of a transposed matrix, all sizes of a convolution."""
GATHERED_ROWS = 8
"""Rows of a matrix that Helium transposes at once. The last of them lies seven rows after the first, at an offset of 16 bits."""
FEWEST_ROWS_WORTH_GATHERING = 6
"""The fewest rows that are worth a gathered column: with fewer, most of a vector is idle: element by element takes 4 instructions for each, a gathered column 24."""

LONGEST_SOFTMAX = 2**9 - 1
"""Elements of a row. Each adds up to 2^19 to a sum from which the last shift follows; from 2^28 on that is one of 32 places,
which C leaves open and the library's result shows: a row of 512 equal numbers gets a step too much."""


def beyond(sizes: Iterable[int]) -> list[int]:
    """Gives those of some sizes that the library does not hold as they are."""
    return [size for size in sizes if size > LARGEST_SIDE]


def transposes_matrix(rows: int, columns: int, isa: Isa) -> bool:
    """Whether the kernel for two axes is right for these sides, and faster than the one for three axes.

    That one has no limit below 32 bits: a matrix is the second and third of three axes, the first being 1."""
    if beyond((rows, columns)):
        return False
    if isa is not Isa.MVE:
        return True
    last_row = (min(rows, GATHERED_ROWS) - 1) * columns
    return rows >= FEWEST_ROWS_WORTH_GATHERING and last_row <= LARGEST_SIDE


def transposes_convolution(window: Window) -> bool:
    """Whether the transposed convolution gives exactly the rows of its result, and has room for its columns.

    Where it does not turn into a regular one, it keeps some rows of sums and gives `stride` of them for each row of the
    image, less the padding. If the window is smaller than stride and padding together, the last ones lie behind the
    result. If the padding is no multiple of the stride, it counts wrongly. Its scratch is counted with the vertical
    stride in place of the horizontal one, which can be too little for a window narrower than its stride."""
    if reverses(window):
        return True
    (height, width), (down, right), padding = window.kernel, window.stride, window.padding[0]
    return padding % down == 0 and height >= down + padding and max(width, down) >= max(width, right)
