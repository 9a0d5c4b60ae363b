# SPDX-License-Identifier: Apache-2.0
"""Samples for a report: all that calibration and evaluation take; labels are left out."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import Any

from pillion.data.given import open_data
from pillion.data.sample import Wanted, grouped
from pillion.errors import PillionError
from pillion.ir.types import Array, Shape, Value


def samples(given: Any, inputs: Sequence[Value], shapes: Sequence[Shape], most: int) -> list[list[Array]]:
    """Gives at most so many samples, with an array of the given shape for each input of a program: real numbers, or the input's integers."""
    wanted = [
        Wanted(v.name, shape, v.dtype, *((v.scale, v.zero_point) if v.is_quantized else ()))
        for v, shape in zip(inputs, shapes, strict=True)
    ]
    found = [list(arrays) for arrays, _ in islice(grouped(open_data(given).samples(wanted), wanted), most)]
    if not found:
        raise PillionError(
            "there are no samples to look at",
            rule="one sample at least",
            here=f"{given}" if isinstance(given, str) else "the data was empty",
            help="give inputs like those that the model will see, or leave the data out",
        )
    return found
