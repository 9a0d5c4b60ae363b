# SPDX-License-Identifier: Apache-2.0
"""Scales at the ends of float32: programs compute with them exactly, or they are refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pillion.errors import PillionError
from pillion.ir.graph import Graph
from pillion.ir.types import DType, PerChannel, PerTensor, TensorType, Value
from pillion.ops import Dequantize, Quantize
from pillion.ops.formats import NORMAL

SCALES = st.floats(-149, 127).map(lambda power: 2.0**power)


def graph_of(scale: float) -> Graph:
    quant = PerTensor(scale)
    x = Value("x", TensorType((7,), DType.FLOAT32))
    q = Value("q", TensorType((7,), DType.INT8, quant))
    y = Value("y", TensorType((7,), DType.FLOAT32))
    return Graph("borders", (x,), (Quantize(x=x, y=q), Dequantize(x=q, y=y)), (y,))


@settings(max_examples=60, deadline=None)
@given(SCALES)
def test_a_border_is_exact_or_refused(scale: float) -> None:
    graph = graph_of(scale)
    if NORMAL[0] <= graph.ops[0].results[0].scale <= NORMAL[1]:
        for op in graph.ops:
            op.check()
        levels = np.array([-128, -127, -1, 0, 1, 64, 127], np.float64)
        given = (levels * scale).astype(np.float32)
        if bool(np.isfinite(given).all()):
            assert np.array_equal(graph.reference(given)[0], (levels.astype(np.float32) * np.float32(scale)))
    else:
        for op in graph.ops:
            with pytest.raises(PillionError, match="normal float32 numbers") as refused:
                op.check()
            assert refused.value.help


@pytest.mark.parametrize(
    "make", [PerTensor, lambda scale: PerChannel((1.0, scale), 0)], ids=["one", "channels"]
)
@pytest.mark.parametrize("scale", [0.0, -1.0, 1e-46, 3.5e38, 1e300, float("inf"), float("nan")])
def test_scales_are_numbers_of_float32(make: Callable[[float], Any], scale: float) -> None:
    with pytest.raises(ValueError, match="positive and finite"):
        make(scale)


@pytest.mark.torch
@pytest.mark.parametrize("power", [-44, -40, -30, -12, 30, 37, 38])
def test_activations_of_any_size_are_right_or_refused(power: int) -> None:
    """Of PyTorch: the C computes what the reference does, and is at most a step away where steps can be that small."""
    import torch

    import pillion
    from pillion.importers.torch.train.trained_ranges import SMALLEST_SCALE

    x = torch.linspace(-1, 1, 12).reshape(3, 4) * 3.3 * 10.0**power
    module = torch.nn.ReLU()
    if power == 38:
        with pytest.raises(PillionError, match="not finite"):
            pillion.compile(module, (x,), target="cortex-m33")
        return
    program = pillion.compile(module, (x,), target="cortex-m33")
    found, host = program.run(x)[0], program.run(x, on="host")[0]
    assert np.array_equal(found, host)
    assert np.abs(found - module(x).numpy()).max() <= max(float(x.abs().max()) / 100, SMALLEST_SCALE)
