# SPDX-License-Identifier: Apache-2.0
"""Means over the sliding window of a stream with persistent sums: entering rows are added, leaving rows are
subtracted. Integer sums do not depend on the order, so the results equal those of the complete window."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from pillion.emitters.c.accumulators import Int32Array
from pillion.emitters.c.kernel import Call, Params, Routine
from pillion.emitters.c.kernel_conditions import Check
from pillion.emitters.c.op_fields import with_op_fields
from pillion.emitters.c.reduction_blocks import reduced_block
from pillion.ir.graph import Graph
from pillion.ir.numerics import Arithmetic
from pillion.ir.op import Op
from pillion.ir.types import DType
from pillion.ir.verdict import all_ok
from pillion.memory import SlidingBuffer
from pillion.ops.pool import AvgPool2d, AvgPool2dUp
from pillion.ops.reduce import Mean, ReduceSum

WORTH_ELEMENTS = 4
"""The smallest number of elements for each sum, beyond those that enter and leave, for which running sums pay."""


@dataclass(frozen=True, eq=False)
class SlidingSums:
    """An op that reduces kept and new rows, with the sums of the kept ones."""

    op: Op
    joint: SlidingBuffer
    inner: int
    """The number of adjacent elements, each with a sum of its own."""
    entering: int
    """The elements of each sum that enter in each run; as many leave."""
    window: int
    """The elements of each sum."""

    @property
    def sizes(self) -> Params:
        """The parameters that all kernels share."""
        return {"inner": self.inner, "entering": self.entering, "window": self.window}

    @property
    def initial(self) -> Int32Array:
        """The sums of the kept rows after a reset."""
        rows = self.joint.state.initial.reshape(-1, self.inner).astype(np.int64)
        return np.asarray(rows.sum(axis=0), np.int32)


@dataclass(frozen=True)
class WindowKernel:
    """A kernel that keeps sums, whose address it receives as its scratch memory."""

    name: str
    kinds: tuple[type[Op], ...]
    routine: Routine
    requires: Check[Any]
    """The conditions of the op."""
    fits: Callable[[SlidingSums], bool] = lambda sums: True
    """Whether the window is within the kernel's limits."""
    params: Callable[[Any], Params] = lambda op: {}
    """The fields, besides the sizes, that do not follow from the op."""
    stored: Callable[[SlidingSums], Int32Array] = lambda sums: sums.initial
    """The memory layout of the sums after a reset."""
    overread_bytes: int = 0

    def takes(self, sums: SlidingSums, arithmetic: Arithmetic) -> bool:
        """Whether the kernel computes an op exactly."""
        is_one = isinstance(sums.op, self.kinds) and all_ok(self.requires(sums.op, arithmetic))
        return is_one and self.fits(sums)

    def call(self, sums: SlidingSums, arithmetic: Arithmetic) -> Call:
        """Returns the call that updates the sums."""
        op: Any = sums.op
        given = {**sums.sizes, **self.params(op)}
        params = with_op_fields(self.routine.params_type, given, op, arithmetic)
        return Call(self.routine, params, (op.x,), op.y)


def sliding_sums(graph: Graph, joints: Iterable[SlidingBuffer]) -> Iterator[SlidingSums]:
    """Yields the ops that reduce a window of rows most of which were in the window of the run before."""
    for joint in joints:
        for op in graph.users.get(joint.join.y, ()):
            axes = _reduced_axes(op)
            block = reduced_block(joint.join.y.shape, axes) if joint.join.axis in axes else None
            if block is None or block[0] != 1 or joint.join.y.dtype is not DType.INT8:
                continue
            _, window, inner = block
            entering = joint.moved // inner
            if joint.moved % inner == 0 and window - 2 * entering >= WORTH_ELEMENTS:
                yield SlidingSums(op, joint, inner, entering, window)


def _reduced_axes(op: Op) -> tuple[int, ...]:
    """Returns the axes over which an op reduces completely."""
    if isinstance(op, Mean | ReduceSum):
        return op.axes
    if isinstance(op, AvgPool2d | AvgPool2dUp) and not any(op.padding):
        axes = tuple(a for a in (1, 2) if op.kernel[a - 1] == op.x.shape[a])
        return axes if all(a in axes or op.kernel[a - 1] == op.stride[a - 1] == 1 for a in (1, 2)) else ()
    return ()


def reset_sums_without_zero_points(sums: SlidingSums) -> Int32Array:
    """Returns the sums of the kept rows after a reset, minus the zero points of the complete window."""
    zero_point = sums.joint.join.y.zero_point
    return np.asarray(sums.initial - sums.window * zero_point, np.int32)
