# SPDX-License-Identifier: Apache-2.0
"""Numbers as C writes them, many at a time: nearly all of a project's bytes are weights, and there may be tens of millions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

PER_LINE = {"int8": 24, "uint8": 24, "int16": 16, "uint16": 16}
PER_LINE_OF_OTHERS = 8
LINES_AT_ONCE = 4096
"""So many lines are made in one go: enough to make the go cheap, and few enough to stay in a cache."""
MANY = 2**17
"""Numbers of 32 bits for which it is worth while to make tables of their halves."""
HALF = 10**5
LEAST = -(2**31)
CELL = np.uint64
"""What holds a number of 16 bits at most and the comma and space behind it; what is left over of it are zeros."""


def literal(number: int | float) -> str:
    """A number as C reads it: with a point if it is real, and the least of 32 bits as a difference."""
    if isinstance(number, float):
        return repr(number) if "." in repr(number) or "e" in repr(number) else f"{number}.0"
    return "(-2147483647 - 1)" if number == -(2**31) else str(number)


def lines(data: NDArray[np.generic]) -> Iterator[bytes]:
    """The numbers of an array between the braces of its definition, some in a line; C has no empty arrays."""
    numbers = data.reshape(-1)
    per_line = PER_LINE.get(data.dtype.name, PER_LINE_OF_OTHERS)
    whole = (
        max(numbers.size - 1, 0) // per_line * per_line
    )  # the last line, which ends without a comma, is not among these
    step = LINES_AT_ONCE * per_line
    for start in range(0, whole, step):
        some = numbers[start : min(start + step, whole)].reshape(-1, per_line)
        yield _writer(data)(some)
    yield _line(numbers[whole:].tolist() or [0]).encode()


def _writer(data: NDArray[np.generic]) -> Callable[[NDArray[np.generic]], bytes]:
    """What writes whole lines of such an array fastest."""
    if data.dtype.name in PER_LINE:
        return _by_table
    return _by_halves if data.dtype == np.int32 and data.size > MANY else _one_by_one


def _line(numbers: list[Any]) -> str:
    return "    " + ", ".join(map(literal, numbers))


def _one_by_one(numbers: NDArray[np.generic]) -> bytes:
    return "".join(f"{_line(row)},\n" for row in numbers.tolist()).encode()


def _by_table(numbers: NDArray[np.generic]) -> bytes:
    """Each number by its row in a table of all that its type can hold."""
    cells = np.empty((len(numbers), numbers.shape[1] + 1), CELL)
    cells[:, 0] = _cells([b"    "])[0]
    table = _table(numbers.dtype.name)
    codes = numbers.view(f"u{numbers.dtype.itemsize}")
    cells[:, 1:] = table[0][codes]
    cells[:, -1] = table[1][codes[:, -1]]
    return cells.tobytes().translate(None, b"\0")


def _by_halves(numbers: NDArray[Any]) -> bytes:
    """Each number as its sign and upper digits, and its lower five digits."""
    if (numbers == LEAST).any():  # it has no literal of its own
        return _one_by_one(numbers)
    magnitudes = np.abs(numbers)
    high, low = np.divmod(magnitudes, HALF)
    heads, tails = _halves()
    cells = np.empty((len(numbers), 2 * numbers.shape[1] + 1), CELL)
    cells[:, 0] = _cells([b"    "])[0]
    cells[:, 1::2] = heads[high + len(heads) // 2 * (numbers < 0)]
    cells[:, 2::2] = tails[0][low + HALF * (high > 0)]
    cells[:, -1] = tails[1][(low + HALF * (high > 0))[:, -1]]
    return cells.tobytes().translate(None, b"\0")


@cache
def _halves() -> tuple[NDArray[CELL], tuple[NDArray[CELL], NDArray[CELL]]]:
    """Upper digits, those of negative numbers last; and lower digits within and at the end of a line, those behind others last."""
    upper = ["" if n == 0 else str(n) for n in range(-LEAST // HALF + 1)]
    heads = [f"{sign}{digits}".encode() for sign in ("", "-") for digits in upper]
    lower = [f"{n:{width}}" for width in ("", "05") for n in range(HALF)]
    return _cells(heads), (
        _cells([f"{n}, ".encode() for n in lower]),
        _cells([f"{n},\n".encode() for n in lower]),
    )


@cache
def _table(dtype: str) -> tuple[NDArray[CELL], NDArray[CELL]]:
    """For each pattern of bits the number that it is, as it stands within a line and at the end of one."""
    numbers = (
        np.arange(1 << 8 * np.dtype(dtype).itemsize)
        .astype(f"u{np.dtype(dtype).itemsize}")
        .view(dtype)
        .tolist()
    )
    return _cells([f"{n}, ".encode() for n in numbers]), _cells([f"{n},\n".encode() for n in numbers])


def _cells(texts: list[bytes]) -> NDArray[CELL]:
    width = np.dtype(CELL).itemsize
    return np.frombuffer(b"".join(text.ljust(width, b"\0") for text in texts), CELL)
