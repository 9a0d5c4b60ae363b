# SPDX-License-Identifier: Apache-2.0
"""C literals for arrays, in bulk: nearly all bytes of a project are weights, possibly tens of millions of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

PER_LINE = {"int8": 24, "uint8": 24, "int16": 16, "uint16": 16}
PER_LINE_OF_OTHERS = 8
LINES_AT_ONCE = 4096
"""Lines that are formatted together: enough to amortize numpy's overhead, few enough to stay in a cache."""
MANY = 2**17
"""The number of 32-bit elements from which tables of upper and lower digits are worth building."""
HALF = 10**5
LEAST = -(2**31)
CELL = np.uint64
"""A text cell of eight bytes: up to six characters of a number and the separator behind it, padded with zero
bytes."""


def literal(number: int | float) -> str:
    """Returns a number as a C literal; reals have a point, and the smallest 32-bit integer is written as a
    difference."""
    if isinstance(number, float):
        return repr(number) if "." in repr(number) or "e" in repr(number) else f"{number}.0"
    return "(-2147483647 - 1)" if number == -(2**31) else str(number)


def lines(data: NDArray[np.generic]) -> Iterator[bytes]:
    """Yields the lines between the braces of an array's definition; an empty array gets one zero, as C has no
    empty arrays."""
    numbers = data.reshape(-1)
    per_line = PER_LINE.get(data.dtype.name, PER_LINE_OF_OTHERS)
    full_lines = (
        max(numbers.size - 1, 0) // per_line * per_line
    )  # without the last line, which ends without a comma
    step = LINES_AT_ONCE * per_line
    for start in range(0, full_lines, step):
        some = numbers[start : min(start + step, full_lines)].reshape(-1, per_line)
        yield _writer(data)(some)
    yield _line(numbers[full_lines:].tolist() or [0]).encode()


def _writer(data: NDArray[np.generic]) -> Callable[[NDArray[np.generic]], bytes]:
    """Returns the fastest formatter for complete lines of this array."""
    if data.dtype.name in PER_LINE:
        return _format_by_table
    return _format_by_halves if data.dtype == np.int32 and data.size > MANY else _format_one_by_one


def _line(numbers: list[Any]) -> str:
    return "    " + ", ".join(map(literal, numbers))


def _format_one_by_one(numbers: NDArray[np.generic]) -> bytes:
    return "".join(f"{_line(row)},\n" for row in numbers.tolist()).encode()


def _format_by_table(numbers: NDArray[np.generic]) -> bytes:
    """Formats each number by a table of all values of its type."""
    cells = np.empty((len(numbers), numbers.shape[1] + 1), CELL)
    cells[:, 0] = _fixed_width_cells([b"    "])[0]
    table = _cells_of_all_values(numbers.dtype.name)
    codes = numbers.view(f"u{numbers.dtype.itemsize}")
    cells[:, 1:] = table[0][codes]
    cells[:, -1] = table[1][codes[:, -1]]
    return cells.tobytes().translate(None, b"\0")


def _format_by_halves(numbers: NDArray[Any]) -> bytes:
    """Formats each number as its sign and upper digits, then its lower five digits."""
    if (numbers == LEAST).any():  # INT32_MIN has no literal of its own
        return _format_one_by_one(numbers)
    magnitudes = np.abs(numbers)
    high, low = np.divmod(magnitudes, HALF)
    heads, tails = _digit_half_cells()
    cells = np.empty((len(numbers), 2 * numbers.shape[1] + 1), CELL)
    cells[:, 0] = _fixed_width_cells([b"    "])[0]
    cells[:, 1::2] = heads[high + len(heads) // 2 * (numbers < 0)]
    cells[:, 2::2] = tails[0][low + HALF * (high > 0)]
    cells[:, -1] = tails[1][(low + HALF * (high > 0))[:, -1]]
    return cells.tobytes().translate(None, b"\0")


@cache
def _digit_half_cells() -> tuple[NDArray[CELL], tuple[NDArray[CELL], NDArray[CELL]]]:
    """Returns the cells of upper digits, negative ones last, and of lower digits within and at the end of a line,
    zero-padded ones last."""
    upper = ["" if n == 0 else str(n) for n in range(-LEAST // HALF + 1)]
    heads = [f"{sign}{digits}".encode() for sign in ("", "-") for digits in upper]
    lower = [f"{n:{width}}" for width in ("", "05") for n in range(HALF)]
    return _fixed_width_cells(heads), (
        _fixed_width_cells([f"{n}, ".encode() for n in lower]),
        _fixed_width_cells([f"{n},\n".encode() for n in lower]),
    )


@cache
def _cells_of_all_values(dtype: str) -> tuple[NDArray[CELL], NDArray[CELL]]:
    """Returns the cells of all bit patterns of a type, within a line and at the end of one."""
    numbers = (
        np.arange(1 << 8 * np.dtype(dtype).itemsize)
        .astype(f"u{np.dtype(dtype).itemsize}")
        .view(dtype)
        .tolist()
    )
    return _fixed_width_cells([f"{n}, ".encode() for n in numbers]), _fixed_width_cells(
        [f"{n},\n".encode() for n in numbers]
    )


def _fixed_width_cells(texts: list[bytes]) -> NDArray[CELL]:
    width = np.dtype(CELL).itemsize
    return np.frombuffer(b"".join(text.ljust(width, b"\0") for text in texts), CELL)
