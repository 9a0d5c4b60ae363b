# SPDX-License-Identifier: Apache-2.0
"""Means over the window of a stream whose sums are kept: rows that enter are added, rows that leave are subtracted. Sums of integers are
the same in any order, so the bytes are those of the whole window."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from pillion.emitters.c.accumulators import Int32Array
from pillion.emitters.c.blocks import block_of, judge
from pillion.emitters.c.kernel import Call, Params
from pillion.ir.graph import Graph
from pillion.ir.numerics import Arithmetic
from pillion.ir.op import Op
from pillion.ir.types import DType
from pillion.ir.verdict import Verdict
from pillion.memory import Joint
from pillion.ops.pool import AvgPool2d, AvgPool2dUp, Mean
from pillion.ops.reduce import ReduceSum

WORTH_ELEMENTS = 4
"""A window has at least so many elements for each sum beside those that enter and leave."""


@dataclass(frozen=True, eq=False)
class WindowSums:
    """An op that sums up kept rows and new ones, and its sums of what is kept."""

    op: Op
    joint: Joint
    inner: int
    """The neighbouring elements that have sums of their own."""
    entering: int
    """The elements of each sum that are new in each run; as many leave."""
    window: int
    """The elements of each sum."""

    @property
    def sizes(self) -> Params:
        """What all kernels are told."""
        return {"inner": self.inner, "entering": self.entering, "window": self.window}

    @property
    def initial(self) -> Int32Array:
        """The sums of what is kept after a reset."""
        kept = self.joint.state.initial.reshape(-1, self.inner).astype(np.int64)
        return np.asarray(kept.sum(axis=0), np.int32)


@dataclass(frozen=True)
class WindowKernel:
    """A kernel that keeps sums, whose place is handed over as its scratch memory."""

    name: str
    call: Callable[[WindowSums, Arithmetic], Call]
    takes: Callable[[WindowSums, Arithmetic], tuple[Verdict, ...]]
    stored: Callable[[WindowSums], Int32Array] = lambda sums: sums.initial
    """How sums lie in memory after a reset."""
    overread_bytes: int = 0


def window_sums(graph: Graph, joints: Iterable[Joint]) -> Iterator[WindowSums]:
    """Finds the ops of a graph that see a window of rows of which most were there before."""
    for joint in joints:
        for op in graph.users.get(joint.join.y, ()):
            axes = _summed(op)
            block = block_of(joint.join.y.shape, axes) if joint.join.axis in axes else None
            if block is None or block[0] != 1 or joint.join.y.dtype is not DType.INT8:
                continue
            _, window, inner = block
            entering = joint.moved // inner
            if joint.moved % inner == 0 and window - 2 * entering >= WORTH_ELEMENTS:
                yield WindowSums(op, joint, inner, entering, window)


def _summed(op: Op) -> tuple[int, ...]:
    """The axes over which an op sums up all that there is."""
    if isinstance(op, Mean | ReduceSum):
        return op.axes
    if isinstance(op, AvgPool2d | AvgPool2dUp) and not any(op.padding):
        axes = tuple(a for a in (1, 2) if op.kernel[a - 1] == op.x.shape[a])
        return axes if all(a in axes or op.kernel[a - 1] == op.stride[a - 1] == 1 for a in (1, 2)) else ()
    return ()


def less_zero_points(sums: WindowSums) -> Int32Array:
    """Gives sums of what is kept after a reset, less the zero points of the whole window."""
    zero_point = sums.joint.join.y.zero_point
    return np.asarray(sums.initial - sums.window * zero_point, np.int32)


def judge_kind(op: Op, *kinds: type[Op]) -> tuple[Verdict, ...]:
    """Judges whether an op is one of those that a kernel is for."""
    return (Verdict("op", isinstance(op, kinds), " or ".join(kind.kind for kind in kinds), op.kind),)


def judge_sums(op: Mean | ReduceSum, arithmetic: Arithmetic, limit: int = 2**31) -> tuple[Verdict, ...]:
    """Judges the types of a mean or sum, the reach of its sums, and whether they are multiplied as kernels of windows do it."""
    return judge(op, arithmetic, limit)
