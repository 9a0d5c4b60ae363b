# SPDX-License-Identifier: Apache-2.0
"""Flips of a .pte: pieces laid side by side in reverse, by as few calls as the sizes allow."""

from __future__ import annotations

import numpy as np
import pytest

from pillion.devices.cortex_m import CORES
from pillion.emitters.pte import emit
from pillion.emitters.pte.movement import flip
from pillion.emitters.pte.node import PteSettings
from pillion.errors import PillionError
from pillion.importers.pte import read
from pillion.ir.graph import Graph
from pillion.ir.numerics import Arithmetic
from pillion.ir.types import DType, TensorType, Value
from pillion.ops import Flip


def flipped(shape: tuple[int, ...], axes: tuple[int, ...]) -> Graph:
    x = Value("x", TensorType(shape, DType.INT8))
    op = Flip(x=x, y=Value("y", TensorType(shape, DType.INT8)), axes=axes)
    return Graph("flip", (x,), (op,), (op.y,), Arithmetic.CMSIS_NN)


@pytest.mark.parametrize(
    ("shape", "axes", "calls"),
    [((3, 224, 5), (1,), 5 * 3 + 8), ((3, 61, 2), (0, 1), 4 + 62), ((2, 4096), (1,), 36), ((7, 1), (1,), 0)],
)
def test_an_axis_takes_calls_by_its_factors(
    shape: tuple[int, ...], axes: tuple[int, ...], calls: int
) -> None:
    graph = flipped(shape, axes)
    assert len(flip(graph.ops[0], PteSettings(Arithmetic.CMSIS_NN, CORES["cortex-m33"]))) == calls
    again = read(emit(graph, CORES["cortex-m33"])).graph
    x = np.random.default_rng(3).integers(-128, 128, shape).astype(np.int8)
    assert np.array_equal(again.reference(x)[0], np.flip(x, axes))


def test_a_large_prime_is_refused() -> None:
    with pytest.raises(PillionError) as refusal:
        emit(flipped((2, 67 * 3), (1,)), CORES["cortex-m33"])
    assert "201 along axis 1" in refusal.value.here
    assert "C: -o folder/" in refusal.value.help
