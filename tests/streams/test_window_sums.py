# SPDX-License-Identifier: Apache-2.0
"""Means over the window of a stream: their sums are kept from run to run, and the bytes are those of the whole window."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from nightly import part_of
from pillion.compile_options import Stream
from pillion.emitters.c.lower import lower
from pillion.ir.graph import Graph
from pillion.ir.numerics import Arithmetic
from pillion.ir.stream_io import Streaming, StreamOutputMeaning
from pillion.ir.types import DType, PerChannel, PerTensor, TensorType, Value, constant_value
from pillion.ir.verify import verify_graph
from pillion.ops import AvgPool2d, Clamp, Conv2d, Mean, Pad, ReduceMax, ReduceSum
from pillion.program import Program
from pillion.streams.to_stream import to_stream_graph
from pillion.targets import find_target
from streams.stream_checks import in_reference, require_windows, signals, steps

BOARDS = {"cortex-m33": "mps2-an505", "cortex-m55": "mps3-an547"}
ENDS = ("mean", "keep", "sum", "pool", "columns", "rows")


def net(
    end: str,
    frames: int = 20,
    width: int = 3,
    channels: int = 17,
    zero_point: int = -128,
    causal: bool = False,
    batch: int = 1,
    arithmetic: Arithmetic = Arithmetic.CMSIS_NN,
) -> Graph:
    """A convolution over three frames, and what an end makes of its rows."""
    rng = np.random.default_rng(frames + width + channels)
    x = Value("x", TensorType((batch, frames, width, 2), DType.INT8, PerTensor(0.05, zero_point)))
    held = rng.integers(-127, 128, (channels, 3, 1, 2)).astype(np.int8)
    weights = constant_value("w", held, PerChannel(tuple([0.01] * channels), 0))
    quant = PerChannel(tuple([0.01 * 0.05] * channels), 0)
    bias = constant_value("b", rng.integers(-900, 900, channels).astype(np.int32), quant)
    ops: list[Any] = []
    image = x
    if causal:  # more padding than the convolution sees: its first rows are made of nothing else
        image = Value("padded", TensorType((batch, frames + 5, width, 2), x.dtype, x.type.quant))
        sides = {"before": (0, 5, 0, 0), "after": (0, 0, 0, 0)}
        ops.append(Pad(x=x, y=image, value=zero_point, **sides))
    made = image.shape[1] - 2
    shape = (batch, made, width, channels)
    y = Value("y", TensorType(shape, DType.INT8, PerTensor(0.06, -zero_point // 2)))
    ops.append(Conv2d(x=image, weights=weights, bias=bias, y=y))
    ops.append(_end(end, y, made))
    return verify_graph(Graph("net", (x,), tuple(ops), (ops[-1].y,), arithmetic=arithmetic))


def _end(end: str, y: Value, rows: int) -> Any:
    batch, _, width, channels = y.shape
    coarse, same = PerTensor(0.021, 7), y.type.quant

    def result(shape: tuple[int, ...], quant: Any) -> Value:
        return Value("z", TensorType(shape, DType.INT8, quant))

    if end == "mean":
        return Mean(x=y, y=result((batch, channels), coarse), axes=(1, 2))
    if end == "keep":
        return Mean(x=y, y=result((batch, 1, width, channels), coarse), axes=(1,), keepdims=True)
    if end == "sum":
        return ReduceSum(x=y, y=result((batch, channels), PerTensor(1.7, -20)), axes=(1, 2))
    if end == "max":
        return ReduceMax(x=y, y=result((batch, channels), same), axes=(1, 2))
    kernel = (rows, width) if end == "pool" else (rows, 1)
    wide = 1 if end == "pool" else width
    if end == "rows":  # a window of many rows, of which there are several in time
        kernel = (rows - 3, 1)
    shape = (batch, rows - kernel[0] + 1, wide, channels)
    return AvgPool2d(x=y, y=result(shape, same), kernel=kernel, low=-100, high=110)


def hop_of(graph: Graph, hop: int) -> tuple[Graph, Streaming]:
    made = to_stream_graph(graph, Stream((("x", 1),), hop))
    assert made.streaming is not None
    return made, made.streaming


def require_equal(graph: Graph, hop: int, on: str, target: str, runs: int) -> int:
    """All executors answer what the window would, anew behind a reset; how many windows were compared."""
    made, streaming = hop_of(graph, hop)
    held = signals(graph, streaming, runs, hop)
    given = list(steps(graph, streaming, held, runs))
    answers = in_reference(made, iter(given))
    compared = (
        0
        if streaming.meaning is StreamOutputMeaning.SIGNAL
        else require_windows(graph, streaming, answers, held)
    )
    program = Program(made.replace(streaming=None), find_target(target))
    with program.stream(on) as stream:
        assert same(stream.run(given), answers)
        stream.reset()
        assert same(stream.run(given[:5]), answers[:5])
    return compared


def same(one: Any, other: Any) -> bool:
    return len(one) == len(other) and all(
        np.array_equal(a, b) for x, y in zip(one, other, strict=True) for a, b in zip(x, y, strict=True)
    )


@pytest.mark.turns(2)
@pytest.mark.parametrize(("end", "zero_point"), list(zip(ENDS, (-128, 127, 127, -128, 5, 127), strict=True)))
def test_long_streams(end: str, zero_point: int) -> None:
    """Every sum has been taken apart and put together many times over."""
    graph = net(end, zero_point=zero_point)
    assert len(lower(hop_of(graph, 1)[0]).sums) == 1
    assert require_equal(graph, 1, "host", "cortex-m33", 120) > 90


@pytest.mark.parametrize("end", ["mean", "pool"])
def test_initial_sums_contain_the_padding(end: str) -> None:
    """Rows that are made of padding alone: each channel has another one."""
    graph = net(end, causal=True, zero_point=90)
    program = lower(hop_of(graph, 2)[0])
    assert len(program.sums) == len(program.initial_sums) == 1
    require_equal(graph, 2, "host", "cortex-m33", 40)


@pytest.mark.parametrize("arithmetic", list(Arithmetic))
def test_all_arithmetics(arithmetic: Arithmetic) -> None:
    for end in ("mean", "sum"):
        require_equal(net(end, channels=3, arithmetic=arithmetic), 1, "host", "cortex-m33", 30)


def test_the_state_holds_the_sums() -> None:
    """Four bytes for each, in whole vectors on Helium; they are not in the arena."""
    hop, _ = hop_of(net("mean"), 1)
    for target, sums in (("cortex-m33", 80), ("cortex-m55", 128)):
        program = Program(hop, find_target(target)).unstriped
        (op,) = [step.choice.op for step in program.steps if isinstance(step.choice.op, Mean)]
        assert program.memory.kept_scratch == {op: program.memory.kept_scratch[op]}
        assert op not in program.memory.scratch_offsets
        kept = max(at + v.type.size_bytes for v, at in program.memory.state_offsets.items())
        assert kept <= program.memory.kept_scratch[op] <= program.memory.state_bytes - sums


def test_short_windows_and_maxima_keep_no_sums() -> None:
    """What is short, what is no sum, and windows of several images, which do not lie in a row."""
    for graph, hop in (
        (net("max"), 1),
        (net("mean", frames=11), 4),  # nine rows, of which four enter and four leave
        (net("mean", batch=2), 1),
    ):
        made, _ = hop_of(graph, hop)
        assert lower(made).sums == ()


def test_other_readers_of_the_window_keep_it() -> None:
    """A mean and a maximum of the same rows; only the sums of the one are kept."""
    graph = net("mean")
    y = graph.ops[0].results[0]
    other = _end("max", y, y.shape[1])
    again = Value("again", other.y.type)
    graph = graph.replace(
        ops=(*graph.ops, other.substitute({other.y: again}), _clamped(again)),
        outputs=(*graph.outputs, Value("last", again.type)),
    )
    clamp = graph.ops[-1]
    graph = verify_graph(graph.replace(outputs=(graph.outputs[0], clamp.results[0])))
    assert len(lower(hop_of(graph, 1)[0]).sums) == 1
    assert require_equal(graph, 1, "host", "cortex-m33", 60) > 30


def _clamped(x: Value) -> Clamp:
    return Clamp(x=x, y=Value("clamped", x.type), low=-100, high=100)


@pytest.mark.turns(4)
@pytest.mark.qemu
@pytest.mark.parametrize("target", part_of(BOARDS, 2))
def test_on_boards(target: str) -> None:
    """Channels around whole vectors; 260 elements that enter, more than 16 bits hold the sum of; a causal beginning."""
    cases = (
        (net("mean", channels=33), 1),
        (net("keep", channels=8, width=1, zero_point=127), 2),
        (net("sum", channels=7, causal=True, zero_point=100), 1),
        (net("pool", channels=16), 1),
        (net("columns", channels=9, zero_point=127), 1),
        (net("mean", frames=8, width=260, channels=9), 1),
    )
    for graph, hop in cases:
        require_equal(graph, hop, BOARDS[target], target, 24)
