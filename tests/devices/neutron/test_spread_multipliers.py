# SPDX-License-Identifier: Apache-2.0
"""Depthwise convolutions with several filters for each channel, in words of NPUs that have one: the same bytes."""

from __future__ import annotations

import numpy as np
import pytest

import pillion
from pillion.devices.neutron import N1_16, N3_64
from pillion.emitters.tflite import emit
from pillion.ir.graph import Graph
from pillion.ir.numerics import Arithmetic
from pillion.ir.op import Op
from pillion.ir.types import PerChannel, PerTensor, constant_value
from pillion.ir.verdict import all_ok
from pillion.ir.verify import verify_graph
from pillion.ops import Clamp, DepthwiseConv2d, Linear, Reshape, ResizeNearest, Softmax
from pillion.ops.example_values import conv_bias, conv_weights, make_op, random_like, value
from pillion.passes import legalize_nearest, per_channel_requantize
from pillion.passes.per_channel_requantize import FEW_CHANNELS


def multiplied(channels: int, multiplier: int, *, per_channel: bool = True, **more: object) -> Op:
    """On a non-square image of a batch of two, with a zero point at the end."""
    rng = np.random.default_rng([channels, multiplier])
    out = channels * multiplier
    data = rng.integers(-127, 128, (1, 3, 2, out)).astype(np.int8)
    scales = rng.uniform(0.002, 0.02, out)
    weights = constant_value("w", data, PerChannel(tuple(scales), 3) if per_channel else PerTensor(0.01))
    bias = constant_value(
        "b", rng.integers(-999, 999, out).astype(np.int32), PerChannel(tuple(scales * 0.05), 0)
    )
    x = value("x", (2, 7, 5, channels), 0.05, -128)
    return make_op(DepthwiseConv2d, value("y", (), 0.2, 5), x=x, weights=weights, bias=bias, **more)


def graph_of(op: Op, arithmetic: Arithmetic = Arithmetic.TFLITE) -> Graph:
    return verify_graph(Graph("g", op.activations, (op,), op.results, arithmetic))


@pytest.mark.parametrize("arithmetic", Arithmetic)
@pytest.mark.parametrize("per_channel", [True, False])
@pytest.mark.parametrize(
    ("channels", "multiplier"), [(1, 8), (1, 2), (3, 2), (8, 3), (9, 2), (13, 4), (17, 1)]
)
def test_the_bytes_stay(channels: int, multiplier: int, per_channel: bool, arithmetic: Arithmetic) -> None:
    graph = graph_of(multiplied(channels, multiplier, per_channel=per_channel), arithmetic)
    made = verify_graph(per_channel_requantize(graph))
    x = random_like(graph.inputs[0], multiplier)
    np.testing.assert_array_equal(made.reference(x)[0], graph.reference(x)[0])
    assert [op for op in made if getattr(op, "depth_multiplier", 1) > 1] == []
    kinds = {op.kind for op in made}
    assert ("conv2d" in kinds) == (multiplier > 1 and channels <= FEW_CHANNELS)


@pytest.mark.parametrize(
    "options",
    [
        {"stride": (2, 1)},
        {"dilation": (1, 2)},
        {"padding": (1, 0, 2, 1)},
        {"low": 5, "high": 77},
    ],
)
@pytest.mark.parametrize("channels", [2, 11])
def test_windows_and_bounds_stay(channels: int, options: dict[str, object]) -> None:
    graph = graph_of(multiplied(channels, 3, **options))
    x = random_like(graph.inputs[0], 1)
    np.testing.assert_array_equal(per_channel_requantize(graph).reference(x)[0], graph.reference(x)[0])


@pytest.mark.parametrize("npu", [N3_64, N1_16], ids=lambda npu: npu.name)
@pytest.mark.parametrize("channels", [1, 8, 12])
def test_the_npu_takes_it_then(npu: pillion.devices.device.Device, channels: int) -> None:
    graph = graph_of(multiplied(channels, 4))
    assert not all(all_ok(npu.judge(op)) for op in graph)
    for rewrite in npu.rewrites:
        graph = verify_graph(rewrite(graph))
    assert all(all_ok(npu.judge(op)) for op in graph)


def spotter() -> Graph:
    """A keyword spotter as small as they come: eight filters on a spectrogram of one channel, and a layer over what they find."""
    x = value("x", (1, 49, 40, 1), 0.1, -128)
    weights, y = conv_weights((1, 10, 8, 8), 3, 1), value("y", (), 0.2, -128)
    window = {"stride": (2, 2), "padding": (4, 3, 5, 3), "low": -128}
    conv = make_op(DepthwiseConv2d, y, x=x, weights=weights, bias=conv_bias(x, weights, 8, 1), **window)
    rows = make_op(Reshape, value("rows", (1, 25 * 20 * 8), 0.2, -128), x=conv.results[0])
    matrix = constant_value(
        "m", np.random.default_rng(2).integers(-127, 128, (4, 4000)).astype(np.int8), PerTensor(0.01)
    )
    bias = constant_value("mb", np.zeros(4, np.int32), PerTensor(0.002))
    linear = make_op(Linear, value("z", (), 3.0), x=rows.results[0], weights=matrix, bias=bias)
    answer = make_op(Softmax, value("p", (), 1 / 256, -128), x=linear.results[0])
    return verify_graph(
        Graph("spotter", (x,), (conv, rows, linear, answer), answer.results, Arithmetic.TFLITE)
    )


@pytest.mark.turns(2)
@pytest.mark.parametrize("target", ["imxrt700", "mcxn947"])
def test_a_keyword_spotter_of_one_channel_runs_on_the_npu(target: str, tmp_path: object) -> None:
    path = tmp_path / "spotter.tflite"  # type: ignore[operator]  # a path
    path.write_bytes(emit(spotter()))
    program = pillion.compile(str(path), target=target)
    macs = {entry.op.macs for entry in program.ledger if entry.segment is None}
    assert macs <= {0}, "all products are on the NPU"
    x = random_like(program.graph.inputs[0], 3)
    np.testing.assert_array_equal(program.run(x)[0], spotter().reference(x)[0])
    np.testing.assert_array_equal(program.run(x, on="host")[0], spotter().reference(x)[0])


def resized(size: tuple[int, int], **mode: bool) -> Graph:
    x = value("x", (2, 5, 3, 4), 0.1, 3)
    op = make_op(ResizeNearest, value("y", (), 0.1, 3), x=x, size=size, **mode)
    return graph_of(op)


@pytest.mark.parametrize(
    ("size", "mode", "drops"),
    [
        ((10, 12), "half_pixel", True),
        ((40, 6), "half_pixel", True),
        ((7, 5), "half_pixel", False),
        ((5, 3), "align_corners", True),
        ((20, 6), "align_corners", False),
    ],
)
def test_a_mode_that_chooses_the_same_pixels_is_dropped(
    size: tuple[int, int], mode: str, drops: bool
) -> None:
    graph = resized(size, **{mode: True})
    made = verify_graph(legalize_nearest(graph))
    (op,) = made.ops
    assert isinstance(op, ResizeNearest)
    assert (op.half_pixel or op.align_corners) == (not drops)
    x = random_like(graph.inputs[0], 2)
    np.testing.assert_array_equal(made.reference(x)[0], graph.reference(x)[0])


def test_others_are_left_alone() -> None:
    x = value("x", (1, 2, 2, 3))
    graph = graph_of(make_op(Clamp, value("y", (1, 2, 2, 3)), x=x, low=-3, high=9))
    assert per_channel_requantize(graph).ops == legalize_nearest(graph).ops == graph.ops
