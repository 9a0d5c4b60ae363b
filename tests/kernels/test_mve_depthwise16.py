# SPDX-License-Identifier: Apache-2.0
"""Depthwise convolutions with 16-bit results, from 8-bit operands and from 16-bit ones, on the emulated Cortex-M55 against the reference,
byte for byte."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest

from kernels import rig
from kernels.layers16_ops import depthwise
from kernels.op_cases import CMSIS_NN, case_of, compare_counts, kernels_of, random_operands, reference
from kernels.rig import M55
from pillion.devices.cortex_m import Isa
from pillion.emitters.c.int8_operands import read_int8_operands
from pillion.emitters.c.mve import depthwise_strips
from pillion.ir.graph import Graph
from pillion.ir.types import DType, PerTensor, TensorType, Value, constant_value
from pillion.ops import DepthwiseConv2d, Requantize
from pillion.ops.conv import output_size

pytestmark = pytest.mark.qemu

BORDER = (1, 1, 1, 1)
ZERO_POINTS = (-128, 0, 127, 5)
STEP = 2.0**-10
STRIPS, WIDE, ANY = ("depthwise_3x3", "depthwise_3x3_stride2"), "depthwise_3x3_wide", "depthwise_any"


def from_8_bits(op: DepthwiseConv2d, seed: int) -> DepthwiseConv2d:
    """The layer with an operand of 8 bits; ratios of scales are at most 1/4, with ties where they are powers of two."""
    step = 4 * STEP * max(op.weights.channel_scales)
    x = Value("x", TensorType(op.x.shape, DType.INT8, PerTensor(STEP, ZERO_POINTS[seed % 4])))
    y = Value("y", TensorType(op.y.shape, DType.INT16, PerTensor(step)))
    return replace(op, x=x, y=y)


def strips() -> Iterator[DepthwiseConv2d]:
    """Sizes from the smallest on, both ways round, with random padding; several images, and filters for a channel."""
    rng = np.random.default_rng(0)
    for i in range(120):
        size = tuple(int(n) for n in rng.integers(1, 36, 2))
        around = tuple(int(n) for n in rng.integers(0, 3, 4))
        if min(output_size(n, 3, 1, 1, around[a] + around[a + 2]) for a, n in enumerate(size)) >= 1:
            steps = (1 + i % 2, 1 + i % 2)
            shape = (1 + i % 5 // 4, *size, 1 + i % 4)
            yield depthwise(shape, (3, 3), i, 1 + i % 7 // 6, padding=around, stride=steps)


def every_length() -> Iterator[DepthwiseConv2d]:
    """Rows of strips with every number of outputs around the blocks, of one strip, with and without padding, and of more."""
    for i, (length, rows) in enumerate(product(range(8, 21), (3, 4, 5, 7))):
        for stride in (1, 2):
            size = (rows, length) if i % 3 else (length, rows)
            around = ((0, 0, 0, 0), (0, 1, 0, 1), BORDER)[i % 3]
            yield depthwise((1, *size, 3), (3, 3), i, padding=around, stride=(stride, stride))


def bands() -> Iterator[DepthwiseConv2d]:
    """Images of one band to five, both ways round, with random padding and with results as large as the image."""
    rng = np.random.default_rng(1)
    for i in range(48):
        size = tuple(int(n) for n in rng.integers(34, 90, 2))
        around = BORDER if i % 4 < 2 else tuple(int(n) for n in rng.integers(0, 3, 4))
        steps, shape = (1 + i % 2, 1 + i % 2), (1 + i % 7 // 6, *size, 1 + i % 2)
        yield depthwise(shape, (3, 3), i, 1 + i % 5 // 4, padding=around, stride=steps)
    yield depthwise((1, 366, 370, 1), (3, 3), 1, padding=BORDER)


def many_elements() -> Iterator[DepthwiseConv2d]:
    """Images with more than 2^15 and 2^16 elements, rows with steps of nearly 2^16 bytes."""
    yield depthwise((1, 130, 260, 1), (3, 3), 1, padding=BORDER)
    yield depthwise((1, 200, 340, 1), (3, 3), 4, padding=BORDER)
    yield depthwise((1, 5, 8000, 2), (3, 3), 2, padding=BORDER)
    yield depthwise((1, 260, 270, 1), (3, 3), 3, padding=BORDER, stride=(2, 2))
    yield depthwise((1, 3, 3, 4100), (3, 3), 3, padding=BORDER)
    yield depthwise((2, 1, 2**15 + 3, 1), (1, 2), 1)


def channels() -> Iterator[DepthwiseConv2d]:
    """Every number of channels around the sixteens; with 3x3, images that are too small for strips, too."""
    for i in (*range(1, 35), 47, 48, 49):
        yield depthwise((1 + i % 2, 3, 4, i), (3, 3), i, padding=BORDER, stride=(1 + i % 2, 1 + i // 2 % 2))
        yield depthwise((1, 9, 10, i), (3, 3), i, padding=BORDER)
        yield depthwise((1, 4, 5, 1 + i % 5), (2, 3), i, i // 2 + 1)


def windows() -> Iterator[DepthwiseConv2d]:
    """Other windows, with strides and dilations; planes in several blocks of rows."""
    for i, kernel in enumerate(((5, 5), (1, 7), (2, 2), (3, 1), (4, 3), (1, 1), (10, 4))):
        for j, count in enumerate((1, 7, 16, 19)):
            around = (kernel[0] // 2, kernel[1] - 1, kernel[0] - 1, kernel[1] // 2)
            steps: dict[str, Any] = {"stride": (1 + j % 2, 1 + i % 3), "dilation": (1 + i % 2, 1 + j % 2)}
            yield depthwise((1 + j % 2, 19 + i, 11, count), kernel, i + j, padding=around, **steps)
    yield depthwise((1, 61, 40, 17), (2, 2), 1)


def windows_5x5() -> Iterator[DepthwiseConv2d]:
    """Sizes around the fours of rows and the tiles of columns, the last of which may be padding."""
    for i, (h, w) in enumerate(product((4, 5, 7, 8, 13), (4, 5, 6, 9, 14, 15, 28, 29, 57))):
        around = (2, i % 3, 2, 2 - i % 2)
        stride = 1 + i % 2
        shape = (1 + i % 3 // 2, stride * h, stride * w, 1 + i % 4)
        yield depthwise(shape, (5, 5), i, 1 + i % 5 // 4, padding=around, stride=(stride, stride))
    yield depthwise((1, 6, 9, 2), (5, 5), 1, padding=(2, 40, 2, 60))


@pytest.mark.parametrize(
    ("made", "names"),
    [
        (strips, STRIPS),
        (every_length, STRIPS),
        (bands, STRIPS),
        (many_elements, (*STRIPS, WIDE, ANY)),
        (channels, (STRIPS[0], WIDE, ANY)),
        (windows, (ANY,)),
        (windows_5x5, ("depthwise_5x5",)),
    ],
)
@pytest.mark.parametrize("widens", [True, False], ids=["8 bits", "16 bits"])
def test_depthwise_of_every_size(
    widens: bool, made: Callable[[], Iterator[DepthwiseConv2d]], names: Sequence[str]
) -> None:
    """All by every kernel that takes them, with random and with extreme numbers, those in the memory of their operand where that may be."""
    rng, cases, wanted, seen = np.random.default_rng(0), [], [], set()
    for seed, drawn in enumerate(made()):
        op = from_8_bits(drawn, seed) if widens else drawn
        for kernel, extreme in product(kernels_of(M55, op), (False, True)):
            data = random_operands(op, rng, extreme)
            overwritten = op.x if extreme and kernel.in_place(op) else None
            cases.append(case_of(op, kernel, data, overwritten=overwritten))
            wanted.append(reference(op, CMSIS_NN, data))
            seen.add(kernel.name.removesuffix("_8_16_mve" if widens else "_16_mve"))
    assert seen >= set(names)
    assert widens or any(case.overwritten for case in cases)
    rig.check(M55, cases, wanted, rig.fillings(cases))


@pytest.mark.parametrize("stride", [1, 2])
def test_bands_need_little_memory_and_few_instructions(stride: int, monkeypatch: pytest.MonkeyPatch) -> None:
    counts, scratch = [], []
    for strips_of_a_band in (depthwise_strips.BAND, 1000):
        monkeypatch.setattr(depthwise_strips, "BAND", strips_of_a_band)
        op = depthwise((1, 96, 96, 2), (3, 3), 1, padding=BORDER, stride=(stride, stride))
        kernel, data = kernels_of(M55, op)[0], random_operands(op, np.random.default_rng(0), False)
        (result,) = rig.check(M55, [case_of(op, kernel, data)], [reference(op, CMSIS_NN, data)])
        counts.append(result.instructions)
        scratch.append(kernel.scratch_bytes(op))
        assert kernel.work is not None
        assert kernel.work(op) == pytest.approx(result.instructions, rel=0.15)
    assert counts[0] < 1.03 * counts[1]
    assert scratch[0] < 0.3 * scratch[1]


def in_8_bits(op: DepthwiseConv2d) -> DepthwiseConv2d:
    """The layer with an operand and a result of 8 bits; results from 0 on begin with the zero point."""
    x = Value("x", TensorType(op.x.shape, DType.INT8, PerTensor(256 * op.x.scale, 3)))
    y = Value("y", TensorType(op.y.shape, DType.INT8, PerTensor(256 * op.y.scale, -5 if op.low else -128)))
    return replace(op, x=x, y=y, low=-128, high=127)


def test_layers_take_at_most_1_3_times_the_instructions_of_8_bits() -> None:
    bounds = ({"low": -(2**15), "high": 2**15 - 1}, {"low": 0, "high": 2**15 - 1})
    sizes = ((8, 8), (14, 14), (13, 19), (24, 24), (25, 5), (48, 48), (37, 60))
    made = [
        depthwise((1, *size, 4), (k, k), 1, padding=(k // 2,) * 4, stride=(stride, stride))
        for size, k, stride in product(sizes, (3, 5), (1, 2))
    ]
    ops = [replace(op, **bound) for op in made for bound in bounds]
    compare_counts(M55, [(op, in_8_bits(op)) for op in ops], 1.3)


def test_no_kernel_takes_overflowing_products_or_coarse_ratios() -> None:
    """Two taps whose products do not fit 16 bits together, ratios of scales from 1/2 on, rows too far apart for strips."""
    op = from_8_bits(depthwise((1, 5, 5, 4), (1, 2), 1), 1)
    weights = constant_value("w", np.full(op.weights.shape, -128, np.int8), op.weights.type.quant)
    coarse = Value("y", TensorType(op.y.shape, DType.INT16, PerTensor(op.y.scale / 4)))
    assert kernels_of(M55, op)
    assert not kernels_of(M55, replace(op, weights=weights))
    assert not kernels_of(M55, replace(op, y=coarse))
    far = depthwise((1, 4, 8200, 4), (3, 3), 1, padding=BORDER)
    for made in (far, from_8_bits(far, 1)):
        assert next(kernel.name for kernel in kernels_of(M55, made)).startswith(WIDE)


def test_operands_that_are_widened_first_are_read_as_they_are() -> None:
    """With Helium; DSP has no such kernels. Results stay the same."""
    op = depthwise((1, 9, 10, 3), (3, 3), 1, padding=BORDER)
    narrow = Value("x8", TensorType(op.x.shape, DType.INT8, PerTensor(op.x.scale, 5)))
    widened = Requantize(x=narrow, y=op.x, to=DType.INT16)
    graph = Graph("g", (narrow,), (widened, op), (op.y,))
    assert read_int8_operands(graph, Isa.DSP).ops == graph.ops
    joined = read_int8_operands(graph, Isa.MVE)
    assert [o.x for o in joined.ops if isinstance(o, DepthwiseConv2d)] == [narrow]
    (data,) = random_operands(widened, np.random.default_rng(0))
    assert np.array_equal(graph.reference(data)[0], joined.reference(data)[0])
