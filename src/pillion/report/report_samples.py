# SPDX-License-Identifier: Apache-2.0
"""Samples for a report, in every form that calibration and evaluation accept, without labels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pillion.data.python_data import open_data
from pillion.data.sample import InputSpec, batch_samples
from pillion.errors import PillionError
from pillion.ir.types import Array, Shape, Value


def report_samples(
    given: Any, inputs: Sequence[Value], shapes: Sequence[Shape], most: int
) -> list[list[Array]]:
    """Returns at most `most` samples, each with an array per input: real numbers, or the input's integers."""
    specs = [InputSpec.of(v, shape) for v, shape in zip(inputs, shapes, strict=True)]
    samples = [list(arrays) for arrays, _ in batch_samples(open_data(given).samples(specs, most), specs)]
    if not samples:
        raise PillionError(
            "there are no samples to look at",
            rule="one sample at least",
            here=f"{given}" if isinstance(given, str) else "the data was empty",
            help="give inputs like those that the model will see, or leave the data out",
        )
    return samples
