# SPDX-License-Identifier: Apache-2.0
"""The runtime's process: what ends it, or stops it, is an error, and the next program runs again."""

from __future__ import annotations

import io
import os
import signal

import numpy as np
import pytest

from faulty_executors import net, program
from pillion.devices.cortex_m import CORES
from pillion.emitters.pte import emit
from pillion.emitters.pte.node import contiguous_view
from pillion.errors import PillionError
from pillion.ir.graph import Graph
from pillion.ops import Add
from pillion.ops.example_values import random_like, value
from pillion.run.executor_list import run_project

pytest.importorskip("executorch", reason="pip install 'pillion[executorch]'")

from test_executorch import program_of

from pillion.run import process_messages
from pillion.run.executorch import remote, run_executorch

a, b, y = value("a", (2, 3)), value("b", (2, 3), 0.1), value("y", (2, 3), 0.2, 3)
GRAPH = Graph("sum", (a, b), (Add(a=a, b=b, y=y),), (y,))


def the_sum_is_right() -> None:
    inputs = [random_like(v) for v in GRAPH.inputs]
    outputs = run_executorch(emit(GRAPH, CORES["cortex-m7"]), inputs)
    np.testing.assert_array_equal(outputs[0], GRAPH.reference(*inputs)[0])


def process() -> int:
    return remote._runtime_process().child.pid


@pytest.mark.turns(3)
def test_a_program_that_ends_the_runtime_is_an_error() -> None:
    """An operator of ExecuTorch's own, which aborts where its arguments are of other kinds."""
    x, y = value("x", (2, 3)), value("y", (3, 2))
    with pytest.raises(PillionError, match="runtime crashed") as error:
        run_executorch(
            program_of("aten::permute_copy.out", (1, 2), x, y, contiguous_view(y)), [random_like(x)]
        )
    assert "SIGABRT" in error.value.here
    the_sum_is_right()


def test_one_process_runs_many_programs() -> None:
    the_sum_is_right()
    before = process()
    the_sum_is_right()
    assert process() == before


def test_a_program_that_does_not_end_is_stopped() -> None:
    the_sum_is_right()
    stopped = process()
    os.kill(stopped, signal.SIGSTOP)
    with pytest.raises(PillionError, match="did not finish") as error:
        run_executorch(emit(GRAPH, CORES["cortex-m7"]), [random_like(v) for v in GRAPH.inputs], timeout=0.3)
    assert error.value.rule == "a run ends within 0.3 s"
    with pytest.raises(ProcessLookupError):
        os.kill(stopped, 0)


@pytest.mark.parametrize("answer", [b"\xff\xff\xff\xff", b"\x03\0\0\0[1]", b"\x01\0\0\0\xff"])
def test_nonsense_is_no_answer(answer: bytes) -> None:
    """The runtime may have been taken over by a file; its bytes are data to us."""
    with pytest.raises(ValueError, match=r"."):
        process_messages.read_message(io.BytesIO(answer).read)


@pytest.mark.parametrize("timeout", [0, -1.0, float("nan"), float("inf")])
def test_invalid_time_limits_are_refused(timeout: float, tmp_path: object) -> None:
    made = program(net())
    inputs = [random_like(v) for v in made.graph.inputs]
    for on in ("host", "executorch", "reference"):
        with pytest.raises(PillionError, match="is no time limit"):
            made.measure(*inputs, on=on, profile=False, timeout=timeout)
    folder = made.firmware(str(tmp_path))
    with pytest.raises(PillionError, match="is no time limit"):
        run_project(folder, inputs, timeout=timeout)


@pytest.mark.parametrize("order", [(0, 1, 2, 3), (0, 3, 1, 2), (3, 2, 1, 0)])
def test_arrays_arrive_as_they_lie_in_memory(order: tuple[int, ...]) -> None:
    """The runtime takes the order of axes from the strides."""
    array = np.arange(2 * 3 * 4 * 5, dtype=np.int16).reshape(2, 3, 4, 5).transpose(order)
    stream = io.BytesIO(process_messages.write_message([array], seconds=3.0))
    facts, arrays = process_messages.read_message(stream.read)
    assert facts == {"seconds": 3.0}
    np.testing.assert_array_equal(arrays[0], array)
    assert (arrays[0].strides, arrays[0].dtype) == (array.strides, array.dtype)
