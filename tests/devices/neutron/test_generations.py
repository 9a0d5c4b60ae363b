# SPDX-License-Identifier: Apache-2.0
"""Rules that depend on the generation of NXP's converter: at their edge and one past it, and the choice of a generation."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

import pillion
from devices.neutron.rule_cases import (
    OTHER,
    SYMMETRIC,
    Pair,
    bias,
    clamp,
    concat,
    conv,
    depthwise,
    lut,
    made,
    pair,
    pool,
    prelu,
    reduction,
    resize,
    slice_,
    softmax,
    value,
    weights,
)
from pillion.devices.device import Device
from pillion.devices.neutron import N1_16, N3_64
from pillion.devices.neutron.generations import GENERATIONS, NAMES, NEWEST, OLD_FLOW
from pillion.devices.neutron.limits import NeutronGeometry
from pillion.devices.neutron.rules import rules_by_generation
from pillion.errors import PillionError
from pillion.ir.op import Op
from pillion.ir.types import Shape
from pillion.ir.verdict import failed_rules
from pillion.ops import (
    Add,
    BatchMatmul,
    Concat,
    Function,
    Maximum,
    MaxPool2d,
    Mean,
    Minimum,
    Mul,
    Pad,
    ReduceMax,
    ReduceMin,
    ReduceSum,
    ResizeBilinear,
    ResizeNearest,
    Slice,
    Sub,
    Transpose,
    TransposeConv2d,
)

IMAGE: Shape = (1, 8, 8, 8)


def device(generation: str, npu: Device = N3_64) -> Device:
    assert npu.configure
    return npu.configure(pillion.NpuOptions(neutron_sdk=generation))


def refusals(op: Op, generation: str, npu: Device = N3_64) -> set[str]:
    return {verdict.rule for verdict in failed_rules(device(generation, npu).judge(op))}


def wide(cls: type[Op], channels: int, **fields: object) -> Op:
    return pool(cls, (1, 8, 8, channels), **fields)


def mean(channels: int, axes: tuple[int, ...] = (1, 2)) -> Op:
    return made(Mean, x=value("x", (1, 8, 8, channels)), axes=axes)


def join(*channels: int) -> Op:
    return made(Concat, xs=tuple(value(f"x{i}", (2, c)) for i, c in enumerate(channels)), axis=1)


def cut(size: int) -> Op:
    return Slice(x=value("x", (7, 32)), y=value("y", (7, size)), begin=(0, 0), step=(1, 1))


def product(rows: int, depth: int, columns: int) -> Op:
    a, b = value("a", (2, rows, depth), SYMMETRIC), value("b", (2, depth, columns), SYMMETRIC)
    return made(BatchMatmul, OTHER, a=a, b=b)


def padded(**sides: tuple[int, ...]) -> Op:
    return made(Pad, value=3, **{"x": value("x", (2, 3)), "before": (1, 0), "after": (0, 0), **sides})


def upsampled(cls: type[Op], height: int, width: int, channels: int = 8) -> Op:
    return resize(cls, height, width, (1, 8, 8, channels))


def ordered(order: tuple[int, ...], shape: Shape) -> Op:
    return made(Transpose, x=value("x", shape), order=order)


def upscaling(image: Shape = (1, 4, 4, 8), kernel: int = 2, stride: tuple[int, int] = (1, 2)) -> Op:
    """A transposed convolution along rows, with 8 outputs."""
    held = weights((8, 1, kernel, image[3]))
    return made(TransposeConv2d, OTHER, x=value("x", image), weights=held, bias=bias(8), stride=stride)


OLD: dict[str, Pair] = {
    "add.shapes": (pair(Add, (2, 8), (2, 8)), pair(Add, (2, 8), (1, 8))),
    "sub.shapes": (pair(Sub, (2, 3), (2, 3)), pair(Sub, (2, 3), (2, 1))),
    "mul.shapes": (pair(Mul, (2, 8), (2, 8)), pair(Mul, (2, 8), (1, 8))),
    "mul.blocks": (pair(Mul, (3, 8), (3, 8)), pair(Mul, (3, 9), (3, 9))),
    "mul.blocks of one element": (pair(Mul, (1, 1), (1, 1)), pair(Mul, (1, 2), (1, 2))),
    "mean.axes": (mean(8), mean(8, (1,))),
    "mean.channels": (mean(8), mean(9)),
    "max_pool2d.channels": (wide(MaxPool2d, 16), wide(MaxPool2d, 12)),
    "max_pool2d.batch": (pool(MaxPool2d, IMAGE), pool(MaxPool2d, (2, 8, 8, 8))),
    "max_pool2d.rows": (wide(MaxPool2d, 8, stride=(2, 3)), wide(MaxPool2d, 8, stride=(3, 1))),
    "concat.channels": (join(8, 16), join(8, 12)),
    "slice.cuts": (cut(16), cut(12)),
    "batch_matmul.blocks": (product(8, 16, 8), product(8, 16, 9)),
    "batch_matmul.blocks of depth": (product(8, 16, 8), product(8, 12, 8)),
    "conv2d.batch": (conv(), conv((2, 7, 5, 3))),
    "depthwise_conv2d.batch": (depthwise(), depthwise((2, 7, 5, 3))),
    "clamp.family": (clamp(3, 127), clamp(4, 127)),
    "pad.axes": (padded(), padded(after=(0, 1))),
    "prelu.channels": (prelu(channels=8), prelu()),
    "prelu.pixels": (prelu((1, 64, 64, 8), 8), prelu((1, 64, 65, 8), 8)),
    "resize_nearest.channels": (upsampled(ResizeNearest, 16, 16), upsampled(ResizeNearest, 16, 16, 9)),
    "resize_nearest.zoom": (upsampled(ResizeNearest, 32, 32), upsampled(ResizeNearest, 64, 64)),
    "resize_bilinear.channels": (upsampled(ResizeBilinear, 16, 16), upsampled(ResizeBilinear, 16, 16, 9)),
    "resize_bilinear.zoom": (upsampled(ResizeBilinear, 16, 16), upsampled(ResizeBilinear, 16, 32)),
    "transpose.order": (ordered((0, 3, 1, 2), (1, 2, 4, 8)), ordered((0, 3, 1, 2), (1, 2, 4, 9))),
    "transpose.order to channels last": (
        ordered((0, 2, 3, 1), (1, 8, 1, 8)),
        ordered((0, 2, 3, 1), (1, 8, 8, 4)),
    ),
    "transpose.order of axes of one element": (ordered((1, 0, 2), (1, 3, 5)), ordered((1, 0, 2), (2, 3, 5))),
    "transpose_conv2d.channels": (upscaling(), upscaling((1, 4, 4, 12))),
    "transpose_conv2d.windows": (upscaling(), upscaling(kernel=3)),
    "transpose_conv2d.windows of one row": (
        upscaling((1, 1, 4, 8), 4, (1, 2)),
        upscaling((1, 2, 4, 8), 4, (1, 2)),
    ),
    "softmax.blocks": (softmax(2, 8), softmax(2, 12)),
    "softmax.channels": (softmax(2, 2040), softmax(2, 2048)),
    "lut.function": (lut(Function.ABS), lut(Function.EXP)),
}
"""Name of the rule → an op that the old flow takes, and one that this rule alone refuses."""
ABSENT = [pair(Minimum), pair(Maximum), *map(reduction, (ReduceSum, ReduceMax, ReduceMin))]


@pytest.mark.parametrize("name", OLD)
def test_the_old_flow_accepts_and_refuses(name: str) -> None:
    accepted, refused = OLD[name]
    rule = name.split()[0]
    assert refusals(accepted, "3.0") == set()
    assert refusals(refused, "3.0") == {rule}
    assert rule not in refusals(refused, "3.2") or rule == "softmax.channels"


@pytest.mark.parametrize("absent", ABSENT, ids=lambda op: op.kind)
def test_ops_that_the_old_flow_does_not_have(absent: Op) -> None:
    assert f"{absent.kind}.flow" in refusals(absent, "3.0")
    assert refusals(absent, "3.1") == set()


def test_every_rule_of_a_generation_has_a_case() -> None:
    tested = {name.split()[0] for name in OLD} | {f"{op.kind}.flow" for op in ABSENT} | {"softmax.flow"}
    ours = {f"{r.op.kind}.{r.name}" for name in NAMES for r in device(name).rules}
    assert ours - {f"{r.op.kind}.{r.name}" for r in N3_64.rules} == tested - {
        "softmax.channels",
        "lut.function",
    }


@pytest.mark.parametrize("name", NAMES)
def test_each_generation_has_each_rule_once(name: str) -> None:
    named = [(rule.op.kind, rule.name) for rule in device(name).rules]
    assert len(set(named)) == len(named)


@pytest.mark.parametrize(
    ("op", "npu", "takes"),
    [
        (softmax(2, 8), N3_64, ("2.2", "3.0", "3.1", "3.2")),
        (softmax(2, 10), N3_64, ("3.1", "3.2")),
        (softmax(2, 12), N1_16, ("2.2", "3.0", "3.1", "3.2")),
        (softmax(2, 2044), N1_16, ("2.2", "3.0")),
        (lut(Function.EXP), N3_64, ("3.1", "3.2")),
        (lut(Function.HARDSWISH), N3_64, ("3.2",)),
        (lut(Function.RSQRT), N3_64, ("3.2",)),
        (slice_(1), N3_64, ("3.1", "3.2")),
        (concat(), N3_64, ("3.1", "3.2")),
    ],
)
def test_each_generation_takes_its_ops(op: Op, npu: Device, takes: tuple[str, ...]) -> None:
    assert tuple(name for name in NAMES if not refusals(op, name, npu)) == takes


def test_sources_name_a_release() -> None:
    for row, names in rules_by_generation(NeutronGeometry(8, 8)):
        assert set(names) <= set(NAMES)
        assert any(character.isdigit() for character in row[3])


class Net(nn.Module):
    """A softmax of ten classes, which old converters leave to the core."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.conv = nn.Conv2d(3, 10, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.softmax(self.conv(x).amax((2, 3)), 1)


X = torch.linspace(-1, 1, 3 * 16 * 16).reshape(1, 3, 16, 16)


def on_core(**options: object) -> list[str]:
    program = pillion.compile(Net().eval(), (X,), target="imxrt700", prefer_npu=True, **options)
    return [entry.op.kind for entry in program.ledger if entry.segment is None]


def installed(folder: Path, monkeypatch: pytest.MonkeyPatch, version: str) -> None:
    """Makes an SDK of this version known to Python's package metadata."""
    info = folder / f"eiq_neutron_sdk-{version}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: eiq-neutron-sdk\nVersion: {version}\n")
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.syspath_prepend(str(Path(__file__).parent / "sdk_stand_in"))


def test_the_newest_generation_holds_without_a_converter() -> None:
    assert on_core() == on_core(neutron_sdk=NEWEST.name) == ["quantize", "dequantize"]


def test_a_named_generation_holds() -> None:
    assert on_core(neutron_sdk="3.0") == ["quantize", "transpose", "reduce_max", "softmax", "dequantize"]


@pytest.mark.parametrize(
    ("version", "leaves"), [("3.0.1", True), ("3.1.1", True), ("3.1.2", False), ("9.0", False)]
)
def test_the_installed_generation_holds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str, leaves: bool
) -> None:
    """Releases after the newest that is known have its rules. SDK 3.1.1 still has the old flow."""
    installed(tmp_path, monkeypatch, version)
    assert ("softmax" in on_core()) == leaves
    assert "softmax" not in on_core(neutron_sdk="3.2"), "a named generation precedes the installed one"


@pytest.mark.parametrize(
    ("name", "hint"), [("3.9", "3.2"), ("3.1.1", "3.0"), ("0.9", "1"), ("new", NEWEST.name), ("3", "2.2")]
)
def test_an_unknown_generation_is_refused(name: str, hint: str) -> None:
    with pytest.raises(PillionError, match=f"no generation `{name}`") as error:
        on_core(neutron_sdk=name)
    assert error.value.rule == "--neutron-sdk is one of 1, 2.2, 3.0, 3.1, 3.2"
    assert error.value.help.startswith(f"--neutron-sdk {hint},")


def test_generations_follow_each_other() -> None:
    assert sorted(GENERATIONS, key=lambda one: one.since) == list(GENERATIONS)
    assert NAMES[: len(OLD_FLOW)] == OLD_FLOW
