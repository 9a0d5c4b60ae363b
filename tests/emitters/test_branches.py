# SPDX-License-Identifier: Apache-2.0
"""Branches of `torch.cond`: the C code runs the one that is chosen, and computes what both would."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import pillion
from image_programs import kernel_numbers
from nightly import in_turn
from pillion import Program, zoo
from pillion.boards.board import find_board
from pillion.cli.program_facts import explanation_facts
from pillion.emitters.c.body import StatementWriter
from pillion.emitters.image.writer import image_bytes
from pillion.modules import Cascade
from pillion.run.image_board import image_firmware

needs_cc = pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
needs_cross = pytest.mark.skipif(shutil.which("arm-none-eabi-gcc") is None, reason="needs a cross compiler")
PAGE = Path(__file__).parents[2] / "docs" / "guide" / "before-and-after.md"
BOARDS = [("cortex-m33", "mps2-an505"), ("cortex-m55", "mps3-an547")]


def net(channels: int, classes: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(1, channels, 3, 2, 1),
        nn.ReLU(),
        nn.Conv2d(channels, channels + 3, 3, padding=1),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(channels + 3, classes),
    )


class Brightness(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.mean((2, 3))


def cascade() -> Cascade:
    return Cascade(Brightness(), net(5, 7), 0.25, torch.full((1, 7), -1.0))


def cascade_of_rows() -> nn.Module:
    return nn.Sequential(nn.MaxPool2d(2), cascade())


class TwoBranches(nn.Module):
    """Two networks of which one runs, both read what a third has computed; one of them chooses once more."""

    def __init__(self) -> None:
        super().__init__()
        self.shared, self.bright, self.dark = nn.Conv2d(1, 4, 3, 2, 1), net(9, 3), net(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        shared = self.shared(x).relu().mean(1, keepdim=True)

        def bright(one: Tensor) -> Tensor:
            return torch.cond(
                one.amax() > 0.55, lambda a: self.bright(a), lambda a: a.mean((2, 3)) * torch.ones(3), (one,)
            )

        return torch.cond(x.mean() > 0.25, bright, lambda one: self.dark(one), (shared,)) * 2


class WrittenByHand(nn.Module):
    """A selection of what was computed before its condition."""

    def __init__(self) -> None:
        super().__init__()
        self.net = net(5, 7)

    def forward(self, x: Tensor) -> Tensor:
        found = self.net(x)
        return torch.where(x.amax() > 0.9, found, torch.zeros(1))


def pictures() -> list[Tensor]:
    """Dark and bright pictures, and those of extremes."""
    torch.manual_seed(1)
    levels = (0.0, 0.1, 0.2, 0.3, 0.4, 0.7, 0.9, 1.0)
    return [torch.rand(1, 1, 37, 31) * level for level in levels] + [torch.ones(1, 1, 37, 31)]


def few_pictures() -> list[Tensor]:
    """Pictures for emulated boards, which start for each one: dark and bright ones, and the brightest."""
    return pictures()[::2]


@cache
def compiled(make: Callable[[], nn.Module], target: str = "cortex-m33", **options: Any) -> Program:
    torch.manual_seed(4)
    module, samples = make().eval(), [(x,) for x in pictures()]
    return pillion.compile(module, samples[0], target=target, calibrate=samples, **options)


def c_code(program: Program) -> str:
    return StatementWriter(program.lower(), after_op=False).text()


def ifs(program: Program) -> int:
    return len(re.findall(r"\bif \(", c_code(program)))


MODELS: dict[str, tuple[Callable[[], nn.Module], int]] = {
    "cascade": (cascade, 1),
    "two branches": (TwoBranches, 4),
    "by hand": (WrittenByHand, 1),
}


STRIPES = {"extra": "50%", "io_dtype": "int8"}
CASES = [("cascade", {"int16": "*"}), ("cascade", STRIPES), ("two branches", {}), ("two branches", STRIPES)]


def given(program: Program, x: Tensor) -> np.ndarray:
    """A picture as the program takes it."""
    value = program.graph.inputs[0]
    numbers = np.round(x.numpy() / value.scale + value.zero_point) if value.is_quantized else x.numpy()
    return numbers.clip(-128, 127).astype(value.dtype.numpy)


@needs_cc
@pytest.mark.slow
@pytest.mark.parametrize(("name", "options"), [*CASES, ("by hand", {"optimize": "size"})], ids=str)
def test_branches_equal_the_selected_branch(name: str, options: dict[str, Any]) -> None:
    make, branches = MODELS[name]
    program = compiled(make, **options)
    assert ifs(program) == branches
    assert bool(program.stripes) == (options is STRIPES)
    for x in (given(program, x) for x in pictures()):
        for exact, ours in zip(program.run(x), program.run(x, on="host"), strict=True):
            np.testing.assert_array_equal(exact, ours)


@needs_cross
@pytest.mark.slow
@pytest.mark.parametrize(("name", "place"), in_turn(MODELS, BOARDS), ids=str)
def test_boards_run_the_chosen_branch_alone(name: str, place: tuple[str, str]) -> None:
    (make, _), (target, board) = MODELS[name], place
    program = compiled(make, target)
    counts: list[int] = []
    for x in few_pictures():
        exact, ours = program.run(x.numpy()), program.measure(x.numpy(), on=board)
        for a, b in zip(exact, ours.outputs, strict=True):
            np.testing.assert_array_equal(a, b)
        assert ours.profile is not None
        counts.append(ours.profile.instructions)
    assert len(set(counts)) == (3 if name == "two branches" else 2)
    assert max(counts) - min(counts) > 20_000
    assert program.time("100MHz", pictures()[0].numpy(), on=board).milliseconds.low > 0


def page_cascade() -> tuple[Cascade, list[tuple[Tensor]]]:
    """The cascade of the page: the brightest part of a coarse picture, then MobileNet; with dark and bright pictures."""
    torch.manual_seed(0)
    first = nn.Sequential(nn.AvgPool2d(8), nn.Conv2d(3, 1, 3, bias=False), nn.ReLU(), nn.AdaptiveMaxPool2d(1))
    nn.init.constant_(first[1].weight, 1 / 27)
    samples = [(torch.rand(1, 3, 96, 96) * level,) for level in (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)]
    return Cascade(first, zoo.build("mobilenet_v1_025")[0], 0.3, torch.zeros(1, 2)), samples


@needs_cross
@pytest.mark.slow
@pytest.mark.turns(2)
@pytest.mark.parametrize(("target", "board"), BOARDS)
def test_the_page_has_the_instructions_of_both_paths(target: str, board: str) -> None:
    module, samples = page_cascade()
    program = pillion.compile(
        module.eval(), samples[0], target=target, calibrate=samples, io_dtype="uint8", progress=False
    )
    for x in (samples[0][0], samples[-1][0]):
        ran = program.measure((x * 255).round().to(torch.uint8).numpy(), on=board)
        assert ran.profile is not None
        assert f"{ran.profile.instructions:,}" in PAGE.read_text("utf-8")


@needs_cross
@pytest.mark.slow
@pytest.mark.turns(2)
@pytest.mark.parametrize(("target", "board"), BOARDS)
def test_rows_come_in_before_the_first_network_decides(target: str, board: str) -> None:
    program = compiled(cascade_of_rows, target, rows_in=True, extra="20%")
    assert program.stripes[0].fed
    assert program.memory.arena_bytes < 37 * 31
    counts: set[int] = set()
    for x in (x.permute(0, 2, 3, 1).numpy() for x in few_pictures()):
        exact, ours = program.run(x), program.measure(x, on=board)
        for a, b, c in zip(exact, ours.outputs, program.run(x, on="host"), strict=True):
            np.testing.assert_array_equal(a, b)
            np.testing.assert_array_equal(a, c)
        assert ours.profile is not None
        counts.add(ours.profile.instructions)
    assert len(counts) == 2
    assert max(counts) - min(counts) > 10_000


@pytest.mark.slow
def test_an_npu_is_called_in_the_chosen_branch_alone() -> None:
    text = c_code(compiled(TwoBranches, "cortex-m55+ethos-u55-128"))
    assert len(re.findall(r"^ +\w+_npu_segment_\d\(", text, re.MULTILINE)) == 3
    assert len(re.findall(r"^if .*\n    /\* \d+: segment", text, re.MULTILINE)) == 1


@needs_cross
@pytest.mark.slow
@pytest.mark.turns(2)
@pytest.mark.parametrize(("target", "board"), BOARDS)
def test_images_run_the_chosen_branch_alone(target: str, board: str, tmp_path: Path) -> None:
    program = compiled(cascade, target)
    firmware = image_firmware(tmp_path, kernel_numbers([program.lowered]), find_board(board))
    image = image_bytes(program.lowered, program.target.core.name)
    counts = set()
    for x in few_pictures():
        ran = firmware.run(image, [[x.numpy()]], profile=True)
        assert ran.outputs == b"".join(y.tobytes() for y in program.run(x.numpy()))
        counts.add(ran.instructions)
    assert len(counts) == 2
    assert max(counts) - min(counts) > 10_000


def test_a_cascade_wants_tensors() -> None:
    with pytest.raises(pillion.PillionError, match="cannot be made"):
        Cascade(Brightness(), net(2, 2), 0.5, ())


def test_explain_and_the_report_list_branches(tmp_path: Path) -> None:
    program = compiled(cascade)
    (row,) = explanation_facts(program)["branches"]
    assert row["ops"] == 6
    assert row["runs_if"].endswith("is true")
    assert row["share"].endswith("%")
    program.report(tmp_path / "report.html", samples=0)
    assert f"<td>{row['runs_if']}</td>" in (tmp_path / "report.html").read_text()
