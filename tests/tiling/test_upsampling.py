# SPDX-License-Identifier: Apache-2.0
"""Resizing a few rows at a time, where which rows of the image each row is made of, and in which shares, follows from its number."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.functional import interpolate

import pillion
from fuzz.properties import board_is_the_reference, host_is_the_reference
from nightly import in_turn, part_of
from pillion.compile_options import Memory
from pillion.devices.cortex_m import Isa
from pillion.emitters.c.lower import lower
from pillion.emitters.c.model_source import model_c
from pillion.ir.graph import Graph
from pillion.ir.types import DType, PerTensor, TensorType, Value
from pillion.ir.verify import verify_graph
from pillion.ops import ResizeBilinear, parse
from pillion.ops.region import why_not_in_rows
from pillion.program import Program
from pillion.tiling.stripe import Stripe, striped


class Decoder(nn.Module):
    """A picture becomes smaller and, with a skip, larger again."""

    def __init__(self, factor: float, align: bool = False) -> None:
        super().__init__()
        self.how = {"scale_factor": factor, "mode": "bilinear", "align_corners": align}
        self.one, self.two = nn.Conv2d(3, 5, 3, padding=1), nn.Conv2d(5, 7, 1)
        self.last = nn.Conv2d(7, 2, 3, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.two(self.one(x).relu())
        return self.last(interpolate(y, **self.how))  # type: ignore[arg-type]  # options by name


def compiled(factor: float, batch: int = 1, target: str = "cortex-m33", **options: bool) -> Program:
    torch.manual_seed(3)
    return pillion.compile(
        Decoder(factor, **options).eval(),
        torch.randn(batch, 3, 12, 9),
        target=target,
        io_dtype="int8",
        io_layout="nhwc",
        extra=0,
        progress=False,
    )


def in_rows(program: Program, rows: int, grain: int = 0, fed: str = "") -> Program:
    return replace(program, memory_budget=(Stripe(0, len(program.graph.ops), rows, grain, fed),))


@pytest.mark.turns(3)
@pytest.mark.parametrize(
    ("factor", "batch", "align"), part_of([(2, 2, False), (3, 1, False), (3, 2, True), (7, 1, True)], 2)
)
def test_any_number_of_rows_gives_the_bytes_of_the_whole(factor: float, batch: int, align: bool) -> None:
    program = compiled(factor, batch, align=align)
    x = np.random.default_rng(8).integers(-128, 128, program.graph.inputs[0].shape).astype(np.int8)
    expected = program.graph.reference(x)[0]
    name = program.graph.inputs[0].name
    for rows, grain, fed in ((1, 0, name), (2, 1, "")):
        striped = in_rows(program, rows, grain, fed)
        assert striped.memory.arena_bytes < program.memory.arena_bytes
        assert np.array_equal(striped.run(x, on="host")[0], expected)


WAYS = ("", "align_corners=True", "half_pixel=True")
SIZES = (
    ((1, 7, 5, 3), (21, 15)),
    ((2, 5, 3, 9), (25, 2)),
    ((1, 1, 4, 1), (6, 4)),
    ((1, 13, 1, 8), (13, 7)),
    ((3, 9, 2, 5), (3, 5)),
    ((1, 11, 3, 2), (77, 3)),
    ((1, 343, 1, 1), (1029, 2)),
    ((1, 15, 4, 3), (12, 5)),
    ((2, 6, 3, 9), (9, 2)),
    ((1, 14, 2, 5), (30, 3)),
    ((1, 150, 2, 1), (70, 2)),
)
"""Images and what they become: larger and smaller by factors of which no power of two is a multiple, so many rows that the 1024 parts
are off by one row in the end, and rhythms of 4, 3, 15 and 7 rows."""


KINDS = {"resize_bilinear": WAYS, "resize_bilinear_float": WAYS, "resize_nearest": WAYS[1:2]}
"""Ops whose rows count, and in which ways they do."""


def chains(
    sizes: tuple[tuple[tuple[int, ...], tuple[int, int]], ...], kind: str = "resize_bilinear"
) -> Graph:
    """A program of a clamp, a resize and a pool for each image and way to lay pixels on each other."""
    lines = ["graph chains arithmetic=cmsis-nn"]
    cases = [
        (shape, size, way)
        for shape, size in sizes
        for way in KINDS[kind]
        if way != WAYS[1] or not (shape[1] % size[0] and size[0] % shape[1])
    ]
    for i, ((n, h, w, c), (height, width), way) in enumerate(cases):
        at = f"@(0.1, {(-128, 127, 0, 3)[i % 4]})"
        lines += [
            f"input x{i}: int8[{n}, {h}, {w}, {c}] {at}",
            f"a{i}: int8[{n}, {h}, {w}, {c}] {at} = clamp(x=x{i}) low=-120 high=127",
            f"b{i}: int8[{n}, {height}, {width}, {c}] {at} = {kind}(x=a{i}) size=[{height}, {width}] {way}",
            f"y{i}: int8[{n}, {height}, {width}, {c}] {at} = max_pool2d(x=b{i}) kernel=[3, 1] padding=[1, 0, 1, 0]",
        ]
    lines.sort(key=lambda line: not line.startswith(("graph", "input")))
    lines += [*(f"output y{i}" for i in range(len(cases))), ""]
    return verify_graph(parse("\n".join(lines)))


def striped_chains(rows: int, grain: int, kind: str) -> Graph:
    graph = chains(SIZES, kind)
    return verify_graph(striped(graph, [Stripe(i, i + 3, rows, grain) for i in range(0, len(graph.ops), 3)]))


@pytest.mark.turns(3)
@pytest.mark.parametrize(
    ("kind", "rows", "grain"), [(kind, *rows) for kind, rows in in_turn(KINDS, [(1, 0), (3, 1), (5, 2)])]
)
def test_all_ways_and_factors_are_the_same_in_rows(rows: int, grain: int, kind: str) -> None:
    host_is_the_reference(striped_chains(rows, grain, kind))


@pytest.mark.turns(7)
@pytest.mark.qemu
@pytest.mark.slow
@pytest.mark.parametrize(
    ("target", "kind"),
    part_of([("cortex-m33", "resize_bilinear"), *(("cortex-m55", kind) for kind in KINDS)], 2),
)
def test_boards_do_the_same_in_all_ways(target: str, kind: str) -> None:
    board_is_the_reference(striped_chains(2, 0, kind), target)


def calls(height: int, factor: int, way: str, kind: str) -> int:
    """How many calls the text of a chain has."""
    graph = chains((((1, height, 2, 1), (height * factor, 2)),), kind)
    first = 3 * KINDS[kind].index(way)
    program = lower(striped(graph, (Stripe(first, first + 3, factor),)))
    resize = next(step for step in program.steps[first:] if step.choice.op.kind == kind)
    assert len(resize.variants) <= 3
    return len(re.findall(r"pillion_\w+\(|part_\d+\(", model_c(program)))


@pytest.mark.parametrize(
    ("factor", "way", "kind"),
    [
        (3, "", "resize_bilinear"),
        (4, WAYS[2], "resize_bilinear"),
        (5, WAYS[1], "resize_bilinear"),
        (2, WAYS[1], "resize_nearest"),
        (2, WAYS[2], "resize_bilinear_float"),
    ],
)
def test_the_code_does_not_grow_with_the_picture(factor: int, way: str, kind: str) -> None:
    """The kernel is handed the number of its first row: one call serves all rows, whatever their shares."""
    assert calls(90, factor, way, kind) <= calls(30, factor, way, kind) + 6


def test_code_of_rhythms_does_not_grow_with_the_image() -> None:
    counts = []
    for height in (40, 120):
        graph = chains((((1, height, 2, 1), (height // 5 * 4, 2)),))
        program = lower(striped(graph, (Stripe(0, 3, 4),)))
        counts.append(len(re.findall(r"pillion_\w+\(|part_\d+\(", model_c(program))))
    assert counts[1] <= counts[0] + 6


def test_a_passage_is_handed_the_number_of_a_row() -> None:
    """Between rows of a larger result the smaller one is made again and again: that is a function, which does not know where it is."""
    at = "@(0.1, 0)"
    lines = ["graph chain arithmetic=cmsis-nn", f"input x0: int8[1, 8, 4, 8] {at}"]
    side = 8
    for n, factor in enumerate((3, 1, 3, 2)):
        lines.append(
            f"c{n}: int8[1, {side}, 4, 8] {at} = avg_pool2d(x=x{n}) kernel=[3, 3] padding=[1, 1, 1, 1]"
        )
        side *= factor
        lines.append(f"x{n + 1}: int8[1, {side}, 4, 8] {at} = resize_bilinear(x=c{n}) size=[{side}, 4]")
    graph = verify_graph(parse("\n".join([*lines, "output x4", ""])))
    in_rows = verify_graph(striped(graph, (Stripe(0, len(graph.ops), 1, 1),)))
    assert re.search(r"static void part_\d+\(.*uint32_t place\d", model_c(lower(in_rows, Isa.DSP)))
    host_is_the_reference(in_rows)


@pytest.mark.turns(2)
@pytest.mark.qemu
@pytest.mark.parametrize(("target", "board"), [("cortex-m33", "mps2-an505"), ("cortex-m55", "mps3-an547")])
def test_boards_do_the_same(target: str, board: str) -> None:
    program = compiled(3, target=target)
    x = np.random.default_rng(9).integers(-128, 128, program.graph.inputs[0].shape).astype(np.int8)
    assert np.array_equal(in_rows(program, 1).run(x, on=board)[0], program.graph.reference(x)[0])


def test_the_search_finds_stripes_through_it() -> None:
    program = compiled(3).within(Memory(extra="100%"))
    (stripe,) = program.stripes
    inside = program.graph.ops[stripe.first + 1 : stripe.end - 1]
    assert any(isinstance(op, ResizeBilinear) for op in inside)


def resize(before: int, after: int) -> ResizeBilinear:
    quant = PerTensor(0.1, 0)
    x, y = (
        Value(name, TensorType((1, rows, 2, 1), DType.INT8, quant))
        for name, rows in (("x", before), ("y", after))
    )
    return ResizeBilinear(x=x, y=y, size=(after, 2))


@pytest.mark.parametrize(
    ("before", "after", "says"),
    [(12, 19, "no rhythm of up to 16 rows"), (1 << 20, 2 << 20, "beyond 32 bits")],
)
def test_resizes_by_uneven_factors_end_a_stripe(before: int, after: int, says: str) -> None:
    assert says in why_not_in_rows(resize(before, after))
    assert not why_not_in_rows(resize(12, 36))
    assert not why_not_in_rows(resize(120, 96))
