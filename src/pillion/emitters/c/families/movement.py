# SPDX-License-Identifier: Apache-2.0
"""The kernels of data movement: one strided copy serves transposes, slices, flips, concatenations and
pads."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from pillion.emitters.c.kernel import A_CALL, Call, CallCost, Kernel, Params
from pillion.emitters.c.kernel_conditions import INT8_X, all_of, has_dtypes, short_circuit
from pillion.emitters.c.kernel_library import DSP, HOST, MVE, PORTABLE, Calls, Library
from pillion.emitters.c.strides import as_int32_array, contiguous_steps, merge_contiguous_axes
from pillion.emitters.c.walk import WalkRows, rows_of
from pillion.ir.numerics import Arithmetic
from pillion.ir.types import DType, Shape, Value
from pillion.ir.verdict import Verdict
from pillion.ops.movement import Concat, Flip, Pad, Reshape, Slice, Transpose

Copying = Transpose | Slice | Flip | Concat | Pad
ROW = 16
"""Instructions of a row besides its elements."""
ELEMENT = {2: 0.5, 1: 3.0, 0: 7.0}
"""Instructions of an element, by the number of tensors in which the row is contiguous."""


@dataclass(frozen=True)
class StridedCopy:
    """A copy of elements of x to locations in y; steps and offsets count elements."""

    x: Value
    y: Value
    extent: Shape
    x_step: Shape
    y_step: Shape
    x_offset: int = 0
    y_offset: int = 0

    @property
    def rows(self) -> WalkRows:
        """The walk over both tensors, row by row."""
        return rows_of(self.extent, [self.x_step, self.y_step], _best_inner_axis)

    def call(self, library: Library) -> Call:
        """Returns the call of a library's kernel."""
        rows, size = self.rows, self.x.dtype.size_bytes
        is_run = rows.step == (1, 1)
        in_bytes = [as_int32_array([size * s for s in steps]) for steps in rows.row_step]
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
        return Call(library.routine("strided_copy"), params, (self.x,), self.y)


def _best_inner_axis(extent: Shape, steps: list[Shape]) -> int:
    """Returns the axis with the fewest instructions for its rows; the last one of several."""
    elements = math.prod(extent)

    def cost(axis: int) -> float:
        contiguous = sum(s[axis] == 1 for s in steps)
        return ROW * elements / extent[axis] + ELEMENT[contiguous] * elements

    return min(reversed(range(len(extent))), key=cost)


def strided_copies_of_transpose(op: Transpose) -> tuple[StridedCopy, ...]:
    """Returns the copy of a transpose."""
    steps = contiguous_steps(op.x.shape)
    return (
        StridedCopy(op.x, op.y, op.y.shape, tuple(steps[a] for a in op.order), contiguous_steps(op.y.shape)),
    )


def strided_copies_of_slice(op: Slice) -> tuple[StridedCopy, ...]:
    """Returns the copy of a slice."""
    steps = contiguous_steps(op.x.shape)
    x_step = tuple(s * every for s, every in zip(steps, op.step, strict=True))
    offset = sum(begin * step for begin, step in zip(op.begin, steps, strict=True))
    return (StridedCopy(op.x, op.y, op.y.shape, x_step, contiguous_steps(op.y.shape), offset),)


def strided_copies_of_flip(op: Flip) -> tuple[StridedCopy, ...]:
    """Returns the copy of a flip, with negative steps from the last element on."""
    steps = contiguous_steps(op.x.shape)
    x_step = tuple(-step if axis in op.axes else step for axis, step in enumerate(steps))
    offset = sum((op.x.shape[axis] - 1) * steps[axis] for axis in op.axes)
    return (StridedCopy(op.x, op.y, op.y.shape, x_step, steps, offset),)


def strided_copies_of_concat(op: Concat) -> tuple[StridedCopy, ...]:
    """Returns the copies of a concatenation, one for each non-empty operand."""
    steps = contiguous_steps(op.y.shape)
    copies, begin = [], 0
    for x in op.xs:
        copies.append(
            StridedCopy(x, op.y, x.shape, contiguous_steps(x.shape), steps, y_offset=begin * steps[op.axis])
        )
        begin += x.shape[op.axis]
    return tuple(c for c in copies if c.x.type.elements)


def strided_copies_of_pad(op: Pad) -> tuple[StridedCopy, ...]:
    """Returns the copy of the image into the middle of the padded one."""
    steps = contiguous_steps(op.y.shape)
    offset = sum(before * step for before, step in zip(op.before, steps, strict=True))
    return (StridedCopy(op.x, op.y, op.x.shape, contiguous_steps(op.x.shape), steps, y_offset=offset),)


def copies(op: Copying) -> tuple[StridedCopy, ...]:
    """Returns the strided copies of an op."""
    match op:
        case Transpose():
            return strided_copies_of_transpose(op)
        case Slice():
            return strided_copies_of_slice(op)
        case Flip():
            return strided_copies_of_flip(op)
        case Concat():
            return strided_copies_of_concat(op)
        case Pad():
            return strided_copies_of_pad(op) if op.x.type.elements else ()


def copies_by(library: Library) -> Calls[Copying]:
    """Returns the function that makes the calls of a library's strided copies, behind a fill with a pad's border."""

    def calls(op: Copying, arithmetic: Arithmetic) -> tuple[Call, ...]:
        fill = (fill_call(op),) if isinstance(op, Pad) and any((*op.before, *op.after)) else ()
        return (*fill, *(copy.call(library) for copy in copies(op)))

    return calls


def fill_call(op: Pad) -> Call:
    """Returns the call that fills the result with the border's value."""
    element = np.array([op.value], op.y.dtype.numpy).view(np.uint8)
    params: Params = {"count": op.y.type.elements, "element_bytes": len(element), "element": element}
    return Call(PORTABLE.routine("fill"), params, (), op.y)


def few_copy_axes(op: Copying) -> tuple[Verdict, ...]:
    """Checks whether the copies of an op have few enough axes for the kernel's nested loops."""
    axes = [copy.rows.few_axes[0] for copy in copies(op)]
    return tuple(sorted(axes, key=lambda verdict: verdict.ok)[:1])


def copy_kernel(library: Library, op: type[Copying], call_cost: CallCost = A_CALL) -> Kernel:
    """Builds the kernel of an op that copies."""
    return library.kernel_of_calls(op, copies_by(library), requires=(few_copy_axes,), call_cost=call_cost)


MOST_ROWS = 4
"""The largest number of matrix rows for which a column fits a vector lane."""


def transposed_matrices(op: Transpose) -> tuple[int, int, int] | None:
    """Returns batch, rows and columns if the op transposes matrices, otherwise None."""
    steps = contiguous_steps(op.x.shape)
    walk = tuple(steps[a] for a in op.order), contiguous_steps(op.y.shape)
    extent, (x_steps, _) = merge_contiguous_axes(op.y.shape, list(walk))
    batch, columns, rows = (1,) * (3 - len(extent)) + extent if len(extent) <= 3 else (0, 0, 0)
    return (batch, rows, columns) if x_steps[-2:] == (1, columns) else None


def two_axes(op: Transpose) -> Verdict:
    """Checks whether a transpose exchanges two axes, or two groups of adjacent axes."""
    requirement = "two axes or groups of axes change places"
    return Verdict("order", transposed_matrices(op) is not None, requirement, str(op.order))


def transpose_params(op: Transpose) -> Params:
    """Returns the parameters of the kernel that transposes matrices."""
    return dict(zip(("batch", "rows", "columns"), transposed_matrices(op) or (), strict=True))


def few_planes(op: Transpose) -> Verdict:
    """Checks whether a transpose interleaves a few planes, as from channels first to channels last."""
    _, rows, columns = transposed_matrices(op) or (0, 0, 0)
    fits = 2 <= rows <= MOST_ROWS <= columns
    return Verdict("rows", fits, f"2 to {MOST_ROWS}, and more columns", f"{rows} of {columns}")


KERNELS: tuple[Kernel, ...] = (
    *(copy_kernel(PORTABLE, op) for op in (Concat, Slice, Flip, Pad, Transpose)),
    PORTABLE.kernel_of_calls(  # the memory planner puts both values at one address
        Reshape, lambda op, arithmetic: (), in_place=lambda op: () if op.x.is_constant else (op.x,)
    ),
    DSP.kernel(Transpose, "transpose_s8", transpose_params, requires=(INT8_X, two_axes)),
    DSP.kernel(
        Transpose, "transpose_s16", transpose_params, requires=(has_dtypes("x", DType.INT16), two_axes)
    ),
    HOST.kernel(
        Transpose,
        "interleave_s8",
        transpose_params,
        requires=(short_circuit(all_of(INT8_X, two_axes), few_planes),),
        name="interleave",
    ),
    copy_kernel(MVE, Concat, CallCost(180.0)),
    *(copy_kernel(MVE, op) for op in (Slice, Pad, Transpose)),
)
