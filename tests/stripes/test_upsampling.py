# SPDX-License-Identifier: Apache-2.0
"""Bilinear resizing a few rows at a time: each row mixes two rows of the image, and the shares come back in a rhythm."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.functional import interpolate

import pillion
from pillion.ops import ResizeBilinear
from pillion.ops.region import why_not_in_rows
from pillion.program import Program
from pillion.stripes.plan import Stripe


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


def in_rows(program: Program, rows: int, grain: int = 0, fed: bool = False) -> Program:
    return replace(program, memory_wish=(Stripe(0, len(program.graph.ops), rows, grain, fed),))


@pytest.mark.parametrize(("factor", "batch"), [(2, 2), (4, 1), (8, 1)])
def test_any_number_of_rows_gives_the_bytes_of_the_whole(factor: float, batch: int) -> None:
    program = compiled(factor, batch)
    x = np.random.default_rng(8).integers(-128, 128, program.graph.inputs[0].shape).astype(np.int8)
    expected = program.graph.reference(x)[0]
    for rows, grain, fed in ((1, 0, True), (2, 1, False)):
        striped = in_rows(program, rows, grain, fed)
        assert striped.memory.arena_bytes < program.memory.arena_bytes
        assert np.array_equal(striped.run(x, on="host")[0], expected)


def test_what_repeats_is_a_loop() -> None:
    """Rows in the middle have the same shares: the code does not grow with the picture."""
    forms = in_rows(compiled(4), 4).lowered.steps
    (resize,) = (step for step in forms if isinstance(step.choice.op, ResizeBilinear))
    assert 1 < len(resize.variants) <= 6


@pytest.mark.qemu
@pytest.mark.parametrize(("target", "board"), [("cortex-m33", "mps2-an505"), ("cortex-m55", "mps3-an547")])
def test_boards_do_the_same(target: str, board: str) -> None:
    program = compiled(2, target=target)
    x = np.random.default_rng(9).integers(-128, 128, program.graph.inputs[0].shape).astype(np.int8)
    assert np.array_equal(in_rows(program, 1).run(x, on=board)[0], program.graph.reference(x)[0])


@pytest.mark.parametrize(
    ("factor", "align", "says"), [(3, False, "no fixed rhythm"), (2, True, "corners are aligned")]
)
def test_shares_of_no_rhythm_end_a_stripe(factor: float, align: bool, says: str) -> None:
    ops = compiled(factor, align=align).graph.ops
    (reason,) = (why_not_in_rows(op) for op in ops if isinstance(op, ResizeBilinear))
    assert says in reason
