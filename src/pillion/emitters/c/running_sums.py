# SPDX-License-Identifier: Apache-2.0
"""Running sums that persist between inferences: the ops that keep them, their kernels, and their layout."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property

from pillion.devices.cortex_m import Isa
from pillion.emitters.c.accumulators import Int32Array
from pillion.emitters.c.dsp import sliding_sums as dsp
from pillion.emitters.c.kernel import Call, Kernel
from pillion.emitters.c.kernel_choice import KernelChoice
from pillion.emitters.c.mve import sliding_sums as mve
from pillion.emitters.c.portable import sliding_sums as portable
from pillion.emitters.c.sliding_sums import SlidingSums, WindowKernel, sliding_sums
from pillion.ir.graph import Graph
from pillion.ir.numerics import Arithmetic
from pillion.ir.op import Op
from pillion.memory import MemoryPlan, SlidingBuffer
from pillion.memory.events import aligned


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
        kernel = Kernel(
            self.kernel.name, type(self.op), self._calls, overread_bytes=self.kernel.overread_bytes
        )
        return KernelChoice(self.op, kernel, ())

    def _calls(self, op: Op, arithmetic: Arithmetic) -> tuple[Call, ...]:
        return (self.kernel.call(self.sums, arithmetic),)

    @cached_property
    def stored(self) -> Int32Array:
        """The sums after a reset, in their memory layout."""
        return self.kernel.stored(self.sums)

    @property
    def is_uniform(self) -> bool:
        """Whether all sums are equal after a reset, so that they are filled in instead of copied from flash."""
        return bool((self.stored == self.stored[0]).all())


def running_sums(
    graph: Graph, joints: Iterable[SlidingBuffer], kernels: Iterable[WindowKernel]
) -> Iterator[RunningSums]:
    """Yields the ops that may keep their sums, each with the first kernel that takes it. Other ops sum the
    complete window."""
    known = tuple(kernels)
    for sums in sliding_sums(graph, joints):
        kernel = next((k for k in known if k.takes(sums, graph.arithmetic)), None)
        if kernel is not None:
            yield RunningSums(sums, kernel)


def window_kernels(isa: Isa) -> tuple[WindowKernel, ...]:
    """Returns the kernels of an instruction set that keep sums, the most specialized first."""
    own = {Isa.MVE: mve.WINDOWS, Isa.DSP: dsp.WINDOWS}
    return (*own.get(isa, ()), *portable.WINDOWS)


def place_sums_behind_states(sums: Iterable[RunningSums], memory: MemoryPlan) -> MemoryPlan:
    """Returns the memory plan with the sums behind the states."""
    at, offsets = memory.state_bytes, {}
    for op_sums in sums:
        offsets[op_sums.op] = at
        at += aligned(op_sums.stored.nbytes)
    return replace(memory, kept_scratch=offsets, state_bytes=at) if offsets else memory
