# SPDX-License-Identifier: Apache-2.0
"""The real kernels on emulated cores, asked where they are: limits that they have, and programs that they compute."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np
import pytest

from fuzz.together import together
from judge.beyond import BOTH, PROGRAMS
from judge.cases import KINDS, case
from judge.hunt import complaint
from judge.machine import RUNTIMES, Core, judged, missing
from pillion.emitters.pte import Runtime
from pillion.ir.graph import Graph
from pillion.ops import Minimum
from pillion.ops.samples import value

pytestmark = [pytest.mark.slow, pytest.mark.skipif(bool(missing()), reason=missing())]


@pytest.mark.parametrize("core", BOTH)
@pytest.mark.parametrize("name", PROGRAMS)
def test_limits_are_those_of_the_library(name: str, core: Core) -> None:
    """It fails on the other side of each, on the cores that are said to have it, and only on those."""
    found = PROGRAMS[name]()
    answer = judged(found.program(core), found.graph.outputs, [[found.input]], core, "1.4")
    (wanted,) = found.graph.reference(found.input)
    is_right = answer.ok and np.array_equal(answer.outputs[0][0], wanted)
    assert is_right == (core not in found.cores), answer.complaint


def extrema() -> Iterator[Graph]:
    """An operand repeated along every choice of axes, some of them of size 1."""
    for rank, swap in itertools.product((2, 3, 4, 5), (False, True)):
        for mask, single in itertools.product(itertools.product((0, 1), repeat=rank), (None, 0, rank - 2)):
            shape = tuple(1 if axis == single else size for axis, size in enumerate((3, 4, 5, 2, 3)[-rank:]))
            small = tuple(1 if one else size for one, size in zip(mask, shape, strict=True))
            a, b, y = value("a", shape), value("b", small), value("y", shape)
            first, second = (b, a) if swap else (a, b)
            yield Graph("extremum", (a, b), (Minimum(a=first, b=second, y=y),), (y,))


@pytest.mark.parametrize("core", BOTH)
def test_extrema_repeat_operands_along_any_axes(core: Core) -> None:
    graphs = list(extrema())
    for begin in range(0, len(graphs), 60):
        assert complaint(together(graphs[begin : begin + 60]), core, "1.4") == ""


@pytest.mark.parametrize("kind", KINDS)
def test_a_program_of_every_kind_is_equal_or_refused(kind: str) -> None:
    """A few; `python -m judge.hunt` asks about any number."""
    places: list[tuple[Core, Runtime]] = [("m55", RUNTIMES[0]), ("m33", RUNTIMES[1])]
    asked = [complaint(graph, *place) for seed in (1, 2) if (graph := case(kind, seed)) for place in places]
    assert asked
    assert not [words for words in asked if words]
