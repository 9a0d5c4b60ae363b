# SPDX-License-Identifier: Apache-2.0
"""The Helium kernels that say where an extreme stands against the reference, on the emulated Cortex-M55."""

from __future__ import annotations

import numpy as np
import pytest
from mve_ops import kernel_of, refusals

from kernels.op_cases import Run, check, check_runs
from kernels.rig import M55
from pillion.ir.types import DType, TensorType, Value
from pillion.ops.compare_select import ArgExtremum, ArgMax, ArgMin
from pillion.ops.example_values import make_op, value

PLACES = (ArgMax, ArgMin)


def place(cls: type[ArgExtremum], shape: tuple[int, ...], axis: int) -> ArgExtremum:
    op = make_op(cls, Value("y", TensorType((), DType.INT32)), x=value("x", shape, 0.1, 3), axis=axis)
    assert isinstance(op, ArgExtremum)
    return op


@pytest.mark.qemu
@pytest.mark.parametrize("cls", PLACES)
def test_every_number_of_results(cls: type[ArgExtremum]) -> None:
    """Side by side and apart, around the width of a vector."""
    rows = [place(cls, (n, size), 1) for n in (*range(2, 18), 31) for size in (1, 2, 7, 21)]
    columns = [place(cls, (outer, 5, n), 1) for n in (*range(2, 18), 33) for outer in (1, 3)]
    check(M55, [*rows, *columns])


@pytest.mark.qemu
@pytest.mark.parametrize("cls", PLACES)
def test_the_first_of_equal_ones_in_long_rows(cls: type[ArgExtremum]) -> None:
    rng = np.random.default_rng(3)
    runs = []
    for shape, axis in (((9, 8192), 1), ((1, 8192, 3), 1), ((2, 300, 11), 1)):
        for levels in ([-128, 127], [-128, -127], [5]):
            data = rng.choice(
                np.array(levels, np.int8), shape, p=None if len(levels) == 1 else (0.001, 0.999)
            )
            runs.append(Run(place(cls, shape, axis), (data,)))
    check_runs(M55, runs)


def test_refusals_name_the_rule() -> None:
    assert refusals(place(ArgMax, (1, 10), 1)) == ["results"]
    assert refusals(place(ArgMax, (8, 8193), 1)) == ["size"]
    assert kernel_of(place(ArgMin, (8, 8192), 1)) is not None
