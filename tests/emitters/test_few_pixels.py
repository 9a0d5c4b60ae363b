# SPDX-License-Identifier: Apache-2.0
"""Convolutions that make few pixels, as those of the new rows of streams: their bytes on emulated cores."""

from __future__ import annotations

import numpy as np
import pytest

from pillion.ir.graph import Graph
from pillion.ir.types import (
    DType,
    Pair,
    PerChannel,
    PerTensor,
    Shape,
    Sides,
    TensorType,
    Value,
    constant_value,
)
from pillion.ir.verify import verify_graph
from pillion.ops import Conv2d
from pillion.program import Program
from pillion.targets import find_target

ONE: Pair = (1, 1)
NONE: Sides = (0, 0, 0, 0)


def conv(
    number: int,
    shape: Shape,
    channels: int,
    kernel: Pair,
    stride: Pair = ONE,
    dilation: Pair = ONE,
    padding: Sides = NONE,
) -> Conv2d:
    rng = np.random.default_rng(number)
    x = Value(f"x{number}", TensorType((1, *shape), DType.INT8, PerTensor(0.05, (3, -128, 127)[number % 3])))
    held = rng.integers(-127, 128, (channels, *kernel, shape[2])).astype(np.int8)
    scales = tuple(rng.uniform(0.005, 0.01, channels).tolist())
    weights = constant_value(f"w{number}", held, PerChannel(scales, 0))
    quant = PerChannel(tuple((weights.channel_scales * x.scale).tolist()), 0)
    bias = constant_value(f"b{number}", rng.integers(-900, 900, channels).astype(np.int32), quant)
    steps = {"stride": stride, "dilation": dilation, "padding": padding}
    draft = Conv2d(x=x, weights=weights, bias=bias, y=Value("y", TensorType((), DType.INT8)), **steps)
    made = Value(
        f"y{number}", TensorType(draft.infer().shape, DType.INT8, PerTensor(0.3, (-5, 0)[number % 2]))
    )
    low = -5 if number % 2 == 0 else -128
    return Conv2d(x=x, weights=weights, bias=bias, y=made, low=low, **steps)


def kernels_of(target: str, on: str, ops: list[Conv2d]) -> list[str]:
    """The kernels of some convolutions, whose bytes on a board are those of the reference."""
    graph = verify_graph(Graph("few", tuple(op.x for op in ops), tuple(ops), tuple(op.y for op in ops)))
    program = Program(graph, find_target(target))
    rng = np.random.default_rng(0)
    given = [rng.integers(-128, 128, op.x.shape).astype(np.int8) for op in ops]
    for ours, theirs in zip(program.run(*given, on=on), program.run(*given), strict=True):
        assert np.array_equal(ours, theirs)
    return [step.choice.kernel.name for step in program.unstriped.steps]


@pytest.mark.qemu
def test_one_two_and_four_pixels_on_dsp() -> None:
    """Windows in one piece and in several, of odd sizes and at odd places; the result may be rectified."""
    lone = [
        conv(0, (1, 4, 64), 64, (1, 3)),
        conv(1, (1, 6, 7), 9, (1, 3), dilation=(1, 2)),
        conv(2, (5, 5, 3), 5, (3, 3), stride=(2, 2)),
        conv(3, (5, 4, 5), 4, (3, 2), dilation=(2, 3)),
        conv(4, (1, 4, 33), 17, (1, 1)),
        conv(5, (4, 1, 8), 6, (3, 1)),
        conv(6, (3, 7, 1), 8, (2, 7), stride=(1, 3)),
        conv(7, (1, 6, 12), 11, (1, 4), stride=(1, 2)),
        conv(8, (1, 3, 11), 3, (1, 2), dilation=(1, 2)),
    ]
    others = [
        conv(9, (1, 3, 8), 8, (1, 3), padding=(0, 1, 0, 0)),
        conv(10, (1, 5, 8), 8, (1, 3)),
        conv(11, (1, 2, 8), 8, (1, 1)),
        conv(12, (1, 4, 8), 8, (1, 1)),
    ]
    names = kernels_of("cortex-m33", "mps2-an505", [*lone, *others])
    assert names[: len(lone)] == ["conv2d_lone_dsp"] * len(lone)
    assert "conv2d_lone_dsp" not in names[len(lone) :]


@pytest.mark.qemu
def test_short_rows_of_an_odd_length_on_helium() -> None:
    """Pairs of the first half and the second, for which constants are loaded once; longer rows, even ones and few channels go as before."""
    ones = [
        conv(10_000 * n + 200 * c + depth, (1, n, depth), c, (1, 1))
        for n in (1, 2, 3, 5, 7, 9)
        for c in (7, 8, 9, 24)
        for depth in (60, 100)[: 1 + (n == 5)]
    ]
    gathered = [conv(n, (1, n + 2, 24), 19, (1, 3)) for n in (3, 5, 7)]
    images = [conv(210, (3, 5, 40), 16, (1, 1)), conv(211, (4, 5, 32), 8, (2, 1))]
    names = kernels_of("cortex-m55", "mps3-an547", [*ones, *gathered, *images])
    assert {"conv2d_1x1_k64_mve", "conv2d_1x1_mve"} <= set(names)
