# SPDX-License-Identifier: Apache-2.0
"""The Helium kernels that are not convolutions against the reference, byte for byte, on the emulated Cortex-M55."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import numpy as np
import pytest
from matmul_ops import every_size
from mve_ops import Run, check, every_pair, kernel_of, refusals, with_random_data
from quotient_ops import every_quotient
from scalar_operand_ops import operations
from sum_ops import every_block, every_extreme

from kernels.op_cases import check_every_kernel
from kernels.rig import M55
from nightly import part_of
from pillion.devices.cortex_m import Isa
from pillion.emitters.c.families.sum_formulas import LEVELS, ROUNDED_TWICE
from pillion.emitters.c.kernel_lists import KERNELS_OF
from pillion.ir.numerics import Arithmetic
from pillion.ir.op import Op
from pillion.ir.types import Array, DType, PerTensor, TensorType, Value, constant_value
from pillion.ops.clamp import Clamp
from pillion.ops.elementwise import Add, Mul, Sub
from pillion.ops.example_values import conv_bias, conv_weights, float_value, make_op, random_like, value
from pillion.ops.formats import Dequantize, Quantize
from pillion.ops.linear import Linear
from pillion.ops.matmul import BatchMatmul
from pillion.ops.movement import Concat, Pad, Slice, Transpose
from pillion.ops.pool import AvgPool2d, AvgPool2dUp, MaxPool2d
from pillion.ops.prelu import Prelu
from pillion.ops.reduce import Mean
from pillion.ops.softmax import OUTPUT, OUTPUTS, Softmax

pytestmark = pytest.mark.qemu

RNG_SCALES = np.random.default_rng(11)


@pytest.mark.turns(3)
@pytest.mark.parametrize("arithmetic", Arithmetic, ids=lambda a: a.value)
def test_examples(arithmetic: Arithmetic) -> None:
    examples = (op for cls in dict.fromkeys(k.op for k in KERNELS_OF[Isa.MVE]) for op in cls.examples())
    check((with_random_data(op) for op in examples if kernel_of(op, arithmetic) is not None), arithmetic)


# --- two operands -----------------------------------------------------------------------------------------------------


def pairs(cls: Any, seed: int, count: int = 12) -> list[Run]:
    """All pairs of values at random scales and at powers of two."""
    rng = np.random.default_rng(seed)
    runs = []
    for i in range(count):
        scales = 2.0 ** (rng.uniform(-3, 1, 3) if i % 3 else rng.integers(-3, 2, 3).astype(float))
        zps = [int(z) for z in rng.choice([-128, -7, 0, 19, 127], 3)]
        a, b = value("a", (65536,), scales[0], zps[0]), value("b", (65536,), scales[1], zps[1])
        y = value("y", (65536,), scales[2], zps[2])
        low = zps[2] if i % 4 == 0 else -128
        op = cls(a=a, b=b, y=y, low=low, high=127)
        if kernel_of(op) is not None:
            runs.append(Run(op, tuple(every_pair())))
    assert len(runs) >= count // 2
    if cls is not Mul:
        assert {kernel.name for run in runs if (kernel := kernel_of(run.op))} == {
            f"{cls.kind}{n}_mve" for n in ("", "_rescaled")
        }
    return runs


@pytest.mark.turns(3)
@pytest.mark.parametrize("cls", [Add, Sub, Mul], ids=lambda cls: cls.kind)
@pytest.mark.parametrize("seed", range(2))
def test_every_pair(cls: Any, seed: int) -> None:
    check(pairs(cls, seed))


@pytest.mark.turns(4)
@pytest.mark.parametrize("cls", part_of([Add, Sub, Mul], 2), ids=lambda cls: cls.kind)
def test_every_count_and_in_place(cls: Any) -> None:
    runs = []
    for count in (*range(1, 36), 63, 64, 65):
        a, b = value("a", (count,), 0.05, 3), value("b", (count,), 0.04, -9)
        run = with_random_data(make_op(cls, value("y", (), 0.08, 5), a=a, b=b, low=-90, high=100))
        runs += [run, Run(run.op, run.inputs, in_place=True)]
    check(runs)


@pytest.mark.parametrize("cls", [Add, Sub, Mul], ids=lambda cls: cls.kind)
@pytest.mark.parametrize(
    ("a_shape", "b_shape"), [((5, 3, 9), (9,)), ((17,), (6, 17)), ((4, 1), (1,)), ((3, 33), (1, 33))]
)
def test_rows_again_and_again(cls: Any, a_shape: tuple[int, ...], b_shape: tuple[int, ...]) -> None:
    y = value("y", (), 0.06, -3)
    op = make_op(cls, y, a=value("a", a_shape, 0.05, 3), b=value("b", b_shape, 0.04, -9))
    if a_shape == (4, 1):
        assert refusals(op) == ["broadcast"]
    else:
        check([with_random_data(op)])


def test_products_without_a_right_shift() -> None:
    a, b, y = value("a", (65536,), 0.9, -7), value("b", (65536,), 1.0, 5), value("y", (65536,), 1.0, 0)
    check([Run(Mul(a=a, b=b, y=y), tuple(every_pair()))])


def test_sums_are_found_for_scales_as_nets_have_them() -> None:
    rng = np.random.default_rng(3)
    found = 0
    for _ in range(40):
        scales = 2.0 ** rng.uniform(-6, -3, 2)
        y = value("y", (7,), float(scales.sum() * rng.uniform(0.5, 1.2)), int(rng.integers(-128, 127)))
        op = Add(a=value("a", (7,), float(scales[0]), 0), b=value("b", (7,), float(scales[1]), 5), y=y)
        kernel = kernel_of(op)
        found += kernel is not None and kernel.name == "add_mve"
    assert found >= 39


@pytest.mark.parametrize("cls", [Add, Sub], ids=lambda cls: cls.kind)
def test_rounding_of_ties(cls: Any) -> None:
    """Scales whose ratios are small fractions: the reference rounds many sums away from zero."""
    y = value("y", (65536,), 1.0, 18)
    ratios = [(0.125, 0.5), (0.5, 0.125), (0.0625, 0.5), (0.03125, 1.0), (0.1875, 0.25), (0.625, 1.0)]
    ops = [cls(a=value("a", (65536,), a, 43), b=value("b", (65536,), b, -42), y=y) for a, b in ratios]
    assert {kernel.name for op in ops if (kernel := kernel_of(op))} == {f"{cls.kind}_mve"}
    check(Run(op, tuple(every_pair())) for op in ops)


def test_no_factors_for_what_is_no_sum() -> None:
    wanted = np.minimum(LEVELS[:, None], LEVELS)
    assert ROUNDED_TWICE.find(wanted, (0.5, 0.5), -128, 127) is None


@pytest.mark.parametrize(("scale", "rule"), [(4.0, ["right_shift"]), (0.9, []), (0.3, [])])
def test_mul_refuses_left_shifts(scale: float, rule: list[str]) -> None:
    op = Mul(a=value("a", (7,), scale, 0), b=value("b", (7,), 1.0, 5), y=value("y", (7,), 1.0, 0))
    assert refusals(op) == rule


@pytest.mark.parametrize("arithmetic", Arithmetic, ids=lambda a: a.value)
def test_with_a_number(arithmetic: Arithmetic) -> None:
    runs = [with_random_data(op) for op in operations()]
    assert all(k.name.endswith("_by_table_mve") for run in runs if (k := kernel_of(run.op, arithmetic)))
    same = [run for run in runs if run.op.results[0].shape == run.inputs[0].shape]
    check([*runs, *(Run(run.op, run.inputs, in_place=True) for run in same)], arithmetic)


@pytest.mark.parametrize("arithmetic", Arithmetic, ids=lambda a: a.value)
def test_slopes_along_the_last_axis(arithmetic: Arithmetic) -> None:
    """Every value with every slope that is met; ratios of scales that are shifted to the left, to the right, and not at all."""
    runs = []
    for i, count in enumerate((*range(2, 20), 63, 64, 65)):
        scales = 2.0 ** RNG_SCALES.uniform(-2, 3, 2)
        x, slope = (
            value("x", (256, count), scales[0], (-128, 0, 127, 9)[i % 4]),
            value("s", (count,), 0.01, i - 9),
        )
        op = make_op(Prelu, value("y", (), scales[1], (5, -128, 127)[i % 3]), x=x, slope=slope)
        levels = np.repeat(np.arange(-128, 128, dtype=np.int8)[:, None], count, axis=1)
        runs.append(Run(op, (levels, random_like(slope, i))))
        runs.append(Run(op, runs[-1].inputs, in_place=True))
    check(runs, arithmetic)


def test_slopes_along_other_axes() -> None:
    x, slope = value("x", (2, 3, 5), 0.05, 3), value("s", (3, 1), 0.01)
    assert refusals(make_op(Prelu, value("y", (), 0.03, 7), x=x, slope=slope)) == ["slopes"]


@pytest.mark.parametrize("arithmetic", Arithmetic, ids=lambda a: a.value)
def test_quotients(arithmetic: Arithmetic) -> None:
    check(every_quotient(), arithmetic)


# --- one operand ------------------------------------------------------------------------------------------------------


def test_quantize_at_the_edges() -> None:
    special = [0.0, -0.0, np.inf, -np.inf, np.nan, 1e30, -1e30, 1e-40, -1e-40, 6.4, -6.35, 2**31 * 0.05, 1e10]
    ties = (np.arange(-300, 300) + 0.5) * 0.0625
    runs = []
    for zp in (-128, 0, 3, 127):
        for data in (special, ties):
            x = np.array(data, np.float32)
            y = Value("y", TensorType(x.shape, DType.INT8, PerTensor(0.0625, zp)))
            runs.append(Run(Quantize(x=float_value("x", x.shape), y=y), (x,)))
    check(runs)


def test_quantize_and_dequantize_every_count() -> None:
    runs = []
    for count in range(1, 21):
        quantized, number = value("q", (count,), 0.031, 7), float_value("x", (count,))
        quantize = with_random_data(Quantize(x=number, y=quantized), count)
        runs += [quantize, Run(quantize.op, quantize.inputs, in_place=True)]
        runs.append(with_random_data(Dequantize(x=quantized, y=number), count))
    check(runs)


def test_quantize_refuses_scales_that_make_subnormals_count() -> None:
    y = Value("y", TensorType((3,), DType.INT8, PerTensor(1e-35, 0)))
    assert refusals(Quantize(x=float_value("x", (3,)), y=y)) == ["scale"]


def test_clamp_every_count() -> None:
    runs = []
    for count in range(1, 36):
        x, y = value("x", (count,), 0.05, 3), value("y", (count,), 0.05, 3)
        run = with_random_data(Clamp(x=x, y=y, low=-20, high=33), count)
        runs += [run, Run(run.op, run.inputs, in_place=True)]
    check(runs)


# --- matrix products --------------------------------------------------------------------------------------------------


def linear(rows: int, inputs: int, outputs: int, seed: int, zp: int) -> Run:
    x, weights = value("x", (rows, inputs), 0.031, zp), conv_weights((outputs, inputs), 0, seed)
    y = value("y", (), 0.9, -zp - 1)
    low = y.zero_point if seed % 2 else -128
    return with_random_data(
        make_op(Linear, y, x=x, weights=weights, bias=conv_bias(x, weights, outputs, seed), low=low), seed
    )


@pytest.mark.parametrize("zp", [-128, 0, 127])
def test_linear_every_size(zp: int) -> None:
    runs = [linear(1, n, 11, n, zp) for n in (*range(1, 34), 63, 64, 65, 127, 128, 129, 255, 257, 640)]
    runs += [linear(2, 19, n, n, zp) for n in (*range(1, 34), 63, 64, 65)]
    runs += [linear(3 + n % 7, 13 * n % 90 + 1, 3 * n % 40 + 1, n, zp) for n in range(40)]
    names = {"", "_left", "_k16", "_k32", "_k48", "_k64"}
    assert check_every_kernel(M55, runs) >= {"linear_mve", *(f"linear_rows{name}_mve" for name in names)}


@pytest.mark.parametrize("arithmetic", part_of(Arithmetic, 2), ids=lambda a: a.value)
def test_matmul_every_size(arithmetic: Arithmetic) -> None:
    runs = [with_random_data(op, seed) for seed, op in enumerate(every_size())]
    assert len({run.op.results[0].shape for run in runs}) > 80
    check(runs, arithmetic)


@pytest.mark.parametrize(("depth", "zp"), [(33025, -128), (4097, 127)])
def test_matmul_of_the_largest_sums(depth: int, zp: int) -> None:
    a, b = value("a", (1, 3, depth), 0.031, zp), value("b", (1, depth, 2), 0.043, zp)
    op = make_op(BatchMatmul, value("y", (), 0.031 * 0.043 * depth * 200, 5), a=a, b=b)
    ends = [np.full(a.shape, e, np.int8) for e in (-128, 127)]
    check(Run(op, (x, np.full(b.shape, e, np.int8))) for x in ends for e in (-128, 127))


@pytest.mark.parametrize(("scale", "rule"), [(1.0, ["right_shift"]), (1.01, [])])
def test_matmul_refuses_left_shifts(scale: float, rule: list[str]) -> None:
    a, b = value("a", (1, 2, 3), 1.0), value("b", (1, 3, 2), 1.0)
    assert refusals(make_op(BatchMatmul, value("y", (), scale), a=a, b=b)) == rule


def test_matmul_refuses_steps_beyond_16_bits() -> None:
    a, b = value("a", (1, 2, 3), 1.0), value("b", (1, 3, 9363), 1.0)
    assert refusals(make_op(BatchMatmul, value("y", (), 9.0), a=a, b=b)) == ["step"]


# --- sums -------------------------------------------------------------------------------------------------------------


@pytest.mark.turns(2)
@pytest.mark.parametrize("arithmetic", part_of(Arithmetic, 2), ids=lambda a: a.value)
def test_sums_and_means(arithmetic: Arithmetic) -> None:
    ops = [op for op in every_block() if kernel_of(op, arithmetic)]
    assert {op.kind for op in ops} >= {"mean"}
    assert len(ops) > 60
    check([with_random_data(op, i) for i, op in enumerate(ops)], arithmetic)
    ends = ((op, e) for i, op in enumerate(ops) for e in (-128, 127) if i % 3 == 0)
    check([Run(op, (np.full(op.operands[0].shape, e, np.int8),)) for op, e in ends], arithmetic)


def test_sums_over_axes_with_others_between() -> None:
    x = value("x", (2, 3, 5, 7), 0.05, 3)
    assert refusals(make_op(Mean, value("y", (), 0.03, 7), x=x, axes=(0, 2))) == ["axes"]


def test_extremes() -> None:
    check(every_extreme())


# --- pooling ----------------------------------------------------------------------------------------------------------


def pool(cls: Any, rng: np.random.Generator, channels: int) -> Op | None:
    kernel = tuple(int(k) for k in rng.integers(1, 6, 2))
    padding = tuple(int(p) for p in rng.integers(0, 4, 4))
    if any(p >= kernel[i % 2] for i, p in enumerate(padding)):
        padding = (0, 0, 0, 0)
    size = tuple(max(kernel[i] - padding[i] - padding[i + 2], 1) + int(rng.integers(0, 7)) for i in (0, 1))
    x = value("x", (int(rng.integers(1, 3)), *size, channels), 0.05, 3)
    stride, bounds = (
        tuple(int(s) for s in rng.integers(1, 4, 2)),
        (-128, 127) if rng.random() < 0.5 else (-30, 60),
    )
    options = {"kernel": kernel, "stride": stride, "padding": padding, "low": bounds[0], "high": bounds[1]}
    made = make_op(cls, x, x=x, **options)
    made.check()
    return made


@pytest.mark.parametrize("cls", [MaxPool2d, AvgPool2d, AvgPool2dUp], ids=lambda cls: cls.kind)
def test_random_windows(cls: Any) -> None:
    rng = np.random.default_rng(9)
    ops = [pool(cls, rng, c) for c in (*range(1, 34), 63, 64, 65) for _ in (0, 1)]
    arithmetic = Arithmetic.TFLITE if cls is AvgPool2dUp else Arithmetic.CMSIS_NN
    check((with_random_data(op, i) for i, op in enumerate(ops) if op is not None), arithmetic)


def test_global_means() -> None:
    runs = []
    for size in ((1, 1), (7, 7), (16, 16), (17, 31), (64, 64), (3, 256), (1, 200), (255, 2)):
        x = value("x", (1, *size, 19), 0.05, 3)
        data = (random_like(x, 0), *(np.full(x.shape, level, np.int8) for level in (-128, 127)))
        ops = [make_op(cls, x, x=x, kernel=size) for cls in (AvgPool2d, AvgPool2dUp)]
        runs += [Run(op, (numbers,)) for op in ops for numbers in data]
    check(runs, Arithmetic.TFLITE)


def test_means_near_ties() -> None:
    """Sums at and beside the middle between two numbers."""
    runs = []
    for columns in (2, 6, 49, 64, 250):
        sums = [int((k + 0.5) * columns) + d for k in (-128, -77, -1, 0, 1, 126) for d in (-1, 0, 1)]
        sums = [min(max(s, -128 * columns), 127 * columns) for s in sums]
        data = np.zeros((1, 1, columns, len(sums)), np.int8)
        for c, total in enumerate(sums):
            base, more = divmod(total, columns)
            data[0, 0, :, c] = base
            data[0, 0, :more, c] += 1
        x = value("x", data.shape, 0.05, 3)
        runs += [Run(make_op(cls, x, x=x, kernel=(1, columns)), (data,)) for cls in (AvgPool2d, AvgPool2dUp)]
    check(runs, Arithmetic.TFLITE)


def test_all_sums_of_all_windows_have_the_right_mean() -> None:
    """What the kernel computes in float32, for every number of pixels, at the sums where it could go wrong."""
    for pixels in range(1, 4097):
        reciprocal = np.float32(1 + 2.0**-22) / np.float32(pixels)
        ties = np.floor((np.arange(-128, 256) + 0.5) * pixels).astype(np.int64)
        sums = np.unique(np.concatenate([ties - 1, ties, ties + 1, ties + 2]))
        sums = sums[(sums >= -128 * pixels) & (sums <= 255 * pixels)]
        means = sums.astype(np.float32) * reciprocal
        rounded = np.sign(means) * np.floor(np.abs(means.astype(np.float64)) + 0.5)
        assert np.array_equal(rounded, np.sign(sums) * ((np.abs(sums) + pixels // 2) // pixels)), pixels


@pytest.mark.parametrize("kernel", [(1, 257), (65, 64)])
def test_mean_refuses_too_many_pixels(kernel: tuple[int, int]) -> None:
    x = value("x", (1, *kernel, 1), 0.05, 3)
    assert refusals(make_op(AvgPool2d, x, x=x, kernel=kernel)) == ["window"]


# --- movement ---------------------------------------------------------------------------------------------------------


def test_transpose() -> None:
    shapes = ((2, 3, 5, 7), (1, 3, 17, 19), (1, 33, 1, 40), (1, 7, 31, 3))
    ops = [
        make_op(Transpose, value("y", (), 0.05, 3), x=value("x", shape, 0.05, 3), order=order)
        for order in permutations(range(4))
        for shape in shapes
    ]
    check(with_random_data(op) for op in ops)


@pytest.mark.parametrize("step", [1, 2, 3, 16, 17, 18, 40])
def test_slice(step: int) -> None:
    x = value("x", (3, 400, 5), 0.05, 3)
    runs = []
    for steps in ((1, step, 1), (1, step, 2), (2, 1, 1), (1, 1, step)):
        begin = (0, 3, 1)
        shape = tuple(-(-(size - b) // s) for size, b, s in zip(x.shape, begin, steps, strict=True))
        y = value("y", shape, 0.05, 3)
        runs.append(with_random_data(Slice(x=x, y=y, begin=begin, step=steps)))
    check(runs)


def test_concat_and_pad() -> None:
    a, b = value("a", (2, 3, 5), 0.05, 3), value("b", (2, 3, 18), 0.05, 3)
    check(
        [
            with_random_data(make_op(Concat, a, xs=(a, b), axis=2)),
            with_random_data(make_op(Concat, b, xs=(b, a, b), axis=2)),
        ]
    )
    assert kernel_of(make_op(Pad, a, x=a, before=(0, 1, 0), after=(0, 0, 2), value=3)) is not None


def test_constant_operand() -> None:
    a, b = value("a", (5, 7), 0.05, 3), constant_value("b", np.arange(7, dtype=np.int8), PerTensor(0.04, -3))
    check([with_random_data(make_op(Add, value("y", (), 0.08, 5), a=a, b=b))])


# --- softmax ----------------------------------------------------------------------------------------------------------


def softmax(x: Array, scale: float, zp: int = 0, quant: PerTensor = OUTPUT) -> Op:
    return make_op(Softmax, Value("y", TensorType((), DType.INT8, quant)), x=value("x", x.shape, scale, zp))


def test_softmax_every_count() -> None:
    runs = []
    for count in (*range(1, 36), 63, 64, 65, 1000):
        run = with_random_data(
            softmax(np.zeros((3, count)), 0.07, -128, OUTPUTS[count % len(OUTPUTS)]), count
        )
        runs += [run, Run(run.op, run.inputs, in_place=True)]
    check(runs)


def test_softmax_of_every_difference() -> None:
    levels = np.arange(-128, 128, dtype=np.int8)
    scales = [*2.0 ** np.linspace(-26, 12, 77), *RNG_SCALES.uniform(0.01, 0.3, 40), 1e9]
    check(Run(softmax(levels, float(scale)), (levels,)) for scale in scales)


@pytest.mark.parametrize("level", [-128, 0, 127])
def test_softmax_of_equals(level: int) -> None:
    """Sums of exponentials up to the largest one."""
    counts = (1, 2, 3, 255, 256, 257, 511, 512, 513, 4095, 4096, 8191)
    rows = [np.full(count, level, np.int8) for count in counts]
    check(Run(softmax(row, 0.1), (row,)) for row in rows)
