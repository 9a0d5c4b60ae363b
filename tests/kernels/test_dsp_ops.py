# SPDX-License-Identifier: Apache-2.0
"""The DSP kernels that are no products of weights against the reference, byte for byte."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from matmul_ops import every_size
from quotient_ops import every_quotient
from scalar_operand_ops import operations
from sum_ops import every_block, every_extreme

from kernels.op_cases import Run, check, check_runs, kernel_of
from kernels.rig import M4, M7, M33, Target
from pillion.devices.cortex_m import Isa
from pillion.emitters.c.kernel_lists import KERNELS_OF
from pillion.ir.numerics import Arithmetic
from pillion.ir.op import Op
from pillion.ir.types import Array, DType, PerTensor, TensorType, Value, constant_value
from pillion.ops.div import Div
from pillion.ops.elementwise import Add, Mul, Sub
from pillion.ops.example_values import float_value, make_op, value
from pillion.ops.formats import Dequantize, Quantize
from pillion.ops.matmul import BatchMatmul
from pillion.ops.movement import Transpose
from pillion.ops.pool import AvgPool2d, AvgPool2dUp, MaxPool2d
from pillion.ops.reduce import Mean, ReduceSum
from pillion.ops.transpose_conv import TransposeConv2d

pytestmark = pytest.mark.qemu

COUNTS = (*range(1, 34), 63, 64, 65)
LEVELS = np.arange(-128, 128, dtype=np.int8)
BINARY = [Add, Sub, Mul]


def check_data(runs: list[tuple[Op, tuple[Array, ...]]]) -> None:
    """Ops with data of their own."""
    check_runs(M33, [Run(op, data) for op, data in runs])


@pytest.mark.turns(3)
@pytest.mark.parametrize("arithmetic", Arithmetic, ids=lambda a: a.value)
def test_examples(arithmetic: Arithmetic) -> None:
    kinds = dict.fromkeys(k.op for k in KERNELS_OF[Isa.DSP] if k.op is not TransposeConv2d)
    examples = (op for cls in kinds for op in cls.examples())
    check(M33, [op for op in examples if kernel_of(M33, op, arithmetic) is not None], arithmetic=arithmetic)


# --- two operands -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("cls", BINARY, ids=lambda cls: cls.kind)
def test_every_pair(cls: Any) -> None:
    """At random scales and at powers of two, with every kind of bounds."""
    rng = np.random.default_rng(1)
    runs: list[tuple[Op, tuple[Array, ...]]] = []
    for i in range(12):
        scales = 2.0 ** (rng.uniform(-3, 1, 3) if i % 3 else rng.integers(-3, 1, 3).astype(float))
        zps = [int(z) for z in rng.choice([-128, -7, 0, 19, 127], 3)]
        a, b = value("a", (65536,), scales[0], zps[0]), value("b", (65536,), scales[1], zps[1])
        y = value("y", (65536,), 2 * scales[2], zps[2])
        low, high = ((-128, 127), (max(zps[2], -128), 127), (-30, 60))[i % 3]
        op = cls(a=a, b=b, y=y, low=min(low, high), high=high)
        if kernel_of(M33, op) is not None:
            runs.append((op, (np.repeat(LEVELS, 256), np.tile(LEVELS, 256))))
    assert len(runs) >= 6
    check_data(runs)


@pytest.mark.parametrize("cls", [Add, Sub], ids=lambda cls: cls.kind)
def test_rounding_of_ties(cls: Any) -> None:
    """Scales whose ratios are small fractions: the reference rounds many sums away from zero."""
    y = value("y", (65536,), 1.0, 18)
    runs: list[tuple[Op, tuple[Array, ...]]] = [
        (
            cls(a=value("a", (65536,), a, 43), b=value("b", (65536,), b, -42), y=y),
            (np.repeat(LEVELS, 256), np.tile(LEVELS, 256)),
        )
        for a, b in [(0.125, 0.5), (0.5, 0.125), (0.0625, 0.5), (0.03125, 1.0), (0.1875, 0.25), (0.75, 2.0)]
    ]
    check_data(runs)


@pytest.mark.parametrize("cls", BINARY, ids=lambda cls: cls.kind)
def test_every_count(cls: Any) -> None:
    """Every second one in place. A single number beside others is left to the portable kernel."""
    ops = []
    for count in COUNTS[1:]:
        a, b = value("a", (count,), 0.0513, 3), value("b", (count,), 0.0437, -9)
        ops += [make_op(cls, value("y", (), 0.0811, 5), a=a, b=b, low=-90, high=100)] * 2
    check(M33, ops)


@pytest.mark.nightly
@pytest.mark.parametrize("board", [M4, M7], ids=lambda board: board.board.core)
def test_other_cores(board: Target) -> None:
    a, b = value("a", (37,), 0.0513, 3), value("b", (37,), 0.0437, -9)
    x = value("x", (1, 5, 6, 7), 0.05, 3)
    ops = [make_op(cls, value("y", (), 0.0811, 5), a=a, b=b) for cls in BINARY]
    check(board, [*ops, *(make_op(cls, x, x=x, kernel=(2, 3)) for cls in (AvgPool2d, MaxPool2d))])


@pytest.mark.parametrize("cls", BINARY, ids=lambda cls: cls.kind)
@pytest.mark.parametrize(
    ("a_shape", "b_shape"), [((5, 3, 9), (9,)), ((17,), (6, 17)), ((3, 33), (1, 33)), ((2, 3, 4), (3, 4))]
)
def test_rows_again_and_again(cls: Any, a_shape: tuple[int, ...], b_shape: tuple[int, ...]) -> None:
    a, b = value("a", a_shape, 0.0513, 3), value("b", b_shape, 0.0437, -9)
    check(M33, [make_op(cls, value("y", (), 0.0811, -3), a=a, b=b)])


@pytest.mark.parametrize("arithmetic", Arithmetic, ids=lambda a: a.value)
def test_quotients(arithmetic: Arithmetic) -> None:
    check_runs(M33, every_quotient(), arithmetic)


def test_no_factors_where_quotients_tie() -> None:
    """Halves that are rounded differently: the portable kernel divides."""
    op = make_op(Div, value("y", (), 0.2, 5), a=value("a", (7,), 0.05, 3), b=value("b", (7,), 0.04, -9))
    assert all(kernel_of(M33, op, arithmetic) is None for arithmetic in Arithmetic)


def test_constant_operand() -> None:
    a, b = (
        value("a", (5, 7), 0.0513, 3),
        constant_value("b", np.arange(7, dtype=np.int8), PerTensor(0.0437, -3)),
    )
    check(M33, [make_op(cls, value("y", (), 0.0811, 5), a=a, b=b) for cls in BINARY])


@pytest.mark.parametrize("arithmetic", Arithmetic, ids=lambda a: a.value)
def test_with_a_number(arithmetic: Arithmetic) -> None:
    ops = list(operations())
    assert all(k.name.endswith("_by_table_dsp") for op in ops if (k := kernel_of(M33, op, arithmetic)))
    check(M33, ops, arithmetic=arithmetic)


@pytest.mark.parametrize(("scale", "is_taken"), [(8.0, False), (2.0, False), (0.9, True), (2.0**-40, False)])
def test_mul_takes_right_shifts(scale: float, is_taken: bool) -> None:
    op = Mul(a=value("a", (7,), scale, 0), b=value("b", (7,), 0.5, 5), y=value("y", (7,), 1.0, 0))
    assert (kernel_of(M33, op) is not None) == is_taken, op.multiplier(Arithmetic.CMSIS_NN)


# --- one operand ------------------------------------------------------------------------------------------------------


def test_quantize_at_the_edges() -> None:
    special = [0.0, -0.0, np.inf, -np.inf, np.nan, 1e30, -1e30, 1e-40, -1e-40, 6.4, -6.35, 2**31 * 0.05, 1e10]
    ties = (np.arange(-300, 300) + 0.5) * 0.0625
    runs: list[tuple[Op, tuple[Array, ...]]] = []
    for zp in (-128, 0, 3, 127):
        for data in (special, ties):
            x = np.array(data, np.float32)
            y = Value("y", TensorType(x.shape, DType.INT8, PerTensor(0.0625, zp)))
            runs.append((Quantize(x=float_value("x", x.shape), y=y), (x,)))
    check_data(runs)


def test_quantize_and_dequantize_every_count() -> None:
    numbers = [(value("q", (count,), 0.031, 7), float_value("x", (count,))) for count in COUNTS]
    check(M33, [op for q, x in numbers for op in (Quantize(x=x, y=q), Dequantize(x=q, y=x))])


# --- pooling and movement ---------------------------------------------------------------------------------------------


def pool(cls: Any, rng: np.random.Generator, channels: int) -> Op:
    kernel = tuple(int(k) for k in rng.integers(1, 6, 2))
    padding = tuple(int(p) for p in rng.integers(0, 4, 4))
    if any(p >= kernel[i % 2] for i, p in enumerate(padding)):
        padding = (0, 0, 0, 0)
    size = tuple(max(kernel[i] - padding[i] - padding[i + 2], 1) + int(rng.integers(0, 7)) for i in (0, 1))
    x = value("x", (int(rng.integers(1, 3)), *size, channels), 0.05, 3)
    low, high = (-128, 127) if rng.random() < 0.5 else (-30, 60)
    stride = tuple(int(s) for s in rng.integers(1, 4, 2))
    return make_op(cls, x, x=x, kernel=kernel, stride=stride, padding=padding, low=low, high=high)


@pytest.mark.parametrize("cls", [MaxPool2d, AvgPool2d, AvgPool2dUp], ids=lambda cls: cls.kind)
def test_random_windows(cls: Any) -> None:
    rng = np.random.default_rng(9)
    arithmetic = Arithmetic.TFLITE if cls is AvgPool2dUp else Arithmetic.CMSIS_NN
    check(M33, [pool(cls, rng, c) for c in COUNTS for _ in (0, 1)], arithmetic=arithmetic)


@pytest.mark.parametrize("size", [(1, 1), (7, 7), (16, 16), (17, 31), (1, 200), (64, 64)])
def test_global_means(size: tuple[int, int]) -> None:
    x = value("x", (1, *size, 19), 0.05, 3)
    op = make_op(AvgPool2d, x, x=x, kernel=size)
    check(M33, [op, make_op(AvgPool2dUp, x, x=x, kernel=size)], arithmetic=Arithmetic.TFLITE)
    check_data([(op, (np.full(x.shape, level, np.int8),)) for level in (-128, 127)])


def test_transpose() -> None:
    """Of whole matrices; everything else is left to the portable kernel."""
    shapes = [(rows, columns) for rows in (1, 2, 3, 4, 5, 7, 9) for columns in (1, 2, 3, 4, 6, 8, 11)]
    plain = [((2, *s), (0, 2, 1)) for s in shapes] + [((1, 3, 17, 19), (0, 2, 3, 1))]
    ops = [
        make_op(Transpose, value("y", (), 0.05, 3), x=value("x", s, 0.05, 3), order=order)
        for s, order in plain
    ]
    check(M33, [op for op in ops if kernel_of(M33, op) is not None])
    assert sum(kernel_of(M33, op) is not None for op in ops) >= 30


# --- products of matrices ---------------------------------------------------------------------------------------------


@pytest.mark.turns(3)
@pytest.mark.parametrize("arithmetic", Arithmetic, ids=lambda a: a.value)
def test_matmul_every_size(arithmetic: Arithmetic) -> None:
    check(M33, list(every_size()), arithmetic=arithmetic)


@pytest.mark.nightly
@pytest.mark.parametrize("board", [M4, M7], ids=lambda board: board.board.core)
def test_matmul_on_other_cores(board: Target) -> None:
    check(board, list(every_size((1, 7, 8, 9, 16, 65))))


@pytest.mark.parametrize(("depth", "is_taken"), [(16512, True), (16513, False)])
def test_matmul_takes_sums_that_can_be_doubled(depth: int, is_taken: bool) -> None:
    a, b = value("a", (1, 2, depth), 0.031, -128), value("b", (1, depth, 3), 0.043, -128)
    op = make_op(BatchMatmul, value("y", (), 0.031 * 0.043 * depth * 200, 5), a=a, b=b)
    assert (kernel_of(M33, op) is not None) == is_taken
    if is_taken:
        ends = [np.full(a.shape, e, np.int8) for e in (-128, 127)]
        check_data([(op, (x, np.full(b.shape, e, np.int8))) for x in ends for e in (-128, 127)])


# --- sums -------------------------------------------------------------------------------------------------------------


@pytest.mark.turns(3)
@pytest.mark.parametrize("arithmetic", Arithmetic, ids=lambda a: a.value)
def test_sums_and_means(arithmetic: Arithmetic) -> None:
    ops = [op for op in every_block() if kernel_of(M33, op, arithmetic)]
    assert {op.kind for op in ops} >= {"mean"}
    assert len(ops) > 60
    check(M33, ops, arithmetic=arithmetic)


def wide_mean(cls: Any, shape: tuple[int, int, int], zero_points: tuple[int, int], step: float) -> Any:
    """Over the second of three axes, in steps of the result."""
    x = Value("x", TensorType(shape, DType.INT16, PerTensor(0.001, zero_points[0])))
    count = 1 if cls is Mean else shape[1]
    y = Value("y", TensorType((), DType.INT16, PerTensor(step * count * x.scale, zero_points[1])))
    return make_op(cls, y, x=x, axes=(1,))


@pytest.mark.parametrize("cls", [Mean, ReduceSum], ids=lambda cls: cls.kind)
def test_sums_and_means_of_16_bits(cls: Any) -> None:
    ends = (-(2**15), 0, 2**15 - 1, 1000)
    shapes = product((1, 3), (2, 3, 5, 16, 17, 35, 257), (1, 4, 5, 7, 12))
    ops = [
        wide_mean(cls, shape, (ends[n % 4], ends[n // 4 % 4]), (1.2, 1.7, 300.0)[n % 3])
        for n, shape in enumerate(shapes)
    ]
    assert all(kernel_of(M33, op) for op in ops)
    check(M33, ops)
    levels = (-(2**15), 2**15 - 1)
    check_data([(op, (np.full(op.x.shape, level, np.int16),)) for op in ops for level in levels])


@pytest.mark.parametrize(("count", "is_taken"), [(32767, True), (32768, False)])
def test_means_of_16_bits_take_sums_that_can_be_doubled(count: int, is_taken: bool) -> None:
    op = wide_mean(Mean, (1, count, 1), (0, 0), 1.7)
    assert (kernel_of(M33, op) is not None) == is_taken
    if is_taken:
        check_data([(op, (np.full(op.x.shape, level, np.int16),)) for level in (-(2**15), 2**15 - 1)])


def test_extremes() -> None:
    check_runs(M33, every_extreme())


@pytest.mark.parametrize("level", [-128, 127])
def test_sums_as_far_as_they_go(level: int) -> None:
    """Every element at one end: sums in 16 bits overflow with the first row too many, and with random data never."""
    ops = [op for op in every_block() if kernel_of(M33, op)]
    for height, width in ((1, 255), (16, 16), (4, 64)):
        x = value("x", (1, height, width, 5), 0.05, 3)
        ops.append(make_op(AvgPool2d, value("y", (), 0.05, 3), x=x, kernel=(height, width)))
    check_data([(op, tuple(np.full(v.shape, level, np.int8) for v in op.activations)) for op in ops])


@pytest.mark.parametrize(("inner", "is_taken"), [(1, True), (2, False), (3, False), (4, True)])
def test_sums_of_few_neighbours_are_left_to_the_portable_kernel(inner: int, is_taken: bool) -> None:
    op = make_op(Mean, value("y", (), 0.03), x=value("x", (1, 9, inner), 0.05), axes=(1,))
    assert (kernel_of(M33, op) is not None) == is_taken
