# SPDX-License-Identifier: Apache-2.0
"""A kernel for each op, and a place for each buffer: all of a program that its memory depends on, before constants are packed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from pillion.boards.board import Optimize
from pillion.devices.cortex_m import Isa
from pillion.emitters.c.choose import Choice, choose, choose_together
from pillion.emitters.c.cuts import Cuts, Forms, memory_of
from pillion.emitters.c.joints import without_copies
from pillion.emitters.c.kept_sums import KeptSums, kept_sums, window_kernels, with_places
from pillion.emitters.c.repeats import repeat_memory
from pillion.errors import PillionError
from pillion.ir.graph import Graph, identifier, want_computed_outputs
from pillion.ir.op import Op
from pillion.ir.sizes import LARGEST
from pillion.ir.workspace import Workspace
from pillion.memory import (
    Effort,
    Joint,
    MemoryPlan,
    Needs,
    OpMemory,
    RegionMemory,
    RepeatMemory,
    joints_of,
    plan_memory,
    unsettled,
)
from pillion.ops import Region, Repeat, Segment, leaves
from pillion.ops.states import with_own_ends


@dataclass(frozen=True)
class Arranged:
    """A graph of which it is known which kernels run and where buffers lie."""

    graph: Graph
    isa: Isa
    optimize: Optimize
    regions: Mapping[Op, Cuts]
    joints: tuple[Joint, ...]
    sums: tuple[KeptSums, ...]
    chosen: Mapping[Op, Choice]
    """The kernel of each op, and of each form of ops within regions."""
    needs: Needs
    memory: MemoryPlan
    workspaces: tuple[Workspace, ...] = ()
    """The memory of each segment, where it is part of the arena."""


def arrange(
    graph: Graph,
    isa: Isa = Isa.PORTABLE,
    optimize: Optimize = "speed",
    known: Forms | None = None,
    workspaces: tuple[Workspace, ...] = (),
) -> Arranged:
    """Chooses a kernel for each op, and plans the memory. `known` is what other arrangements of the same ops have found, and takes what this one
    finds; `workspaces` are what the segments work in."""
    want_computed_outputs(graph)
    _want_feed(graph)
    graph = with_own_ends(graph.replace(name=identifier(graph.name)))
    known = Forms() if known is None or optimize == "size" else known
    regions: dict[Op, Cuts] = {op: Cuts(op, known) for op in graph.ops if isinstance(op, Region)}
    joints = tuple(joints_of(graph))
    sums = tuple(kept_sums(graph, joints, window_kernels(isa)))
    chosen = _chosen(graph, regions, isa, optimize, known.choices)
    chosen |= without_copies(joints) | {one.op: one.choice for one in sums}
    left = unsettled(graph, _needs(graph, regions, chosen, workspaces)) if graph.states else ()
    if left:
        graph = with_own_ends(graph, left)
        chosen |= _chosen(graph.replace(ops=graph.ops[-len(left) :]), {}, isa, optimize, {})
    needs = _needs(graph, regions, chosen, workspaces)
    memory = with_places(sums, plan_memory(graph, needs))
    if memory.arena_bytes + memory.state_bytes > LARGEST:
        raise _too_large(graph, memory)
    return Arranged(graph, isa, optimize, regions, joints, sums, chosen, needs, memory, workspaces)


def with_least_memory(found: Arranged) -> Arranged:
    """Gives what was arranged with a plan of the memory that is looked for as long as is worth it for one that is kept."""
    best = plan_memory(found.graph, found.needs, Effort.MOST)
    if best.arena_bytes > found.memory.arena_bytes:
        return found
    return replace(found, memory=with_places(found.sums, best))


def _chosen(
    graph: Graph, regions: Mapping[Op, Cuts], isa: Isa, optimize: Optimize, known: dict[Op, Choice]
) -> dict[Op, Choice]:
    """The kernel of each op, and of each form of ops within regions; what was not known is then."""
    forms = [form for op in graph.ops for form in (regions[op].forms if op in regions else leaves([op]))]
    asked = tuple(form for form in dict.fromkeys(forms) if form not in known)
    known |= {c.op: c for c in choose(graph.replace(ops=asked), isa, optimize)}
    found = {form: known[form] for form in forms}
    for uses in (uses for cuts in regions.values() for uses in cuts.of_ops):
        found |= choose_together(uses.forms, uses.usual, found, graph.arithmetic, isa)
    return found


def _needs(
    graph: Graph,
    regions: Mapping[Op, Cuts],
    chosen: Mapping[Op, Choice],
    workspaces: tuple[Workspace, ...],
) -> Needs:
    segments = (op for op in graph.ops if isinstance(op, Segment))
    work = zip(segments, workspaces, strict=True) if workspaces else ()
    own = {op: OpMemory(one.bytes, workspace=one) for op, one in work}
    return {op: _need(op, regions, chosen) for op in graph.ops} | own


def _need(
    op: Op, regions: Mapping[Op, Cuts], chosen: Mapping[Op, Choice]
) -> OpMemory | RegionMemory | RepeatMemory:
    if op in regions:
        return regions[op].memory(chosen)
    return repeat_memory(op, chosen) if isinstance(op, Repeat) else memory_of(chosen[op])


def _want_feed(graph: Graph) -> None:
    """Raises where rows are handed over that something else than one region reads."""
    fed = [op for op in graph.ops if isinstance(op, Region) and op.fed_value is not None]
    for op in fed:
        value = op.xs[0]
        if len(fed) > 1 or value not in graph.inputs or graph.users[value] != [op] or value in graph.ends:
            rule = "of one input the rows may be handed over, and one region alone reads them"
            raise op.refuse(rule, f"`{value.name}`, region {fed.index(op)} of {len(fed)}")


def _too_large(graph: Graph, memory: MemoryPlan) -> PillionError:
    return PillionError(
        f"`{graph.name}` needs more memory than a microcontroller can address",
        rule=f"arena and states have at most {LARGEST} bytes",
        here=f"{memory.arena_bytes + memory.state_bytes} bytes, the largest scratch {memory.scratch_bytes}",
        help="smaller images or batches",
    )
