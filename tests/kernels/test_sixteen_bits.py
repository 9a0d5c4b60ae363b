# SPDX-License-Identifier: Apache-2.0
"""Sums, products and functions in 16 bits on the emulated cores and on this computer against the reference, byte for byte."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import product
from typing import Any

import numpy as np
import pytest

from kernels import rig
from kernels.op_cases import Run, case_of, check_runs, kernel_of, random_operands, reference, refusals
from kernels.rig import M4, M33, M55, SANITIZED
from pillion.devices.cortex_m import Isa
from pillion.emitters.c.kernel_lists import KERNELS_OF
from pillion.ir.numerics import Arithmetic
from pillion.ir.types import Array, DType, PerTensor, Shape, TensorType, Value, constant_value
from pillion.ops import Add, Dequantize, Function, Lut, Mul, Sub
from pillion.ops.elementwise import AddOrSub, ScaledBinary
from pillion.ops.example_values import make_op
from pillion.ops.lut_interpolation import ENTRIES, SIDE

TARGETS = [
    pytest.param(rig.host(*SANITIZED), marks=pytest.mark.slow, id="host"),
    *(
        pytest.param(t, marks=marks, id=name)
        for name, t, marks in (
            ("m4", M4, (pytest.mark.qemu, pytest.mark.nightly)),
            ("m33", M33, pytest.mark.qemu),
            ("m55", M55, pytest.mark.qemu),
        )
    ),
]
INT8, INT16 = DType.INT8, DType.INT16
TYPES = [types for types in product((INT8, INT16), repeat=3) if INT16 in types]
ZEROS = {INT8: (-128, 127, 0, 5), INT16: (-(2**15), 2**15 - 1, 0, 1000)}
Types = tuple[DType, ...]


def tensor(name: str, shape: Shape, dtype: DType, number: int, ratio: float = 1.0) -> Value:
    """A tensor whose numbers reach about as far in 8 bits as in 16."""
    scale = ratio * (8.0 / 128 if dtype is INT8 else 8.0 / 2**15)
    return Value(name, TensorType(shape, dtype, PerTensor(scale, ZEROS[dtype][number % 4])))


def wide_pair(
    cls: type[ScaledBinary], a: Shape, b: Shape, types: Types, number: int, ratios: tuple[float, ...]
) -> Any:
    """An op with full bounds, or bounds like those of a relu6."""
    first, second, y = (
        tensor(name, shape, dtype, number + place, ratio)
        for place, (name, shape, dtype, ratio) in enumerate(
            zip("aby", (a, b, ()), types, ratios, strict=True)
        )
    )
    low, high = y.dtype.bounds
    if number % 4 == 3:
        low, high = max(low, y.zero_point), high - (high >> 3)
    return make_op(cls, y, a=first, b=second, low=min(low, high), high=high)


def wide_sum(
    a: Shape, b: Shape, types: Types, number: int, ratios: tuple[float, ...] = (1, 0.9, 2)
) -> AddOrSub:
    made: AddOrSub = wide_pair(Sub if number % 3 == 1 else Add, a, b, types, number, ratios)
    return made


def wide_product(
    a: Shape, b: Shape, types: Types, number: int, ratios: tuple[float, ...] = (1, 0.9, 6)
) -> Mul:
    made: Mul = wide_pair(Mul, a, b, types, number, ratios)
    return made


def data(op: ScaledBinary, seed: int) -> tuple[Array, ...]:
    """Random numbers, or nothing but the ends."""
    rng = np.random.default_rng(seed)
    if seed % 2:
        return tuple(
            rng.choice(np.array(v.dtype.bounds), v.shape).astype(v.dtype.numpy) for v in (op.a, op.b)
        )
    return tuple(
        rng.integers(*v.dtype.bounds, v.shape, endpoint=True).astype(v.dtype.numpy) for v in (op.a, op.b)
    )


def sums() -> list[AddOrSub]:
    """All element types, counts around a vector, rows that repeat on either side, and one past 2^15."""
    made = []
    for number, types in enumerate(TYPES):
        counts = (1, 2, 3, 4, 5, 7, 8, 9, 17, 2**15 + 3 if types == (INT16, INT8, INT16) else 33)
        for i, count in enumerate(counts):
            made.append(wide_sum((count,), (count,), types, number + i))
        made.append(wide_sum((3, 5, 9), (9,), types, number))
        made.append(wide_sum((1, 13), (6, 13), types, number + 1))
    return made


def sums_in_the_same_steps() -> Iterator[AddOrSub]:
    """Sums of 16-bit tensors that share a scale, with and without bounds."""
    shapes: list[tuple[Shape, Shape]] = [((count,), (count,)) for count in (*range(1, 19), 2**16 + 3)]
    shapes += [((3, 5, 9), (9,)), ((1, 13), (6, 13)), ((2, 7, 7, 3), (2, 7, 7, 3))]
    bounds = INT16.bounds, (0, INT16.bounds[1]), (0, 20_000), (-1000, 999)
    for number, (a, b) in enumerate(shapes):
        for cls in (Add, Sub):
            low, high = bounds[number % len(bounds)]
            first, second, y = (
                Value(n, TensorType(s, INT16, PerTensor(0.01)))
                for n, s in zip("aby", (a, b, ()), strict=True)
            )
            yield make_op(cls, y, a=first, b=second, low=low, high=high)


@pytest.mark.parametrize("target", TARGETS)
def test_sums_in_the_same_steps(target: rig.Target) -> None:
    made = list(sums_in_the_same_steps())
    if target.kernels[0].isa in (Isa.DSP, Isa.MVE):
        assert all(f"{op.kind}_unscaled_16" in kernel_of(target, op).name for op in made)
    check_runs(target, [Run(op, data(op, seed)) for op in made for seed in range(2)])
    alike = [op for op in made if op.a.shape == op.b.shape]
    check_runs(target, [Run(op, data(op, seed), True) for op in alike for seed in range(2)])


def products() -> list[Mul]:
    """The same of products."""
    made = []
    for number, types in enumerate(TYPES):
        counts = (1, 2, 3, 4, 5, 7, 8, 9, 17, 2**15 + 3 if types == (INT16, INT8, INT16) else 33)
        made += [wide_product((count,), (count,), types, number + i) for i, count in enumerate(counts)]
        made.append(wide_product((3, 5, 9), (9,), types, number))
        made.append(wide_product((1, 13), (6, 13), types, number + 1))
    return made


@pytest.mark.parametrize("target", TARGETS)
def test_products_of_every_size(target: rig.Target) -> None:
    made = products()
    runs = [Run(op, data(op, seed)) for op in made for seed in range(2)]
    check_runs(target, runs)
    alike = [op for op in made if (op.a.dtype, op.a.shape) == (op.y.dtype, op.y.shape)]
    check_runs(target, [Run(op, data(op, seed), True) for op in alike for seed in range(2)])


def products_in_lanes() -> Iterator[Mul]:
    """Products of 16-bit tensors without zero points, of even counts, rows that repeat, and factors up to 2^31."""
    for number, types in enumerate(TYPES):
        for i, count in enumerate((2, 4, 6, 8, 10, 16, 18, 34, 2**15 + 2)):
            one, many = (count,), (3, 5, count)
            for a, b in ((one, one), (many, one), (one, many)) if count < 100 else ((one, one),):
                op = wide_product(a, b, types, number + i)
                first, second, y = (without_zero_point(v) for v in (op.a, op.b, op.y))
                scale = first.scale * second.scale / (2.0**-14, 0.499, 0.3, 2.0**-20)[i % 4]
                y = y.like("y", quant=PerTensor(scale, y.zero_point))
                yield make_op(Mul, y, a=first, b=second, low=op.low, high=op.high)


def without_zero_point(value: Value) -> Value:
    """The tensor; in 16 bits its zero point is 0."""
    return value.like(value.name, quant=PerTensor(value.scale)) if value.dtype is INT16 else value


def test_products_in_lanes() -> None:
    made = list(products_in_lanes())
    taken = [op for op in made if kernel_of(M55, op).name == "mul_16_mve"]
    assert len(taken) > 0.9 * len(made)
    check_runs(M55, [Run(op, data(op, seed)) for op in taken for seed in range(2)])
    alike = [op for op in taken if (op.a.dtype, op.a.shape) == (op.y.dtype, op.y.shape)]
    check_runs(M55, [Run(op, data(op, seed), True) for op in alike for seed in range(2)])


@pytest.mark.parametrize("target", TARGETS)
def test_products_of_every_ratio_of_scales(target: rig.Target) -> None:
    rng, runs = np.random.default_rng(1), []
    for number in range(80):
        exact = 2.0 ** rng.integers(-4, 3, 3) if number % 3 == 0 else 2.0 ** rng.uniform(-4, 2, 3)
        types = TYPES[number % len(TYPES)]
        runs.append(
            Run(op := wide_product((67,), (67,), types, number, tuple(exact.tolist())), data(op, number))
        )
    check_runs(target, runs)


def test_products_of_rows_elsewhere_have_the_portable_kernel() -> None:
    apart = wide_product((4, 1), (1, 3), (INT16, INT16, INT16), 2)
    assert refusals(M55, apart) == refusals(M33, apart) == ["broadcast"]
    (kernel,) = (k for k in KERNELS_OF[Isa.PORTABLE] if k.op is Mul and k.name == "wide_mul")
    host, inputs = rig.host(*SANITIZED), data(apart, 0)
    rig.check(host, [case_of(apart, kernel, inputs)], [reference(apart, Arithmetic.CMSIS_NN, inputs)])


def scalings() -> Iterator[Mul]:
    """Products with a constant number of either width, as either operand, of every size and sign."""
    rng = np.random.default_rng(2)
    for number, (types, count) in enumerate(product(TYPES, (1, 3, 8, 9, 33))):
        op = wide_product((1, count), (1, 1), types, number)
        level = rng.integers(*op.b.dtype.bounds, (1, 1), endpoint=True).astype(op.b.dtype.numpy)
        factor = constant_value("b", level, op.b.type.quant)
        yield op.substitute({op.b: factor})
        if types[0] is types[1]:
            yield op.substitute({op.a: factor, op.b: op.a})


@pytest.mark.parametrize("target", TARGETS)
def test_products_with_a_number(target: rig.Target) -> None:
    """They are sums of one operand where their factor fits 32 bits, as that of a number of 8 bits does."""
    made, rng = [op for op in scalings() if kernel_of(target, op)], np.random.default_rng(0)
    check_runs(target, [Run(op, random_operands(op, rng, bool(i % 2))) for i, op in enumerate(made)])
    of_bytes = (op for op in scalings() if INT8 in {v.dtype for v in op.operands if v.is_constant})
    assert all(kernel_of(target, op) for op in of_bytes)


def entries_of_lines(rng: np.random.Generator, steepest: int) -> Array:
    """A table of lines of all heights, the first ones of the largest height up and down."""
    low, high = INT16.bounds
    entries = [low, low + steepest, low]
    while len(entries) < ENTRIES:
        least, most = max(entries[-1] - steepest, low), min(entries[-1] + steepest, high)
        entries.append(int(rng.integers(least, most, endpoint=True)))
    return np.array(entries, np.int16)


def lookups() -> list[Lut]:
    rng, made = np.random.default_rng(3), []
    functions = (Function.SIGMOID, Function.SILU, Function.EXP, Function.TABLE)
    for number, count in enumerate((1, 2, 3, 4, 5, 7, 9, 33, 2**16)):
        function = functions[number % len(functions)]
        table = constant_value("table", entries_of_lines(rng, steepest=2**15 - 1))
        x, y = (tensor(name, (count,), INT16, number) for name in "xy")
        made.append(Lut(x=x, y=y, function=function, table=table if function is Function.TABLE else None))
    for count in (1, 3, 5, 2**16):
        table = constant_value("table", rng.integers(-(2**15), 2**15, 2 * SIDE).astype(np.int16))
        x, y = (tensor(name, (count,), INT16, 2) for name in "xy")
        made.append(Lut(x=x, y=y, function=Function.TABLE, table=table))
    return made


@pytest.mark.parametrize("target", TARGETS)
def test_functions_of_all_numbers(target: rig.Target) -> None:
    """The last has all that 16 bits can be."""
    runs = []
    for op in filter(partial(kernel_of, target), lookups()):
        every = np.resize(np.arange(-(2**15), 2**15)[::-1], op.x.shape).astype(np.int16)
        runs += [Run(op, (every,)), Run(op, (every[::-1].copy(),), True)]
    assert len(runs) >= 18
    check_runs(target, runs)


def test_steeper_lines_have_the_portable_kernel() -> None:
    x, y = (tensor(name, (9,), INT16, 2) for name in "xy")
    for height, rules in ((2**15 - 1, []), (2**15, ["lines"])):
        table = np.full(ENTRIES, -(2**15))
        table[100:] += height
        op = Lut(x=x, y=y, function=Function.TABLE, table=constant_value("table", table.astype(np.int16)))
        assert refusals(M55, op) == rules


@pytest.mark.parametrize("zero_point", ZEROS[INT16])
def test_numbers_of_16_bits_become_real(zero_point: int) -> None:
    x = Value("x", TensorType((3, 7), INT16, PerTensor(0.00037, zero_point)))
    op = Dequantize(x=x, y=Value("y", TensorType((3, 7), DType.FLOAT32)))
    (kernel,) = (k for k in KERNELS_OF[Isa.PORTABLE] if k.op is Dequantize)
    held = np.random.default_rng(2).integers(*INT16.bounds, (3, 7), endpoint=True).astype(np.int16)
    host = rig.host(*SANITIZED)
    rig.check(host, [case_of(op, kernel, (held,))], [reference(op, Arithmetic.CMSIS_NN, (held,))])


@pytest.mark.parametrize("target", TARGETS)
def test_every_size(target: rig.Target) -> None:
    taken = [op for op in sums() if kernel_of(target, op) is not None]
    assert len(taken) > 0.6 * len(sums())
    assert {(op.a.dtype, op.b.dtype, op.y.dtype) for op in taken} >= {t for t in TYPES if t[2] is INT16}
    runs = [Run(op, data(op, seed)) for op in taken for seed in range(2)]
    check_runs(target, runs)
    alike = [op for op in taken if (op.a.dtype, op.a.shape) == (op.y.dtype, op.y.shape)]
    check_runs(target, [Run(op, data(op, seed), True) for op in alike for seed in range(2)])


@pytest.mark.parametrize("target", TARGETS)
def test_every_ratio_of_scales_that_is_taken(target: rig.Target) -> None:
    """From operands in much finer steps than the result's to coarser ones; halves are rounded up where scales are powers of two."""
    rng, runs = np.random.default_rng(1), []
    for number in range(120):
        exact = 2.0 ** rng.integers(-4, 3, 3) if number % 3 == 0 else 2.0 ** rng.uniform(-4, 2, 3)
        op = wide_sum((67,), (67,), TYPES[number % len(TYPES)], number, tuple(exact.tolist()))
        if kernel_of(target, op) is not None:
            runs.append(Run(op, data(op, number)))
    assert len(runs) >= 20
    check_runs(target, runs)


@pytest.mark.parametrize("target", TARGETS)
def test_sums_without_zero_points(target: rig.Target) -> None:
    """Nothing but one half is added to them; every second one has ties."""
    runs = []
    for number, count in enumerate((2, 3, 4, 5, 8, 33, 2**15 + 3)):
        for ratio in (2.0**-3, 0.7, 1.0, 1.9):
            a, b, y = (
                Value(name, TensorType(shape, INT16, PerTensor(scale)))
                for name, shape, scale in (
                    ("a", (3, count), 2.0**-9),
                    ("b", (count,), 2.0**-8),
                    ("y", (), ratio / 64),
                )
            )
            bounds = {"low": -(2**15), "high": 2**15 - 1}
            op: Any = make_op((Add, Sub)[number % 2], y, a=a, b=b, **bounds)
            runs.append(Run(op, data(op, number)))
            assert kernel_of(target, op) is not None
    check_runs(target, runs)


def test_sums_of_any_ratio_have_the_portable_kernel() -> None:
    """Steps of the result that are far finer than the operands', or coarser, and operands that repeat elsewhere than in rows."""
    coarse = wide_sum((5,), (5,), (INT16, INT16, INT8), 2, (1.0, 1.0, 1.0))
    assert coarse.int16_form.places == 38
    assert kernel_of(M33, coarse) is not None
    fine = wide_sum((5,), (5,), (INT8, INT8, INT16), 2, (2.0**6, 1.0, 2.0**-3))
    assert refusals(M33, fine) == refusals(M55, fine) == ["places"]
    apart = wide_sum((4, 1), (1, 3), (INT16, INT16, INT16), 2)
    assert refusals(M55, apart) == refusals(M33, apart) == ["broadcast"]
    halves = wide_sum((5,), (5,), (INT16, INT16, INT16), 2, (1 - 2.0**-15, 1 - 2.0**-15, 1.0))
    assert refusals(M55, halves) == ["halves"]
    assert kernel_of(M33, halves) is not None
    (kernel,) = (k for k in KERNELS_OF[Isa.PORTABLE] if k.op is type(coarse) and k.name == "wide_add")
    host, inputs = rig.host(*SANITIZED), data(coarse, 0)
    case = case_of(coarse, kernel, inputs)
    rig.check(host, [case], [reference(coarse, Arithmetic.CMSIS_NN, inputs)])
