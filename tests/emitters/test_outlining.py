# SPDX-License-Identifier: Apache-2.0
"""Passages: what is done several times stands once, and the same is done at the same places in the same order."""

from __future__ import annotations

import random
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest

from pillion.devices.cortex_m import Isa
from pillion.emitters.c.actions import (
    Action,
    CallSubroutine,
    MoveRows,
    MovingLocation,
    ParameterLocation,
    ProgramItem,
    RolledLoop,
    RowIndex,
    RunStep,
    RunVariant,
    TakeRows,
    VariantSelector,
)
from pillion.emitters.c.body import interchangeable_variants
from pillion.emitters.c.loop_rolling import roll_repetitions
from pillion.emitters.c.lower import CProgram, lower
from pillion.emitters.c.model_source import model_c
from pillion.emitters.c.outlining import Subroutine, outline_repeated_calls
from pillion.ir.graph import Graph
from pillion.ir.verify import verify_graph
from pillion.memory import MemoryLocation
from pillion.memory.op_memory import DEEPEST_PASSAGES
from pillion.ops import parse
from pillion.tiling.stripe import Stripe, striped

Done = tuple[Action, tuple[object, ...]]


def done(
    items: Iterable[ProgramItem], made: Sequence[Subroutine], handed: Sequence[object] = ()
) -> Iterator[Done]:
    """What is done one after another, loops and passages unfolded."""
    for item in items:
        yield from _done(item, made, handed, ())


def _placed(place: MovingLocation, handed: Sequence[Any], turns: Sequence[int]) -> Any:
    """The location in these turns of the enclosing loops."""
    start: Any = place.start
    if isinstance(start, ParameterLocation):
        found = handed[start.number]
        start = replace(found, offset=found.offset + start.offset)
    moved = sum(turn * stride for turn, stride in zip(turns, place.strides, strict=True))
    return replace(start, offset=start.offset + moved) if moved else start


def _done(
    item: ProgramItem, made: Sequence[Subroutine], handed: Sequence[object], turns: tuple[int, ...]
) -> Iterator[Done]:
    what, places = item.what, tuple(_placed(place, handed, turns) for place in item.places)
    if isinstance(what, RolledLoop):
        for turn in range(what.count):
            for part in what.body:
                yield from _done(part, made, handed, (*turns, turn))
    elif isinstance(what, CallSubroutine):
        yield from done(made[what.subroutine].items, made, places)
    elif isinstance(what, RunVariant):
        form, *rest = places
        assert isinstance(form, VariantSelector)
        yield RunStep(what.first.step, form.variant), tuple(rest)
    else:
        yield what, places


def deepest(number: int, made: Sequence[Subroutine]) -> int:
    """How many passages in which is waited are inside of one another."""
    inner = [_runs(item.what) for item in made[number].items]
    return 1 + max((deepest(n, made) for runs in inner for n in runs), default=0)


def _runs(what: Action) -> list[int]:
    if isinstance(what, RolledLoop):
        return [n for part in what.body for n in _runs(part.what)]
    return [what.subroutine] if isinstance(what, CallSubroutine) and what.waits else []


def statements(items: Iterable[ProgramItem]) -> int:
    """How many things stand there."""
    return sum(_statements(item.what) for item in items)


def _statements(what: Action) -> int:
    return 1 + sum(_statements(part.what) for part in what.body) if isinstance(what, RolledLoop) else 1


def moved_by(item: ProgramItem, offset: int) -> list[MovingLocation]:
    return [MovingLocation(replace(p.start, offset=p.start.offset + offset)) for p in item.places]


def words(chance: random.Random, depth: int) -> list[ProgramItem]:
    """Things at random: from a few sequences that come again, at other places, and among one another."""
    if not depth:
        what: Action = chance.choice(
            [
                RunStep(0, 0),
                RunStep(0, 1),
                RunStep(0, 2),
                RunStep(1),
                RunStep(2),
                MoveRows(48),
                TakeRows(2),
                RunStep(1, 1),
            ]
        )
        places = 1 if isinstance(what, TakeRows) else 2
        area = chance.choice(["arena", "arena", "state"])
        found = tuple(MemoryLocation(16 * chance.randrange(4), area) for _ in range(places))  # type: ignore[arg-type]
        rows = (RowIndex(chance.randrange(3)),) if what == RunStep(2) else ()
        return [ProgramItem.at(what, *found, *rows)]
    parts = [words(chance, depth - 1) for _ in range(chance.randint(1, 3))]
    found = []
    for _ in range(chance.randint(2, 6)):
        moved = 16 * chance.choice([0, 0, 1, 5])
        found += [replace(item, places=tuple(moved_by(item, moved))) for item in chance.choice(parts)]
    return found


@pytest.mark.parametrize("seed", range(40))
def test_the_same_is_done_in_the_same_order(seed: int) -> None:
    chance = random.Random(seed)
    programs = [words(chance, 3) for _ in range(2)]
    rolled = [roll_repetitions(program) for program in programs]
    same = {RunStep(0, n): RunStep(0, 0) for n in (0, 1, 2)}
    found, made = outline_repeated_calls(rolled, same)
    for items, program in zip(found, programs, strict=True):
        assert list(done(items, made)) == list(done(program, ()))
    deep = [
        n for n, passage in enumerate(made) if any(_runs(i.what) or _waits(i.what) for i in passage.items)
    ]
    assert all(deepest(n, made) <= DEEPEST_PASSAGES for n in deep)


def _waits(what: Action) -> bool:
    if isinstance(what, RolledLoop):
        return any(_waits(part.what) for part in what.body)
    return isinstance(what, TakeRows)


def test_calls_without_repetition_are_not_outlined() -> None:
    items = [ProgramItem.at(RunStep(n), MemoryLocation(16 * n)) for n in range(9)]
    assert outline_repeated_calls([items, []], {}) == ([items, []], [])


def halving_chain(levels: int) -> Graph:
    """Pooled ever further, then made larger again beside what was there: rows of many rates."""
    size = 6 << levels
    lines = ["graph chain arithmetic=cmsis-nn", f"input x0: int8[1, {size}, 8, 8] @(0.1, 0)"]
    for n in range(levels):
        side = size >> n
        lines += [
            f"c{n}: int8[1, {side}, 8, 8] @(0.1, 0) = avg_pool2d(x=x{n}) kernel=[3, 3] padding=[1, 1, 1, 1]",
            f"x{n + 1}: int8[1, {side // 2}, 8, 8] @(0.1, 0) = max_pool2d(x=c{n}) kernel=[2, 1] stride=[2, 1]",
        ]
    last = f"x{levels}"
    for n in reversed(range(levels)):
        side = size >> n
        lines += [
            f"u{n}: int8[1, {side}, 8, 8] @(0.1, 0) = resize_nearest(x={last}) size=[{side}, 8]",
            f"s{n}: int8[1, {side}, 8, 8] @(0.1, 0) = add(a=u{n}, b=c{n}) low=-128 high=127",
        ]
        last = f"s{n}"
    return verify_graph(parse("\n".join([*lines, f"output {last}", ""])))


def in_rows(levels: int, fed: bool) -> CProgram:
    graph = halving_chain(levels)
    return lower(striped(graph, (Stripe(0, len(graph.ops), 1, 1, fed),)), Isa.DSP)


@pytest.mark.parametrize("fed", [False, True])
def test_a_text_grows_with_the_ops_and_not_with_the_rates(fed: bool) -> None:
    """Each level doubles the runs of the first op between two rows of the last; the text gets longer by the ops of a level."""
    texts = [
        len(re.findall(r"pillion_\w+\(|part_\d+\(", model_c(in_rows(levels, fed)))) for levels in (1, 2, 3)
    ]
    first, second, third = texts
    assert third - second < 2 * (second - first)
    program = in_rows(3, fed)
    items, made = outline_repeated_calls([program.items, []], interchangeable_variants(program))
    written = statements(items[0]) + sum(statements(passage.items) for passage in made)
    assert written < 0.65 * statements(program.items)
    assert list(done(items[0], made)) == list(done(program.items, ()))
