# SPDX-License-Identifier: Apache-2.0
"""The time line of core and NPU, the order that shortens it, and what users see of it."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import pytest
from test_overlap import ETHOS, LARGE, Tiles, compiled_pair

import pillion
from pillion.compile_options import Io, Memory, PlacementOptions
from pillion.devices.cycle_range import sum_of_ranges
from pillion.errors import PillionError
from pillion.memory.npu_calls import NpuCalls
from pillion.memory.timeline import Timeline, overlapping_order, timeline
from pillion.ops import Segment
from pillion.overlap import overlap_of
from pillion.program import Program
from pillion.report.collect import collect
from pillion.report.page import render
from pillion.report.report_options import ReportOptions
from pillion.run.time_estimate import estimate_program, timing_conditions


@pytest.fixture(scope="module")
def program() -> Program:
    return compiled_pair("branches", ETHOS)[0]


def line(program: Program, of_npu: float, calls: NpuCalls) -> Timeline:
    """Ops of the core take 1, segments a given time."""
    durations = {op: of_npu if isinstance(op, Segment) else 1.0 for op in program.graph.ops}
    return timeline(program.graph, durations, calls)


def test_the_total_is_that_of_the_longer_queue(program: Program) -> None:
    """Three segments: the core does nothing beside the first, three ops beside the second and the third."""
    ops = len(program.graph.ops)
    for of_npu, wanted in ((0.5, 9 + 0.5), (3.0, 9 + 3.0), (5.0, 9 + 5.0 + 2 * (5.0 - 3.0))):
        overlapped, serial = (
            line(program, of_npu, calls) for calls in (NpuCalls.OVERLAPPED, NpuCalls.IN_STEPS)
        )
        assert (overlapped.total, overlapped.serial) == (wanted, ops - 3 + 3 * of_npu)
        assert serial.total == serial.serial


def test_the_critical_path_has_no_gap(program: Program) -> None:
    for of_npu in (0.5, 3.5, 5.0):
        found = line(program, of_npu, NpuCalls.OVERLAPPED)
        path = found.critical_path
        assert (path[0].begin, path[-1].end) == (0, found.total)
        assert all(a.end == b.begin for a, b in pairwise(path))
        assert {entry.unit for entry in path} == {"cpu", "npu"}


def test_ops_in_a_bad_order_are_put_in_a_better_one(program: Program) -> None:
    """Each op as late as possible: the core waits for every segment at once."""
    graph, last = program.graph, list[object]()
    left = list(graph.ops)
    while left:
        op = next(
            one
            for one in reversed(left)
            if not any(v in other.operands for other in left for v in one.results)
        )
        left.remove(op)
        last.insert(0, op)
    late = graph.replace(ops=tuple(last))
    durations = {op: 1.0 for op in graph.ops}
    before, after = (
        timeline(g, durations, NpuCalls.OVERLAPPED) for g in (late, overlapping_order(late, durations))
    )
    assert after.total <= before.total
    assert after.total == line(program, 1.0, NpuCalls.OVERLAPPED).total


def test_the_memory_decides_how_much_overlaps() -> None:
    """Just enough memory; too little for overlap, not for steps; too little for anything."""
    most = compiled_pair("branches", ETHOS)[0].sram_bytes
    least = compiled_pair("branches", ETHOS)[1].sram_bytes
    assert least < most
    for limit, calls in ((most, NpuCalls.OVERLAPPED), (least, NpuCalls.IN_STEPS)):
        found, blocking = compiled_pair("branches", ETHOS, max_ram=limit)
        assert found.npu_calls is calls
        assert found.sram_bytes <= limit
        header = "model/kernels/include/pillion/task.h"
        assert header in found.files
        assert header not in blocking.files
    with pytest.raises(PillionError, match="does not fit into 1,000 bytes"):
        compiled_pair("branches", ETHOS, max_ram=1000)


def test_segments_are_numbered_as_they_start(program: Program) -> None:
    numbers = [entry.segment for entry in program.ledger if entry.segment is not None]
    assert list(dict.fromkeys(numbers)) == [0, 1, 2]
    names = [
        {op.name for op in segment.body.ops} for segment in program.graph.ops if isinstance(segment, Segment)
    ]
    assert names == [{e.op.name for e in entries} for entries in program.ledger.segments.values()]


def test_explain_reports_gain_and_cost_of_overlap(program: Program) -> None:
    found = overlap_of(program)
    assert found is not None
    assert found.timeline.total < found.timeline.serial
    assert found.arena_bytes > found.bytes_without
    assert f"core and NPU at once: {found.summary}" in program.explain()
    assert overlap_of(compiled_pair("branches", ETHOS)[1]) is None


def test_the_report_shows_the_time_line(program: Program) -> None:
    facts = collect(program, ReportOptions(measure=False))
    assert facts.overlap is not None
    assert [row.unit for row in facts.overlap.timeline].count("npu") == 3
    page = render(facts)
    assert facts.overlap.summary in page
    assert "core and NPU over" in page
    assert json.loads(json.dumps(facts.as_data()))["overlap"]["timeline"][0]["unit"] == "npu"


def test_the_time_of_a_run_is_that_of_the_longer_queue(program: Program) -> None:
    conditions = timing_conditions("160MHz", "1MHz")
    slow_npu, plain = (
        estimate_program(one, conditions) for one in (program, compiled_pair("branches", ETHOS)[1])
    )
    assert slow_npu.milliseconds.high < sum_of_ranges(op.milliseconds for op in slow_npu.ops).high
    assert plain.milliseconds.high > slow_npu.milliseconds.high
    assert plain.timelines == ()


@pytest.mark.parametrize(
    ("target", "memory", "message"),
    [
        ("cortex-m55", Memory(), "has no NPU"),
        (ETHOS, Memory(rows_in=True), "two ways to run in parts"),
    ],
)
def test_overlap_is_refused_without_npu_or_with_memory_options(
    target: str, memory: Memory, message: str
) -> None:
    with pytest.raises(PillionError, match=message):
        pillion.compile(
            Tiles().eval(),
            (LARGE,),
            target=target,
            placement=PlacementOptions(overlap=True),
            memory=memory,
            io=Io(dtype="int8", layout="nhwc"),
        )


@pytest.mark.parametrize("form", [".pte", ".tflite"])
def test_other_runtimes_wait_for_the_npu(program: Program, form: str, tmp_path: Path) -> None:
    with pytest.raises(PillionError, match=f"a {form} cannot run core and NPU at once"):
        program.save(tmp_path / f"net{form}")
