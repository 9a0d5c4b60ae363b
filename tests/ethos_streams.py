# SPDX-License-Identifier: Apache-2.0
"""Segments that Vela compiled, for the tests of what becomes of them. Without Vela the tests are skipped."""

from __future__ import annotations

import functools

import numpy as np
import pytest

from example_graphs import samples_of, side_by_side
from pillion.devices.ethos_u.accelerators import ACCELERATORS
from pillion.devices.ethos_u.vela import CompiledSegment, VelaSettings, compile_segment, is_vela_installed
from pillion.emitters import tflite
from pillion.errors import PillionError
from pillion.ir.graph import Graph
from pillion.ir.numerics import Arithmetic
from pillion.ir.op import Op

needs_vela = pytest.mark.skipif(
    not is_vela_installed(), reason="Vela is not installed: pip install 'pillion[ethos-u]'"
)
ARITHMETIC = Arithmetic.TFLITE_INTEGER
EXECUTED = ("ethos-u55-32", "ethos-u55-64", "ethos-u55-128", "ethos-u55-256", "ethos-u65-256")
EXECUTED_U85 = tuple(f"ethos-u85-{macs}" for macs in (128, 256, 512, 1024, 2048))


def graph_of(op: Op) -> Graph:
    """One op as a segment."""
    return side_by_side([op], "segment", ARITHMETIC)


def tflite_of(op: Op) -> bytes | None:
    """The op as a TFLite file, where it has one and something to compute from."""
    graph = graph_of(op)
    try:
        return tflite.emit(graph) if graph.inputs else None
    except PillionError:
        return None


@functools.lru_cache(maxsize=64)
def compiled(file: bytes, accelerator: str = "ethos-u55-128") -> CompiledSegment:
    """What Vela makes of a file."""
    return compile_segment(file, VelaSettings(ACCELERATORS[accelerator]), 60)


def differing(graph: Graph, made: CompiledSegment, samples: int = 2) -> int:
    """How many bytes of the results differ from the reference, over random inputs and the ends of the range."""
    count = 0
    for sample in samples_of(graph, samples):
        for wanted, got in zip(graph.reference(*sample), made.run(*sample), strict=True):
            count += int((np.frombuffer(got, wanted.dtype) != wanted.ravel()).sum())
    return count
