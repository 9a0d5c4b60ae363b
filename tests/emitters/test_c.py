# SPDX-License-Identifier: Apache-2.0
"""The generated C gives the bytes of the reference: every op's examples, on this computer and on emulated boards."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from numpy.testing import assert_array_equal

from example_graphs import samples_of, side_by_side
from pillion.devices.cortex_m import Isa
from pillion.emitters.c.choose import choose, kernels
from pillion.emitters.c.program import lower
from pillion.emitters.c.project import project_files
from pillion.ir.graph import Graph
from pillion.ir.numerics import Arithmetic
from pillion.ir.op import Op
from pillion.ir.types import Array
from pillion.ops import ALL_OPS, KINDS
from pillion.program import Program
from pillion.run.places import run_project
from pillion.run.project import temporary_project
from pillion.targets import find_target

BOARDS = {
    "mps2-an505": "cortex-m33",
    "mps3-an547": "cortex-m55",
    "mps2-an386": "cortex-m4",
    "mps2-an500": "cortex-m7",
    "mps2-an385": "cortex-m3",
    "microbit": "cortex-m0",
}


def examples_graph(cls: type[Op], arithmetic: Arithmetic) -> Graph | None:
    """All examples that a kernel takes; None where there is none (the op is refused under this arithmetic)."""
    candidates = [op for op in cls.examples() if runs(op, arithmetic)]
    return side_by_side(candidates, cls.kind, arithmetic) if candidates else None


def runs(op: Op, arithmetic: Arithmetic) -> bool:
    """Whether the op has a meaning under the arithmetic: some functions are not part of LiteRT."""
    from pillion.errors import PillionError

    try:
        op.reference(arithmetic, *(v.constant if v.is_constant else random_array(v) for v in op.operands))
    except PillionError:
        return False
    return True


def random_array(value: object) -> Array:
    from pillion.ops.samples import random_like

    return random_like(value)  # type: ignore[arg-type]  # a value


def assert_same(graph: Graph, inputs: list[Array], outputs: tuple[Array, ...]) -> None:
    for value, ours, theirs in zip(graph.outputs, graph.reference(*inputs), outputs, strict=True):
        assert_array_equal(ours, theirs, err_msg=f"{graph.producers[value].attributes}")
        assert ours.dtype == theirs.dtype


@pytest.mark.parametrize("arithmetic", Arithmetic, ids=lambda a: a.value)
@pytest.mark.parametrize("cls", ALL_OPS, ids=lambda c: c.kind)
def test_host_c_is_the_reference(cls: type[Op], arithmetic: Arithmetic) -> None:
    graph = examples_graph(cls, arithmetic)
    assert graph is not None
    with temporary_project(dict(project_files(lower(graph), "host"))) as folder:
        for inputs in samples_of(graph):
            assert_same(graph, inputs, run_project(folder, inputs).outputs)


@pytest.mark.qemu
@pytest.mark.parametrize("board", BOARDS)
@pytest.mark.parametrize("cls", ALL_OPS, ids=lambda c: c.kind)
def test_boards_give_the_reference(cls: type[Op], board: str) -> None:
    graph = examples_graph(cls, Arithmetic.CMSIS_NN)
    assert graph is not None
    program = Program(graph, find_target(BOARDS[board]))
    with temporary_project(program.files) as folder:
        for inputs in samples_of(graph, 1):
            assert_same(graph, inputs, run_project(folder, inputs, board).outputs)


@pytest.mark.parametrize("isa", Isa, ids=lambda i: i.value)
@pytest.mark.parametrize("cls", ALL_OPS, ids=lambda c: c.kind)
def test_every_op_has_a_kernel_for_every_core(cls: type[Op], isa: Isa) -> None:
    assert any(kernel.op is cls for kernel in kernels(isa)), (
        f"add a row for {cls.kind} to emitters/c/portable.py"
    )
    graph = examples_graph(cls, Arithmetic.CMSIS_NN)
    assert graph is not None
    assert len(choose(graph, isa)) == len(graph.ops)


@pytest.mark.parametrize("target", ["host", pytest.param("mps2-an505", marks=pytest.mark.qemu)])
def test_the_projects_own_makefile_builds_and_runs_it(target: str, tmp_path: Path) -> None:
    graph = examples_graph(ALL_OPS[0], Arithmetic.CMSIS_NN)
    assert graph is not None
    program = Program(graph, find_target("cortex-m3" if target == "host" else "cortex-m33"))
    folder = program.firmware(tmp_path / "fw")
    inputs = samples_of(graph, 1)[0]
    (folder / "input.bin").write_bytes(b"".join(x.tobytes() for x in inputs))
    subprocess.run(["make", f"run-{target}"], cwd=folder, check=True, capture_output=True)
    wanted = b"".join(y.tobytes() for y in graph.reference(*inputs))
    assert (folder / "output.bin").read_bytes() == wanted


@pytest.mark.parametrize("isa", [Isa.DSP, Isa.MVE], ids=lambda i: i.value)
def test_size_gives_up_kernels_that_others_can_stand_in_for(isa: Isa) -> None:
    graph = examples_graph(KINDS["conv2d"], Arithmetic.CMSIS_NN)
    assert graph is not None
    by_speed, by_size = (lower(graph, isa, optimize) for optimize in ("speed", "size"))
    assert len({s.choice.kernel for s in by_size.steps}) < len({s.choice.kernel for s in by_speed.steps})
    reasons = [step.choice.reason for step in by_size.steps]
    assert any("optimize.size" in reason for reason in reasons)


@pytest.mark.qemu
@pytest.mark.parametrize(("target", "board"), [("cortex-m33", "mps2-an505"), ("cortex-m0plus", "microbit")])
@pytest.mark.parametrize("kind", ["conv2d", "depthwise_conv2d"])
def test_size_gives_the_same_bytes(kind: str, target: str, board: str) -> None:
    graph = examples_graph(KINDS[kind], Arithmetic.CMSIS_NN)
    assert graph is not None
    program = Program(graph, find_target(target), optimize="size")
    inputs = samples_of(graph, 1)[0]
    with temporary_project(program.files) as folder:
        assert "OPTIMIZE ?= -Os" in (folder / "Makefile").read_text()
        assert_same(graph, inputs, run_project(folder, inputs, board).outputs)
