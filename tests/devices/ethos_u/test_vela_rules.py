# SPDX-License-Identifier: Apache-2.0
"""The rules beside Vela itself: what they take compiles and computes the right bytes, and what lies one past a limit does not compile."""

from __future__ import annotations

import numpy as np
import pytest
from single_ops import SOFTMAX, Maker, bias, made, value

from ethos_streams import compiled, differing, graph_of, needs_vela, tflite_of
from pillion.devices.ethos_u import ETHOS_U, limits
from pillion.devices.ethos_u.accelerators import Family
from pillion.devices.ethos_u.rules import STREAM, SUPPORTED, rules
from pillion.devices.ethos_u.vela.compiler import VelaError
from pillion.ir.op import Op
from pillion.ir.types import PerTensor, constant
from pillion.ops import (
    AvgPool2d,
    Conv2d,
    DepthwiseConv2d,
    MaxPool2d,
    Mean,
    ResizeBilinear,
    ResizeNearest,
    Slice,
    Softmax,
    TransposeConv2d,
)

pytestmark = needs_vela
NPU = ETHOS_U["ethos-u55-128"]
Q = PerTensor(0.1, 3)


U85 = "ethos-u85-256"
STRICTER = {"broadcast", "function", "axes", "padding", "output_padding"}
"""Rules that refuse more than Vela does: what its streams compute wrongly, and borders whose form in TFLite decides."""


def broken(op: Op, accelerator: str = "ethos-u55-128") -> list[str]:
    """The names of the rules that an op breaks."""
    return [verdict.rule.split(".", 1)[1] for verdict in ETHOS_U[accelerator].judge(op) if not verdict.ok]


def accepts(op: Op, accelerator: str = "ethos-u55-128") -> bool:
    file = tflite_of(op)
    assert file is not None, op
    try:
        compiled(file, accelerator)
    except VelaError:
        return False
    return True


@pytest.mark.parametrize(("seed", "count"), [(1, 70), pytest.param(2, 600, marks=pytest.mark.slow)])
def test_what_the_rules_take_compiles_and_is_computed_exactly(seed: int, count: int) -> None:
    maker, taken = Maker(seed), 0
    for _ in range(count):
        op = maker.op()
        file = tflite_of(op)
        if file is None or broken(op):
            continue
        made_of_it = compiled(file)
        assert differing(graph_of(op), made_of_it, 1) == 0, op
        taken += 1
    assert taken > count // 2


@pytest.mark.parametrize("accelerator", ["ethos-u55-128", "ethos-u65-256", U85])
@pytest.mark.parametrize(("seed", "count"), [(5, 70), pytest.param(6, 600, marks=pytest.mark.slow)])
def test_a_verdict_is_velas(accelerator: str, seed: int, count: int) -> None:
    """What the rules take compiles; what others than the stricter ones refuse does not."""
    maker, decided = Maker(seed), 0
    for _ in range(count):
        op = maker.op()
        if tflite_of(op) is None:
            continue
        failed = broken(op, accelerator)
        grouped = op.attributes.get("groups", 1) > 1 or any(op.attributes.get("padding", ()))
        if STRICTER & set(failed) or (failed == ["stride"] and grouped):
            continue
        assert accepts(op, accelerator) == (not failed), (op, failed)
        decided += 1
    assert decided > 0.7 * count


def conv(stride: int = 1, window: tuple[int, int] = (3, 3), border: int = 0, kind: type[Op] = Conv2d) -> Op:
    maker = Maker(0)
    shape = (4, *window, 2) if kind is Conv2d else (1, *window, 2)
    count = shape[0] if kind is Conv2d else 2
    x = value("x", (1, 19, 19, 2), Q)
    held = {
        "weights": maker.weights(shape),
        "bias": bias(count),
        "stride": (stride, 1),
        "padding": (border,) * 4,
    }
    return made(kind, Q, x=x, **held)


def pool(kind: type[Op], window: tuple[int, int]) -> Op:
    return made(kind, Q, x=value("x", (1, max(window[0], 2), window[1] + 1, 1), Q), kernel=window)


def transposed(stride: tuple[int, int], window: tuple[int, int] = (3, 3), more: int = 0) -> Op:
    x, weights = value("x", (1, 4, 4, 2), Q), Maker(0).weights((4, *window, 2))
    return made(
        TransposeConv2d, Q, x=x, weights=weights, bias=bias(4), stride=stride, output_padding=(more, 0)
    )


def resize(kind: type[Op], factor: int, other: int, half: bool = False, images: int = 1) -> Op:
    x = value("x", (images, 3, 5, 2), Q)
    return made(kind, Q, x=x, size=(3 * factor, 5 * other), half_pixel=half, align_corners=False)


def mean(shape: tuple[int, ...], *axes: int) -> Op:
    return made(Mean, Q, x=value("x", shape, Q), axes=axes, keepdims=True)


def steps(*step: int) -> Op:
    return Slice(
        x=value("x", (5,) * len(step), Q),
        y=value("y", (2,) * len(step), Q),
        begin=(0,) * len(step),
        step=step,
    )


def average(side: int, border: tuple[int, ...], stride: int = 1) -> Op:
    x = value("x", (1, 20, 21, 2), Q)
    return made(AvgPool2d, Q, x=x, kernel=(side, side), stride=(stride, stride), padding=border)


def summed(last: int, depth: int = 65536) -> Op:
    """A convolution whose weights have the largest sum of magnitudes but for the last."""
    weights = np.full((1, 1, 1, depth), 127, np.int8)
    weights[..., -1] = last
    x, held = value("x", (1, 1, 1, depth), Q), constant("w", weights, PerTensor(0.01))
    return made(Conv2d, Q, x=x, weights=held, bias=bias(1), stride=(1, 1), padding=(0, 0, 0, 0))


def rows(*shape: int) -> Op:
    return made(Softmax, SOFTMAX, x=value("x", shape, Q))


def wide(kind: type[Op], columns: int, half: bool = False) -> Op:
    """Two columns that become so many."""
    x = value("x", (1, 1, 2, 1), Q)
    return made(kind, Q, x=x, size=(1, columns), half_pixel=half, align_corners=False)


EDGES_U85: dict[str, tuple[Op, Op]] = {
    "transpose_conv2d.stride": (transposed((3, 3)), transposed((4, 4))),
    "transpose_conv2d.stride of one axis": (transposed((1, 3)), transposed((3, 3), (3, 1))),
    "transpose_conv2d.output_padding": (transposed((2, 2)), transposed((2, 2), more=1)),
    "resize_nearest.factor": (wide(ResizeNearest, 2049), wide(ResizeNearest, 2050)),
    "resize_bilinear.factor": (wide(ResizeBilinear, 4096), wide(ResizeBilinear, 8192)),
    "resize_bilinear.factor of three": (resize(ResizeBilinear, 4, 2), resize(ResizeBilinear, 2, 3)),
    "resize_bilinear.factor with half pixels": (
        wide(ResizeBilinear, 2048, True),
        wide(ResizeBilinear, 4096, True),
    ),
    "max_pool2d.kernel": (pool(MaxPool2d, (256, 256)), pool(MaxPool2d, (256, 257))),
    "avg_pool2d.kernel": (pool(AvgPool2d, (256, 256)), pool(AvgPool2d, (257, 1))),
    "avg_pool2d.padding": (average(8, (3, 3, 4, 4)), average(9, (4, 4, 4, 4))),
    "mean.axes": (mean((1, 4096, 2, 3), 1), mean((1, 4097, 2, 3), 1)),
    "softmax.rows": (rows(1, 256, 256, 3), rows(1, 257, 256, 3)),
    "slice.step": (steps(1, 2, 2, 1), steps(1, 1, 1, 2)),
    "conv2d.weights": (summed(127), summed(-128)),
}
TAKEN_BY_U85 = (
    conv(4, border=1),
    conv(8, border=1),
    conv(4, kind=DepthwiseConv2d),
    resize(ResizeNearest, 3, 5, images=2),
    resize(ResizeBilinear, 1, 1, half=True),
)
"""What U55 and U65 refuse."""


@pytest.mark.parametrize("name", EDGES_U85)
def test_a_limit_of_u85_is_where_vela_has_it(name: str) -> None:
    _want_edge(name, *EDGES_U85[name], U85)


@pytest.mark.parametrize("op", TAKEN_BY_U85, ids=str)
def test_u85_takes_more(op: Op) -> None:
    assert broken(op)
    assert not broken(op, U85)
    assert accepts(op, U85)


EDGES: dict[str, tuple[Op, Op]] = {
    "mean.axes of rows": (mean((1, 4096, 2, 3), 1), mean((1, 4097, 2, 3), 1)),
    "mean.axes of columns": (mean((1, 3, 4096, 2), 2), mean((1, 3, 4097, 2), 2)),
    "mean.axes of channels": (mean((1, 1, 1, 4096), 3), mean((1, 1, 1, 4097), 3)),
    "softmax.rows": (rows(1, 256, 256, 3), rows(1, 257, 256, 3)),
    "avg_pool2d.padding": (average(8, (3, 3, 4, 4)), average(9, (4, 4, 4, 4))),
    "conv2d.stride of one result": (conv(9, window=(15, 3)), conv(4, window=(4, 3), border=1)),
    "conv2d.weights": (summed(127), summed(-128)),
    "conv2d.stride": (conv(4), conv(4, border=1)),
    "depthwise_conv2d.stride": (conv(3, kind=DepthwiseConv2d), conv(4, kind=DepthwiseConv2d)),
    "transpose_conv2d.stride": (transposed((2, 2)), transposed((1, 2))),
    "transpose_conv2d.stride of the kernel": (transposed((2, 2), (2, 2)), transposed((2, 2), (1, 1))),
    "transpose_conv2d.output_padding": (transposed((2, 2)), transposed((2, 2), more=1)),
    "max_pool2d.kernel": (pool(MaxPool2d, (256, 256)), pool(MaxPool2d, (256, 257))),
    "max_pool2d.kernel's height": (pool(MaxPool2d, (256, 1)), pool(MaxPool2d, (257, 1))),
    "avg_pool2d.kernel": (pool(AvgPool2d, (256, 256)), pool(AvgPool2d, (257, 1))),
    "resize_nearest.factor": (resize(ResizeNearest, 8, 8), resize(ResizeNearest, 16, 16)),
    "resize_nearest.factor of both": (resize(ResizeNearest, 2, 2), resize(ResizeNearest, 2, 4)),
    "resize_bilinear.factor": (resize(ResizeBilinear, 4, 4), resize(ResizeBilinear, 3, 3)),
    "resize_bilinear.factor with half pixels": (
        resize(ResizeBilinear, 2, 2, True),
        resize(ResizeBilinear, 4, 4, True),
    ),
    "resize_nearest.images": (resize(ResizeNearest, 2, 2), resize(ResizeNearest, 2, 2, images=2)),
    "mean.axes": (mean((1, 1, 5, 3), 3), mean((1, 7, 5, 3), 3)),
    "mean.axes of images": (mean((1, 7, 5, 3), 1, 2), mean((2, 7, 5, 3), 1, 2)),
    "slice.step": (steps(1, 2, 2, 1), steps(1, 1, 1, 2)),
    "slice.step of images": (steps(2, 1), steps(2, 1, 1, 1)),
}


@pytest.mark.parametrize("accelerator", ["ethos-u55-128", "ethos-u65-256"])
@pytest.mark.parametrize("name", EDGES)
def test_a_limit_is_where_vela_has_it(name: str, accelerator: str) -> None:
    _want_edge(name, *EDGES[name], accelerator)


def _want_edge(name: str, inside: Op, outside: Op, accelerator: str) -> None:
    assert not broken(inside, accelerator)
    assert accepts(inside, accelerator)
    assert broken(outside, accelerator) == [name.split(" ")[0].split("'")[0].split(".")[1]]
    assert not accepts(outside, accelerator)


def test_ranks_up_to_six_fit_into_what_vela_answers() -> None:
    six, seven = (made(Softmax, SOFTMAX, x=value("x", (2,) * rank, Q)) for rank in (6, 7))
    assert not broken(six)
    assert broken(seven) == ["shape"]


def test_sources_of_rules_are_known_and_every_op_is_decided_on() -> None:
    for family in Family:
        assert {rule.source for rule in rules(family)} == {"Vela", "tried", STREAM}
        assert {rule.op for rule in rules(family)} <= set(SUPPORTED)
    assert not NPU.ops & NPU.lacks
    assert limits.image_of((7, 5, 3)) == (1, 7, 5, 3)
    assert limits.image_of((2, 3, 4, 5, 6)) == (6, 4, 5, 6)


def test_estimates_lie_near_what_vela_says() -> None:
    """Single ops of 500 elements and more: within a factor of 4, and their middle near 1."""
    maker, ratios = Maker(9), []
    for _ in range(250):
        op = maker.op()
        file = tflite_of(op)
        if file is None or broken(op) or op.kind == "reshape" or op.results[0].type.elements < 500:
            continue
        ratios.append(NPU.estimate(op) / compiled(file).cycles)
    ratios.sort()
    assert len(ratios) > 20
    assert 0.5 < ratios[len(ratios) // 2] < 2.0
    inside = [r for r in ratios if 0.25 < r < 4]
    assert len(inside) > 0.8 * len(ratios), ratios
