# SPDX-License-Identifier: Apache-2.0
"""Random programs grown from the ops' declarations: every executor answers the reference's bytes, and what the compiler
does with them keeps these bytes. `python -m fuzz.hunt` asks the same for as long as one likes."""

from __future__ import annotations

import importlib.util

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from fuzz.choices import from_hypothesis, from_seed
from fuzz.hunt import HUNTS, Hunt
from fuzz.merged_programs import together
from fuzz.mixed import LARGE
from fuzz.recipes import grown
from nightly import part_of, seeds
from pillion.ir.graph import Graph
from pillion.ir.numerics import Arithmetic

NO_EXECUTORCH = importlib.util.find_spec("executorch") is None
BATCH = 8


@st.composite
def programs(draw: st.DrawFn, hunt: Hunt) -> Graph:
    """Small ones: Hypothesis makes them smaller still when they fail."""
    arithmetic = draw(st.sampled_from(hunt.arithmetics))
    return grown(
        from_hypothesis(draw), draw(st.integers(1, 5)), arithmetic, largest=600, accepts=hunt.accepts
    )


def ask(name: str, examples: int) -> None:
    """Derandomized: the same programs every time."""
    hunt = HUNTS[name]

    @settings(
        max_examples=examples,
        deadline=None,
        derandomize=True,
        database=None,
        phases=(Phase.generate, Phase.shrink),
        suppress_health_check=list(HealthCheck),
    )
    @given(programs(hunt))
    def holds(graph: Graph) -> None:
        hunt.holds(graph)

    holds()


@pytest.mark.turns(7)
@pytest.mark.parametrize(
    ("name", "examples"),
    [
        ("text", 40),
        ("passes", 40),
        ("int8-io", 30),
        ("memory", 25),
        ("repeat", 8),
        ("streams", 15),
        ("states", 6),
    ],
)
def test_random_programs_keep_their_meaning(name: str, examples: int) -> None:
    ask(name, examples)


def test_litert_is_the_reference() -> None:
    ask("litert", 40)
    ask("states-litert", 12)


@pytest.mark.turns(2)
@pytest.mark.slow
@pytest.mark.skipif(NO_EXECUTORCH, reason="pip install 'pillion[executorch]'")
def test_executorch_is_the_reference() -> None:
    ask("executorch", 30)
    ask("states-executorch", 15)


def batch(hunt: Hunt, arithmetic: Arithmetic, seed: int, largest: int = 1200) -> Graph:
    """Several programs side by side, each of a seed of its own, so that one build serves them all."""
    graphs = [
        grown(from_seed(BATCH * seed + number), 4, arithmetic, largest=largest, accepts=hunt.accepts)
        for number in range(BATCH)
    ]
    return together(graphs)


GENERATED = ("host", "native", "placed", "rows")
CASES = [(name, arithmetic) for name in GENERATED for arithmetic in HUNTS[name].arithmetics]


@pytest.mark.turns(7)
@pytest.mark.parametrize("seed", seeds(10, today=1))
@pytest.mark.parametrize(("name", "arithmetic"), CASES, ids=lambda held: getattr(held, "value", held))
def test_generated_c_is_the_reference(name: str, arithmetic: Arithmetic, seed: int) -> None:
    HUNTS[name].holds(batch(HUNTS[name], arithmetic, seed))


@pytest.mark.turns(7)
@pytest.mark.parametrize("seed", seeds(4, today=1))
def test_axes_beyond_2_to_the_15_and_16(seed: int) -> None:
    """Some of these programs have them; others have images of thousands of pixels."""
    arithmetic = [*Arithmetic][seed % len(Arithmetic)]
    HUNTS["host"].holds(batch(HUNTS["host"], arithmetic, 1000 + seed, largest=LARGE))


@pytest.mark.turns(4)
@pytest.mark.qemu
@pytest.mark.slow
@pytest.mark.parametrize("seed", seeds(12, today=1))
@pytest.mark.parametrize(
    "core",
    part_of(
        [
            "cortex-m33",
            "cortex-m0",
            "cortex-m55",
            "cortex-m3",
            "rows-m55",
            "rows-m33",
            "states-m33",
            "states-m55",
        ],
        2,
    ),
)
def test_boards_are_the_reference(core: str, seed: int) -> None:
    arithmetic = [*Arithmetic][(seed + len(core)) % len(Arithmetic)]
    HUNTS[core].holds(batch(HUNTS[core], arithmetic, 100 + seed))
