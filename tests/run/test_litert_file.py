# SPDX-License-Identifier: Apache-2.0
"""`verify` runs the `.tflite` file as it came: what was read wrongly shows there, and nowhere else."""

from __future__ import annotations

import dataclasses
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pillion
from pillion.cli.verify_output import difference_lines, facts_of
from pillion.emitters.tflite import emit
from pillion.errors import PillionError
from pillion.importers import tflite as importer
from pillion.ir.graph import Graph
from pillion.ir.numerics import Arithmetic
from pillion.ops import Add, ReduceSum
from pillion.ops.example_values import make_op, value
from pillion.program import Program
from pillion.run.executor import LITERT, LITERT_FILE, REFERENCE
from pillion.run.litert import LiteRtExecutor
from pillion.run.litert_file import LiteRtFileExecutor
from pillion.run.reference import ReferenceExecutor
from pillion.run.verify import Verification, verify
from pillion.schemas import tflite
from pillion.schemas.flatbuffer import read_root_table, write_flatbuffer

pytest.importorskip("ai_edge_litert", reason="pip install 'pillion[litert]'")
WHO = (ReferenceExecutor(), LiteRtExecutor(), LiteRtFileExecutor())


def sum_of_two() -> bytes:
    a, b = value("a", (3, 5), 0.1, 3), value("b", (3, 5), 0.2, -128)
    op = make_op(Add, value("y", (), 0.25, 7), a=a, b=b)
    return emit(Graph("sum", (a, b), (op,), op.results, Arithmetic.TFLITE))


def program_of(raw: bytes, tmp_path: Path, **options: Any) -> Program:
    path = tmp_path / "net.tflite"
    path.write_bytes(raw)
    return pillion.compile(str(path), target="cortex-m33", **options)


def checked(program: Program) -> Verification:
    return verify(program, 2, executors=WHO)


def test_verify_runs_the_tflite_file_and_its_rewrite(tmp_path: Path) -> None:
    program = program_of(sum_of_two(), tmp_path)
    found = checked(program)
    assert found.ok
    assert [run.executor for run in found.runs if run.has_run] == [REFERENCE, LITERT, LITERT_FILE]
    x = [np.full((3, 5), 4, np.int8), np.full((3, 5), -9, np.int8)]
    np.testing.assert_array_equal(program.run(*x, on=LITERT_FILE)[0], program.run(*x)[0])


def test_an_error_of_the_importer_shows_only_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: the operands of a sum change places on the way in. What is written anew is as wrong as the reference."""
    reading = importer.OpenedTflite.graph

    def wrong(opened: importer.OpenedTflite) -> Graph:
        graph = reading(opened)
        (op,) = graph.ops
        assert isinstance(op, Add)
        swapped = dataclasses.replace(op, a=op.b, b=op.a, y=dataclasses.replace(op.y, type=op.a.type))
        return graph.replace(ops=(swapped,), outputs=swapped.results)

    monkeypatch.setattr(importer.OpenedTflite, "graph", wrong)
    found = checked(program_of(sum_of_two(), tmp_path))
    assert not found.ok
    differing = {frozenset((p.first, p.second)) for p in found.pairs if p.bytes_different}
    assert differing == {frozenset((REFERENCE, LITERT_FILE)), frozenset((LITERT, LITERT_FILE))}
    (difference,) = found.differences
    assert "the file was read wrongly" in difference_lines(difference)


def test_a_file_that_litert_refuses_is_said_to_be(tmp_path: Path) -> None:
    """A version of an operator that LiteRT has not, and Pillion does not look at."""
    model = read_root_table(tflite.Model, sum_of_two(), tflite.IDENTIFIER)
    model.operator_codes[0].version = 99
    found = checked(program_of(write_flatbuffer(model, tflite.IDENTIFIER), tmp_path))
    assert found.ok, "the others agree"
    notes = {row["executor"]: row["note"] for row in facts_of(found)["executors"]}
    assert "LiteRT itself refuses the file" in notes[LITERT_FILE]
    assert "version" in notes[LITERT_FILE]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"arithmetic": "cmsis-nn"}, "rounds otherwise"),
        ({"io_dtype": "uint8"}, "other tensors than the file"),
    ],
)
def test_a_program_that_is_no_longer_the_files_is_not_held_against_it(
    tmp_path: Path, options: dict[str, Any], words: str
) -> None:
    verdict = LiteRtFileExecutor().judge(program_of(sum_of_two(), tmp_path, **options))
    assert not verdict.ok
    assert words in verdict.what
    assert verdict.help


def test_kernels_that_litert_has_wrong_are_no_judges(tmp_path: Path) -> None:
    x = value("x", (2, 6), 0.1, 3)
    op = make_op(ReduceSum, value("y", (), 0.25, 7), x=x, axes=(1,))
    program = program_of(emit(Graph("sums", (x,), (op,), op.results, Arithmetic.TFLITE)), tmp_path)
    notes = [run.skipped.what + run.skipped.got for run in checked(program).runs if run.skipped]
    assert len(notes) == 2
    assert all("takes all numbers for uint8" in note for note in notes)


def test_other_programs_have_no_file(tmp_path: Path) -> None:
    program = program_of(sum_of_two(), tmp_path)
    parts = program.for_graph(program.graph)
    assert parts.source is None
    assert not LiteRtFileExecutor().judge(parts).ok
    with pytest.raises(PillionError, match="not read from a"):
        parts.run(*(np.zeros((3, 5), np.int8),) * 2, on=LITERT_FILE)
    assert pickle.loads(pickle.dumps(program)).source is None


def test_states_of_the_file_live_from_run_to_run(tmp_path: Path) -> None:
    from importers.streaming_file import wake_word

    program = program_of(wake_word(), tmp_path)
    assert program.graph.states
    assert checked(program).ok
