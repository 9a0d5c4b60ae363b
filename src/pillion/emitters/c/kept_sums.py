# SPDX-License-Identifier: Apache-2.0
"""Sums that live between runs: which ops keep theirs, with which kernel, and where they lie."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property

from pillion.devices.cortex_m import Isa
from pillion.emitters.c.accumulators import Int32Array
from pillion.emitters.c.choose import Choice
from pillion.emitters.c.dsp import window_sums as dsp
from pillion.emitters.c.kernel import Call, Kernel
from pillion.emitters.c.mve import window_sums as mve
from pillion.emitters.c.portable import window_sums as portable
from pillion.emitters.c.window_sums import WindowKernel, WindowSums, window_sums
from pillion.ir.graph import Graph
from pillion.ir.numerics import Arithmetic
from pillion.ir.op import Op
from pillion.ir.verdict import all_ok
from pillion.memory import Joint, MemoryPlan
from pillion.memory.events import aligned


@dataclass(frozen=True)
class KeptSums:
    """Sums that live between runs, with the kernel that keeps them."""

    sums: WindowSums
    kernel: WindowKernel

    @property
    def op(self) -> Op:
        """The op whose sums they are."""
        return self.sums.op

    @property
    def choice(self) -> Choice:
        """The op with its kernel."""
        made = Kernel(self.kernel.name, type(self.op), self._calls, overread_bytes=self.kernel.overread_bytes)
        return Choice(self.op, made, ())

    def _calls(self, op: Op, arithmetic: Arithmetic) -> tuple[Call, ...]:
        return (self.kernel.call(self.sums, arithmetic),)

    @cached_property
    def stored(self) -> Int32Array:
        """The sums after a reset, as they lie in memory."""
        return self.kernel.stored(self.sums)

    @property
    def is_even(self) -> bool:
        """Whether all sums are the same after a reset: they are filled in, not copied from flash."""
        return bool((self.stored == self.stored[0]).all())


def kept_sums(graph: Graph, joints: Iterable[Joint], kernels: Iterable[WindowKernel]) -> Iterator[KeptSums]:
    """Gives each op that may keep its sums the first kernel that takes it. What none takes sums up the whole window."""
    known = tuple(kernels)
    for sums in window_sums(graph, joints):
        taking = (k for k in known if all_ok(k.takes(sums, graph.arithmetic)))
        kernel = next(taking, None)
        if kernel is not None:
            yield KeptSums(sums, kernel)


def window_kernels(isa: Isa) -> tuple[WindowKernel, ...]:
    """Lists the kernels of an instruction set that keep sums, the most special ones first."""
    own = {Isa.MVE: mve.WINDOWS, Isa.DSP: dsp.WINDOWS}
    return (*own.get(isa, ()), *portable.WINDOWS)


def with_places(sums: Iterable[KeptSums], memory: MemoryPlan) -> MemoryPlan:
    """Lays sums behind the states."""
    at, places = memory.state_bytes, {}
    for one in sums:
        places[one.op] = at
        at += aligned(one.stored.nbytes)
    return replace(memory, kept_scratch=places, state_bytes=at) if places else memory
