# SPDX-License-Identifier: Apache-2.0
"""Strided walks through tensors: steps of broadcast operands, and the same walk over as few axes as possible."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from pillion.ir.types import Shape
from pillion.ir.verdict import Verdict

MAX_AXES = 8
"""The largest number of axes in the nested loops of the library (kernels/include/pillion/walk.h)."""


def as_int32_array(held: Sequence[int] | NDArray[np.int64]) -> NDArray[np.int32]:
    """Returns integers as an int32 array for a params struct."""
    return np.asarray(held, np.int32).reshape(-1)


def contiguous_steps(shape: Shape) -> Shape:
    """Returns the step along each axis of a contiguous tensor."""
    return tuple(math.prod(shape[axis + 1 :]) for axis in range(len(shape)))


def broadcast_steps(shape: Shape, result: Shape) -> Shape:
    """Returns the steps through an operand during a walk over the result; 0 along broadcast axes."""
    full_shape = (1,) * (len(result) - len(shape)) + shape
    return tuple(
        step if size > 1 else 0 for step, size in zip(contiguous_steps(full_shape), full_shape, strict=True)
    )


def merge_contiguous_axes(extent: Shape, steps: list[Shape]) -> tuple[Shape, list[Shape]]:
    """Returns the same walk over as few axes as possible: without axes of size 1, adjacent axes merged where they
    are contiguous."""
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
    """Checks whether the walks have at most as many axes as the kernels' nested loops."""
    return (
        Verdict("axes", max(counts) <= MAX_AXES, f"at most {MAX_AXES} that are no runs", str(max(counts))),
    )
