# SPDX-License-Identifier: Apache-2.0
"""A compiled program in Python: options that do not exist, names that are no forms, inputs that do not fit."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import faulty_executors
import pillion
from pillion.errors import PillionError
from pillion.ir.graph import Graph
from pillion.ir.types import DType, PerTensor, TensorType, Value
from pillion.ops import Quantize
from pillion.program import Program
from pillion.run.executor import EXECUTORCH, HOST, REFERENCE
from pillion.run.verify import verify_project
from pillion.targets import find_target


@pytest.fixture(scope="module")
def program() -> Program:
    return faulty_executors.program(faulty_executors.net(), "cortex-m33")


def test_repr_is_one_line(program: Program) -> None:
    count = len(program.graph.ops)
    assert repr(program) == f"Program({program.graph.name!r}, 'cortex-m33+int8', {count} ops)"
    assert repr(faulty_executors.program(faulty_executors.net(), "imxrt700")).endswith(" on the NPU)")


@pytest.mark.torch
@pytest.mark.parametrize(
    ("option", "value"),
    [("io_layout", "NHWC"), ("io_dtype", "uint16"), ("optimize", "fast"), ("optimize", None)],
)
def test_an_option_has_one_of_its_values(option: str, value: Any) -> None:
    from torch import nn, zeros

    with pytest.raises(PillionError, match=f"{option} is one of") as error:
        pillion.compile(nn.Linear(4, 2), zeros(1, 4), target="cortex-m33", **{option: value})
    assert str(error.value.help).startswith(f'{option}="')


WRONG: dict[str, tuple[Callable[[Program], object], str]] = {
    "runtime of a file": (lambda p: p.save("x.pte", runtime="2"), "runtime is one of 1.4, 1.5"),  # type: ignore[arg-type]  # on purpose
    "runtime of a folder": (lambda p: p.save("x", runtime="2"), "runtime is one of"),  # type: ignore[arg-type]  # on purpose
    "runtime of bytes": (lambda p: p.pte("2"), "runtime is one of"),  # type: ignore[arg-type]  # on purpose
    "onnx": (lambda p: p.save("x.onnx"), r"suffix \.onnx"),
    "C": (lambda p: p.save("x.c"), "x.c cannot be written"),
    "capitals": (lambda p: p.save("x.ONNX"), r"suffix \.ONNX"),
    "place that is none": (lambda p: p.run(on=None), "on is one of reference, host"),  # type: ignore[arg-type]  # on purpose
    "place that is not known": (lambda p: p.run(on="mps3-an574"), 'on="mps3-an547"'),
    "no samples": (lambda p: p.verify(0), "nothing would be compared"),
    "no samples of a project": (lambda p: verify_project(Path("fw"), 0), "nothing would be compared"),
}


@pytest.mark.parametrize("name", WRONG)
def test_invalid_calls_are_refused(
    name: str, program: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    call, words = WRONG[name]
    with pytest.raises(PillionError, match=words):
        call(program)
    assert not list(tmp_path.iterdir())


def test_suffixes_may_have_capitals(program: Program, tmp_path: Path) -> None:
    for suffix in (".PTE", ".TFLITE"):
        assert program.save(tmp_path / f"x{suffix}").is_file()


def inputs_of(program: Program) -> list[Any]:
    return [np.zeros(v.shape, v.dtype.numpy) for v in program.graph.inputs]


@pytest.mark.parametrize("on", [REFERENCE, HOST, EXECUTORCH, "mps2-an505"])
def test_inputs_that_do_not_fit_are_told_the_same_everywhere(program: Program, on: str) -> None:
    first, *others = inputs_of(program)
    with pytest.raises(PillionError, match=f"array.astype\\(numpy.{first.dtype}\\)"):
        program.run(first.astype(np.float64), *others, on=on)
    with pytest.raises(PillionError, match="reshape the array"):
        program.run(first[np.newaxis], *others, on=on)
    with pytest.raises(PillionError, match="one array for each input"):
        program.run(*others, on=on)


def test_a_program_survives_pickling_after_it_was_lowered(program: Program) -> None:
    assert program.memory.arena_bytes > 0
    again = pickle.loads(pickle.dumps(program))
    assert again.text() == program.text()
    assert again.files == program.files


def test_numbers_of_python_are_inputs_that_are_numbers() -> None:
    """As they are in example inputs; what a type does not hold is refused."""
    x, y = (
        Value("x", TensorType((), DType.FLOAT32)),
        Value("y", TensorType((), DType.INT8, PerTensor(0.5, 3))),
    )
    program = Program(Graph("one", (x,), (Quantize(x=x, y=y),), (y,)), find_target("cortex-m33"))
    for given in (1.5, 2, np.float32(4)):
        np.testing.assert_array_equal(program.run(given), program.run(np.float32(given).reshape(())))
    for beyond in (1e300, 10**400, True):
        with pytest.raises(PillionError):
            program.run(beyond)
