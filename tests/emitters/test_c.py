# SPDX-License-Identifier: Apache-2.0
"""The generated C gives the bytes of the reference: every op's examples, on this computer and on emulated boards."""

from __future__ import annotations

import subprocess
from functools import cache
from pathlib import Path

import pytest
from numpy.testing import assert_array_equal

from example_graphs import samples_of, side_by_side
from nightly import in_turn, runs_all
from pillion.devices.cortex_m import Isa
from pillion.emitters.c.kernel_choice import choose_kernels, kernels
from pillion.emitters.c.lower import lower
from pillion.emitters.c.project import project_files
from pillion.ir.graph import Graph
from pillion.ir.numerics import Arithmetic
from pillion.ir.op import Op
from pillion.ir.types import Array
from pillion.ops import ALL_OPS, KINDS
from pillion.program import Program
from pillion.run.executor_list import run_project
from pillion.run.project_folder import temporary_project
from pillion.targets import find_target

pytestmark = pytest.mark.usefixtures("any_sound_plan")

BOARDS = {
    "mps2-an505": "cortex-m33",
    "mps3-an547": "cortex-m55",
    "mps2-an386": "cortex-m4",
    "mps2-an500": "cortex-m7",
    "microbit": "cortex-m0",
    "mps2-an385": "cortex-m3",
}
GROUPS = [ALL_OPS[i::4] for i in range(4)]
"""Each is one program, so that a build and a boot run all examples of many ops."""


@cache
def examples_of(cls: type[Op], arithmetic: Arithmetic) -> list[Op]:
    """Those that a kernel takes."""
    return [op for op in cls.examples() if runs(op, arithmetic)]


def examples_graph(cls: type[Op], arithmetic: Arithmetic = Arithmetic.CMSIS_NN) -> Graph:
    return side_by_side(examples_of(cls, arithmetic), cls.kind, arithmetic)


def group_graph(
    group: int, arithmetic: Arithmetic = Arithmetic.CMSIS_NN, first: int = 0, step: int = 1
) -> Graph:
    ops = [op for cls in GROUPS[group] for op in examples_of(cls, arithmetic)[first::step]]
    return side_by_side(ops, f"group{group}", arithmetic)


def runs(op: Op, arithmetic: Arithmetic) -> bool:
    """Whether the op has a meaning under the arithmetic: some functions are not part of LiteRT."""
    from pillion.errors import PillionError

    try:
        op.reference(arithmetic, *(v.constant if v.is_constant else random_array(v) for v in op.operands))
    except PillionError:
        return False
    return True


def random_array(value: object) -> Array:
    from pillion.ops.example_values import random_like

    return random_like(value)  # type: ignore[arg-type]  # a value


def assert_same(graph: Graph, inputs: list[Array], outputs: tuple[Array, ...]) -> None:
    for value, ours, theirs in zip(graph.outputs, graph.reference(*inputs), outputs, strict=True):
        assert_array_equal(ours, theirs, err_msg=f"{value.name}: {graph.producers[value]}")
        assert ours.dtype == theirs.dtype


@pytest.mark.turns(4)
@pytest.mark.parametrize(("group", "arithmetic"), in_turn(range(len(GROUPS)), list(Arithmetic)))
def test_host_c_is_the_reference(group: int, arithmetic: Arithmetic) -> None:
    graph = group_graph(group, arithmetic)
    assert {type(op) for op in graph.ops} == set(GROUPS[group])
    with temporary_project(dict(project_files(lower(graph), "host"))) as folder:
        for inputs in samples_of(graph):
            assert_same(graph, inputs, run_project(folder, inputs).outputs)


@pytest.mark.turns(8)
@pytest.mark.qemu
@pytest.mark.parametrize("board", list(BOARDS) if runs_all() else list(BOARDS)[:2])
@pytest.mark.parametrize("group", range(len(GROUPS)))
def test_boards_give_the_reference(group: int, board: str) -> None:
    """`make test` has every second example on a core with DSP instructions, the others on one with Helium."""
    graph = group_graph(group) if runs_all() else group_graph(group, first=list(BOARDS).index(board), step=2)
    program = Program(graph, find_target(BOARDS[board]))
    with temporary_project(program.files) as folder:
        for inputs in samples_of(graph, 1):
            assert_same(graph, inputs, run_project(folder, inputs, board).outputs)


@pytest.mark.turns(2)
@pytest.mark.parametrize("isa", Isa, ids=lambda i: i.value)
def test_every_op_has_a_kernel_for_every_core(isa: Isa) -> None:
    lacking = set(ALL_OPS) - {kernel.op for kernel in kernels(isa)}
    assert not lacking, "add rows to emitters/c/families/"
    for cls in ALL_OPS:
        graph = examples_graph(cls)
        assert len(choose_kernels(graph, isa)) == len(graph.ops) > 0


@pytest.mark.turns(3)
@pytest.mark.parametrize("target", ["host", pytest.param("mps2-an505", marks=pytest.mark.qemu)])
def test_the_projects_own_makefile_builds_and_runs_it(target: str, tmp_path: Path) -> None:
    graph = examples_graph(ALL_OPS[0])
    program = Program(graph, find_target("cortex-m3" if target == "host" else "cortex-m33"))
    folder = program.firmware(tmp_path / "fw")
    inputs = samples_of(graph, 1)[0]
    (folder / "input.bin").write_bytes(b"".join(x.tobytes() for x in inputs))
    subprocess.run(["make", f"run-{target}"], cwd=folder, check=True, capture_output=True)
    wanted = b"".join(y.tobytes() for y in graph.reference(*inputs))
    assert (folder / "output.bin").read_bytes() == wanted


@pytest.mark.parametrize("isa", [Isa.DSP, Isa.MVE], ids=lambda i: i.value)
def test_size_gives_up_kernels_that_others_can_stand_in_for(isa: Isa) -> None:
    graph = examples_graph(KINDS["conv2d"])
    by_speed, by_size = (lower(graph, isa, optimize) for optimize in ("speed", "size"))
    assert len({s.choice.kernel for s in by_size.steps}) < len({s.choice.kernel for s in by_speed.steps})
    reasons = [step.choice.reason for step in by_size.steps]
    assert any("optimize.size" in reason for reason in reasons)


@pytest.mark.turns(3)
@pytest.mark.qemu
@pytest.mark.parametrize(("target", "board"), [("cortex-m33", "mps2-an505"), ("cortex-m0plus", "microbit")])
@pytest.mark.parametrize("kind", ["conv2d", "depthwise_conv2d"])
def test_size_gives_the_same_bytes(kind: str, target: str, board: str) -> None:
    graph = examples_graph(KINDS[kind])
    program = Program(graph, find_target(target), optimize="size")
    inputs = samples_of(graph, 1)[0]
    with temporary_project(program.files) as folder:
        assert "OPTIMIZE ?= -Os" in (folder / "Makefile").read_text()
        assert_same(graph, inputs, run_project(folder, inputs, board).outputs)
