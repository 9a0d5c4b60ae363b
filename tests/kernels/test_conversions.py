# SPDX-License-Identifier: Apache-2.0
"""Conversions between 8 and 16 bits on the emulated cores: every number, byte for byte."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import cycle

import numpy as np
import pytest

from kernels import rig
from kernels.op_cases import Run, check_runs, kernel_of
from kernels.rig import M4, M33, M55
from pillion.ir.types import DType, PerTensor, TensorType, Value
from pillion.ops import Requantize

pytestmark = pytest.mark.qemu

TARGETS = [
    pytest.param(M4, marks=pytest.mark.nightly, id="m4"),
    pytest.param(M33, id="m33"),
    pytest.param(M55, id="m55"),
]
ZERO_POINTS = (-128, 0, 5, 127)
WIDE = np.arange(-(2**15), 2**15, dtype=np.int16)
BYTES = np.arange(-128, 128, dtype=np.int8)


def conversion(x: DType, y: DType, ratio: float, zero_point: int, count: int) -> Requantize:
    """A conversion of some numbers; the zero point is that of the tensor of bytes."""
    zeros = [zero_point if dtype is DType.INT8 else 0 for dtype in (x, y)]
    operand = Value("x", TensorType((count,), x, PerTensor(0.03 * ratio, zeros[0])))
    return Requantize(x=operand, y=Value("y", TensorType((count,), y, PerTensor(0.03, zeros[1]))), to=y)


def every_number() -> Iterator[Run]:
    """Ratios around those of one range in both widths, powers of two, and zero points at both ends."""
    for n, (power, zero_point) in enumerate(
        zip((-9, -8.3, -7.99, -7, -6.5, -2, -0.1, -8), cycle(ZERO_POINTS))
    ):
        yield Run(conversion(DType.INT16, DType.INT8, 2.0**power, zero_point, 2**16), (WIDE,))
        yield Run(conversion(DType.INT8, DType.INT16, 2.0 ** -(power + n % 3), zero_point, 256), (BYTES,))
    yield Run(conversion(DType.INT8, DType.INT16, 1.0, -128, 256), (BYTES,))


def every_shift() -> Iterator[Run]:
    """Ratios that are powers of two, with all zero points that matter."""
    for shift in range(1, 16):
        for zero_point in (*ZERO_POINTS, -1, 1, -77, 64):
            yield Run(conversion(DType.INT16, DType.INT8, 2.0**-shift, zero_point, 2**16), (WIDE,))


def every_count() -> Iterator[Run]:
    """Numbers of elements around the units of the loops."""
    for count in (*range(1, 34), 2**16 + 7):
        yield Run(conversion(DType.INT16, DType.INT8, 2.0**-7, -128, count), (np.resize(WIDE, count),))
        yield Run(conversion(DType.INT16, DType.INT8, 0.0079, -3, count), (np.resize(WIDE, count),))
        yield Run(conversion(DType.INT8, DType.INT16, 63.1, 127, count), (np.resize(BYTES, count),))


@pytest.mark.parametrize("target", TARGETS)
def test_the_bytes_of_the_reference(target: rig.Target) -> None:
    runs = [*every_number(), *every_shift(), *every_count()]
    names = {kernel.name for run in runs if (kernel := kernel_of(target, run.op))}
    suffix = target.kernels[0].isa.value
    assert {f"requantize_16_8_{suffix}", f"requantize_8_16_{suffix}"} <= names
    assert ("requantize_shift_16_8_mve" in names) == (suffix == "mve")
    check_runs(target, runs)


@pytest.mark.parametrize("target", TARGETS[1:])
def test_large_ratios_and_zero_points_use_another_kernel(target: rig.Target) -> None:
    """A ratio above one from 16 bits to 8, and 16-bit tensors with a zero point."""
    above = conversion(DType.INT16, DType.INT8, 3000.0, 0, 64)
    shifted = conversion(DType.INT8, DType.INT16, 64.0, 0, 64)
    shifted = Requantize(
        x=shifted.x, y=shifted.y.like("y", quant=PerTensor(shifted.y.scale, -32768)), to=DType.INT16
    )
    for op in (above, shifted):
        kernel = kernel_of(target, op)
        assert kernel is None or not kernel.name.startswith("requantize_")
