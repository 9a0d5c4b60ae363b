# SPDX-License-Identifier: Apache-2.0
"""C literals for arrays, in bulk: nearly all bytes of a project are weights, possibly tens of millions of them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

PER_LINE = {"int8": 24, "uint8": 24, "int16": 16, "uint16": 16}
PER_LINE_OF_OTHERS = 8
LINES_AT_ONCE = 4096
"""Lines that are formatted together, few enough to stay in a cache."""
LEAST = -(2**31)
LEAST_LITERAL = "(-2147483647 - 1)"
"""The smallest 32-bit integer, which has no literal of its own."""


def c_literal(number: int | float) -> str:
    """Returns a number as a C literal; reals have a point, and the smallest 32-bit integer is written as a
    difference."""
    if isinstance(number, float):
        return repr(number) if "." in repr(number) or "e" in repr(number) else f"{number}.0"
    return LEAST_LITERAL if number == LEAST else str(number)


def lines(data: NDArray[np.generic]) -> Iterator[bytes]:
    """Yields the lines between the braces of an array's definition; an empty array gets one zero, as C has no
    empty arrays."""
    numbers = data.reshape(-1)
    per_line = PER_LINE.get(data.dtype.name, PER_LINE_OF_OTHERS)
    full_lines = max(numbers.size - 1, 0) // per_line * per_line  # the last line ends without a comma
    step = LINES_AT_ONCE * per_line
    for start in range(0, full_lines, step):
        some = numbers[start : min(start + step, full_lines)]
        yield _format_literals(
            some, ("    " + ", ".join(["%s"] * per_line) + ",\n") * (some.size // per_line)
        )
    last = numbers[full_lines:] if numbers.size else np.zeros(1, np.int8)
    yield _format_literals(last, "    " + ", ".join(["%s"] * last.size))


def _format_literals(numbers: NDArray[np.generic], layout: str) -> bytes:
    """Formats integers by one call, which takes a fraction of the time of single literals."""
    if numbers.dtype.kind == "f":
        return (layout % tuple(map(c_literal, numbers.tolist()))).encode()
    text = layout.replace("%s", "%d") % tuple(numbers.tolist())
    return (text.replace(str(LEAST), LEAST_LITERAL) if numbers.dtype == np.int32 else text).encode()
