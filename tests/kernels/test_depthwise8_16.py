# SPDX-License-Identifier: Apache-2.0
"""Depthwise convolutions of 8-bit operands with 16-bit results on the emulated Cortex-M55 against the reference, byte for byte."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest

from kernels import rig
from kernels.layers16_ops import WEIGHT_SCALE, depthwise
from kernels.op_cases import CMSIS_NN, case_of, kernels_of, random_operands, reference
from kernels.rig import M55
from pillion.ir.op import Op
from pillion.ir.types import DType, Pair, PerTensor, Shape, TensorType, Value, constant_value
from pillion.ops import DepthwiseConv2d
from pillion.ops.conv import output_size

pytestmark = pytest.mark.qemu

BORDER = (1, 1, 1, 1)
ZERO_POINTS = (-128, 0, 127, 5)
STEP = 2.0**-10
STRIPS = "depthwise_3x3_8_16_mve", "depthwise_3x3_stride2_8_16_mve"
WIDE, ANY = "depthwise_3x3_wide_8_16_mve", "depthwise_any_8_16_mve"


def widening(shape: Shape, kernel: Pair, seed: int = 0, filters: int = 1, **fields: Any) -> DepthwiseConv2d:
    """A layer whose ratios of scales are below 1/2, or 1/4 for ties; some weights are -128."""
    op = depthwise(shape, kernel, seed, filters, **fields)
    step = STEP * (4 * 2.0**-7 if seed % 2 == 0 else WEIGHT_SCALE / 0.3)
    x = Value("x", TensorType(shape, DType.INT8, PerTensor(STEP, ZERO_POINTS[seed % 4])))
    y = Value("y", TensorType(op.y.shape, DType.INT16, PerTensor(step)))
    return replace(op, x=x, y=y)


def strips() -> Iterator[Op]:
    """Sizes from the smallest on, both ways round, with random padding; several images, and filters for a channel."""
    rng = np.random.default_rng(0)
    for i in range(120):
        size = tuple(int(n) for n in rng.integers(1, 36, 2))
        around = tuple(int(n) for n in rng.integers(0, 3, 4))
        if min(output_size(n, 3, 1, 1, around[a] + around[a + 2]) for a, n in enumerate(size)) >= 1:
            steps = (1 + i % 2, 1 + i % 2)
            shape = (1 + i % 5 // 4, *size, 1 + i % 4)
            yield widening(shape, (3, 3), i, 1 + i % 7 // 6, padding=around, stride=steps)


def every_length() -> Iterator[Op]:
    """Rows of strips with every number of outputs around the blocks, of one strip, with and without padding, and of more."""
    for i, (length, rows) in enumerate(product(range(8, 21), (3, 4, 5, 7))):
        for stride in (1, 2):
            size = (rows, length) if i % 3 else (length, rows)
            around = ((0, 0, 0, 0), (0, 1, 0, 1), BORDER)[i % 3]
            yield widening((1, *size, 3), (3, 3), i, padding=around, stride=(stride, stride))


def many_elements() -> Iterator[Op]:
    """Images with more than 2^15 and 2^16 elements, rows with steps of nearly 2^16 bytes."""
    yield widening((1, 130, 260, 1), (3, 3), 1, padding=BORDER)
    yield widening((1, 200, 340, 1), (3, 3), 4, padding=BORDER)
    yield widening((1, 5, 8000, 2), (3, 3), 2, padding=BORDER)
    yield widening((1, 260, 270, 1), (3, 3), 3, padding=BORDER, stride=(2, 2))
    yield widening((1, 3, 3, 4100), (3, 3), 3, padding=BORDER)
    yield widening((2, 1, 2**15 + 3, 1), (1, 2), 1)


def channels() -> Iterator[Op]:
    """Every number of channels around the sixteens; with 3x3, images that are too small for strips, too."""
    for i in (*range(1, 35), 47, 48, 49):
        yield widening((1 + i % 2, 3, 4, i), (3, 3), i, padding=BORDER, stride=(1 + i % 2, 1 + i // 2 % 2))
        yield widening((1, 9, 10, i), (3, 3), i, padding=BORDER)
        yield widening((1, 4, 5, 1 + i % 5), (2, 3), i, i // 2 + 1)


def windows() -> Iterator[Op]:
    """Other windows, with strides and dilations; planes in several blocks of rows."""
    for i, kernel in enumerate(((5, 5), (1, 7), (2, 2), (3, 1), (4, 3), (1, 1), (10, 4))):
        for j, count in enumerate((1, 7, 16, 19)):
            around = (kernel[0] // 2, kernel[1] - 1, kernel[0] - 1, kernel[1] // 2)
            steps: dict[str, Any] = {"stride": (1 + j % 2, 1 + i % 3), "dilation": (1 + i % 2, 1 + j % 2)}
            yield widening((1 + j % 2, 19 + i, 11, count), kernel, i + j, padding=around, **steps)
    yield widening((1, 61, 40, 17), (2, 2), 1)


def windows_5x5() -> Iterator[Op]:
    """Sizes around the fours of rows and the blocks of columns."""
    for i, (h, w) in enumerate(product((4, 5, 7, 8, 13), (4, 5, 6, 9, 16, 17, 33))):
        around = (2, i % 3, 2, 2 - i % 2)
        stride = 1 + i % 2
        shape = (1 + i % 3 // 2, stride * h, stride * w, 1 + i % 4)
        yield widening(shape, (5, 5), i, 1 + i % 5 // 4, padding=around, stride=(stride, stride))


@pytest.mark.parametrize(
    ("made", "names"),
    [
        (strips, STRIPS),
        (every_length, STRIPS),
        (many_elements, (*STRIPS, WIDE, ANY)),
        (channels, (STRIPS[0], WIDE, ANY)),
        (windows, (ANY,)),
        (windows_5x5, ("depthwise_5x5_8_16_mve",)),
    ],
)
def test_depthwise_of_every_size(made: Callable[[], Iterator[Op]], names: Sequence[str]) -> None:
    """All by every kernel that takes them, with random and with extreme numbers."""
    rng, cases, wanted, seen = np.random.default_rng(0), [], [], set()
    for op in made():
        for kernel, extreme in product(kernels_of(M55, op), (False, True)):
            data = random_operands(op, rng, extreme)
            cases.append(case_of(op, kernel, data))
            wanted.append(reference(op, CMSIS_NN, data))
            seen.add(kernel.name)
    assert seen >= set(names)
    rig.check(M55, cases, wanted, rig.fillings(cases))


def test_what_no_kernel_takes() -> None:
    """Two taps whose products do not fit 16 bits together, ratios of scales from 1/2 on, rows too far apart for strips."""
    op = widening((1, 5, 5, 4), (1, 2), 1)
    weights = constant_value("w", np.full(op.weights.shape, -128, np.int8), op.weights.type.quant)
    coarse = Value("y", TensorType(op.y.shape, DType.INT16, PerTensor(op.y.scale / 4)))
    assert kernels_of(M55, op)
    assert not kernels_of(M55, replace(op, weights=weights))
    assert not kernels_of(M55, replace(op, y=coarse))
    far = widening((1, 4, 8200, 4), (3, 3), 1, padding=BORDER)
    assert not {k.name for k in kernels_of(M55, far)} & set(STRIPS)
