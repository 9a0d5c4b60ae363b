# SPDX-License-Identifier: Apache-2.0
"""Inputs that are handed over row by row: the same answers, with no room for the input."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import pillion
from nightly import in_turn, part_of
from pillion.compile_options import Memory
from pillion.emitters.c import selftest_source as c_selftest
from pillion.emitters.c.manifest import read_manifest
from pillion.errors import PillionError
from pillion.ir.types import Array
from pillion.program import Program
from pillion.run.selftest_samples import run_selftest

HEIGHT, WIDTH = 67, 41
BOARDS = {"cortex-m33": "mps2-an505", "cortex-m55": "mps3-an547"}


class Camera(nn.Module):
    """The last row of the picture is read by nobody; the first strides leave rows out; a skip, a branch, a head."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 7, (2, 3), stride=(4, 2))
        self.deep = nn.Conv2d(7, 7, 5, padding=2, groups=7)
        self.wide, self.back = nn.Conv2d(7, 19, 1), nn.Conv2d(19, 7, 1)
        self.head = nn.Linear(14, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.first(x).relu()
        x = x + self.back(nn.functional.relu6(self.wide(self.deep(x))))
        x = torch.cat([x, nn.functional.max_pool2d(x, 3, 1, 1)], 1)
        return self.head(nn.functional.max_pool2d(x, 2).mean((2, 3)))


@cache
def whole(target: str = "cortex-m33", batch: int = 1, io_dtype: str = "int8") -> Program:
    torch.manual_seed(6)
    return pillion.compile(
        Camera().eval(),
        torch.randn(batch, 3, HEIGHT, WIDTH),
        target=target,
        io_layout="nhwc",
        io_dtype=io_dtype,  # type: ignore[arg-type]  # one of the two
        name="camera",
    )


def by_rows(program: Program, **wish: object) -> Program:
    return program.within(Memory(rows_in=True, **wish))  # type: ignore[arg-type]  # wishes as they are typed


def picture(program: Program, seed: int = 0) -> Array:
    (value,) = program.graph.inputs
    draws = np.random.default_rng(seed).integers(-128, 128, value.shape)
    return draws.astype(np.int8) if value.is_quantized else (draws / 64).astype(np.float32)


@pytest.mark.turns(3)
@pytest.mark.parametrize(
    ("io_dtype", "batch", "extra"),
    part_of(
        [
            ("int8", 3, "5%"),
            ("float32", 3, "0%"),
            ("float32", 1, "100%"),
            ("int8", 1, "0%"),
            ("int8", 1, "100%"),
        ],
        2,
    ),
)
def test_the_same_bytes_without_room_for_the_input(io_dtype: str, batch: int, extra: str) -> None:
    plain = whole(batch=batch, io_dtype=io_dtype)
    program = by_rows(plain, extra=extra)
    assert program.stripes[0].fed
    x = picture(plain)
    assert extra == "0%" or program.memory.arena_bytes < plain.memory.arena_bytes
    assert extra != "100%" or program.memory.arena_bytes < x.nbytes
    assert np.array_equal(program.run(x, on="host")[0], plain.graph.reference(x)[0])


@pytest.mark.turns(5)
@pytest.mark.qemu
@pytest.mark.slow
@pytest.mark.parametrize(("target", "io_dtype"), in_turn(BOARDS, ["int8", "float32"]))
def test_boards_do_the_same(target: str, io_dtype: str) -> None:
    plain = whole(target, io_dtype=io_dtype)
    program = by_rows(plain, extra="5%")
    x = picture(plain, 1)
    run, before = (one.measure(x, on=BOARDS[target]) for one in (program, plain))
    assert np.array_equal(run.outputs[0], plain.graph.reference(x)[0])
    assert run.profile is not None
    assert before.profile is not None
    arena = next(region for region in run.profile.regions if region.name == "arena")
    assert arena.predicted == arena.found == program.memory.arena_bytes
    added = run.profile.instructions / before.profile.instructions - 1
    assert 0 < added < 0.12, "so small a net pays more than 5 % for the cheapest rows"


@pytest.mark.turns(3)
@pytest.mark.parametrize(
    "way", part_of([{"rows_in": True, "extra": "100%"}, {"rows_in": True}, {"extra": "100%"}], 3)
)
def test_self_tests_compare_results_of_regions(way: dict[str, object], tmp_path: Path) -> None:
    program = whole().within(Memory(**way))  # type: ignore[arg-type]  # wishes as they are typed
    samples = [(picture(program, seed),) for seed in (1, 2)]
    folder = program.firmware(tmp_path / "fw", selftest=samples)
    assert not run_selftest(folder, "host").differs
    test = program.selftest(samples)
    steps = program.lowered.steps
    assert all(steps[r.op].choice.op.results[r.number] is r.value for r in test.results)
    for number, result in enumerate(test.results):
        wrong = test.kept.copy()
        assert result.at is not None
        wrong[1, result.at + result.value.type.size_bytes - 1] ^= 1
        planted = c_selftest.SelfTest(test.results, test.inputs, wrong, test.checks)
        files = program.project(planted)
        (folder / "selftest" / "selftest.c").write_bytes(bytes(files["selftest/selftest.c"]))  # type: ignore[arg-type]  # no text that is made while it is written
        outcome = run_selftest(folder, "host")
        assert outcome.differs, result
        assert (outcome.sample, outcome.op) == (1, result.op), number


def test_the_manifest_and_header_describe_row_input(tmp_path: Path) -> None:
    program = by_rows(whole())
    folder = program.firmware(tmp_path / "fw")
    manifest = read_manifest(folder)
    assert [b.offset for b in manifest.inputs] == [None]
    assert manifest.outputs[0].offset is not None
    header = (folder / "model" / "model.h").read_text()
    assert f"#define CAMERA_ROWS {HEIGHT}\n" in header
    assert f"#define CAMERA_ROW_BYTES {WIDTH * 3}\n" in header
    assert "camera_run" not in header
    assert "camera_begin(arena, NULL);" in (folder / "README.md").read_text()


def test_parts_of_it_are_whole_programs_again() -> None:
    """Where a difference is looked for, the graph is cut behind an op: that part is handed its input at once."""
    program = by_rows(whole())
    assert program.for_graph(program.graph).stripes == ()


@pytest.mark.turns(3)
def test_bounds_hold_with_rows() -> None:
    plain = whole()
    least = by_rows(plain, extra="100%").memory.arena_bytes
    assert by_rows(plain, max_ram=least + 64).memory.arena_bytes <= least + 64
    with pytest.raises(PillionError, match="does not fit") as refusal:
        by_rows(plain, max_ram=1000)
    enough = int(refusal.value.help.split()[1].rstrip(","))
    assert by_rows(plain, max_ram=enough).memory.arena_bytes <= enough


class Pooled(nn.Module):
    """Rows save RAM only if they run on through the pool, for more than 1 % of the instructions."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.pool, self.last = (
            nn.Conv2d(3, 4, 3, padding=1),
            nn.AvgPool2d(8),
            nn.Conv2d(4, 16, 5, stride=2),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(self.pool(self.first(x).relu())).relu()


def test_rows_save_ram_without_further_options() -> None:
    x = torch.randn(1, 3, 96, 96)
    options: dict[str, Any] = {"target": "cortex-m33", "io_dtype": "int8", "io_layout": "nhwc"}
    arenas = [
        pillion.compile(Pooled().eval(), (x,), calibrate=[(x,)], **options, **rows).memory.arena_bytes
        for rows in ({}, {"rows_in": True}, {"rows_in": True, "extra": "1%"})
    ]
    assert arenas[1] < arenas[0] / 2
    assert arenas[2] > arenas[0], "more than 1 % are needed"


def test_a_refused_bound_names_the_options_that_reach_further() -> None:
    torch.manual_seed(6)
    model, x = Camera().eval(), torch.randn(1, 3, HEIGHT, WIDTH)

    def least(**options: Any) -> tuple[int, str]:
        with pytest.raises(PillionError, match="does not fit") as refusal:
            pillion.compile(model, x, target="cortex-m33", max_ram=1000, **options)
        return int(refusal.value.help.split()[1].rstrip(",")), refusal.value.help

    bytes_of_all, help = least()
    assert "--io-dtype int8 --io-layout nhwc (a smaller input buffer)" in help
    bytes_of_int8, help = least(io_dtype="int8")
    assert ", --io-layout nhwc (a smaller input buffer)" in help
    bytes_of_both, help = least(io_layout="nhwc", io_dtype="int8")
    assert "--io" not in help
    assert bytes_of_both < bytes_of_int8 < bytes_of_all


def test_a_refused_bound_names_no_option_that_does_not_help() -> None:
    wide = nn.Sequential(nn.Linear(8, 4000), nn.ReLU(), nn.Linear(4000, 3))
    with pytest.raises(PillionError, match="does not fit") as refusal:
        pillion.compile(wide.eval(), torch.randn(1, 8), target="cortex-m33", max_ram=1000)
    assert "--io" not in refusal.value.help


def test_pictures_in_planes_are_refused() -> None:
    torch.manual_seed(6)
    with pytest.raises(PillionError, match="row by row") as refusal:
        pillion.compile(
            Camera().eval(),
            torch.randn(1, 3, HEIGHT, WIDTH),
            target="cortex-m33",
            io_layout="nchw",
            rows_in=True,
        )
    assert "transpose" in refusal.value.here
    assert "--io-layout nhwc" in refusal.value.help


def test_row_input_makes_the_image_layout_nhwc() -> None:
    """The usual network of PyTorch, as it is: a camera gives lines of pixels, and answers are those of the network."""
    torch.manual_seed(6)
    model, x = Camera().eval(), torch.randn(1, 3, HEIGHT, WIDTH)
    program = pillion.compile(model, x, target="cortex-m33", rows_in=True)
    assert program.graph.inputs[0].shape == (1, HEIGHT, WIDTH, 3)
    assert program.stripes[0].fed
    (usual,) = pillion.compile(model, x, target="cortex-m33").run(x)
    (answer,) = program.run(x.permute(0, 2, 3, 1).contiguous(), on="host")
    assert np.array_equal(answer, usual)


class Two(nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return nn.functional.softmax(x, 2) + y.flip(2)


@pytest.mark.parametrize(
    ("model", "inputs", "says"),
    [
        (Two(), (torch.randn(1, 8, 8, 8), torch.randn(1, 8, 8, 8)), "; y: "),
        (nn.Linear(16, 4), (torch.randn(1, 16),), "has no rows"),
    ],
)
def test_other_nets_are_refused(model: nn.Module, inputs: tuple[torch.Tensor, ...], says: str) -> None:
    with pytest.raises(PillionError, match="row by row") as refusal:
        pillion.compile(model.eval(), inputs, target="cortex-m33", rows_in=True, io_layout="nhwc")
    assert says in refusal.value.here


@pytest.mark.parametrize("form", ["x.pte", "x.tflite"])
def test_other_forms_refuse(form: str, tmp_path: Path) -> None:
    with pytest.raises(PillionError, match="a few rows at a time"):
        by_rows(whole()).save(tmp_path / form)
