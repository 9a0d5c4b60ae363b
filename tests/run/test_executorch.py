# SPDX-License-Identifier: Apache-2.0
"""The runtime's host: what it refuses, and how it says so."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pillion.devices.cortex_m import CORES
from pillion.emitters.pte import emit
from pillion.emitters.pte.lower import LoweredProgram
from pillion.emitters.pte.node import KernelCall, NodeView, contiguous_view, image_view
from pillion.emitters.pte.writer import Writer
from pillion.emitters.segments import host_delegate_payloads
from pillion.errors import PillionError
from pillion.ir.graph import Graph
from pillion.ir.numerics import Arithmetic
from pillion.ir.types import Value
from pillion.memory import MemoryPlan
from pillion.ops import Add, Clamp, Segment
from pillion.ops.example_values import random_like, value
from pillion.schemas.pte_record import ProgramRecord

pytest.importorskip("executorch", reason="pip install 'pillion[executorch]'")

from pillion.run.executorch import run_executorch, wheel
from pillion.run.executorch.runtime import host


def program_of(operator: str, args: tuple[object, ...], x: Value, y: Value, out: NodeView) -> bytes:
    """A program of one call that no row of the table would make."""
    memory = MemoryPlan({x: 0, y: 4096}, {}, 8192, 8192, 8192, 0)
    graph = Graph("one", (x,), (), (y,))
    return Writer(LoweredProgram(graph, (KernelCall(operator, args, out),), memory, {})).program(
        lambda: ProgramRecord(b"{}", b"")
    )  # type: ignore[arg-type]  # arguments of any kind, and no record


def test_layouts_that_the_library_mistakes_are_refused() -> None:
    x, y = value("x", (1, 3, 5, 2)), value("y", (1, 2, 3, 5))
    program = program_of("cortex_m::transpose.out", (image_view(x), (0, 3, 1, 2)), x, y, contiguous_view(y))
    with pytest.raises(PillionError, match=r"cortex_m::transpose\.out") as refusal:
        run_executorch(program, [random_like(x)])
    assert "contiguous" in refusal.value.rule


def test_a_contiguous_tensor_is_not_padded_as_an_image() -> None:
    x, y = value("x", (2, 1, 3, 5)), value("y", (2, 1, 3, 6))
    program = program_of(
        "cortex_m::pad.out", (contiguous_view(x), (0, 0, 0, 0), (0, 0, 0, 1), 0), x, y, contiguous_view(y)
    )
    with pytest.raises(PillionError, match="padded sizes of an image"):
        run_executorch(program, [random_like(x)])


def test_unknown_operators_are_named_by_error_code() -> None:
    x, y = value("x", (3,)), value("y", (3,))
    with pytest.raises(PillionError, match="does not run the program"):
        run_executorch(
            program_of("cortex_m::nothing.out", (contiguous_view(x),), x, y, contiguous_view(y)),
            [random_like(x)],
        )


def test_wrong_arguments_do_not_end_the_process() -> None:
    x, y = value("x", (3,)), value("y", (3,))
    for args in ((), (contiguous_view(x), 1.5), (1, 2), (contiguous_view(x), contiguous_view(x), 7)):
        with pytest.raises(PillionError, match="quantized_activation"):
            run_executorch(
                program_of("cortex_m::quantized_activation.out", args, x, y, contiguous_view(y)),
                [random_like(x)],
            )


def test_files_that_are_no_programs() -> None:
    for junk in (b"", b"ET12" * 20, bytes(4096)):
        with pytest.raises(PillionError, match="does not run"):
            run_executorch(junk, [])


def test_operators_are_registered_once() -> None:
    with pytest.raises(PillionError, match="already"):
        host().register()


def test_a_missing_wheel_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wheel.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(PillionError, match="not installed") as refusal:
        wheel.find_wheel()
    assert "pip install" in refusal.value.help


def test_another_version_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wheel.importlib.metadata, "version", lambda name: "1.3.0")
    with pytest.raises(PillionError, match=r"1\.3\.0"):
        wheel.find_wheel()


def test_a_missing_compiler_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    found = wheel.find_wheel()
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(PillionError, match=r"C\+\+ compiler"):
        wheel.build_plugin(found)


def test_a_program_runs_again_and_again() -> None:
    a, b, y = value("a", (2, 3)), value("b", (2, 3), 0.1), value("y", (2, 3), 0.2, 3)
    graph = Graph("sum", (a, b), (Add(a=a, b=b, y=y),), (y,))
    program = emit(graph, CORES["cortex-m7"])
    for seed in range(3):
        inputs = [random_like(v, seed) for v in graph.inputs]
        np.testing.assert_array_equal(run_executorch(program, inputs)[0], graph.reference(*inputs)[0])


def segment_graph() -> Graph:
    """An NPU segment of two inputs between two ops of the core."""
    a, b, y = value("a", (1, 5, 3, 4)), value("b", (1, 5, 3, 4), 0.1, 5), value("y", (1, 5, 3, 4), 0.2, 3)
    body = Graph("npu0", (a, b), (Add(a=a, b=b, y=y),), (y,), Arithmetic.TFLITE)
    first, second, after, last = (
        value("first", a.shape),
        value("second", b.shape, 0.1, 5),
        value("after", y.shape, 0.2, 3),
        value("last", y.shape, 0.3, 1),
    )
    clamped = value("clamped", a.shape)
    ops = (
        Clamp(x=first, y=clamped, low=-100, high=90),
        Segment(xs=(clamped, second), ys=(after,), body=body, device="npu"),
        Clamp(x=after, y=last),
    )
    return Graph("mixed", (first, second), ops, (last,))


def test_segments_run_as_the_delegate() -> None:
    graph = segment_graph()
    for delegate in ("", "NpuBackend", "another NPU's"):
        program = emit(graph, CORES["cortex-m33"], payloads=host_delegate_payloads(graph), delegate=delegate)
        for seed in range(3):
            inputs = [random_like(v, seed) for v in graph.inputs]
            np.testing.assert_array_equal(run_executorch(program, inputs)[0], graph.reference(*inputs)[0])


def test_code_for_the_npu_itself_does_not_run_here() -> None:
    graph = segment_graph()
    program = emit(graph, CORES["cortex-m33"], payloads=[bytes(64)])
    with pytest.raises(PillionError, match="NPU's code cannot be executed here"):
        run_executorch(program, [random_like(v) for v in graph.inputs])
