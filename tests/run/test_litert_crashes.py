# SPDX-License-Identifier: Apache-2.0
"""Files that make LiteRT stop its process, or that it refuses: ours goes on, and says what happened."""

from __future__ import annotations

import os
import signal
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import pillion
from pillion.errors import PillionError
from pillion.run import litert_remote
from pillion.run.executor_list import find_executor
from pillion.run.litert_file import LiteRtFileExecutor
from pillion.run.litert_remote import LiteRtProcess
from pillion.run.runtime_process import RuntimeRefusal
from pillion.run.verify import verify
from pillion.schemas import tflite
from pillion.schemas.flatbuffer import write_flatbuffer

pytest.importorskip("ai_edge_litert", reason="pip install 'pillion[litert]'")


def file_of(
    code: str, shapes: list[list[int]], scales: list[float], options: object = None, **fields: object
) -> bytes:
    """One operator of int8; the last tensor is its result."""
    kinds = {"type": tflite.ElementType.INT8, "has_rank": True} | fields
    tensors = [
        tflite.Tensor(shape=shape, name=f"t{n}", quantization=tflite.Quantization(scale=[s], zero_point=[0]))
        for n, (shape, s) in enumerate(zip(shapes, scales, strict=True))
    ]
    for tensor in tensors:
        for name, held in kinds.items():
            setattr(tensor, name, held)
    operands = list(range(len(tensors) - 1))
    operator = tflite.Operator(inputs=operands, outputs=[len(operands)], options=options)  # type: ignore[arg-type]  # a table
    operator.options_type = tflite.OPTION_NUMBERS[type(options)] if options is not None else 0
    number = tflite.OPERATOR_NUMBERS[code]
    graph = tflite.SubGraph(tensors=tensors, inputs=operands, outputs=[len(operands)], operators=[operator])
    codes = [tflite.OperatorCode(builtin_code=number, deprecated_builtin_code=min(number, 127))]
    return write_flatbuffer(
        tflite.Model(version=3, operator_codes=codes, subgraphs=[graph], buffers=[tflite.Buffer()]),
        tflite.IDENTIFIER,
    )


PAIR = [[2, 3], [2, 3], [2, 3]]
ABORTS = file_of("ADD", PAIR, [0.1, 0.1, 1e-9], tflite.AddOptions(pot_scale_int16=False))
"""An addition whose result has so fine a scale that LiteRT's check of it ends the process."""
RUNS = file_of("MAXIMUM", PAIR, [0.1, 0.1, 0.1], tflite.MaximumMinimumOptions())


def test_a_crash_is_an_error_of_four_parts_and_the_next_file_runs() -> None:
    pair = [np.full((2, 3), n, np.int8) for n in (5, -7)]
    with pytest.raises(PillionError, match="LiteRT crashed") as caught:
        LiteRtProcess(ABORTS).run(pair)
    assert "SIGABRT" in caught.value.here
    assert caught.value.rule
    assert "--on host" in caught.value.help
    assert LiteRtProcess(RUNS).run(pair)[0].tolist() == [[5] * 3] * 2


def test_verify_says_that_litert_crashes_on_a_file(tmp_path: Path) -> None:
    file = tmp_path / "maximum.tflite"
    file.write_bytes(RUNS)
    # The reader refuses every file known to abort LiteRT, so the program carries one that it was not read from.
    program = replace(pillion.compile(file, target="cortex-m33"), source=ABORTS)
    verdict = LiteRtFileExecutor().judge(program)
    assert not verdict.ok
    assert "LiteRT crashed" in verdict.what
    result = verify(program, 2, executors=[*map(find_executor, ("reference", "host")), LiteRtFileExecutor()])
    assert result.ok
    assert [run.executor for run in result.runs if not run.has_run] == ["litert-file"]


def test_a_refusal_is_said_in_litert_s_words() -> None:
    with pytest.raises(RuntimeRefusal, match="not a valid Flatbuffer"):
        LiteRtProcess(b"no file at all")


def test_a_process_that_is_gone_is_started_again() -> None:
    one = LiteRtProcess(RUNS)
    remote = litert_remote._litert_process()
    os.kill(remote.child.pid, signal.SIGKILL)
    pair = [np.zeros((2, 3), np.int8)] * 2
    with pytest.raises(PillionError, match="LiteRT crashed"):
        one.run(pair)
    assert LiteRtProcess(RUNS).run(pair)[0].tolist() == [[0] * 3] * 2
    assert litert_remote._litert_process() is not remote


def test_unused_litert_files_are_closed() -> None:
    for _ in range(3):
        LiteRtProcess(RUNS).run([np.zeros((2, 3), np.int8)] * 2)
    held = LiteRtProcess(RUNS)
    assert held
    assert not litert_remote._closed


def test_numbers_of_another_type_are_refused() -> None:
    with pytest.raises(RuntimeRefusal, match="INT32"):
        LiteRtProcess(RUNS).run([np.zeros((2, 3), np.int32)] * 2)


def test_runs_beyond_the_time_limit_are_stopped() -> None:
    held = LiteRtProcess(RUNS)
    os.kill(held._process.child.pid, signal.SIGSTOP)
    with pytest.raises(PillionError, match="did not finish") as caught:
        held.run([np.zeros((2, 3), np.int8)] * 2, seconds=0.2)
    assert "0.2 s" in caught.value.rule
