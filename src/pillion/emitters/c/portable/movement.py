# SPDX-License-Identifier: Apache-2.0
"""The portable kernels of ops that only move data: one copy along strides serves all of them, whatever the elements."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pillion.emitters.c.axes import contiguous_steps, numbers
from pillion.emitters.c.kernel import Call, Kernel, Params
from pillion.emitters.c.library import PORTABLE
from pillion.emitters.c.portable.walk import Rows, rows_of
from pillion.ir.numerics import Arithmetic
from pillion.ir.types import Shape, Value
from pillion.ir.verdict import Verdict
from pillion.ops.movement import Concat, Flip, Pad, Reshape, Slice, Transpose

LOOP_PER_RUN = 8
"""How many elements of a run are copied in about the time of one elsewhere."""

LONG_RUN = 16
"""Elements of a run that is copied in one go, rather than its elements one by one in longer loops across the runs."""


@dataclass(frozen=True)
class Copy:
    """A copy of some elements of x to some places of y; steps and offsets count elements."""

    x: Value
    y: Value
    extent: Shape
    x_step: Shape
    y_step: Shape
    x_offset: int = 0
    y_offset: int = 0

    @property
    def rows(self) -> Rows:
        """The walk through both tensors, row by row."""
        return rows_of(self.extent, [self.x_step, self.y_step], _best_inner_axis)

    @property
    def call(self) -> Call:
        """The call of the kernel that makes this copy."""
        rows, size = self.rows, self.x.dtype.size_bytes
        is_run = rows.step == (1, 1)
        in_bytes = [numbers([size * s for s in steps]) for steps in rows.row_step]
        params: Params = {
            "rows": rows.rows,
            "count": rows.count * size if is_run else rows.count,
            "element_bytes": 1 if is_run else size,
            "x_step": 1 if is_run else size * rows.step[0],
            "y_step": 1 if is_run else size * rows.step[1],
            "x_offset": size * self.x_offset,
            "y_offset": size * self.y_offset,
            **rows.axes,
            "x_row_step": in_bytes[0],
            "y_row_step": in_bytes[1],
        }
        return Call(PORTABLE.routine("strided_copy"), params, (self.x,), self.y)


def _best_inner_axis(extent: Shape, steps: list[Shape]) -> int:
    """A run that is long enough, whatever else there is; else the longest axis, with a preference for runs."""
    is_run = [all(s[axis] == 1 for s in steps) for axis in range(len(extent))]

    def worth(axis: int) -> tuple[bool, int, int]:
        is_long = is_run[axis] and extent[axis] >= LONG_RUN
        return is_long, extent[axis] * (LOOP_PER_RUN if is_run[axis] else 1), axis

    return max(range(len(extent)), key=worth)


def transposed(op: Transpose) -> tuple[Copy, ...]:
    """Gives the copy that a transpose is."""
    steps = contiguous_steps(op.x.shape)
    return (Copy(op.x, op.y, op.y.shape, tuple(steps[a] for a in op.order), contiguous_steps(op.y.shape)),)


def sliced(op: Slice) -> tuple[Copy, ...]:
    """Gives the copy that a slice is."""
    steps = contiguous_steps(op.x.shape)
    x_step = tuple(s * every for s, every in zip(steps, op.step, strict=True))
    offset = sum(begin * step for begin, step in zip(op.begin, steps, strict=True))
    return (Copy(op.x, op.y, op.y.shape, x_step, contiguous_steps(op.y.shape), offset),)


def flipped(op: Flip) -> tuple[Copy, ...]:
    """Backwards along some axes, from their last element on."""
    steps = contiguous_steps(op.x.shape)
    x_step = tuple(-step if axis in op.axes else step for axis, step in enumerate(steps))
    offset = sum((op.x.shape[axis] - 1) * steps[axis] for axis in op.axes)
    return (Copy(op.x, op.y, op.y.shape, x_step, steps, offset),)


def joined(op: Concat) -> tuple[Copy, ...]:
    """Gives the copies that a concatenation is, one for each operand that is not empty."""
    steps = contiguous_steps(op.y.shape)
    copies, begin = [], 0
    for x in op.xs:
        copies.append(
            Copy(x, op.y, x.shape, contiguous_steps(x.shape), steps, y_offset=begin * steps[op.axis])
        )
        begin += x.shape[op.axis]
    return tuple(c for c in copies if c.x.type.elements)


def padded(op: Pad) -> tuple[Copy, ...]:
    """Gives the copy of the image into the middle of the padded one."""
    steps = contiguous_steps(op.y.shape)
    offset = sum(before * step for before, step in zip(op.before, steps, strict=True))
    return (Copy(op.x, op.y, op.x.shape, contiguous_steps(op.x.shape), steps, y_offset=offset),)


def copies(op: Transpose | Slice | Flip | Concat | Pad) -> tuple[Copy, ...]:
    """Gives the copies along strides that together make the result of an op."""
    match op:
        case Transpose():
            return transposed(op)
        case Slice():
            return sliced(op)
        case Flip():
            return flipped(op)
        case Concat():
            return joined(op)
        case Pad():
            return padded(op) if op.x.type.elements else ()


def moved(op: Transpose | Slice | Flip | Concat, arithmetic: Arithmetic) -> tuple[Call, ...]:
    """Calls the copy along strides, once for each part of the result."""
    return tuple(copy.call for copy in copies(op))


def filled_and_moved(op: Pad, arithmetic: Arithmetic) -> tuple[Call, ...]:
    """Gives the calls of a pad: the border's value everywhere, then the image over it."""
    element = np.array([op.value], op.y.dtype.numpy).view(np.uint8)
    params: Params = {"count": op.y.type.elements, "element_bytes": len(element), "element": element}
    fill = (Call(PORTABLE.routine("fill"), params, (), op.y),) if any((*op.before, *op.after)) else ()
    return (*fill, *(copy.call for copy in copies(op)))


def judge_movement(
    op: Transpose | Slice | Flip | Concat | Pad, arithmetic: Arithmetic
) -> tuple[Verdict, ...]:
    """Judges whether the copies of an op have few enough axes for the nested loops of the library."""
    axes = [copy.rows.few_axes[0] for copy in copies(op)]
    return tuple(sorted(axes, key=lambda verdict: verdict.ok)[:1])


def nothing(op: Reshape, arithmetic: Arithmetic) -> tuple[Call, ...]:
    """Gives no call, for a reshape: the memory planner gives both names to one place."""
    return ()


def judge_nothing(op: Reshape, arithmetic: Arithmetic) -> tuple[Verdict, ...]:
    """Judges a reshape, for which no kernel runs: every one of them is taken."""
    return ()


def alias(op: Reshape) -> tuple[Value, ...]:
    """Gives the operand that a reshape shares its memory with: a computed one."""
    return () if op.x.is_constant else (op.x,)


KERNELS: tuple[Kernel, ...] = (
    PORTABLE.row(Concat, moved, judge_movement),
    PORTABLE.row(Slice, moved, judge_movement),
    PORTABLE.row(Flip, moved, judge_movement),
    PORTABLE.row(Pad, filled_and_moved, judge_movement),
    PORTABLE.row(Reshape, nothing, judge_nothing, in_place=alias),
    PORTABLE.row(Transpose, moved, judge_movement),
)
