# SPDX-License-Identifier: Apache-2.0
"""Streams on chips with an NPU: the window's bytes, or a refusal where an op would move to a unit that rounds otherwise."""

from __future__ import annotations

import pytest

from pillion.compile_options import PlacementOptions, Stream
from pillion.compiler import place_ops
from pillion.errors import PillionError
from pillion.ir.verify import verify_graph
from pillion.partition.placement_checks import require_same_units
from pillion.program import Program
from pillion.report.collect import collect
from pillion.report.page import write_page
from pillion.report.report_options import ReportOptions
from pillion.streams.to_stream import to_stream_graph
from pillion.targets import find_target
from streams.stream_checks import require_windows, signals, steps
from streams.time_nets import Layer, TimeNet

CHIP = find_target("imxrt700")
NET = TimeNet(tuple(Layer("conv", 3, channels=16, seed=s) for s in (1, 2)), 5, 8, 1, False, "mean", 3)
WISH = Stream((("x", 1),), 2)


def test_npu_segments_of_a_stream_equal_the_window() -> None:
    graph = verify_graph(NET.graph(24))
    hop = to_stream_graph(graph, WISH)
    assert hop.streaming is not None
    whole, placed = (place_ops(CHIP, g, PlacementOptions(), None) for g in (graph, hop))
    require_same_units("net", whole, placed)
    assert any(entry.segment is not None for entry in placed.ledger)
    held = signals(graph, hop.streaming, 20)
    with Program(placed.graph, CHIP, placed.ledger).stream("host") as stream:
        answers = stream.run(list(steps(graph, hop.streaming, held, 20)))
    assert require_windows(whole.graph, hop.streaming, answers, held) == 18


def test_ops_that_would_move_are_named() -> None:
    graph = verify_graph(NET.graph(24))
    whole = place_ops(CHIP, graph, PlacementOptions(("v1",)), None)
    hop = place_ops(CHIP, to_stream_graph(graph, WISH), PlacementOptions(), None)
    with pytest.raises(PillionError, match="would round otherwise") as refusal:
        require_same_units("net", whole, hop)
    assert "conv2d `v1`" in refusal.value.here
    options = PlacementOptions(tuple(refusal.value.help.replace("--keep-on-cpu ", "").split()))
    require_same_units("net", place_ops(CHIP, graph, options, None), place_ops(CHIP, hop_of(), options, None))


def hop_of():  # type: ignore[no-untyped-def]
    return to_stream_graph(verify_graph(NET.graph(24)), WISH)


def test_stream_reports_list_the_states(tmp_path) -> None:  # type: ignore[no-untyped-def]
    program = Program(to_stream_graph(verify_graph(NET.graph(24)), WISH), find_target("cortex-m33"))
    facts = collect(program, ReportOptions(measure=False))
    write_page(facts, tmp_path / "net.html")
    text = (tmp_path / "net.html").read_text("utf-8")
    assert len(facts.states) == 3
    assert all(f"state {state.name}" in text for state in facts.states)
