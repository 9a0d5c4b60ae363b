# SPDX-License-Identifier: Apache-2.0
"""Every integer of every kernel call: what a program says is what is read, or is refused. Nothing is clamped in silence."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import pytest
from pte_seeds import FOREIGN, small_files

from nightly import part_of
from pillion.codecs.pte.signatures import POSITION, RANGES, SIGNATURES, STRIDE, ArgumentRange, argument_names
from pillion.devices.cortex_m import CORES
from pillion.emitters.pte import emit
from pillion.errors import PillionError
from pillion.importers.pte.container import Container
from pillion.importers.pte.foreign_program import graph_of, operator_name
from pillion.importers.pte.table import TABLE
from pillion.schemas import pte
from pillion.schemas.flatbuffer import MalformedError

UNREAD = {"cortex_m::quantized_avg_pool2d.out": (4, 5, 6)}
"""Arguments that the kernel itself does not look at: what is said there changes nothing."""
ALIKE = {
    "aten::expand_copy.out",
    "aten::slice_copy.Tensor_out",
    "aten::cat.out",
    "cortex_m::transpose.out",
    "cortex_m::pad.out",
}
"""Which are written anew with merged axes."""
Said = list[tuple[str, tuple[Any, ...]]]


@lru_cache
def files() -> tuple[bytes, ...]:
    return (*small_files(), *(path.read_bytes() for path in FOREIGN))


def calls(container: Container) -> Iterator[pte.KernelCall]:
    for one in container.plan.chains[0].instructions:
        if isinstance(one.instr_args, pte.KernelCall):
            yield one.instr_args


def field_of(operator: str, place: int, count: int) -> ArgumentRange | None:
    return RANGES.get(argument_names(operator, count)[place])


def said(container: Container) -> Said:
    """All integers of all calls."""
    values = container.plan.values

    def spelled(number: int) -> Any:
        held = values[number].val
        if isinstance(held, pte.IntList):
            return tuple(spelled(n) for n in held.items)
        return held.int_val if isinstance(held, pte.Int) else None

    return [
        (operator_name(container, c.op_index), tuple(map(spelled, c.args[:-2]))) for c in calls(container)
    ]


def add(container: Container, held: Any, kind: int) -> int:
    container.plan.values.append(pte.EValue(val_type=kind, val=held))
    return len(container.plan.values) - 1


def integer(container: Container, number: int) -> int:
    return add(container, pte.Int(int_val=number), 2)


def neighbours(field: ArgumentRange, now: int) -> set[int]:
    """Around both ends, around what is said now, and where 32 bits end."""
    ends = (field.low, field.high, now, -128, 127, -(2**31), 2**31 - 1, 2**32, 2**32 + now)
    return {n for end in ends for n in (end - 1, end, end + 1) if -(2**63) <= n < 2**63} - {now}


Place = tuple[int, int, int | None]
"""A call, an argument, and an item where it is a list."""


def places(container: Container) -> Iterator[tuple[Place, str, int]]:
    for number, (operator, arguments) in enumerate(said(container)):
        for place, held in enumerate(arguments):
            if isinstance(held, int):
                yield (number, place, None), operator, held
            elif isinstance(held, tuple) and held and isinstance(held[0], int):
                for item, one in enumerate(held):
                    yield (number, place, item), operator, one


def changed(raw: bytes, at: Place, number: int) -> Container:
    container = Container(raw, "x")
    call, place, item = list(calls(container))[at[0]], at[1], at[2]
    if item is None:
        call.args[place] = integer(container, number)
        return container
    held = container.plan.values[call.args[place]].val
    assert isinstance(held, pte.IntList)
    items = [*held.items[:item], integer(container, number), *held.items[item + 1 :]]
    call.args[place] = add(container, pte.IntList(items=items), 7)
    return container


def test_every_integer_has_a_range() -> None:
    assert set(SIGNATURES) >= set(TABLE)
    for raw in files():
        container = Container(raw, "x")
        for (_, place, _), operator, now in places(container):
            count = next(len(a) for o, a in said(container) if o == operator)
            field = field_of(operator, place, count)
            assert field is not None, (operator, place)
            assert field.takes(now), (operator, place, now)


def one_of_each() -> dict[tuple[str, int, int | None], tuple[bytes, Place, int]]:
    """A file and a place for every integer of every operator, small files first."""
    found: dict[tuple[str, int, int | None], tuple[bytes, Place, int]] = {}
    for raw in files():
        for at, operator, now in places(Container(raw, "x")):
            found.setdefault((operator, at[1], at[2]), (raw, at, now))
    return found


def is_said_by(container: Container, operator: str, place: int) -> bool:
    """Whether a program that is made of what was read says the same in the calls of this operator."""
    wanted = [arguments for name, arguments in said(container) if name == operator]
    graph = graph_of(container)
    written = said(Container(emit(graph, CORES["cortex-m55"]), "y"))
    found = [arguments for name, arguments in written if name == operator]
    pairs = zip(wanted, found, strict=False)
    return len(wanted) != len(found) or operator in ALIKE or all(a[place] == b[place] for a, b in pairs)


@pytest.mark.turns(6)
@pytest.mark.parametrize(
    "where", part_of(one_of_each(), 2), ids=lambda where: f"{where[0]}-{where[1]}-{where[2]}"
)
def test_an_integer_is_read_as_it_is_said_or_refused(where: tuple[str, int, int | None]) -> None:
    raw, at, now = one_of_each()[where]
    operator, place, _ = where
    field = field_of(operator, place, len(said(Container(raw, "x"))[at[0]][1]))
    assert field is not None
    for number in sorted(neighbours(field, now)):
        container = changed(raw, at, number)
        try:
            is_same = is_said_by(container, operator, place)
        except (PillionError, MalformedError):
            continue
        assert field.takes(number), number
        assert is_same or place in UNREAD.get(operator, ()), number
    assert field in (POSITION, STRIDE) or field.high < 2**63 - 1


@pytest.mark.parametrize(
    ("operator", "low", "high"),
    [
        ("conv2d", 10, 11),
        ("depthwise_conv2d", 11, 12),
        ("add", 11, 12),
        ("linear", 10, 9),
        ("max_pool2d", 8, 9),
    ],
)
def test_bounds_do_not_cross(operator: str, low: int, high: int) -> None:
    name = f"cortex_m::quantized_{operator}.out"
    raw, (call, _, _), _ = one_of_each()[(name, low, None)]
    container = changed(raw, (call, low, None), 5)
    list(calls(container))[call].args[high] = integer(container, 4)
    with pytest.raises(PillionError, match="lower bound"):
        graph_of(container)


def test_the_case_that_was_found() -> None:
    """An `activation_min` of 128 was read as 127."""
    raw, at, _ = one_of_each()[("cortex_m::quantized_conv2d.out", 10, None)]
    with pytest.raises(PillionError) as refusal:
        graph_of(changed(raw, at, 128))
    assert "from -128 to 127" in refusal.value.rule
    assert refusal.value.here.startswith("128 ")
