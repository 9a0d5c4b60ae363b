# SPDX-License-Identifier: Apache-2.0
"""Inputs are 16-bit integers with --io-dtype int16, also where a program reads them in 8 bits."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import pillion
from pillion.ir.graph import Graph
from pillion.ir.types import DType, PerTensor, TensorType, Value
from pillion.ir.verify import verify_graph
from pillion.ops import Clamp, Quantize
from pillion.passes.int8_io import int8_io, int16_io


@pytest.mark.parametrize("zero", [-128, -3, 127])
def test_8_bit_inputs_are_rounded_from_16(zero: int) -> None:
    real = Value("x", TensorType((256,), DType.FLOAT32))
    x, y = (Value(name, TensorType(real.shape, DType.INT8, PerTensor(0.05, zero))) for name in ("xq", "y"))
    graph = verify_graph(
        Graph("net", (real,), (Quantize(x=real, y=x), Clamp(x=x, y=y, low=-99, high=99)), (y,))
    )
    narrow, wide = int8_io(graph), verify_graph(int16_io(graph))
    assert [(v.name, v.dtype, v.scale, v.zero_point) for v in wide.inputs] == [
        ("x", DType.INT16, x.scale / 128, 0)
    ]
    levels = np.arange(-128, 128)
    (expected,) = narrow.reference(levels.astype(np.int8))
    for off in (-63, 0, 63):
        samples = np.clip((levels - zero) * 128 + off, -(2**15), 2**15 - 1).astype(np.int16)
        (found,) = wide.reference(samples)
        assert found.tolist() == expected.tolist()


def test_integer_inputs_of_the_model_stay() -> None:
    samples = [(torch.randint(0, 9, (1, 5)),) for _ in range(4)]
    net = torch.nn.Sequential(torch.nn.Embedding(9, 12), torch.nn.Linear(12, 3)).eval()
    program = pillion.compile(net, samples[0], target="cortex-m33", calibrate=samples, io_dtype="int16")
    assert program.graph.inputs[0].dtype is DType.INT32


@pytest.mark.qemu
@pytest.mark.parametrize("target", ["cortex-m55", "cortex-m33"])
def test_programs_of_8_bits_take_samples_of_16(target: str) -> None:
    torch.manual_seed(0)
    samples = [torch.randn(1, 2, 30) for _ in range(8)]
    net = torch.nn.Sequential(torch.nn.Conv1d(2, 5, 3), torch.nn.ReLU()).eval()
    stream = {"stream": "input_1:2", "hop": 4}
    for options in ({}, stream):
        program = pillion.compile(
            net, samples[0], target=target, calibrate=samples, io_dtype="int16", **options
        )
        assert [v.dtype for v in program.graph.inputs] == [DType.INT16]
        assert program.verify(samples=2).ok
