# SPDX-License-Identifier: Apache-2.0
"""Core and NPU in parallel: orders a program's ops so that the core works while the NPU does, if the memory suffices,
and reports gains and costs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from pillion.compile_options import CompileOptions
from pillion.compiled_program import CompiledProgram
from pillion.emitters.c.kernel_costs import core_cycles
from pillion.errors import PillionError
from pillion.ir.graph import Graph
from pillion.ir.op import Op
from pillion.memory.npu_calls import NpuCalls
from pillion.memory.timeline import Timeline, overlapping_order, timeline
from pillion.ops import Segment
from pillion.ops.scan import op_run_counts

Compiled = TypeVar("Compiled", bound=CompiledProgram)


def with_overlap(program: Compiled, options: CompileOptions) -> Compiled:
    """Returns the program in steps, with the most overlap whose memory fits into `--max-ram`, or into the chip: with ops
    in the best order, in their own order, or none."""
    best = overlapping_order(program.graph, op_cycles(program, program.graph))
    orders = [(best, NpuCalls.OVERLAPPED), (program.graph, NpuCalls.OVERLAPPED)]
    choices = [*(orders[:1] if best is program.graph else orders), (program.graph, NpuCalls.IN_STEPS)]
    errors = []
    for graph, calls in choices:
        ledger = program.ledger.in_order_of(graph.ops)
        choice = replace(program, graph=graph, ledger=ledger, npu_calls=calls)
        try:
            choice = choice.within(options.memory_budget)
        except PillionError as error:
            errors.append(error)
            continue
        most = options.memory.limit or choice.ram_of_chip
        if most is None or calls is NpuCalls.IN_STEPS or choice.sram_bytes <= most:
            return choice
    raise errors[-1]


def op_cycles(program: CompiledProgram, graph: Graph) -> Mapping[Op, float]:
    """Returns the estimated cycles of each op of a graph: a segment's by its converter if it says them."""
    core, npu = core_cycles(program.target.core, program.graph.arithmetic), program.target.npu
    converted = iter(program.payloads.cycles)
    durations: dict[Op, float] = {}
    for op in graph.ops:
        if isinstance(op, Segment) and npu is not None:
            work = next(converted, None)
            durations[op] = npu.dispatch_cycles + (
                sum(map(npu.estimate, op.body.ops)) if work is None else work
            )
        else:
            durations[op] = sum(run.times * core(run.op) for run in op_run_counts([op]))
    return durations


@dataclass(frozen=True)
class Overlap:
    """The gain and the cost of running core and NPU at once."""

    timeline: Timeline
    """The time line in cycles, one of the core as long as one of the NPU."""
    arena_bytes: int
    bytes_without: int
    """The arena if each segment is awaited at once."""

    @property
    def summary(self) -> str:
        """The gain and the cost as one line."""
        total, serial = round(self.timeline.total), round(self.timeline.serial)
        share = 100 * (1 - total / serial) if serial else 0.0
        return (
            f"{total:,} cycles instead of {serial:,} one after the other ({share:.1f} % less, estimated); "
            f"arena {self.arena_bytes:,} bytes instead of {self.bytes_without:,}"
        )

    @property
    def rows(self) -> list[dict[str, Any]]:
        """The time line as plain data: times in cycles."""
        return [
            {"unit": entry.unit, "op": entry.op.name, "begin": round(entry.begin), "end": round(entry.end)}
            | {"critical": entry.is_critical}
            for entry in self.timeline.entries
        ]


def overlap_of(program: CompiledProgram) -> Overlap | None:
    """Returns the overlap of a program; None for one that does not run in steps."""
    if program.npu_calls is NpuCalls.BLOCKING:
        return None
    graph = program.lowered.graph
    at_once = replace(program, npu_calls=NpuCalls.IN_STEPS).within(program.stripes)
    found = timeline(graph, op_cycles(program, graph), program.npu_calls)
    return Overlap(found, program.memory.arena_bytes, at_once.memory.arena_bytes)
