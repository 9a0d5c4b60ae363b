# SPDX-License-Identifier: Apache-2.0
"""Every example of every op: ExecuTorch's runtime with our kernels, on the emitted program, gives the reference's bytes."""

from __future__ import annotations

import numpy as np
import pytest

from example_graphs import samples_of, side_by_side
from installed_executorch import INSTALLED
from judge.inputs import samples as samples_for_kernels
from pillion.devices.cortex_m import CORES
from pillion.emitters.pte import Runtime, emit
from pillion.emitters.pte.table import TABLE
from pillion.errors import PillionError
from pillion.ir.graph import Graph
from pillion.ir.numerics import Arithmetic
from pillion.ir.op import Op
from pillion.ir.types import DType
from pillion.ops import ALL_OPS
from pillion.option_values import NEWEST_RUNTIME

pytestmark = pytest.mark.slow

pytest.importorskip("executorch", reason="pip install 'pillion[executorch]'")

CORE_NAMES = ("cortex-m0plus", "cortex-m33", "cortex-m55")
TFLITE_REFUSES = {"avg_pool2d_up", "linear", "quantize", "reduce_sum", "div"}
"""What rounds differently under `tflite` than any kernel of the runtime."""


def accepted(cls: type[Op], arithmetic: Arithmetic, core: str, runtime: Runtime) -> Graph:
    """All examples of an op that are not refused, side by side."""
    kept = [
        op for op in cls.examples() if not is_refused(side_by_side([op], "one", arithmetic), core, runtime)
    ]
    return side_by_side(kept, cls.kind, arithmetic) if kept else Graph(cls.kind, (), (), ())


def is_refused(graph: Graph, core: str, runtime: Runtime) -> bool:
    """Refusals say by which rule and what was found."""
    try:
        emit(graph, CORES[core], runtime)
    except PillionError as refusal:
        return bool(refusal.rule and refusal.here)
    return False


def differing_bytes(graph: Graph, core: str, runtime: Runtime = INSTALLED) -> list[int]:
    """For each output and each sample."""
    from pillion.run.executorch import run_executorch

    program = emit(graph, CORES[core], runtime)
    counts = []
    # Real numbers far out of range are no inputs: the kernels narrow them without a look.
    takes_real = any(v.dtype is DType.FLOAT32 for v in graph.inputs)
    for sample in samples_for_kernels(graph) if takes_real else samples_of(graph):
        for got, want in zip(run_executorch(program, sample), graph.reference(*sample), strict=True):
            assert (got.shape, got.dtype) == (want.shape, want.dtype)
            counts.append(int(np.count_nonzero(got.view(np.uint8) != want.view(np.uint8))))
    return counts


@pytest.mark.turns(11)
@pytest.mark.parametrize("core", CORE_NAMES)
@pytest.mark.parametrize("cls", [c for c in ALL_OPS if TABLE.get(c)], ids=lambda c: c.kind)
def test_runtime_gives_the_references_bytes(cls: type[Op], core: str) -> None:
    graph = accepted(cls, Arithmetic.CMSIS_NN, core, INSTALLED)
    if (cls.kind, INSTALLED) == ("div", "1.4"):
        assert not graph.ops
    else:
        assert graph.ops
        assert not any(differing_bytes(graph, core))


@pytest.mark.turns(7)
@pytest.mark.parametrize("cls", [c for c in ALL_OPS if TABLE.get(c)], ids=lambda c: c.kind)
def test_tflite_arithmetic_is_exact_or_refused(cls: type[Op]) -> None:
    graph = accepted(cls, Arithmetic.TFLITE, "cortex-m55", INSTALLED)
    assert graph.ops or cls.kind in TFLITE_REFUSES
    if graph.ops:
        assert not any(differing_bytes(graph, "cortex-m55"))


def test_average_pools_have_the_arguments_of_the_runtime() -> None:
    """A file for the other version is refused here, as it is on the chip."""
    (cls,) = (c for c in ALL_OPS if c.kind == "avg_pool2d")
    other: Runtime = "1.4" if INSTALLED == NEWEST_RUNTIME else NEWEST_RUNTIME
    graph = accepted(cls, Arithmetic.CMSIS_NN, "cortex-m33", INSTALLED)
    with pytest.raises(PillionError, match=f"--runtime {INSTALLED}"):
        differing_bytes(graph, "cortex-m33", other)


OF_NUMBERS = {
    "embedding_bag",
    "gather",
    "compare",
    "where",
    "arg_max",
    "arg_min",
    "top_values",
    "top_places",
    "non_max_suppression",
    "run_lengths",
    "cast",
    "log_softmax",
    "normalize",
    "l2_normalize",
    "lstm_cell",
    "lstm_output",
    "svdf_memory",
    "svdf_output",
    "detections",
    "resize_bilinear_float",
    "squared_difference",
    "magnitude",
    "integer_arithmetic",
    "signal_stage",
    "window_statistic",
}
"""Kinds that no kernel of the runtime's library computes."""
HAVE_NONE = {"div", "resize_nearest", "resize_bilinear", "softmax", *OF_NUMBERS}
"""Those, and kinds with examples that no kernels of ExecuTorch 1.4 compute exactly: quotients, factors that repeat unevenly, mixed pixels, and
rows of more than 511 elements."""


def _has_16_bits(op: Op) -> bool:
    """Whether an example is of 16 bits, for which the library has no kernels."""
    return DType.INT16 in {v.dtype for v in (*op.operands, *op.results)}


def _has_4_bits(op: Op) -> bool:
    """Whether an example has weights of 4 bits, for which the library has no kernels."""
    return DType.INT4 in {v.dtype for v in op.operands}


def test_most_examples_have_an_exact_form() -> None:
    refused = {
        cls.kind: len([op for op in cls.examples() if not _has_16_bits(op) and not _has_4_bits(op)])
        - len(accepted(cls, Arithmetic.CMSIS_NN, "cortex-m33", "1.4").ops)
        for cls in ALL_OPS
    }
    assert {kind for kind, count in refused.items() if count} <= HAVE_NONE
