# SPDX-License-Identifier: Apache-2.0
"""A segment under Pillion's mark keeps the arithmetic of the processor that it is for: fully connected layers round otherwise on some."""

from __future__ import annotations

import numpy as np
import pytest

import pillion
from pillion.compile_options import PlacementOptions
from pillion.emitters.segments import host_delegate_payloads
from pillion.emitters.tflite import emit
from pillion.errors import PillionError
from pillion.importers.pte.delegate import read_payload
from pillion.ir.graph import Graph
from pillion.ir.numerics import Arithmetic
from pillion.ops import Add, Segment
from pillion.ops.example_values import value
from pillion.schemas.ir_payload import IrPayload, parse_ir
from pillion.targets import npu_targets

TFLITE = b"\0\0\0\0TFL3rest"


@pytest.mark.parametrize("arithmetic", ["tflite", "tflite-integer", "cmsis-nn"])
def test_the_name_of_the_arithmetic_comes_back(arithmetic: str) -> None:
    payload = IrPayload(TFLITE, ("a", "b"), ("y",), arithmetic)
    assert parse_ir(payload.compose()) == payload


def test_unknown_arithmetics_are_refused() -> None:
    a, b, y = (value(name, (3,)) for name in "aby")
    file = emit(Graph("g", (a, b), (Add(a=a, b=b, y=y),), (y,), Arithmetic.TFLITE))
    with pytest.raises(PillionError, match="damaged"):
        read_payload(IrPayload(file, ("a", "b"), ("y",), "by heart").compose())


@pytest.mark.torch
@pytest.mark.parametrize("target", [one.name for one in npu_targets()][::3])
def test_segments_of_a_program_are_computed_as_they_are_placed(target: str) -> None:
    """Their payloads give the bytes of their bodies, in layers of many inputs, where roundings differ."""
    import torch
    from torch import nn

    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(331, 128), nn.ReLU(), nn.Linear(128, 97)).eval()
    options = PlacementOptions(prefer_npu=True)
    program = pillion.compile(net, torch.randn(1, 331), target=target, placement=options, progress=False)
    segments = [op for op in program.graph.ops if isinstance(op, Segment)]
    assert segments
    rng = np.random.default_rng(0)
    for op, payload in zip(segments, host_delegate_payloads(program.graph), strict=True):
        read = read_payload(payload)
        assert read.arithmetic is op.body.arithmetic
        x = [rng.integers(-128, 128, v.shape).astype(np.int8) for v in op.body.inputs]
        np.testing.assert_array_equal(read.reference(*x)[0], op.body.reference(*x)[0])
