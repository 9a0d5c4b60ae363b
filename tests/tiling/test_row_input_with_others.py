# SPDX-License-Identifier: Apache-2.0
"""One input that is handed over row by row, beside others that lie in the arena, and beside what is remembered from run to run."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import pillion
from nightly import pairwise, part_of
from pillion.compile_options import Memory
from pillion.emitters.c.manifest import read_manifest
from pillion.errors import PillionError
from pillion.ir.types import Array
from pillion.program import Program
from pillion.run.selftest_samples import run_selftest
from pillion.tiling.rows_in import with_rows_last

BOARDS = {"cortex-m33": "mps2-an505", "cortex-m55": "mps3-an547"}


class Scene(nn.Module):
    """A picture, one before it and a few numbers. What comes of the numbers is wanted in the midst of the picture's first layers."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 6, 3, stride=2, padding=1)
        self.earlier = nn.Conv2d(3, 6, 3, stride=2, padding=1)
        self.deep, self.facts = nn.Conv2d(6, 6, 5, padding=2, groups=6), nn.Linear(5, 6)
        self.head = nn.Linear(12, 5)

    def forward(self, before: torch.Tensor, now: torch.Tensor, facts: torch.Tensor) -> torch.Tensor:
        y = self.first(now).relu()
        gate = self.facts(facts).sigmoid()
        y = self.deep(y * gate[:, :, None, None]) + self.earlier(before).relu()
        y = y + self.first(nn.functional.max_pool2d(now, 3, 1, 1)).relu()
        return self.head(torch.cat([nn.functional.max_pool2d(y, 2).mean((2, 3)), gate], 1))


class Mixed(nn.Module):
    """An average over pictures: what it was after one is with the next."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.head = nn.Conv2d(3, 5, 3, stride=2, padding=1), nn.Linear(7, 3)
        self.cell = nn.GRU(5, 7, batch_first=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = nn.functional.max_pool2d(self.first(x).relu(), 3, 1, 1).mean((2, 3))
        return self.head(self.cell(y[:, None])[0][:, 0])


@cache
def scene(target: str = "cortex-m33", io_dtype: str = "int8") -> Program:
    torch.manual_seed(6)
    pictures = torch.randn(1, 3, 37, 29), torch.randn(1, 3, 37, 29)
    return pillion.compile(
        Scene().eval(),
        (*pictures, torch.randn(1, 5)),
        target=target,
        io_layout="nhwc",
        io_dtype=io_dtype,  # type: ignore[arg-type]  # one of the two
        name="scene",
        extra=0,
    )


@cache
def mixed(target: str = "cortex-m33") -> Program:
    torch.manual_seed(7)
    return pillion.compile(
        Mixed().eval(),
        torch.randn(1, 3, 37, 29),
        target=target,
        io_layout="nhwc",
        io_dtype="int8",
        name="mixed",
        extra=0,
        stateful=True,
    )


def given(program: Program, seed: int = 0) -> tuple[Array, ...]:
    draw = np.random.default_rng(seed)
    drawn = [(v, draw.integers(-128, 128, v.shape)) for v in program.graph.inputs]
    return tuple(x.astype(np.int8) if v.is_quantized else (x / 64).astype(np.float32) for v, x in drawn)


@pytest.mark.turns(4)
@pytest.mark.parametrize(
    ("io_dtype", "name", "extra"), pairwise(["int8", "float32"], ["now", "before"], ["0%", "100%"])
)
def test_one_of_several_inputs_comes_by_rows(name: str, io_dtype: str, extra: str) -> None:
    plain = scene(io_dtype=io_dtype)
    program = plain.within(Memory(rows_in=name, extra=extra))
    assert [stripe.fed for stripe in program.stripes if stripe.fed] == [name]
    assert extra == "0%" or program.memory.arena_bytes < plain.memory.arena_bytes
    x = given(plain, 1)
    assert np.array_equal(program.run(*x, on="host")[0], plain.graph.reference(*x)[0])
    assert {entry.op for entry in program.ledger} == {entry.op for entry in plain.ledger}
    assert [entry.op for entry in program.ledger] == list(program.graph.ops)


def test_the_largest_input_with_rows_is_fed() -> None:
    class Second(nn.Module):
        def forward(self, small: torch.Tensor, large: torch.Tensor) -> torch.Tensor:
            return nn.functional.max_pool2d(large, 2) + small

    x = torch.randn(1, 3, 8, 8), torch.randn(1, 3, 16, 16)
    program = pillion.compile(Second(), x, target="cortex-m33", io_dtype="int8", rows_in=True)
    (fed,) = (stripe.fed for stripe in program.stripes if stripe.fed)
    assert fed == program.graph.inputs[1].name


def test_ops_that_read_no_rows_run_first() -> None:
    """It is the same graph in another order, and in this one it stays."""
    graph = scene().graph
    (now,) = (value for value in graph.inputs if value.name == "now")
    ordered = with_rows_last(graph, now)
    assert set(ordered.ops) == set(graph.ops)
    assert ordered.ops != graph.ops
    assert with_rows_last(ordered, now) is ordered
    first = next(i for i, op in enumerate(ordered.ops) if now in op.activations)
    assert "linear" in {op.kind for op in ordered.ops[:first]}
    made = {now}
    for op in ordered.ops:
        assert all(x in made or x in ordered.sources or x.is_constant for x in op.operands)
        made.update(op.results)


@pytest.mark.turns(3)
@pytest.mark.parametrize("net", part_of([scene, mixed], 2))
def test_the_project_says_and_tests_it(net: object, tmp_path: Path) -> None:
    assert callable(net)
    program: Program = net().within(Memory(rows_in=True, extra="100%"))
    folder = program.firmware(tmp_path / "fw", selftest=[given(program, seed) for seed in (1, 2, 3)])
    assert not run_selftest(folder, "host").differs
    places = {buffer.name: buffer.offset for buffer in read_manifest(folder).inputs}
    assert [name for name, offset in places.items() if offset is None] == [
        stripe.fed for stripe in program.stripes if stripe.fed
    ]
    header = (folder / "model" / "model.h").read_text()
    macros = set(re.findall(r"_INPUT_(\d)\(arena\)", header))
    assert macros == {str(i) for i, v in enumerate(program.graph.inputs) if places[v.name] is not None}
    readme = (folder / "README.md").read_text()
    begin = "mixed_begin(arena, state, NULL);" if net is mixed else "scene_begin(arena, NULL);"
    assert begin in readme
    assert "memcpy(SCENE_INPUT_2(arena), input_2, 5);" in readme or net is mixed


@pytest.mark.turns(2)
def test_states_persist_between_images() -> None:
    plain = mixed()
    program = plain.within(Memory(rows_in=True, extra="100%"))
    assert program.graph.states
    assert program.stripes[0].fed
    pictures = [given(plain, seed) for seed in range(4)]
    wanted = [plain.stream().step(*picture) for picture in pictures[:1]]
    stream, other = plain.stream(), program.stream("host")
    wanted = [stream.step(*picture) for picture in pictures]
    for picture, answer in zip(pictures, wanted, strict=True):
        assert np.array_equal(other.step(*picture)[0], answer[0])
    assert not all(np.array_equal(a[0], wanted[0][0]) for a in wanted)


@pytest.mark.turns(6)
@pytest.mark.qemu
@pytest.mark.slow
@pytest.mark.parametrize("target", part_of(list(BOARDS), 2))
def test_boards_do_the_same(target: str) -> None:
    plain = scene(target)
    program = plain.within(Memory(rows_in="now", extra="20%"))
    x = given(plain, 3)
    run = program.measure(*x, on=BOARDS[target])
    assert np.array_equal(run.outputs[0], plain.graph.reference(*x)[0])
    assert run.profile is not None
    arena = next(region for region in run.profile.regions if region.name == "arena")
    assert arena.predicted == arena.found == program.memory.arena_bytes
    remembering = mixed(target)
    stream, other = (
        remembering.stream(),
        remembering.within(Memory(rows_in=True)).stream(BOARDS[target]),
    )
    pictures = [given(remembering, seed) for seed in range(3)]
    answers = other.run(pictures)
    assert all(np.array_equal(one[0], stream.step(*x)[0]) for one, x in zip(answers, pictures, strict=True))


def test_invalid_row_inputs_are_refused() -> None:
    with pytest.raises(PillionError, match="--rows-of") as refusal:
        scene().within(Memory(rows_in="then"))
    assert "now" in str(refusal.value.help) + str(refusal.value.rule)
    with pytest.raises(PillionError, match="row by row") as refusal:
        scene().within(Memory(rows_in="facts"))
    assert "has no rows" in refusal.value.here
