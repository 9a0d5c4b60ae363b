# SPDX-License-Identifier: Apache-2.0
"""Finds the slices that an operator takes in each step by an induction variable."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pillion.importers.tflite.induction import KnownIntegers, Numbers
from pillion.ir.types import Array
from pillion.schemas import tflite


@dataclass(frozen=True)
class StepSlices:
    """Slices along one axis, by indices [steps, slices]."""

    axis: int
    numbers: Array


def slices_of_operator(
    whole: KnownIntegers, operator: tflite.Operator, shape: list[int]
) -> StepSlices | None:
    """Returns the slices that an operator takes; None if they are loop-invariant or unknown."""
    operands = [whole.of(number) for number in operator.inputs[1:]]
    known = [operand for operand in operands if operand is not None]
    if len(known) != len(operands) or not known or all(len(operand) == 1 for operand in known):
        return None
    match operator.options, len(known):
        case tflite.GatherOptions() | None, 1:
            return _gather_slices(known[0], operator.options, len(shape))
        case tflite.SliceOptions() | None, 2:
            return _fixed_size_slices(known[0], known[1], shape)
        case tflite.StridedSliceOptions(), 3:
            return _strided_slices(known, operator.options, shape)
    return None


def _gather_slices(numbers: Numbers, options: tflite.GatherOptions | None, rank: int) -> StepSlices | None:
    axis = options.axis % max(rank, 1) if options is not None else 0
    if numbers.ndim > 2 or (options is not None and options.batch_dims):
        return None
    return StepSlices(axis, numbers.reshape(len(numbers), -1))


def _fixed_size_slices(begin: Numbers, size: Numbers, shape: list[int]) -> StepSlices | None:
    """Returns the slices along the only axis that varies, at a fixed size; other axes must be complete."""
    if begin.ndim != 2 or len(size) != 1 or begin.shape[1] != len(shape) or size.shape[1] != len(shape):
        return None
    axes = [a for a in range(len(shape)) if (begin[:, a] != begin[0, a]).any()]
    is_complete = [
        not begin[0, a] and size[0, a] in (-1, n)
        for a, n in enumerate(shape)
        if len(axes) == 1 and a != axes[0]
    ]
    if len(axes) != 1 or not all(is_complete) or size[0, axes[0]] < 1:
        return None
    return StepSlices(axes[0], begin[:, axes[0], None] + np.arange(size[0, axes[0]]))


def _strided_slices(
    known: list[Numbers], options: tflite.StridedSliceOptions, shape: list[int]
) -> StepSlices | None:
    """Returns the slices between begin and end. Unnamed or masked axes are complete."""
    begin, end, step = known
    masks = options.ellipsis_mask | options.new_axis_mask
    if masks or begin.ndim != 2 or begin.shape[1:] != end.shape[1:] or (step != 1).any():
        return None
    steps, named = max(len(begin), len(end)), begin.shape[1]
    if named > len(shape):
        return None
    first = np.zeros((steps, len(shape)), np.int64)
    last = np.broadcast_to(np.array(shape, np.int64), (steps, len(shape))).copy()
    for axis in range(named):
        if not options.begin_mask >> axis & 1:
            first[:, axis] = begin[:, axis]
        if options.shrink_axis_mask >> axis & 1:
            last[:, axis] = first[:, axis] + 1
        elif not options.end_mask >> axis & 1:
            last[:, axis] = end[:, axis]
    sizes = last - first
    return None if (sizes != sizes[0]).any() else _fixed_size_slices(first, sizes[:1], shape)
