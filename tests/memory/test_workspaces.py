# SPDX-License-Identifier: Apache-2.0
"""What another processor reads and makes lies in the memory that it works in, wherever that has its places, and nobody else is there then."""

from __future__ import annotations

import random

import pytest
import torch
from torch import nn

import pillion
from pillion.compile_options import PlacementOptions
from pillion.emitters.c.lower import CProgram, lower
from pillion.ir.workspace import Workspace
from pillion.memory.first_fit import place_blocks
from pillion.memory.live_blocks import LiveBlock
from pillion.ops import Segment
from pillion.program import Program
from pillion.targets import npu_targets


class Skips(nn.Module):
    """Segments with two results, and one that is read again after the next segment; square roots are for the core."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.left, self.right = nn.Conv2d(3, 5, 3), nn.Conv2d(5, 5, 1), nn.Conv2d(5, 7, 1)
        self.last = nn.Conv2d(7, 5, 1)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        x = torch.relu(self.first(x))
        left, right = torch.relu(self.left(x)), torch.relu(self.right(x))
        y = torch.relu(self.last(torch.sqrt(right)))
        return torch.sqrt(y) * left, torch.sqrt(left)


@pytest.fixture(scope="module")
def program() -> Program:
    options = PlacementOptions(prefer_npu=True)
    return pillion.compile(
        Skips().eval(), (torch.randn(1, 3, 13, 11),), target=npu_targets()[0].name, placement=options
    )


def segments(program: Program) -> list[Segment]:
    return [op for op in program.graph.ops if isinstance(op, Segment)]


def workspaces(program: Program, seed: int) -> tuple[Workspace, ...]:
    """Places at random: operands apart from one another, as results are, which may lie over operands."""
    maker = random.Random(seed)

    def places(sizes: list[int]) -> tuple[list[int], int]:
        at, found = 0, [0] * len(sizes)
        for number in maker.sample(range(len(sizes)), len(sizes)):
            at += 16 * maker.randrange(4)
            found[number] = at
            at += -(-sizes[number] // 16) * 16
        return found, at

    made = []
    for op in segments(program):
        inputs, first = places([v.type.size_bytes for v in op.xs])
        outputs, second = places([v.type.size_bytes for v in op.ys])
        made.append(Workspace(max(first, second) + 16 * maker.randrange(64), tuple(inputs), tuple(outputs)))
    return tuple(made)


def require_apart(made: CProgram) -> None:
    """What is needed at one time lies apart, but for a segment's own operands and results while it runs."""
    residents, numbers = made.memory.residents, {op: n for n, op in enumerate(made.graph.ops)}
    for i, one in enumerate(residents):
        for other in residents[i + 1 :]:
            begin, end = max(one.first, other.first), min(one.last, other.last)
            lies_over = one.offset < other.offset + other.bytes and other.offset < one.offset + one.bytes
            if begin > end or not lies_over or begin != end:
                assert begin > end or not lies_over
                continue
            op = made.graph.ops[begin]
            own = {*op.activations, *op.results}
            is_own = all(r.scratch_of is op or own & set(r.values) for r in (one, other))
            in_place = any(own & set(r.values) & set(op.results) for r in (one, other))
            assert is_own, (one, other)
            assert isinstance(op, Segment) or in_place, (one, other)
    assert all(r.offset + r.bytes <= made.memory.arena_bytes for r in residents)
    assert all(made.memory.scratch_offsets[op] % 16 == 0 for op in numbers if isinstance(op, Segment))


@pytest.mark.parametrize("seed", range(20))
def test_npu_workspaces_hold_segment_tensors_alone(program: Program, seed: int) -> None:
    work = workspaces(program, seed)
    assert len(work) > 1
    made = lower(program.graph, workspaces=work)
    require_apart(made)
    assert made.memory.alignment == 32
    assert made.memory.arena_bytes % 32 == 0
    copied = made.copied_bytes
    everything = sum(v.type.size_bytes for op in segments(program) for v in (*op.xs, *op.ys))
    assert copied < everything / 2
    assert made.memory.arena_bytes < lower(program.graph).memory.arena_bytes + sum(w.bytes for w in work)


def test_an_operand_that_is_read_again_is_copied(program: Program) -> None:
    work = workspaces(program, 0)
    made = lower(program.graph, workspaces=work)
    again = [
        n
        for n, op in enumerate(segments(program))
        for v in op.xs
        if any(program.graph.ops.index(user) > program.graph.ops.index(op) for user in program.graph.users[v])
    ]
    assert all(made.copied[n] for n in again)


def test_programs_without_workspaces_copy_no_bytes(program: Program) -> None:
    made = lower(program.graph)
    assert (made.copied, made.copied_bytes, made.memory.alignment) == ((), 0, 16)


def test_blocks_that_are_bound_keep_their_distance_and_others_go_around() -> None:
    first, second, other = LiveBlock(64, 0, 1), LiveBlock(32, 1, 3), LiveBlock(48, 0, 3)
    assert first.bind(second, 80)
    assert first.bind(second, 80)
    assert not first.bind(second, 64)
    assert place_blocks([first, second, other], 0) >= 144
    assert second.offset - first.offset == 80
    assert other.offset >= first.offset + 64 or other.offset + 48 <= first.offset
    assert other.offset >= second.offset + 32 or other.offset + 48 <= second.offset


def test_blocks_that_would_lie_over_one_another_are_not_bound() -> None:
    first, second, third = LiveBlock(64, 0, 1), LiveBlock(32, 1, 3), LiveBlock(32, 2, 3)
    assert not first.bind(second, 32)
    assert first.bind(third, 32), "they are never needed together"
    work = LiveBlock(128, 1, 1)
    assert work.try_to_nest(first, 16)
    assert not work.try_to_nest(second, 64), "the third is needed with the second, and lies there"
