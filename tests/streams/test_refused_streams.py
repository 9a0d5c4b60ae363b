# SPDX-License-Identifier: Apache-2.0
"""What cannot be streamed is refused with the op, the rule and a way out; ways out work."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from pillion.compile_options import Stream
from pillion.errors import PillionError
from pillion.ir.graph import Graph
from pillion.ir.stream_io import StreamOutputMeaning
from pillion.ir.types import DType, PerTensor, TensorType, Value, constant_value
from pillion.ir.verify import verify_graph
from pillion.ops import (
    Add,
    AvgPool2d,
    BatchMatmul,
    Clamp,
    Concat,
    Conv2d,
    Flip,
    Gather,
    Mean,
    Mul,
    ReduceMax,
    Reshape,
    ResizeBilinear,
    Softmax,
    Transpose,
    TransposeConv2d,
)
from pillion.streams.to_stream import to_stream_graph
from streams.time_nets import Layer, TimeNet

QUANT = PerTensor(0.05, 3)


def value(name: str, *shape: int) -> Value:
    return Value(name, TensorType(shape, DType.INT8, QUANT))


X = value("x", 1, 12, 3, 4)
_, WEIGHTS, BIAS = (
    TimeNet((Layer("conv", 3, channels=4),), 3, 4, 1, False, "rows", 3).graph(12).ops[0].operands
)


def made(
    cls: Any, name: str = "y", quant: PerTensor = QUANT, shape: tuple[int, ...] = (), **fields: Any
) -> Any:
    draft = cls(y=Value(name, TensorType(shape, DType.INT8, quant)), **fields)
    return cls(y=Value(name, TensorType(draft.infer().shape, DType.INT8, quant)), **fields)


def graph_of(*ops: Any, inputs: tuple[Value, ...] = (X,)) -> Graph:
    return verify_graph(Graph("net", inputs, ops, ops[-1].results))


def conv(padding: tuple[int, int, int, int], x: Value = X, name: str = "y", **more: Any) -> Any:
    return made(Conv2d, name, x=x, weights=WEIGHTS, bias=BIAS, padding=padding, **more)


def gated() -> Graph:
    mean = made(Mean, "mean", x=X, axes=(1, 2), keepdims=True)
    return graph_of(mean, made(Mul, a=X, b=mean.y))


def self_attention() -> Graph:
    flat = made(Reshape, "flat", shape=(1, 12, 12), x=X)
    keys = made(Clamp, "keys", x=flat.y)
    return graph_of(flat, keys, made(BatchMatmul, "scores", a=flat.y, b=keys.y, adj_y=True))


def weighted_rows() -> Graph:
    flat = made(Reshape, "flat", shape=(1, 12, 12), x=X)
    return graph_of(flat, made(BatchMatmul, "mixed", a=flat.y, b=flat.y, adj_x=True))


def softmax_over_time() -> Graph:
    turned = made(Transpose, "turned", x=X, order=(0, 3, 2, 1))
    return graph_of(turned, made(Softmax, "shares", PerTensor(1 / 256, -128), x=turned.y))


def two_paces() -> Graph:
    slow = made(AvgPool2d, "slow", x=X, kernel=(2, 1), stride=(2, 1))
    fast = made(AvgPool2d, "fast", x=X, kernel=(7, 1))
    return graph_of(slow, fast, made(Add, a=slow.y, b=fast.y))


ROWS = constant_value("positions", np.arange(12, dtype=np.int8).reshape(1, 12, 1, 1), QUANT)
PLACES = constant_value("places", np.arange(24, dtype=np.int32).reshape(1, 12, 2) % 3)
CONTEXT = value("context", 1, 1, 1, 4)
REFUSED: dict[str, tuple[Callable[[], Graph], str, str]] = {
    "same": (lambda: graph_of(conv((1, 0, 1, 0))), "1 rows in front, 1 behind", "padding in front only"),
    "behind": (lambda: graph_of(conv((0, 0, 2, 0))), "0 rows in front, 2 behind", "causal"),
    "averages of padding": (
        lambda: graph_of(made(AvgPool2d, x=X, kernel=(2, 1), padding=(1, 0, 0, 0))),
        "not counted",
        "count_include_pad=True",
    ),
    "squeeze and excite": (gated, "made of the whole window", "over channels only"),
    "another input": (
        lambda: graph_of(made(Mul, a=X, b=CONTEXT), inputs=(X, CONTEXT)),
        "an input that is not streamed",
        "--stream for that input too",
    ),
    "positions": (lambda: graph_of(made(Add, a=X, b=ROWS)), "[1, 12, 1, 1]", "position embeddings"),
    "attention": (self_attention, "meets all frames of the other", "look back only"),
    "a product over time": (weighted_rows, "a sum over them all", "mean or maximum"),
    "softmax over time": (softmax_over_time, "a share of them all", "mean or maximum"),
    "both directions": (lambda: graph_of(made(Flip, x=X, axes=(1,))), "reverses them", "--stream out"),
    "longer": (lambda: graph_of(made(Concat, xs=(X, X), axis=1)), "under one another", "--stream out"),
    "transposed": (
        lambda: graph_of(made(TransposeConv2d, x=X, weights=WEIGHTS, bias=BIAS, stride=(2, 1))),
        "spread over several rows",
        "look back only",
    ),
    "stretched": (lambda: graph_of(made(ResizeBilinear, x=X, size=(24, 3))), "stretches", "--stream out"),
    "places for each row": (
        lambda: graph_of(made(Gather, x=X, indices=PLACES, axis=2, batch=2)),
        "constant `places` [1, 12, 2] has other numbers for each row",
        "the same numbers for all frames",
    ),
    "two paces": (two_paces, "1 and 2 rows are new", "the same strides in time"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_ops_over_the_whole_window_are_refused(case: str) -> None:
    build, here, help = REFUSED[case]
    graph = build()
    with pytest.raises(PillionError) as refusal:
        to_stream_graph(graph, Stream((("x", 1),), 2))
    assert f"{graph.ops[-1].kind} `{graph.ops[-1].name}` cannot be streamed" == refusal.value.what
    assert here in refusal.value.here
    assert help in refusal.value.help


def test_ops_on_each_row_are_not_refused() -> None:
    """Along another axis, or behind the end of time, all of it may stand."""
    beside = constant_value("gain", np.array([[[[5]], [[7]]]], np.int8).reshape(1, 1, 2, 1)[:, :, :1], QUANT)
    for graph in (
        graph_of(made(Flip, x=X, axes=(2,))),
        graph_of(made(Mul, a=X, b=beside)),
        graph_of(
            top := made(ReduceMax, "top", x=X, axes=(1,), keepdims=True),
            made(Mul, a=top.y, b=CONTEXT),
            inputs=(X, CONTEXT),
        ),
        graph_of(conv((0, 1, 0, 1))),
    ):
        hop = to_stream_graph(graph, Stream((("x", 1),), 2))
        assert hop.inputs[0].shape[1] == 2


def test_padding_in_front_of_rows_that_begin_later() -> None:
    """Refused where an answer sees it; if none does, the window is what counts."""
    first = conv((0, 0, 0, 0), name="first")
    second = conv((2, 0, 0, 0), x=first.y)
    streaming = to_stream_graph(graph_of(first, second), Stream((("x", 1),), 1)).streaming
    assert streaming is not None
    assert streaming.meaning is StreamOutputMeaning.WINDOW
    top = made(ReduceMax, "top", x=second.y, axes=(1,))
    with pytest.raises(PillionError, match="before the first frame of the signal"):
        to_stream_graph(graph_of(first, second, top), Stream((("x", 1),), 1))


def test_streams_refuse_averages_of_padding_even_if_unread() -> None:
    """The rule is about the op, not about who reads it."""
    pool = made(AvgPool2d, "pool", x=X, kernel=(2, 1), padding=(1, 0, 0, 0))
    with pytest.raises(PillionError, match="as many rows everywhere"):
        to_stream_graph(graph_of(pool, made(ReduceMax, x=pool.y, axes=(1,))), Stream((("x", 1),), 1))


@pytest.mark.parametrize(
    ("wish", "says"),
    [
        (Stream((("y", 1),)), "has no input `y`"),
        (Stream((("x", 4),)), "has no axis 4"),
        (Stream((("x", 1),), 12), "12 new frames are the whole window"),
        (Stream((("x", 0),)), "1 new frames are the whole window"),
    ],
)
def test_wishes_that_the_graph_does_not_fit(wish: Stream, says: str) -> None:
    with pytest.raises(PillionError) as refusal:
        to_stream_graph(graph_of(conv((0, 0, 0, 0))), wish)
    assert says in refusal.value.what
    assert refusal.value.help


def test_inputs_of_different_pace() -> None:
    """Twice as many frames of one as of the other; a call takes whole frames of both."""
    other = value("z", 1, 24, 3, 4)
    slow = made(AvgPool2d, "slow", x=other, kernel=(2, 1), stride=(2, 1))
    graph = graph_of(slow, made(Add, a=X, b=slow.y), inputs=(X, other))
    hop = to_stream_graph(graph, Stream((("x", 1), ("z", 1)), 1))
    assert [v.shape[1] for v in hop.inputs] == [1, 2]
    with pytest.raises(PillionError, match="no whole number of frames of `x`") as refusal:
        to_stream_graph(graph, Stream((("z", 1), ("x", 1)), 1))
    assert refusal.value.help == "--hop 2"
    to_stream_graph(graph, Stream((("z", 1), ("x", 1)), 2))


def test_the_hop_becomes_a_multiple_of_the_strides() -> None:
    net = TimeNet(tuple(Layer("conv", 3, s, channels=4) for s in (2, 3)), 1, 3, 1, False, "rows", 3)
    for hop, taken in ((1, 6), (2, 6), (4, 12), (6, 6)):
        streaming = to_stream_graph(net.graph(60), Stream((("x", 1),), hop)).streaming
        assert streaming is not None
        assert streaming.inputs[0].frames == taken
        assert streaming.calls == taken // hop
    with pytest.raises(PillionError, match="a multiple of 5 and of all strides in time"):
        to_stream_graph(net.graph(30), Stream((("x", 1),), 5))


@pytest.mark.parametrize("given", ["x", "x:", ":2", "x:-1", "x:1:two", "x:100"])
def test_words_that_name_no_axis(given: str) -> None:
    with pytest.raises(PillionError, match="names no axis"):
        Stream([given])


def test_words_of_a_wish() -> None:
    assert Stream().inputs == ()
    assert (Stream("a:b:2", 3).inputs, Stream("a:b:2", 3).frames) == ((("a:b", 2),), 3)
    assert Stream({"x": 1, "y": 2}).inputs == (("x", 1), ("y", 2))
    assert Stream("x:1").frames == 1
    for wrong in (0, -1, 2**21, True, 1.5):
        with pytest.raises(PillionError, match=r"no number of frames|of the type int"):
            Stream("x:1", wrong)  # type: ignore[arg-type]
    with pytest.raises(PillionError, match="streamed twice"):
        Stream(["x:1", "x:2"], 1)
    with pytest.raises(PillionError, match="frames of no stream"):
        Stream([], 4)
