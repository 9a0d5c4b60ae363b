# SPDX-License-Identifier: Apache-2.0
"""Stripes: what fits into less memory, at which price, and what is said where nothing does."""

from __future__ import annotations

import pickle
import re
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import pillion
from nightly import part_of
from pillion.compile_options import Memory
from pillion.emitters.c.select_and_plan import KernelPlan
from pillion.errors import PillionError
from pillion.program import Program
from pillion.tiling import search
from pillion.tiling.shortest_path import TilingPathSearch


class Chain(nn.Module):
    """Convolutions with a stride, a skip and a branch, then a classifier; odd sizes."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 9, 3, stride=2, padding=1)
        self.deep = nn.Conv2d(9, 9, 5, padding=2, groups=9)
        self.wide = nn.Conv2d(9, 24, 1)
        self.back = nn.Conv2d(24, 9, 1)
        self.last = nn.Conv2d(18, 11, 3, stride=2)
        self.head = nn.Linear(11, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.first(x).relu()
        x = x + self.back(nn.functional.relu6(self.wide(self.deep(x))))
        x = torch.cat([x, nn.functional.max_pool2d(x, 3, 1, 1)], 1)
        return self.head(self.last(x).relu().mean((2, 3)))


def compiled(batch: int = 1, **options: object) -> Program:
    torch.manual_seed(5)
    return pillion.compile(
        Chain().eval(), torch.randn(batch, 3, 61, 37), io_layout="nhwc", io_dtype="int8", **options
    )


@cache
def whole(target: str = "cortex-m33", batch: int = 1) -> Program:
    return compiled(batch, target=target, extra=0)


def answers_alike(program: Program, on: str) -> bool:
    """The same bytes as the reference of the graph that runs whole."""
    x = np.random.default_rng(3).integers(-128, 128, program.graph.inputs[0].shape).astype(np.int8)
    return np.array_equal(program.run(x, on=on)[0], program.graph.reference(x)[0])


def test_no_stripes_where_the_memory_limit_is_met() -> None:
    assert whole().stripes == ()
    assert whole().within(()).stripes == ()
    assert whole().within(Memory(max_ram=10**6)).stripes == ()


def wide(channels: int = 16, size: int = 48) -> nn.Module:
    torch.manual_seed(6)
    return nn.Sequential(
        nn.Conv2d(3, channels, 3, padding=1), nn.ReLU(), nn.Conv2d(channels, 4, 3, stride=4, padding=1)
    ).eval()


def usual(side: int, **options: object) -> Program:
    net, x = wide(), torch.randn(1, 3, side, side)
    return pillion.compile(net, x, target="cortex-m55", io_layout="nhwc", io_dtype="int8", **options)


def test_cheap_stripes_are_the_default() -> None:
    program, off = usual(96), usual(96, extra=0)
    assert program.stripes
    assert off.stripes == ()
    assert program.memory.arena_bytes <= 0.9 * off.memory.arena_bytes
    assert off.memory.arena_bytes - program.memory.arena_bytes >= 4096
    assert answers_alike(program, "host")
    again = pickle.loads(pickle.dumps(program))
    assert again.stripes == program.stripes
    assert again.memory.arena_bytes == program.memory.arena_bytes
    assert program.pte() == off.pte()
    assert program.tflite() == off.tflite()


@pytest.mark.parametrize("options", [{"optimize": "size"}, {"max_ram": "4M"}])
def test_stripes_are_not_the_default_where_something_else_is_asked_for(options: dict[str, object]) -> None:
    assert usual(96, **options).stripes == ()


def test_stripes_that_save_little_are_not_the_default() -> None:
    """They are not worth their code."""
    assert usual(16).stripes == ()


def test_no_search_where_no_stripe_can_help(monkeypatch: pytest.MonkeyPatch) -> None:
    """The largest op needs all of its operand: no way is looked for."""
    monkeypatch.setattr(TilingPathSearch, "cheapest_stripes", None)
    net = nn.Sequential(nn.Flatten(), nn.Linear(3 * 32 * 32, 64), nn.ReLU(), nn.Linear(64, 9)).eval()
    program = pillion.compile(net, torch.randn(4, 3, 32, 32), target="cortex-m33", io_dtype="int8")
    assert program.stripes == ()


@pytest.mark.turns(4)
@pytest.mark.parametrize("batch", [1, 2])
@pytest.mark.parametrize("share", [1 / 2, 1 / 3])
def test_a_plan_fits(share: float, batch: int) -> None:
    plain = whole(batch=batch)
    limit = int((plain.memory.arena_bytes - 61 * 37 * 3 * batch) * share + 61 * 37 * 3 * batch)
    program = plain.within(Memory(max_ram=limit))
    assert program.stripes
    assert program.memory.arena_bytes <= limit < plain.memory.arena_bytes
    assert answers_alike(program, "host")


def test_less_extra_work_takes_more_memory() -> None:
    plans = [whole().within(Memory(extra=extra)) for extra in (0.001, 0.01, 0.05, 1.0)]
    sizes = [plan.memory.arena_bytes for plan in plans]
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[-1] < 0.5 * whole().memory.arena_bytes


@pytest.mark.turns(2)
@pytest.mark.qemu
@pytest.mark.slow
@pytest.mark.parametrize(
    ("target", "board"), part_of([("cortex-m33", "mps2-an505"), ("cortex-m55", "mps3-an547")], 2)
)
def test_boards_give_the_same_bytes_in_the_memory_that_was_planned(target: str, board: str) -> None:
    program = whole(target).within(Memory(extra=1.0))
    x = np.random.default_rng(4).integers(-128, 128, program.graph.inputs[0].shape).astype(np.int8)
    run = program.measure(x, on=board)
    assert np.array_equal(run.outputs[0], program.graph.reference(x)[0])
    assert run.profile is not None
    arena = next(region for region in run.profile.regions if region.name == "arena")
    assert arena.predicted == arena.found == program.memory.arena_bytes
    assert len(run.profile.op_instructions) == len(program.graph.ops)


@pytest.mark.turns(8)
def test_a_refused_limit_names_the_least_ram() -> None:
    with pytest.raises(PillionError) as refusal:
        compiled(target="cortex-m33", max_ram="4K")
    least = int(refusal.value.help.split()[1].rstrip(","))
    assert compiled(target="cortex-m33", max_ram=least).memory.arena_bytes <= least
    with pytest.raises(PillionError):
        compiled(target="cortex-m33", max_ram=least - 16)


class Dilated(nn.Module):
    """Dilated convolutions with skips, then a norm: a reshape takes its operand's place."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv1d(8, 32, 3)
        self.dilated = nn.ModuleList(nn.Conv1d(32, 32, 3, dilation=size) for size in (2, 4))
        self.pointwise = nn.Conv1d(32, 32, 1)
        self.norm = nn.LayerNorm(32)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.first(x).relu()
        for layer in self.dilated:
            step = layer(x).relu()
            x = x[:, :, -step.shape[2] :] + step
        x = x + self.pointwise(nn.functional.gelu(x))
        return self.norm(x.transpose(1, 2))


def test_a_refusal_names_no_op_that_takes_more_than_the_program() -> None:
    options: dict[str, Any] = {"stream": "x:2", "hop": 2, "precision": "int16", "io_dtype": "int16"}
    x = torch.randn(1, 8, 16)
    with pytest.raises(PillionError) as refused:
        pillion.compile(Dilated().eval(), x, target="cortex-m0", calibrate=[x] * 4, max_ram=256, **options)
    needed, *taken = [
        int(text.replace(",", "")) for text in re.findall(r"([\d,]+) (?:with|bytes:)", refused.value.here)
    ]
    assert max(taken, default=0) <= needed


@pytest.mark.nightly
def test_places_are_looked_for_thoroughly_before_a_wish_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is said to be enough is what the program takes that would be written, not what a first look at the places finds."""

    def better(found: KernelPlan) -> KernelPlan:
        return replace(found, memory=replace(found.memory, arena_bytes=found.memory.arena_bytes - 64))

    def enough() -> int:
        with pytest.raises(PillionError) as refused:
            compiled(target="cortex-m33", max_ram="4K")
        return int(str(refused.value.help).split()[1].rstrip(","))

    usual = enough()
    monkeypatch.setattr(search, "with_least_memory", better)
    assert enough() == usual - 64


@pytest.mark.parametrize("form", ["x.pte", "x.tflite"])
def test_other_forms_hold_whole_tensors(form: str, tmp_path: Path) -> None:
    program = whole().within(Memory(extra=0.5))
    with pytest.raises(PillionError, match="a few rows at a time"):
        program.save(tmp_path / form)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("given", "found"), [("256K", 262_144), ("1 MB", 1_048_576), (4096, 4096), ("3kib", 3072)]
)
def test_sizes(given: int | str, found: int) -> None:
    assert Memory(max_ram=given).limit == found


@pytest.mark.parametrize("given", ["", "0", "-1", "K", "4G", "1e9", "256 KK", "2.5", "9" * 40])
def test_nonsense_is_no_size(given: object) -> None:
    with pytest.raises(PillionError, match="no size of memory"):
        Memory(max_ram=given)  # type: ignore[arg-type]  # what users may give


@pytest.mark.parametrize(("given", "found"), [("5%", 0.05), (0.5, 0.5), ("0.5 %", 0.005), (0, 0.0)])
def test_shares(given: float | str, found: float) -> None:
    assert Memory(extra=given).share == pytest.approx(found)


@pytest.mark.parametrize("given", ["5", "-1%", "101%", 1.5, -0.1, float("nan"), "%", "1e3%"])
def test_nonsense_is_no_share(given: float | str) -> None:
    with pytest.raises(PillionError, match="no share"):
        Memory(extra=given)


def test_two_wishes_are_one_too_many() -> None:
    with pytest.raises(PillionError, match="two bounds"):
        Memory(max_ram="1K", extra="1%")


def test_reports_show_the_memory_of_stripes(tmp_path: Path) -> None:
    program = whole().within(Memory(extra=1.0))
    assert program.stripes
    page = program.report(tmp_path / "r.html", measure=False).read_text("utf-8")
    assert f"{program.memory.arena_bytes:,}" in page
    residents = program.memory.residents
    assert {op for one in residents for op in (one.first, one.last)} <= set(range(len(program.graph.ops)))
    assert max(one.offset + one.bytes for one in residents) <= program.memory.arena_bytes


@pytest.mark.parametrize("core", part_of(["cortex-m33", "cortex-m55"], 2))
@pytest.mark.nightly
def test_a_bound_is_kept_that_a_price_reaches(core: str) -> None:
    """What is live at once is an estimate: a bound that seems too small may fit all the same."""
    from pillion import zoo

    module, example = zoo.build("yolo_two_heads")
    program = pillion.compile(module, example, target=core, io_dtype="int8", io_layout="nhwc", extra=0)
    for extra in (0.01, 0.05):
        reached = program.within(Memory(extra=extra)).memory.arena_bytes
        assert program.within(Memory(max_ram=reached)).memory.arena_bytes <= reached
