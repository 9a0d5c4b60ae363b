# SPDX-License-Identifier: Apache-2.0
"""Channels that training has left dead: their weights have tiny scales, and converters saturate their biases at 32 bits."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tflite_file import RNG, File, same_as_litert, weights

import pillion
from pillion.errors import PillionError
from pillion.importers.tflite import read
from pillion.ir.types import Array
from pillion.schemas import tflite
from pillion.schemas.tflite import ElementType

SATURATED = 2**31 - 1
CHANNELS = 5
DEAD = 2
"""The channel."""
KINDS = ("CONV_2D", "DEPTHWISE_CONV_2D", "TRANSPOSE_CONV", "FULLY_CONNECTED")


def quantization(axis: int, dead: float) -> tflite.Quantization:
    scales = [dead if n == DEAD else 0.01 for n in range(CHANNELS)]
    return tflite.Quantization(scale=scales, zero_point=[0] * CHANNELS, quantized_dimension=axis)


def file_of(kind: str, filters: Array | None, bias: int, dead: float, zero: int = 3) -> bytes:
    """A file of one operator with a dead channel."""
    axis = 3 if kind == "DEPTHWISE_CONV_2D" else 0
    shape = {
        "DEPTHWISE_CONV_2D": (1, 3, 3, CHANNELS),
        "FULLY_CONNECTED": (CHANNELS, 9),
    }.get(kind, (CHANNELS, 3, 3, CHANNELS))
    given = weights(*shape) if filters is None else np.broadcast_to(filters, shape).astype(np.int8)
    biases = RNG.integers(-999, 999, CHANNELS)
    biases[DEAD] = bias
    options = {
        "CONV_2D": tflite.Conv2DOptions(stride_h=1, stride_w=1),
        "DEPTHWISE_CONV_2D": tflite.DepthwiseConv2DOptions(stride_h=1, stride_w=1, depth_multiplier=1),
        "TRANSPOSE_CONV": tflite.TransposeConvOptions(stride_h=1, stride_w=1),
    }.get(kind, tflite.FullyConnectedOptions())
    file, image = File(kind, options), (1, 4, 4, CHANNELS)
    if kind == "TRANSPOSE_CONV":
        file.constant(np.array(image))
    elif kind == "FULLY_CONNECTED":
        file.input(2, 9, zero=zero)
    else:
        file.input(*image, zero=zero)
    file.constant(given, ElementType.INT8, quantization=quantization(axis, dead))
    if kind == "TRANSPOSE_CONV":
        file.input(*image, zero=zero)
    file.constant(biases, quantization=quantization(0, dead))
    return file.output(*((2, CHANNELS) if kind == "FULLY_CONNECTED" else image)).bytes()


@pytest.mark.parametrize("bias", [-SATURATED - 1, -SATURATED, SATURATED])
@pytest.mark.parametrize("kind", KINDS)
def test_saturated_biases_of_dead_channels_have_no_effect(kind: str, bias: int) -> None:
    graph = same_as_litert(file_of(kind, None, bias, 1e-12))
    assert graph.ops


@pytest.mark.parametrize(
    ("bias", "zero", "sign"), [(-SATURATED, -128, 1), (SATURATED, -128, -1), (-SATURATED, 127, -1)]
)
@pytest.mark.parametrize("kind", ["CONV_2D", "FULLY_CONNECTED"])
def test_sums_that_only_grow_towards_zero_fit(kind: str, bias: int, zero: int, sign: int) -> None:
    same_as_litert(file_of(kind, np.array(sign * 5), bias, 1e-7, zero))


@pytest.mark.parametrize("kind", KINDS)
def test_sums_that_leave_32_bits_are_refused(kind: str) -> None:
    with pytest.raises(PillionError, match="sums fit 32 bits"):
        read(file_of(kind, None, -SATURATED, 1e-7))


def test_all_file_formats_take_dead_channels(tmp_path: Path) -> None:
    from pillion.compiler import compile_graph
    from pillion.targets import find_target

    program = compile_graph(read(file_of("CONV_2D", None, -SATURATED, 1e-12)), find_target("cortex-m33"))
    x = RNG.integers(-128, 128, (1, 4, 4, CHANNELS)).astype(np.int8)
    wanted = program.run(x)[0]
    assert np.array_equal(program.run(x, on="host")[0], wanted)
    program.save(tmp_path / "net.pte")


@pytest.mark.turns(2)
@pytest.mark.torch
@pytest.mark.parametrize("scale", [0.0, 1e-12, 1e-20, 1e-38])
@pytest.mark.parametrize("bias", [-3.0, 1e6])
def test_dead_channels_of_pytorch(scale: float, bias: float) -> None:
    import torch
    from torch import nn

    layer = nn.Conv2d(3, 4, 3)
    with torch.no_grad():
        layer.weight[1] *= scale
        assert layer.bias is not None
        layer.bias[1] = bias
    x = torch.randn(1, 3, 6, 6, generator=torch.Generator().manual_seed(0))
    program = pillion.compile(layer.eval(), (x,), target="cortex-m33")
    found, host = program.run(x)[0], program.run(x, on="host")[0]
    assert np.array_equal(found, host)
    assert np.abs(found[0, 1] - bias).max() <= abs(bias) / 100
