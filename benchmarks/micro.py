# SPDX-License-Identifier: Apache-2.0
"""Single ops, most of the shapes for which figures of CMSIS-NN are recorded: how many instructions each takes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

import pillion
from pillion.program import Program
from pillion.run.executor import Profile

Figures = dict[str, Any]
Shape = tuple[int, ...]


@dataclass(frozen=True)
class Micro:
    """An op on its own: a module, the shape of each input (NCHW), and the kind that it becomes."""

    name: str
    make: Callable[[], nn.Module]
    inputs: tuple[Shape, ...]
    kind: str


class Sum(nn.Module):
    def forward(self, a: Tensor, b: Tensor) -> Tensor:
        return a + b


class Product(nn.Module):
    def forward(self, a: Tensor, b: Tensor) -> Tensor:
        return a * b


class Largest(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.amax((2, 3))


class MatrixProduct(nn.Module):
    def forward(self, a: Tensor, b: Tensor) -> Tensor:
        return torch.bmm(a, b)


def conv(side: int, c: int, n: int, kernel: int = 1, stride: int = 1) -> Micro:
    name = f"conv{kernel}x{kernel}{' s2' if stride == 2 else ''} {side}x{side}x{c}->{n}"
    return Micro(name, lambda: nn.Conv2d(c, n, kernel, stride, kernel // 2), ((1, c, side, side),), "conv2d")


def depthwise(side: int, c: int, kernel: int = 3, stride: int = 1) -> Micro:
    name = f"dw{kernel}x{kernel}{' s2' if stride == 2 else ''} {side}x{side}x{c}"
    return Micro(
        name,
        lambda: nn.Conv2d(c, c, kernel, stride, kernel // 2, groups=c),
        ((1, c, side, side),),
        "depthwise_conv2d",
    )


def matmul(batch: int, rows: int, depth: int, columns: int) -> Micro:
    shapes = ((batch, rows, depth), (batch, depth, columns))
    return Micro(f"bmm {batch}x {rows}x{depth} {depth}x{columns}", MatrixProduct, shapes, "batch_matmul")


def linear(c: int, n: int) -> Micro:
    return Micro(f"fc {c}->{n}", lambda: nn.Linear(c, n), ((1, c),), "linear")


IMAGE = (1, 24, 48, 48)
MICROS = (
    conv(48, 16, 96),
    conv(48, 96, 24),
    conv(12, 384, 64),
    conv(7, 160, 960),
    conv(32, 16, 16, 3),
    conv(16, 64, 64, 3),
    conv(96, 3, 16, 3, 2),
    depthwise(48, 96),
    depthwise(12, 384),
    depthwise(48, 96, stride=2),
    depthwise(14, 240, 5),
    linear(1024, 256),
    linear(128, 128),
    Micro("add 48x48x24", Sum, (IMAGE, IMAGE), "add"),
    Micro("mul 48x48x24", Product, (IMAGE, IMAGE), "mul"),
    Micro("avg_pool 7x7x1280", lambda: nn.AvgPool2d(7), ((1, 1280, 7, 7),), "mean"),
    Micro("max_pool 2x2 48x48x32", lambda: nn.MaxPool2d(2), ((1, 32, 48, 48),), "max_pool2d"),
    Micro("amax 12x12x16", Largest, ((1, 16, 12, 12),), "reduce_max"),
    Micro("softmax 1000", lambda: nn.Softmax(-1), ((1, 1000),), "softmax"),
    matmul(4, 98, 16, 98),
    matmul(4, 98, 98, 16),
)


class All(nn.Module):
    """All ops side by side, so that they are compiled and run once."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.parts = nn.ModuleList([micro.make() for micro in MICROS])

    def forward(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        given = iter(inputs)
        return tuple(
            part(*(next(given) for _ in micro.inputs)) for part, micro in zip(self.parts, MICROS, strict=True)
        )


def inputs() -> tuple[Tensor, ...]:
    generator = torch.Generator().manual_seed(1)
    return tuple(torch.randn(shape, generator=generator) for micro in MICROS for shape in micro.inputs)


def measured(core: str, board: str) -> Figures:
    """Instructions, products and kernel of each micro."""
    program = pillion.compile(All().eval(), inputs(), target=core, name="micro", io_dtype="int8", extra=0)
    generator = torch.Generator().manual_seed(2)
    data = [
        torch.randint(-128, 128, value.shape, generator=generator, dtype=torch.int8)
        for value in program.graph.inputs
    ]
    profile = program.measure(*data, on=board, timeout=120).profile
    assert profile is not None
    return {micro.name: figures_of(program, profile, micro) for micro in MICROS}


def figures_of(program: Program, profile: Profile, micro: Micro) -> Figures:
    """The op of this kind whose place among its kind is that of the micro."""
    place = [other for other in MICROS if other.kind == micro.kind].index(micro)
    of_kind = [
        (step, n)
        for step, n in zip(program.lowered.steps, profile.op_instructions, strict=True)
        if step.choice.op.kind == micro.kind
    ]
    step, instructions = of_kind[place]
    op = step.choice.op
    return {
        "kernel": step.choice.kernel.name,
        "instructions": instructions,
        "macs": op.macs,
        "elements": op.results[0].type.elements,
    }
