# SPDX-License-Identifier: Apache-2.0
"""Programs that are whole as files and wrong inside: numbers, sizes, operands exchanged in the tables."""

from __future__ import annotations

import dataclasses
import math
import random
import time
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import pytest
from pte_seeds import FOREIGN, small_files

from pillion.errors import PillionError
from pillion.importers.pte.container import Container
from pillion.importers.pte.foreign_program import graph_of
from pillion.schemas import pte
from pillion.schemas.flatbuffer import MalformedError, Table

NUMBERS = (0, 1, 2, 3, 5, 7, 16, -1, -2, 127, 128, -128, 255, 1000, 65535, 2**30, 2**31, -(2**31), 2**40)
REALS = (0.0, -1.0, math.nan, math.inf, 1e-300, 1e300, 1e-38, 1e38, 1e-45)
SECONDS_PER_FILE = 1.0
CHANGED = (
    pte.Int,
    pte.Double,
    pte.Bool,
    pte.IntList,
    pte.Tensor,
    pte.TensorList,
    pte.AllocationDetails,
    pte.EValue,
    pte.KernelCall,
    pte.DelegateCall,
    pte.ExecutionPlan,
)


def tables(table: Table) -> Iterator[Table]:
    yield table
    for field in dataclasses.fields(table):  # type: ignore[arg-type]  # every table is a dataclass
        held = getattr(table, field.name)
        for inner in held if isinstance(held, list) else [held]:
            if isinstance(inner, Table):
                yield from tables(inner)


def mutate(rng: random.Random, container: Container) -> None:
    """One field of one table."""
    table = rng.choice([t for t in tables(container.plan) if isinstance(t, CHANGED)])
    field = rng.choice(dataclasses.fields(table))  # type: ignore[arg-type]  # tables are dataclasses
    held: Any = getattr(table, field.name)
    if isinstance(held, bool):
        setattr(table, field.name, not held)
    elif isinstance(held, int):
        setattr(table, field.name, rng.choice(NUMBERS) if rng.random() < 0.7 else held + rng.choice((-1, 1)))
    elif isinstance(held, float):
        setattr(table, field.name, rng.choice((*REALS, held * 1.5)))
    elif isinstance(held, list) and held and isinstance(held[0], int):
        at = rng.randrange(len(held))
        held[at : at + rng.randrange(2)] = [rng.choice((*NUMBERS, *held))] * rng.choice((0, 1, 1, 1))
    elif isinstance(table, pte.EValue):
        table.val = rng.choice(container.plan.values).val


def ends_well(container: Container) -> bool:
    """Whether it ended in a graph; else in an error that users see as one."""
    begin = time.process_time()
    try:
        graph_of(container)
        answered = True
    except (PillionError, MalformedError):
        answered = False
    assert time.process_time() - begin < SECONDS_PER_FILE
    return answered


@lru_cache
def files() -> list[list[bytes]]:
    return [small_files(), [path.read_bytes() for path in FOREIGN]]


def run(seed: int, count: int) -> list[bool]:
    rng = random.Random(seed)
    answers = []
    for number in range(count):
        container = Container(rng.choice(files()[number % 2]), "x")
        for _ in range(rng.choice((1, 1, 1, 2, 3, 6))):
            mutate(rng, container)
        answers.append(ends_well(container))
    return answers


def test_a_hundred_changed_tables() -> None:
    assert 0 < sum(run(1, 100)) < 100


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2, 4))
@pytest.mark.nightly
def test_a_thousand_changed_tables(seed: int) -> None:
    assert 0 < sum(run(seed, 1000)) < 1000


KEPT = (
    # file, what, its value, the value instead, whether that is a program
    ("mlp_m55", pte.Double, 1.0, 1e300, False),
    ("mlp_m55", pte.Double, -1.0, math.nan, False),
    ("mlp_m55", pte.Int, -6, 2**40, False),
    ("mlp_m55", pte.Int, 1253710561, -(2**62), False),
    ("res_m55", pte.Double, 0.00390625, 1e-300, False),
    ("res_m55", pte.Int, 1387320064, 2**31, False),
    ("acts_m55", pte.Int, -128, 2**63 - 1, False),
)
"""Changes that were once answered wrongly, or nearly."""


@pytest.mark.parametrize(("stem", "kind", "old", "new", "is_program"), KEPT)
def test_changes_that_were_once_answered_wrongly(
    stem: str, kind: type[Table], old: float, new: float, is_program: bool
) -> None:
    container = Container(next(path for path in FOREIGN if path.stem == stem).read_bytes(), stem)
    name = dataclasses.fields(kind)[0].name  # type: ignore[arg-type]  # tables are dataclasses
    found = [v.val for v in container.plan.values if isinstance(v.val, kind) and getattr(v.val, name) == old]
    assert found
    for held in found:
        setattr(held, name, new)
    assert ends_well(container) is is_program


def test_missing_constants_are_refused() -> None:
    """Neither a segment of constants nor a list of them."""
    container = Container(small_files()[0], "g")
    container.program.constant_segment = container.program.constant_buffer = None
    with pytest.raises(MalformedError, match="constant 1 of 0 is not there"):
        container.from_constant(1)
