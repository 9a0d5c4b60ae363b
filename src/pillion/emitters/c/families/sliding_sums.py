# SPDX-License-Identifier: Apache-2.0
"""Means over the sliding window of a stream with persistent sums: entering rows are added, leaving rows are
subtracted. Integer sums do not depend on the order, so the results equal those of the complete window."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from pillion.devices.cortex_m import Isa
from pillion.emitters.c.accumulators import Int32Array
from pillion.emitters.c.families.reduce import (
    IN_DOUBLED_WORDS,
    IN_WORDS,
    LANES,
    MEANS,
    mean_offset,
    reduced_block,
    sums_below,
)
from pillion.emitters.c.kernel import Call, Kernel, Params
from pillion.emitters.c.kernel_choice import KernelChoice
from pillion.emitters.c.kernel_conditions import INT8_XY, Check, all_of
from pillion.emitters.c.kernel_library import DSP, MVE, PORTABLE, Library
from pillion.emitters.c.mve.pack import OVERREAD_BYTES
from pillion.emitters.c.op_fields import with_op_fields
from pillion.ir.graph import Graph
from pillion.ir.numerics import Arithmetic
from pillion.ir.op import Op
from pillion.ir.types import DType
from pillion.ir.verdict import Verdict, all_ok
from pillion.memory import MemoryPlan, SlidingBuffer
from pillion.memory.events import align_up
from pillion.ops.pool import AvgPool2d, AvgPool2dUp
from pillion.ops.reduce import Mean, ReduceSum

WORTH_ELEMENTS = 4
"""The fewest elements per sum, beyond entering and leaving ones, for which running sums pay."""


@dataclass(frozen=True, eq=False)
class SlidingSums:
    """An op that reduces kept and new rows, with the sums of the kept ones."""

    op: Op
    buffer: SlidingBuffer
    inner: int
    """The number of adjacent elements, each with a sum of its own."""
    entering: int
    """The elements of each sum that enter in each run; as many leave."""
    window: int
    """The elements of each sum."""

    @property
    def initial(self) -> Int32Array:
        """The sums of the kept rows after a reset."""
        rows = self.buffer.state.initial.reshape(-1, self.inner).astype(np.int64)
        return np.asarray(rows.sum(axis=0), np.int32)

    @property
    def initial_without_zero_points(self) -> Int32Array:
        """The sums of the kept rows after a reset, minus the zero points of the complete window."""
        return np.asarray(self.initial - self.window * self.buffer.join.y.zero_point, np.int32)


@dataclass(frozen=True)
class WindowKernel:
    """A kernel with persistent sums; it receives their address as its scratch memory."""

    library: Library
    name: str
    kinds: tuple[type[Op], ...]
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


@dataclass(frozen=True)
class RunningSums:
    """The persistent sums of an op, with the kernel that updates them."""

    sums: SlidingSums
    kernel: WindowKernel

    @property
    def op(self) -> Op:
        """The op that keeps the sums."""
        return self.sums.op

    @property
    def choice(self) -> KernelChoice:
        """The op with this kernel."""
        name, overread_bytes = f"{self.kernel.name}{self.kernel.library.suffix}", self.kernel.overread_bytes
        return KernelChoice(
            self.op, Kernel(name, type(self.op), self._kernel_calls, overread_bytes=overread_bytes), ()
        )

    def _kernel_calls(self, op: Any, arithmetic: Arithmetic) -> tuple[Call, ...]:
        routine, sums = self.kernel.library.routine(f"{self.kernel.name}_s8"), self.sums
        sizes = {"inner": sums.inner, "entering": sums.entering, "window": sums.window}
        params = with_op_fields(routine.params_type, {**sizes, **self.kernel.params(op)}, op, arithmetic)
        return (Call(routine, params, (op.x,), op.y),)

    @cached_property
    def stored(self) -> Int32Array:
        """The sums after a reset, in their memory layout."""
        return self.kernel.stored(self.sums)

    @property
    def is_uniform(self) -> bool:
        """Whether all sums are equal after a reset, so that they are filled in instead of copied from flash."""
        return bool((self.stored == self.stored[0]).all())


def running_sums(graph: Graph, sliding: Iterable[SlidingBuffer], isa: Isa) -> Iterator[RunningSums]:
    """Yields the ops that may keep their sums, each with the first kernel of an instruction set that takes it.
    Other ops sum the complete window."""
    known = [kernel for kernel in WINDOWS if kernel.library.isa in (isa, Isa.PORTABLE)]
    for sums in sliding_sums(graph, sliding):
        kernel = next((k for k in known if k.takes(sums, graph.arithmetic)), None)
        if kernel is not None:
            yield RunningSums(sums, kernel)


def sliding_sums(graph: Graph, sliding: Iterable[SlidingBuffer]) -> Iterator[SlidingSums]:
    """Yields the ops that reduce a window of rows, most of which the previous run saw, too."""
    for buffer in sliding:
        for op in graph.users.get(buffer.join.y, ()):
            axes = _reduced_axes(op)
            block = reduced_block(buffer.join.y.shape, axes) if buffer.join.axis in axes else None
            if block is None or block[0] != 1 or buffer.join.y.dtype is not DType.INT8:
                continue
            _, window, inner = block
            entering = buffer.moved // inner
            if buffer.moved % inner == 0 and window - 2 * entering >= WORTH_ELEMENTS:
                yield SlidingSums(op, buffer, inner, entering, window)


def _reduced_axes(op: Op) -> tuple[int, ...]:
    """Returns the axes over which an op reduces completely."""
    if isinstance(op, Mean | ReduceSum):
        return op.axes
    if isinstance(op, AvgPool2d | AvgPool2dUp) and not any(op.padding):
        axes = tuple(a for a in (1, 2) if op.kernel[a - 1] == op.x.shape[a])
        return axes if all(a in axes or op.kernel[a - 1] == op.stride[a - 1] == 1 for a in (1, 2)) else ()
    return ()


def place_sums_behind_states(sums: Iterable[RunningSums], memory: MemoryPlan) -> MemoryPlan:
    """Returns the memory plan with the sums behind the states."""
    at, offsets = memory.state_bytes, {}
    for op_sums in sums:
        offsets[op_sums.op] = at
        at += align_up(op_sums.stored.nbytes)
    return replace(memory, kept_scratch=offsets, state_bytes=at) if offsets else memory


def rounds_away(op: AvgPool2d | AvgPool2dUp, arithmetic: Arithmetic) -> Verdict:
    """Checks whether an average pool rounds half away from zero."""
    is_up = isinstance(op, AvgPool2dUp) and arithmetic.is_tflite
    return Verdict("rounding", not is_up, "half away from zero", "half up")


def interleave_sums(sums: Int32Array) -> Int32Array:
    """Returns sums in complete vectors, the even ones of each eight first."""
    filled = np.pad(sums, (0, -len(sums) % LANES), mode="edge").reshape(-1, LANES // 4, 2)
    return np.ascontiguousarray(filled.transpose(0, 2, 1).reshape(-1), np.int32)


MOST_ENTERING = 255
"""The largest number of int8 elements whose sum fits 16 bits."""
MOST_PIXELS = 4096
"""The largest window for which the Helium kernel's reciprocal was verified for all sums."""
POOLS = (AvgPool2d, AvgPool2dUp)
POOL = all_of(INT8_XY, rounds_away)
WINDOWS: tuple[WindowKernel, ...] = (
    WindowKernel(
        MVE,
        "window_mean",
        MEANS,
        IN_WORDS,
        stored=lambda sums: interleave_sums(sums.initial_without_zero_points),
        overread_bytes=OVERREAD_BYTES,
    ),
    WindowKernel(
        MVE,
        "window_pool",
        POOLS,
        POOL,
        lambda sums: sums.window <= MOST_PIXELS,
        stored=lambda sums: interleave_sums(sums.initial),
        overread_bytes=OVERREAD_BYTES,
    ),
    WindowKernel(
        DSP,
        "window_mean",
        MEANS,
        IN_DOUBLED_WORDS,
        lambda sums: sums.inner % 4 == 0 and sums.entering <= MOST_ENTERING,
        stored=lambda sums: sums.initial_without_zero_points,
    ),
    WindowKernel(PORTABLE, "window_mean", MEANS, sums_below(2**31), params=mean_offset),
    WindowKernel(PORTABLE, "window_pool", POOLS, POOL),
)
"""The kernels that keep sums, the most specialized first."""
