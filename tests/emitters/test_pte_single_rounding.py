# SPDX-License-Identifier: Apache-2.0
"""Sums that LiteRT rounds once, by ExecuTorch's kernels, which round twice: the numbers that they are handed are right for all sums."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from judge.hunt import complaint
from judge.machine import CORES, RUNTIMES, Core, missing
from nightly import in_turn, part_of
from pillion.devices import cortex_m
from pillion.emitters.pte import emit
from pillion.emitters.pte.single_rounding import Int64Array, find_single_rounding, rounded_as_doubles
from pillion.errors import PillionError
from pillion.importers.pte import read
from pillion.importers.pte.container import Container
from pillion.importers.pte.foreign_program import graph_of
from pillion.ir import numerics
from pillion.ir.graph import Graph
from pillion.ir.numerics import Arithmetic
from pillion.ir.op import Op
from pillion.ops import Linear, ReduceSum
from pillion.ops.example_values import conv_bias, conv_weights, make_op, value

TFLITE, INTEGER = Arithmetic.TFLITE, Arithmetic.TFLITE_INTEGER
REACH = 4_000_000


def ratios_of(kind: str, rng: np.random.Generator) -> NDArray[np.float64]:
    match kind:
        case "one":
            return np.array([0.00231])
        case "trained":
            return np.asarray(0.02 * rng.uniform(0.0005, 0.02, 21) / 0.1, np.float64)
        case "ties":
            return np.asarray(2.0 ** rng.integers(-14, -5, 40), np.float64)
        case _:
            return np.array([1.0, 0.75, 0.5, 0.2499])


def sums_of(ratio: float, rng: np.random.Generator) -> Int64Array:
    """All around the sums at which results begin, both ends, and many others."""
    begins = np.floor((np.arange(-300, 300) - 0.5) / ratio).astype(np.int64)
    around = (begins[:, None] + np.arange(-3, 4)).ravel()
    others = rng.integers(-REACH, REACH + 1, 20_000)
    return np.unique(np.clip(np.concatenate([around, others, [-REACH, 0, REACH]]), -REACH, REACH))


@pytest.mark.turns(4)
@pytest.mark.parametrize("zero_point", [-128, -3, 0, 127])
@pytest.mark.parametrize("kind", ["one", "trained", "ties", "large"])
def test_a_kernel_that_rounds_twice_rounds_as_if_once(kind: str, zero_point: int) -> None:
    rng = np.random.default_rng(zero_point + 128)
    ratios = ratios_of(kind, rng)
    ends = np.tile([[-REACH, REACH]], (len(ratios), 1))
    found = find_single_rounding(
        ratios, ends, zero_point, lambda sums: rounded_as_doubles(sums, ratios[:, None])
    )
    assert found is not None
    for at, ratio in enumerate(ratios):
        sums = sums_of(float(ratio), rng)
        assert np.abs(sums + found.added[at]).max() < 2**31 >> max(int(found.shifts[at]), 0)
        made = numerics.requantize(sums + found.added[at], found.mantissas[at], found.shifts[at])
        wanted = rounded_as_doubles(sums, ratio) + zero_point
        assert np.array_equal(np.clip(made - found.lift + zero_point, -128, 127), np.clip(wanted, -128, 127))


def test_ratios_without_numbers_have_none() -> None:
    """A sum of as many steps as this leaves no room to be moved up in 32 bits."""
    ratios, ends = np.array([1e-7]), np.array([[-(2**30), 2**30]])
    assert (
        find_single_rounding(ratios, ends, 0, lambda sums: rounded_as_doubles(sums, ratios[:, None])) is None
    )


def random_layer(seed: int, arithmetic: Arithmetic = TFLITE) -> Graph:
    """A layer whose sums fall on ties with every second seed."""
    rng = np.random.default_rng(seed)
    rows, inner, outer = (
        int(rng.integers(1, 4)),
        int(rng.choice([1, 7, 64, 333])),
        int(rng.choice([1, 9, 40])),
    )
    x = value("x", (rows, inner), 2.0**-5 if seed % 2 else 0.0317, (-128, 0, 5, 127)[seed % 4])
    weights = conv_weights((outer, inner), 0, seed, power_of_two=seed % 2 == 1)
    y = value("y", (), (2.0**-2 if seed % 2 else 0.21) * inner**0.5, (0, 127, -128, 3)[seed // 2 % 4])
    op = make_op(Linear, y, x=x, weights=weights, bias=conv_bias(x, weights, outer, seed))
    return Graph(f"layer{seed}", (op.x,), (op,), (op.y,), arithmetic)


def random_sum(seed: int, arithmetic: Arithmetic) -> Graph:
    rng = np.random.default_rng(seed)
    shape = tuple(int(n) for n in rng.integers(1, 8, 4))
    x = value("x", shape, 0.0625, (-128, 0, 5, 127)[seed % 4])
    y = value("y", (), 2.0**-3 if seed % 2 else 0.31, (0, 127, -128, 3)[seed // 2 % 4])
    op = make_op(ReduceSum, y, x=x, axes=((1, 2), (3,), (0, 3), (2,))[seed % 4], keepdims=bool(seed % 2))
    return Graph(f"sum{seed}", (op.x,), (op,), (op.y,), arithmetic)


def graphs() -> list[Graph]:
    sums = [random_sum(seed, (TFLITE, INTEGER)[seed % 2]) for seed in range(8)]
    return [*(random_layer(seed) for seed in range(12)), *sums]


@pytest.mark.parametrize(
    ("graph", "core"),
    in_turn(graphs(), ["cortex-m33", "cortex-m55", "cortex-m55"]),
    ids=lambda x: getattr(x, "name", x),
)
def test_the_runtime_gives_the_bytes_of_litert(graph: Graph, core: str) -> None:
    pytest.importorskip("executorch", reason="pip install 'pillion[executorch]'")
    from pillion.run.executorch import run_executorch

    rng = np.random.default_rng(0)
    program = emit(graph, cortex_m.CORES[core])
    for _ in range(3):
        x = rng.integers(-128, 128, graph.inputs[0].shape, np.int8)
        (wanted,) = graph.reference(x)
        np.testing.assert_array_equal(run_executorch(program, [x])[0], wanted)


def test_litert_itself_gives_these_bytes() -> None:
    pytest.importorskip("ai_edge_litert", reason="pip install 'pillion[litert]'")
    from pillion.compiler import find_target
    from pillion.program import Program

    for seed in range(4):
        program = Program(random_layer(seed), find_target("cortex-m55"))
        x = np.random.default_rng(seed).integers(-128, 128, program.graph.inputs[0].shape, np.int8)
        np.testing.assert_array_equal(program.run(x, on="litert")[0], program.run(x)[0])


def many_scales(outer: int) -> Graph:
    """More features of fine steps than one number serves."""
    rng = np.random.default_rng(5)
    x, weights = value("x", (2, 48), 0.02, -9), conv_weights((outer, 48), 0, 5)
    bias = conv_bias(x, weights, outer, 5)
    op: Op = make_op(
        Linear, value("y", (), 0.011 + rng.uniform(0, 0.001), 11), x=x, weights=weights, bias=bias
    )
    return Graph("many", (op.operands[0],), (op,), (op.results[0],), TFLITE)


def test_features_that_share_no_number_are_made_in_parts() -> None:
    pytest.importorskip("executorch", reason="pip install 'pillion[executorch]'")
    from pillion.run.executorch import run_executorch

    graph = many_scales(180)
    program = emit(graph, cortex_m.CORES["cortex-m55"])
    names = {operator.name for operator in Container(program, "p").plan.operators}
    assert "aten::cat" in names
    x = np.random.default_rng(1).integers(-128, 128, (2, 48), np.int8)
    np.testing.assert_array_equal(run_executorch(program, [x])[0], graph.reference(x)[0])


def test_a_file_is_read_by_its_record_and_refused_by_its_calls() -> None:
    """A graph has no word for results that lie far above: without its record the file names the number that is none."""
    graph = random_layer(0)
    raw = emit(graph, cortex_m.CORES["cortex-m33"])
    assert read(raw).is_recorded
    with pytest.raises(PillionError, match="zero point"):
        graph_of(Container(raw, "p"))


@pytest.mark.turns(3)
@pytest.mark.slow
@pytest.mark.skipif(bool(missing()), reason=missing())
@pytest.mark.parametrize("core", part_of(CORES, 2))
def test_the_real_kernels_give_these_bytes(core: Core) -> None:
    asked = [complaint(graph, core, RUNTIMES[n % 2]) for n, graph in enumerate(graphs())]
    assert asked == [""] * len(asked)
