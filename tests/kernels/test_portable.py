# SPDX-License-Identifier: Apache-2.0
"""The portable kernels against the reference, byte for byte: with sanitizers, and as the vector code of this computer."""

from __future__ import annotations

import dataclasses
import itertools
import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kernels import rig
from kernels.op_cases import case_of, reference
from kernels.rig import KERNELS, SANITIZED, VECTORIZED, WARNINGS
from kernels.scalar_operand_ops import operations
from nightly import part_of, runs_all
from pillion.devices.cortex_m import Isa
from pillion.emitters.c.kernel import Kernel
from pillion.emitters.c.kernel_lists import KERNELS_OF
from pillion.errors import PillionError
from pillion.ir.numerics import Arithmetic
from pillion.ir.op import Op
from pillion.ir.types import Array, DType, TensorType, Value, constant_value
from pillion.ir.verdict import all_ok, failed_rules
from pillion.ops import (
    ALL_OPS,
    Add,
    AvgPool2d,
    Conv2d,
    DepthwiseConv2d,
    Dequantize,
    Detections,
    Linear,
    MaxPool2d,
    Mean,
    Mul,
    Quantize,
    Reshape,
    Softmax,
    Transpose,
)
from pillion.ops.example_values import float_value, make_op, random_like, value
from pillion.ops.movement import Movement

pytestmark = pytest.mark.slow

ROWS = {op: [k for k in KERNELS_OF[Isa.PORTABLE] if k.op is op] for op in ALL_OPS}
BUILDS = {"sanitized": SANITIZED, **({"vectorized": VECTORIZED} if runs_all() else {})}
SCALAR = (*SANITIZED, "-Wno-sign-conversion", "-D__ARM_ARCH_PROFILE='M'")
"""As on cores without vectors, whose products have code of their own. (Sanitizers take their sums apart, into signed ones.)"""
EVERY_BUILD = {
    **BUILDS,
    **({"avx2": (*SANITIZED, "-mavx2"), "native": (*SANITIZED, "-march=native")} if runs_all() else {}),
    "scalar": SCALAR,
}
MOVEMENT = tuple(cls for cls in ALL_OPS if issubclass(cls, Movement))

needs_cc = pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")


def fills(v: Value) -> Iterator[Array]:
    """Random numbers, and every element at one end."""
    yield random_like(v, 1)
    low, high = v.dtype.bounds if v.dtype is not DType.FLOAT32 else (0, 0)
    if v.dtype in (DType.BOOL, DType.INT32):
        yield np.full(v.shape, low, v.dtype.numpy)
        yield (np.arange(v.type.elements).reshape(v.shape) % 3 % (high + 1)).astype(v.dtype.numpy)
    if v.dtype is DType.INT8:
        yield np.full(v.shape, -128, np.int8)
        yield np.where(np.arange(v.type.elements).reshape(v.shape) % 3, 127, -128).astype(np.int8)


@dataclass(frozen=True)
class Case:
    """An op by one of its kernels on some data, its result perhaps in the memory of an operand."""

    op: Op
    arithmetic: Arithmetic
    kernel: Kernel
    inputs: tuple[Array, ...]
    overwritten: Value | None = None

    @property
    def on_rig(self) -> rig.Case:
        return case_of(self.op, self.kernel, self.inputs, self.arithmetic, self.overwritten)


def cases(op: Op, arithmetic: Arithmetic) -> Iterator[Case]:
    """The op by each kernel that takes it, on some data, and once in the memory of each operand that it may overwrite."""
    for kernel in kernels_of(op, arithmetic):
        for inputs in zip(*(fills(v) for v in op.activations)):  # noqa: B905 - some types have fewer
            yield Case(op, arithmetic, kernel, inputs)
        inputs = tuple(random_like(v, 2) for v in op.activations)
        for operand in kernel.in_place(op):
            yield Case(op, arithmetic, kernel, inputs, operand)


def kernels_of(op: Op, arithmetic: Arithmetic) -> list[Kernel]:
    return [kernel for kernel in ROWS[type(op)] if all_ok(kernel.check(op, arithmetic))]


def taken(ops: Sequence[Op], arithmetic: Arithmetic) -> list[Op]:
    return [op for op in ops if kernels_of(op, arithmetic) and is_defined(op, arithmetic)]


def is_defined(op: Op, arithmetic: Arithmetic) -> bool:
    """Some functions have no meaning in LiteRT's arithmetic."""
    try:
        kernels_of(op, arithmetic)[-1].calls(op, arithmetic)
    except PillionError:
        return False
    return True


def assert_same_bytes(ops: Sequence[Op], flags: Sequence[str]) -> None:
    """In both arithmetics."""
    check([case for a in Arithmetic for op in taken(ops, a) for case in cases(op, a)], flags)


def check(every: Sequence[Case], flags: Sequence[str]) -> None:
    """On this computer, built with these flags."""
    wanted = [reference(case.op, case.arithmetic, case.inputs) for case in every]
    rig.check(rig.host(*flags), [case.on_rig for case in every], wanted)


# --- every example of every op ----------------------------------------------------------------------------------------


def test_every_op_has_a_kernel() -> None:
    assert all(ROWS.values())
    assert sum(map(len, ROWS.values())) == len(KERNELS_OF[Isa.PORTABLE])


@pytest.mark.turns(10)
@needs_cc
@pytest.mark.parametrize("build", BUILDS)
@pytest.mark.slow
def test_examples(build: str) -> None:
    ops = [op for cls in ALL_OPS if cls is not Reshape for op in cls.examples()]
    assert {type(op) for op in taken(ops, Arithmetic.TFLITE)} == {type(op) for op in ops}
    assert taken(ops, Arithmetic.CMSIS_NN) == ops
    assert_same_bytes(ops, BUILDS[build])


def test_a_reshape_is_no_work() -> None:
    for op in Reshape.examples():
        (kernel,) = ROWS[Reshape]
        assert kernel.calls(op, Arithmetic.CMSIS_NN) == ()
        assert kernel.in_place(op) == (op.operands[0],)


# --- channels around the number of lanes, and other edges ------------------------------------------------------------


def convolution(cls: type[Op], shape: Sequence[int], weights: Sequence[int], seed: int, **options: Any) -> Op:
    rng = np.random.default_rng(seed)
    axis = 0 if cls is Conv2d else 3
    w = constant_value("weights", rng.integers(-128, 127, tuple(weights), endpoint=True).astype(np.int8))
    w = dataclasses.replace(w, type=dataclasses.replace(w.type, quant=value("w", (), 0.01).quant))
    bias = constant_value("bias", rng.integers(-9999, 9999, weights[axis]).astype(np.int32))
    x = value("x", tuple(shape), 0.02, (-128, 127, -3)[seed % 3])
    return make_op(
        cls,
        value("y", (), 0.6 + 0.1 * (seed % 4), (4, -128, 127)[seed % 3]),
        x=x,
        weights=w,
        bias=bias,
        **options,
    )


def wide_convolutions() -> Iterator[Op]:
    for seed, channels in enumerate((1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 47, 65)):
        yield convolution(Conv2d, (1, 3, 5, 12), (channels, 1, 1, 12), seed)
        yield convolution(Conv2d, (1, 4, 3, 5), (channels, 3, 3, 5), seed, padding=(1, 1, 1, 1))
        yield convolution(Conv2d, (1, 3, 3, 8), (2 * channels, 2, 1, 4), seed, groups=2)
        yield convolution(
            DepthwiseConv2d,
            (2, 5, 4, channels),
            (1, 3, 3, channels),
            seed,
            padding=(1, 1, 1, 1),
            dilation=(1, 2),
        )
        yield convolution(DepthwiseConv2d, (1, 4, 3, 3), (1, 2, 3, 3 * channels), seed, padding=(0, 1, 1, 1))
    yield convolution(Conv2d, (1, 5, 7, 16), (20, 1, 1, 16), 3, stride=(2, 3))
    yield convolution(Conv2d, (1, 2, 2, 4), (5, 3, 3, 4), 4, padding=(4, 4, 4, 4))
    yield convolution(Conv2d, (1, 3, 3, 4), (6, 1, 1, 4), 5, padding=(0, 0, 1, 2))


def wide_products() -> Iterator[Op]:
    rng = np.random.default_rng(5)
    for number, (rows, depth, features) in enumerate(
        ((1, 4, 3), (37, 8, 33), (17, 7, 16), (5, 1, 9), (19, 64, 100))
    ):
        w = constant_value(
            "weights", rng.integers(-128, 127, (features, depth), endpoint=True).astype(np.int8)
        )
        w = dataclasses.replace(w, type=dataclasses.replace(w.type, quant=value("w", (), 2.0**-5).quant))
        bias = constant_value("bias", rng.integers(-999, 999, features).astype(np.int32))
        x = value("x", (rows, depth), 2.0**-4, (-128, 127, 0)[number % 3])
        yield make_op(Linear, value("y", (), 2.0**-1, 3), x=x, weights=w, bias=bias)


def other_edges() -> Iterator[Op]:
    x = value("x", (2, 3, 5, 2, 3, 2), 0.04, -9)
    yield make_op(Mean, value("y", (), 0.03, 7), x=x, axes=(0, 2, 4))
    yield make_op(Mean, value("y", (), 0.03, 7), x=x, axes=(1, 3, 5), keepdims=True)
    yield make_op(Mean, value("y", (), 0.03, 7), x=x, axes=tuple(range(6)))
    yield make_op(Mean, value("y", (), 0.03, 7), x=value("x", (3, 7, 67), 0.04, 127), axes=(1,))
    wide = value("x", (1, 7, 5, 67), 0.04, 5)
    for cls in (AvgPool2d, MaxPool2d):
        yield make_op(
            cls,
            value("y", (), 0.04, 5),
            x=wide,
            kernel=(3, 2),
            stride=(2, 2),
            padding=(1, 0, 2, 1),
            low=-50,
            high=60,
        )
    a, b = value("a", (2, 1, 3, 1, 5, 1), 0.05, 3), value("b", (1, 7, 1, 5, 1, 3), 0.07, -128)
    yield make_op(Add, value("y", (), 0.11, 1), a=a, b=b)
    yield make_op(Mul, value("y", (), 0.3, 1), a=b, b=a)
    yield make_op(Add, value("y", (), 1e-6, 1), a=a, b=b)
    whole = value("a", (5, 129), 0.05, 3)
    yield make_op(Add, value("y", (), 0.11, 1), a=whole, b=whole)
    yield make_op(Softmax, value("y", (), 1 / 256, -128), x=value("x", (1, 8191), 1e-4, 0))
    for step in (
        1e-9,
        1e-4,
        0.01,
        0.05,
        0.1,
        0.11,
        0.3,
        0.7,
        4.0,
        15.9,
        16.1,
    ):  # every difference, of 5 rows at once
        yield make_op(Softmax, value("y", (), 1 / 256, -128), x=value("x", (5, 51), step, 0))
    yield make_op(
        Transpose, value("y", (), 0.1), x=value("x", (2, 3, 2, 3, 2, 3), 0.1), order=(5, 1, 3, 0, 4, 2)
    )


@pytest.mark.turns(16)
@needs_cc
@pytest.mark.parametrize("build", EVERY_BUILD)
def test_edges(build: str) -> None:
    if build == "avx2" and not rig.has_avx2():
        pytest.skip("needs AVX2")
    ops = [*wide_convolutions(), *wide_products(), *other_edges()]
    assert all(taken(ops, arithmetic) == ops for arithmetic in Arithmetic)
    assert_same_bytes(ops, EVERY_BUILD[build])


@needs_cc
def test_with_a_number() -> None:
    ops = list(operations())
    assert {k.name for op in ops for k in kernels_of(op, Arithmetic.TFLITE)} >= {"mul", "mul_by_table"}
    assert_same_bytes(ops, SANITIZED)


@needs_cc
def test_softmax_of_every_difference() -> None:
    levels = np.arange(-128, 127, dtype=np.int8)
    steps = (1e-9, 1e-4, 0.01, 0.05, 0.1, 0.11, 0.3, 0.7, 4.0, 15.9, 16.1)
    ops = [
        make_op(Softmax, value("y", (), 1 / 256, -128), x=value("x", levels.shape, step, 0)) for step in steps
    ]
    kernels = [kernel for kernel in ROWS[Softmax] if "16" not in kernel.name]
    every = [Case(op, Arithmetic.CMSIS_NN, kernel, (levels,)) for op in ops for kernel in kernels]
    assert len(every) == 2 * len(steps)
    check(every, SANITIZED)


@needs_cc
def test_movement_of_real_numbers() -> None:
    ops = [as_real(op) for cls in MOVEMENT if cls is not Reshape for op in cls.examples()]
    assert_same_bytes(ops, SANITIZED)


def as_real(op: Op) -> Op:
    values = dict.fromkeys((*op.operands, *op.results))
    return op.substitute({v: Value(v.name, TensorType(v.shape, DType.FLOAT32)) for v in values})


@needs_cc
def test_every_sum_and_product() -> None:
    every = np.arange(-128, 128).astype(np.int8)
    a, b = value("a", (256, 1), 0.05, 3), value("b", (1, 256), 0.031, -128)
    ops = [
        make_op(cls, value("y", (), scale, 5), a=a, b=b)
        for cls in (Add, Mul)
        for scale in (0.06, 2.0**-4, 1e-9)
    ]
    inputs = (every.reshape(a.shape), every.reshape(b.shape))
    check(
        [
            Case(op, arithmetic, kernel, inputs)
            for op in ops
            for arithmetic in Arithmetic
            for kernel in ROWS[type(op)]
            if kernel.name == type(op).kind
        ],
        VECTORIZED if runs_all() else SANITIZED,
    )


# --- real numbers at the borders --------------------------------------------------------------------------------------


def awkward_reals(scale: float) -> Array:
    """Ties, their neighbours on both sides, numbers that are none, and every exponent there is."""
    ties = (np.arange(-300, 300) + 0.5).astype(np.float32) * np.float32(scale)
    beside = [np.nextafter(ties, np.float32(side)) for side in (-np.inf, np.inf)]
    powers = np.ldexp(np.float32(1.1), np.arange(-149, 128)).astype(np.float32)
    odd = np.array([np.nan, -np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-45, 3.4028235e38], np.float32)
    whole = np.random.default_rng(1).integers(0, 2**32, 4000, np.uint64).astype(np.uint32).view(np.float32)
    return np.concatenate([ties, *beside, powers, -powers, odd, -odd, whole])


@needs_cc
@pytest.mark.parametrize("build", BUILDS)
def test_quantize_is_exact_for_every_kind_of_number(build: str) -> None:
    every: list[Case] = []
    for scale, zero_point in ((1.0, 0), (0.1, -128), (0.007, 127), (2.0**-4, 5), (3e-38, 0), (1e30, 0)):
        data = awkward_reals(float(np.float32(scale)))
        op = make_op(Quantize, value("y", (), scale, zero_point), x=float_value("x", data.shape))
        for arithmetic, place in itertools.product(Arithmetic, (None, op.operands[0])):
            every.append(
                Case(op, arithmetic, next(k for k in ROWS[Quantize] if k.name == "quantize"), (data,), place)
            )
    check(every, BUILDS[build])


# --- what is refused --------------------------------------------------------------------------------------------------


def test_real_numbers_are_refused_where_kernels_are_for_integers() -> None:
    for cls in ALL_OPS:
        if cls in (*MOVEMENT, Quantize, Dequantize, Detections):
            continue
        for op in cls.examples():
            refused = failed_rules(ROWS[cls][0].check(as_real(op), Arithmetic.CMSIS_NN))
            assert refused, f"{cls.kind} takes real numbers"
            assert all(v.rule and v.wanted and v.got for v in refused)


def test_computed_weights_are_refused() -> None:
    for cls in (Conv2d, DepthwiseConv2d, Linear):
        op = next(iter(cls.examples()))
        computed = {v: dataclasses.replace(v, data=None) for v in op.operands if v.is_constant}
        refused = failed_rules(ROWS[cls][0].check(op.substitute(computed), Arithmetic.CMSIS_NN))
        assert {v.rule for v in refused} == {"weights", "bias"}


# --- the library itself -----------------------------------------------------------------------------------------------


@needs_cc
@pytest.mark.skipif(shutil.which("make") is None, reason="needs make")
@pytest.mark.nightly
def test_the_library_tests_itself(tmp_path: Path) -> None:
    done = subprocess.run(
        ["make", "-C", str(KERNELS), "test", f"BUILD={tmp_path}"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count(" 0 failures") == 2


def compilers() -> list[list[str]]:
    """Clang and one core; the rig compiles these files with the same warnings, by gcc for this computer and every core."""
    cores = part_of(("cortex-m33", "cortex-m0plus", "cortex-m4", "cortex-m55"), 4)
    return [
        *([["gcc"]] if runs_all() else []),
        ["clang"],
        *(["arm-none-eabi-gcc", f"-mcpu={core}", "-mfloat-abi=soft"] for core in cores),
    ]


@pytest.mark.turns(7)
@pytest.mark.parametrize("compiler", part_of(compilers(), 2), ids="-".join)
def test_kernels_compile_without_warnings_library_calls_or_deep_stacks(
    compiler: list[str], tmp_path: Path
) -> None:
    if shutil.which(compiler[0]) is None:
        pytest.skip(f"needs {compiler[0]}: make test-tools")
    sources = [str(source) for source in sorted((KERNELS / "portable").glob("*.c"))]
    command = [*compiler, "-O2", *WARNINGS, "-I", str(KERNELS / "include"), "-c", *sources]
    if len(compiler) > 1:
        command.append("-fstack-usage")
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    stacks = [line.split("\t") for file in tmp_path.glob("*.su") for line in file.read_text().splitlines()]
    assert all(int(size) <= 512 and kind == "static" for _, size, kind in stacks), stacks
    if len(compiler) > 1:
        assert len(stacks) >= len(sources)
        calls_nothing_but_helpers(sorted(tmp_path.glob("*.o")))


def calls_nothing_but_helpers(objects: list[Path]) -> None:
    """Those of the compiler; and there are no variables."""
    listing = subprocess.run(
        ["arm-none-eabi-nm", *objects], capture_output=True, text=True, check=True
    ).stdout
    wanted = set(re.findall(r" U (\w+)", listing))
    assert {name for name in wanted if not name.startswith("__aeabi_")} <= {"memcpy", "memset", "memmove"}
    assert not re.findall(r" [dDbBC] (\w+)", listing), "no variables"
