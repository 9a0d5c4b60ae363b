# SPDX-License-Identifier: Apache-2.0
"""Copies whose rows are short or lie apart, as concatenations and slices of few channels and pads make them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import pytest

from kernels import rig
from kernels.op_cases import CMSIS_NN, case_of, random_operands
from pillion.devices.cortex_m import Isa
from pillion.emitters.c.kernel_lists import KERNELS_OF
from pillion.ir.op import Op
from pillion.ir.types import Array, DType, PerTensor, TensorType, Value
from pillion.ir.verdict import all_ok
from pillion.ops import Concat, Pad, Slice, Transpose

Shape = tuple[int, ...]


def value(name: str, shape: Shape, dtype: DType) -> Value:
    return Value(name, TensorType(shape, dtype, PerTensor(0.05)))


def concat(shape: Shape, channels: Shape, dtype: DType = DType.INT8) -> Op:
    xs = tuple(value(f"x{number}", (*shape, count), dtype) for number, count in enumerate(channels))
    return Concat(xs=xs, y=value("y", (*shape, sum(channels)), dtype), axis=len(shape))


def cut(shape: Shape, begin: Shape, size: Shape, step: Shape, dtype: DType = DType.INT8) -> Op:
    return Slice(x=value("x", shape, dtype), y=value("y", size, dtype), begin=begin, step=step)


def pad(shape: Shape, before: Shape, after: Shape, dtype: DType = DType.INT8) -> Op:
    padded = tuple(map(sum, zip(shape, before, after, strict=True)))
    return Pad(x=value("x", shape, dtype), y=value("y", padded, dtype), before=before, after=after, value=7)


def transpose(shape: Shape, order: Shape, dtype: DType = DType.INT8) -> Op:
    y = value("y", tuple(shape[axis] for axis in order), dtype)
    return Transpose(x=value("x", shape, dtype), y=y, order=order)


COPIES = (
    *(concat((2, 5, 7), (count, 34 - count), dtype) for count in range(1, 18) for dtype in (DType.INT8, DType.INT16)),
    *(concat((3, 5), (count, 1)) for count in (31, 32, 33)),
    concat((), (5, 9)),
    concat((1, 181, 191), (1, 2)),
    concat((1,), (2**15 + 3, 2**16 + 5)),
    *(cut((3, 5, 7, 11), (1, 0, 2, 3), (2, 5, 4, n), (1, 1, 1, 1)) for n in range(1, 8)),
    cut((3, 9, 8, 11), (0, 1, 0, 2), (3, 4, 3, 3), (1, 2, 3, 3)),
    cut((2, 300, 5), (0, 1, 1), (2, 299, 3), (1, 1, 1), DType.INT16),
    *(pad((2, 5, 7, n), (0, 1, 2, 0), (0, 3, 1, 2)) for n in (1, 3, 8, 15, 16, 17)),
    pad((1, 13, 5), (0, 1, 0), (0, 0, 3), DType.INT16),
    *(transpose((2, 7, 5, 9), order) for order in ((2, 0, 3, 1), (0, 3, 1, 2), (3, 1, 0, 2), (1, 0, 2, 3))),
)  # fmt: skip


def cases(isa: Isa, ops: Iterable[Op]) -> Iterator[tuple[rig.Case, Array]]:
    """Ops by the kernels that a core would have, with the answers of the reference."""
    for number, op in enumerate(ops):
        made = [k for k in (*KERNELS_OF[isa], *KERNELS_OF[Isa.PORTABLE]) if k.op is type(op)]
        kernel = next(k for k in made if all_ok(k.check(op, CMSIS_NN)))
        given = random_operands(op, np.random.default_rng(number))
        yield case_of(op, kernel, given), op.reference(CMSIS_NN, *given)


@pytest.mark.qemu
@pytest.mark.parametrize(
    ("target", "isa"),
    [
        pytest.param(rig.host(*rig.SANITIZED), Isa.PORTABLE, id="host"),
        pytest.param(rig.M0, Isa.PORTABLE, id="m0"),
        pytest.param(rig.M33, Isa.DSP, id="m33"),
        pytest.param(rig.M55, Isa.MVE, id="m55"),
    ],
)
def test_each_element_arrives_and_none_beside(target: rig.Target, isa: Isa) -> None:
    made, expected = zip(*cases(isa, COPIES), strict=True)
    rig.check(target, made, expected)


@pytest.mark.qemu
@pytest.mark.parametrize(
    ("target", "isa", "most"),
    [
        pytest.param(rig.M33, Isa.DSP, (4.2, 7.5, 1.9), id="m33"),
        pytest.param(rig.M55, Isa.MVE, (0.6, 1.2, 0.5), id="m55"),
    ],
)
def test_instructions_per_copied_byte(target: rig.Target, isa: Isa, most: tuple[float, ...]) -> None:
    """Instructions for each byte of the result, of rows of a few channels."""
    ops = (
        concat((1, 30, 22), (12, 12)),
        cut((1, 30, 22, 12), (0, 0, 0, 3), (1, 30, 22, 6), (1, 1, 1, 1)),
        pad((1, 30, 22, 16), (0, 1, 1, 0), (0, 1, 1, 0)),
    )
    made, _ = zip(*cases(isa, ops), strict=True)
    for op, result, limit in zip(ops, rig.run(target, made), most, strict=True):
        assert result.instructions < limit * op.results[0].type.size_bytes, op
