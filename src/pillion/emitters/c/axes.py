# SPDX-License-Identifier: Apache-2.0
"""Walks through tensors along their axes: steps from element to element, and the same walk over as few axes as possible."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from pillion.ir.types import Shape
from pillion.ir.verdict import Verdict

MAX_AXES = 8
"""The nested loops of the library have room for so many axes (kernels/include/pillion/walk.h)."""


def numbers(held: Sequence[int] | NDArray[np.int64]) -> NDArray[np.int32]:
    """Gives numbers as an array that a params struct points to."""
    return np.asarray(held, np.int32).reshape(-1)


def contiguous_steps(shape: Shape) -> Shape:
    """Gives the step along each axis of a tensor that lies in memory without gaps."""
    return tuple(math.prod(shape[axis + 1 :]) for axis in range(len(shape)))


def broadcast_steps(shape: Shape, result: Shape) -> Shape:
    """Gives the steps through an operand while the result is walked through: 0 along axes that it repeats."""
    whole = (1,) * (len(result) - len(shape)) + shape
    return tuple(step if size > 1 else 0 for step, size in zip(contiguous_steps(whole), whole, strict=True))


def collapsed(extent: Shape, steps: list[Shape]) -> tuple[Shape, list[Shape]]:
    """Gives the same walk over as few axes as possible: none of size 1, and neighbours joined where they are one run."""
    axes: list[tuple[int, ...]] = []
    for axis in zip(extent, *steps, strict=True):
        if axis[0] == 1:
            continue
        if axes and all(
            outer == axis[0] * inner for outer, inner in zip(axes[-1][1:], axis[1:], strict=True)
        ):
            axes[-1] = (axes[-1][0] * axis[0], *axis[1:])
        else:
            axes.append(axis)
    return tuple(a[0] for a in axes), [tuple(a[1 + i] for a in axes) for i in range(len(steps))]


def few_axes(*counts: int) -> tuple[Verdict, ...]:
    """Judges whether there is room for so many axes in a kernel that walks along axes."""
    return (
        Verdict("axes", max(counts) <= MAX_AXES, f"at most {MAX_AXES} that are no runs", str(max(counts))),
    )
