# SPDX-License-Identifier: Apache-2.0
"""States lie apart from the arena, and are made in their own places where that is right."""

from __future__ import annotations

import pytest

from pillion.memory import plan_memory, states_to_copy
from pillion.memory.op_memory import OpMemory
from pillion.ops.state_io import copy_new_states
from stateful_graphs import KINDS_OF_ENDS, QUEUE, graph_of, program_of


def test_a_queue_is_moved_in_its_place() -> None:
    program = program_of(QUEUE)
    assert [s.choice.op.kind for s in program.lowered.steps] == ["concat", "slice", "lut"]
    assert program.memory.state_bytes == 32
    held = {v.name: at for v, at in program.memory.state_offsets.items()}
    assert held == {"rows": 0, "later": 0}
    assert not {v.name for v in program.memory.offsets} & {"rows", "later"}


def test_values_with_a_place_are_copied() -> None:
    graph = copy_new_states(graph_of(KINDS_OF_ENDS))
    copied = {state.name for state in graph.states if state.after.name.endswith("_kept")}
    assert copied == {"left", "right", "last", "shown", "once"}


def test_states_read_after_their_update_are_copied_at_the_end() -> None:
    """`total` is read after `sum` was made; `folded` is made over itself, through other shapes of it."""
    program = program_of(KINDS_OF_ENDS)
    copied = {
        s.choice.op.name for s in program.lowered.steps if s.choice.op.name.endswith(("_kept", "_kept_2"))
    }
    assert "total_kept" in copied
    assert not copied & {"folded_kept", "same_kept", "never_read_kept", "real_kept"}


@pytest.mark.parametrize("in_place", [True, False])
def test_an_op_makes_a_state_over_what_it_reads_of_it_only_if_its_kernel_can(in_place: bool) -> None:
    graph = graph_of("""graph g arithmetic=cmsis-nn
input x: int8[4] @(0.1, 3)
state h reads h: int8[4] @(0.1, 3) = all 0
sum: int8[4] @(0.1, 3) = add(a=h, b=x) low=-128 high=127
y: int8[4] @(0.1, 3) = clamp(x=sum) low=0 high=9
output y
state h becomes sum
""")
    needs = {op: OpMemory(in_place=(op.operands[0],) if in_place else ()) for op in graph.ops}
    assert [s.name for s in states_to_copy(graph, needs)] == ([] if in_place else ["h"])


def test_kernels_may_read_behind_the_last_state() -> None:
    graph = graph_of(QUEUE)
    plan = plan_memory(graph, {op: OpMemory(overread_bytes=40) for op in graph.ops})
    assert plan.state_bytes == 32 + 48
