# SPDX-License-Identifier: Apache-2.0
"""Rows that are kept between runs, and the new ones behind them, have one place: nothing is put together, and only what is kept moves."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from pillion.devices.cortex_m import Isa
from pillion.emitters.c.actions import MoveRows
from pillion.emitters.c.lower import lower
from pillion.emitters.c.model_source import model_c
from pillion.ir.graph import Graph
from pillion.ir.state import State
from pillion.ir.types import DType, PerTensor, TensorType, Value
from pillion.ir.verify import verify_graph
from pillion.memory import sliding_buffers_of
from pillion.ops import Clamp, Concat, MaxPool2d, Reshape, Slice

QUANT = PerTensor(0.05, 3)


def rows(name: str, count: int, width: int = 3, axis: int = 1) -> Value:
    shape = (1, count, width, 5) if axis == 1 else (1, width, count, 5)
    return Value(name, TensorType(shape, DType.INT8, QUANT))


def net(axis: int = 1, width: int = 3, **other: Value) -> Graph:
    """A pool over three rows, of which two are kept."""
    x, new = rows("x", 2, width, axis), rows("new", 2, width, axis)
    before, joined, after, y = (
        rows(n, c, width, axis) for n, c in (("before", 2), ("joined", 4), ("after", 2), ("y", 2))
    )
    begin = tuple(2 if a == axis else 0 for a in range(4))
    ops = (
        Clamp(x=x, y=new, low=-100, high=100),
        Concat(xs=(before, new), y=joined, axis=axis),
        MaxPool2d(x=joined, y=y, kernel=(3, 1) if axis == 1 else (1, 3)),
        Slice(x=joined, y=after, begin=begin, step=(1, 1, 1, 1)),
    )
    outputs = (y, *(v for v in (new, joined, after) if v.name in other))
    states = (State("kept", before, after, np.full(before.shape, -7, np.int8)),)
    return verify_graph(Graph("net", (x,), ops, outputs, states=states))


def test_new_rows_are_made_behind_the_kept_ones() -> None:
    program = lower(net(), Isa.PORTABLE)
    (buffer,) = sliding_buffers_of(program.graph)
    memory, home = program.memory, program.memory.state_offsets
    at = home[buffer.state.before]
    assert home[buffer.join.y] == home[buffer.state.after] == at
    assert home[buffer.new] == at + 2 * 15
    assert memory.state_bytes == 64
    assert memory.arena_bytes == 32  # the input, then the output in its place
    moves = [item for item in program.items if isinstance(item.what, MoveRows)]
    assert [(m.what, m.places[0].start.offset, m.places[1].start.offset) for m in moves] == [
        (MoveRows(30), at, at + 30)
    ]
    assert model_c(program).count("pillion_move_rows(") == 1


@pytest.mark.parametrize("isa", [Isa.PORTABLE, Isa.DSP, Isa.MVE])
@pytest.mark.parametrize("shown", ["new", "joined", "after"])
def test_outputs_keep_their_place(isa: Isa, shown: str) -> None:
    graph = net(**{shown: rows("", 1)})
    program = lower(graph, isa)
    assert shown in {v.name for v in program.memory.offsets}
    moves = [item for item in program.items if isinstance(item.what, MoveRows)]
    assert len(moves) == (2 if shown == "new" else 0), (
        "new rows are copied; without a buffer the kernels copy"
    )


def test_sliding_buffers_need_contiguous_rows() -> None:
    assert not sliding_buffers_of(net(axis=2))
    assert sliding_buffers_of(net(axis=2, width=1))
    graph = net()
    two = dataclasses.replace(graph.ops[3], begin=(0, 1, 0, 0))
    assert not sliding_buffers_of(graph.replace(ops=(*graph.ops[:3], two)))


def test_rows_read_after_their_move_have_no_sliding_buffer() -> None:
    graph = net()
    early = graph.replace(ops=(*graph.ops[:2], graph.ops[3], graph.ops[2]))
    assert not sliding_buffers_of(verify_graph(early))
    flat = Value("flat", TensorType((1, 60), DType.INT8, QUANT))
    held = Value("held", TensorType((1, 60), DType.INT8, QUANT))
    late = (Reshape(x=graph.ops[1].results[0], y=flat), *graph.ops[2:], Clamp(x=flat, y=held, low=-5, high=5))
    assert not sliding_buffers_of(verify_graph(graph.replace(ops=(*graph.ops[:2], *late), outputs=(held,))))


def test_rows_of_two_states_take_the_same_new_rows_once() -> None:
    """What one state has behind it, another one gets copied."""
    graph = net()
    names = {
        v: dataclasses.replace(v, name=f"{v.name}_2")
        for v in graph.values.values()
        if v.name not in ("x", "new")
    }
    second = graph.substitute(names)
    both = graph.replace(
        ops=(*graph.ops[:3], *second.ops[1:3], graph.ops[3], second.ops[3]),
        outputs=(*graph.outputs, *second.outputs),
        states=(graph.states[0], dataclasses.replace(second.states[0], name="kept_2")),
    )
    program = lower(verify_graph(both), Isa.PORTABLE)
    moves = [item.what for item in program.items if isinstance(item.what, MoveRows)]
    assert moves == [MoveRows(30)] * 3
