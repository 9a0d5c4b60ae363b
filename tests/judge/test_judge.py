# SPDX-License-Identifier: Apache-2.0
"""The real kernels on emulated cores, asked where they are: limits that they have, and programs that they compute."""

from __future__ import annotations

import numpy as np
import pytest

from judge.beyond import BOTH, PROGRAMS
from judge.cases import KINDS, case
from judge.hunt import complaint
from judge.machine import RUNTIMES, Core, judged, missing
from pillion.emitters.pte import Runtime

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


@pytest.mark.parametrize("kind", KINDS)
def test_a_program_of_every_kind_is_equal_or_refused(kind: str) -> None:
    """A few; `python -m judge.hunt` asks about any number."""
    places: list[tuple[Core, Runtime]] = [("m55", RUNTIMES[0]), ("m33", RUNTIMES[1])]
    asked = [complaint(graph, *place) for seed in (1, 2) if (graph := case(kind, seed)) for place in places]
    assert asked
    assert not [words for words in asked if words]
