# SPDX-License-Identifier: Apache-2.0
"""The real kernels on emulated cores, asked where they are: limits that they have, and programs that they compute."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np
import pytest

import pillion
from fuzz.merged_programs import together
from judge.beyond import BOTH, PROGRAMS
from judge.cases import KINDS, case
from judge.hunt import complaint
from judge.inputs import samples
from judge.machine import CORES, RUNTIMES, Core, judged, missing
from judge.nets import answers
from judge.zoo import Row, recorded, row, rows
from pillion import zoo
from pillion.devices import cortex_m
from pillion.emitters.pte import Runtime, emit
from pillion.ir.graph import Graph
from pillion.ir.types import DType, PerChannel, TensorType, Value
from pillion.ir.verify import verify_graph
from pillion.ops import Linear, Mean, Minimum, Quantize
from pillion.ops.example_values import float_value, value

pytestmark = [pytest.mark.slow, pytest.mark.skipif(bool(missing()), reason=missing())]


@pytest.mark.turns(4)
@pytest.mark.parametrize("core", BOTH)
@pytest.mark.parametrize("name", PROGRAMS)
def test_limits_of_the_library_are_exact(name: str, core: Core) -> None:
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


@pytest.mark.turns(17)
@pytest.mark.parametrize("core", BOTH)
def test_extrema_repeat_operands_along_any_axes(core: Core) -> None:
    graphs = list(extrema())
    for begin in range(0, len(graphs), 60):
        assert complaint(together(graphs[begin : begin + 60]), core, "1.4") == ""


@pytest.mark.turns(12)
@pytest.mark.parametrize("core", BOTH)
def test_our_kernel_quantizes_ties_as_the_core_does(core: Core) -> None:
    """Helium rounds the product once, in blocks of sixteen; other cores round it twice."""
    pytest.importorskip("executorch", reason="pip install 'pillion[executorch]'")
    from pillion.run.executorch import run_executorch

    x, y = float_value("x", (1, 1000)), value("y", (1, 1000), 0.05, 3)
    graph = Graph("ties", (x,), (Quantize(x=x, y=y),), (y,))
    halves = (np.arange(1000) - 500).astype(np.float32).reshape(x.shape) / 2 * np.float32(0.05)
    program = emit(graph, cortex_m.CORES[CORES[core]])
    answer = judged(program, graph.outputs, [[halves]], core, "1.4")
    np.testing.assert_array_equal(run_executorch(program, [halves])[0], answer.outputs[0][0])
    assert np.array_equal(graph.reference(halves)[0], answer.outputs[0][0]) == (core == "m33")


MOST_OF_A_MEAN: dict[Core, float] = {"m55": 7.0, "m33": 15.0}
"""Instructions for each element of a mean over the pixels of an image. A window of one column took 41 and 62."""


@pytest.mark.parametrize("core", BOTH)
@pytest.mark.parametrize("shape", [(1, 25, 5, 64), (3, 7, 7, 24)])
def test_means_over_pixels_are_transposed_first(shape: tuple[int, ...], core: Core) -> None:
    x, y = value("x", shape, 0.05, 3), value("y", (shape[0], shape[3]), 0.02, -5)
    graph = verify_graph(Graph("mean", (x,), (Mean(x=x, y=y, axes=(1, 2)),), (y,)))
    fed = samples(graph)
    answer = judged(emit(graph, cortex_m.CORES[CORES[core]], "1.4"), (y,), fed, core, "1.4")
    assert all(
        np.array_equal(out[0], graph.reference(*of)[0]) for out, of in zip(answer.outputs, fed, strict=True)
    )
    assert answer.instructions
    assert max(answer.instructions) < MOST_OF_A_MEAN[core] * x.type.elements


@pytest.mark.parametrize(("rows", "most"), [(1, 4.0), (4, 3.5), (16, 4.5)])
def test_linears_of_few_rows_take_the_general_kernel_of_the_dsp_extension(rows: int, most: float) -> None:
    """Windows of one pixel take 5.4 instructions for each product of one row."""
    rng = np.random.default_rng(rows)
    scales = PerChannel(tuple(0.004 + 0.0001 * i for i in range(64)), 0)
    weights = Value(
        "w", TensorType((64, 128), DType.INT8, scales), rng.integers(-127, 128, (64, 128), np.int8)
    )
    bias = Value("b", TensorType((64,), DType.INT32), rng.integers(-999, 999, 64, np.int32))
    x, y = value("x", (rows, 128), 0.05, 3), value("y", (rows, 64), 0.4, -5)
    graph = verify_graph(Graph("linear", (x,), (Linear(x=x, weights=weights, bias=bias, y=y),), (y,)))
    fed = samples(graph)
    answer = judged(emit(graph, cortex_m.CORES[CORES["m33"]], "1.4"), (y,), fed, "m33", "1.4")
    assert all(
        np.array_equal(out[0], graph.reference(*of)[0]) for out, of in zip(answer.outputs, fed, strict=True)
    )
    assert answer.instructions
    assert max(answer.instructions) < most * graph.ops[0].macs


@pytest.mark.torch
def test_a_model_on_all_cores_and_runtimes() -> None:
    answers = list(rows(["ds_cnn"]))
    assert {(one.core, one.runtime) for one in answers} == {(c, r) for c in BOTH for r in RUNTIMES}
    assert not [str(one) for one in answers if one.complaint]


@pytest.mark.turns(4)
@pytest.mark.torch
def test_recorded_instructions_are_up_to_date() -> None:
    """The figures of docs/guide/executorch.md. Instructions depend on the data a little."""
    answers = [
        one for one in rows(["ds_cnn", "linear_bn", "separable_residual"]) if one.runtime == RUNTIMES[0]
    ]
    assert len(answers) == 6
    for one in answers:
        assert one.instructions == pytest.approx(recorded()[one.model][CORES[one.core]], rel=0.005), str(one)


COMPOSED = ("layer norm", "group norm", "vectors of length 1", "encoder with a mask")
"""Nets with operators that ExecuTorch lacks: what a file holds is composed of others."""


@pytest.mark.turns(4)
@pytest.mark.torch
@pytest.mark.parametrize("name", COMPOSED)
def test_compositions_equal_the_kernels(name: str) -> None:
    for one in answers(name):
        assert isinstance(one, Row), one
        assert not one.complaint, str(one)


@pytest.mark.turns(14)
@pytest.mark.torch
def test_the_example_of_the_readme_in_full_size() -> None:
    """224 x 224 pixels in three planes: what Helium's kernel for matrices gets wrong."""
    module, example = zoo.build("mobilenet_v2")
    program = pillion.compile(module, example, target="cortex-m55+int8", name="mv2")
    assert not row(program, "mobilenet_v2", "m55", "1.4", samples=1).complaint


@pytest.mark.turns(12)
@pytest.mark.parametrize("kind", KINDS)
def test_a_program_of_every_kind_is_equal_or_refused(kind: str) -> None:
    """A few; `python -m judge.hunt` asks about any number."""
    places: list[tuple[Core, Runtime]] = [("m55", RUNTIMES[0]), ("m33", RUNTIMES[1])]
    asked = [complaint(graph, *place) for seed in (1,) if (graph := case(kind, seed)) for place in places]
    assert asked
    assert not [words for words in asked if words]
