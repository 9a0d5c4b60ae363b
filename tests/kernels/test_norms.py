# SPDX-License-Identifier: Apache-2.0
"""Norms on the emulated cores and on this computer against the reference, byte for byte."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kernels import rig
from kernels.op_cases import Run, case_of, check_runs, kernel_of, random_operands, refusals
from kernels.rig import M4, M33, M55, SANITIZED
from pillion.ir.op import Op
from pillion.ir.types import Array, DType, PerTensor, Shape, TensorType, Value, constant_value
from pillion.ops.example_values import make_op, value
from pillion.ops.normalize import Normalize

TARGETS = [
    pytest.param(rig.host(*SANITIZED), marks=pytest.mark.slow),
    pytest.param(M4, marks=(pytest.mark.qemu, pytest.mark.nightly)),
    pytest.param(M33, marks=pytest.mark.qemu),
    pytest.param(M55, marks=pytest.mark.qemu),
]


def norm(shape: Shape, number: int, each: bool = True, **attributes: Any) -> Op:
    """A norm with weights and bias for each channel, or for all."""
    rng = np.random.default_rng(number)
    channels = shape[-1] if each else 1
    held = {
        "weights": constant_value("weights", rng.uniform(-2, 2, channels).astype(np.float32)),
        "bias": constant_value("bias", rng.uniform(-2, 2, channels).astype(np.float32)),
    }
    x = value("x", shape, (0.05, 0.002, 1.3)[number % 3], (-128, 127, 0, -7)[number % 4])
    y = value("y", (), (0.03, 0.05)[number % 2], (0, 127, -128, 11)[number % 4])
    return make_op(Normalize, y, x=x, **held, **attributes)


def of_16_bits(op: Any, fine: bool = False) -> Op:
    """The same norm of numbers of 16 bits, whose steps are finer; a `fine` one has such results, too."""
    quant = PerTensor(op.x.scale / 200, (0, -(2**15), 2**15 - 1, 1000)[op.x.shape[-1] % 4])
    held = {"weights": op.weights, "bias": op.bias, "centred": op.centred}
    x = Value("x", TensorType(op.x.shape, DType.INT16, quant))
    steps = 256 if fine else 1
    bounds = {"low": op.low * steps, "high": op.high * steps + steps - 1}
    y = Value("y", TensorType((), DType.INT16, PerTensor(op.y.scale / steps))) if fine else op.y
    return make_op(Normalize, y, x=x, **held, **bounds, axis=op.axis, groups=op.groups)


def rows_of_16_bits(op: Op) -> list[Array]:
    """Random rows, rows of the ends, and rows of equal numbers."""
    shape, rng = op.activations[0].shape, np.random.default_rng(5)
    ends = -(2**15), 2**15 - 1
    flat = [np.full(shape, level, np.int16) for level in ends]
    return [
        rng.integers(*ends, shape, endpoint=True).astype(np.int16),
        rng.integers(-300, 300, shape).astype(np.int16),
        rng.choice(np.array(ends, np.int16), shape),
        *flat,
    ]


def shapes() -> list[Op]:
    """Channels around the widths of vectors and words, one and several positions, one and several groups."""
    ops = []
    for number, channels in enumerate((*range(1, 20), 31, 32, 33, 64, 65)):
        attributes = {
            "centred": number % 5 != 4,
            "low": -128 if number % 3 else -50,
            "high": 127 - number % 2,
        }
        if channels in (1, 2, 3, 5, 6, 16, 17, 31, 65):
            shape = (1, 5, 11, channels)
            ops.append(norm(shape, number, number % 4 != 3, axis=1, groups=channels, **attributes))
        ops.append(norm((2, channels), number, number % 4 != 1, **attributes))
        ops.append(norm((1, 3, 2, channels), number, number % 4 != 2, axis=1, **attributes))
        for groups in {g for g in (2, 3, channels // 2, channels) if g and channels % g == 0}:
            ops.append(norm((2, 3, channels), number, number % 3 != 1, axis=1, groups=groups, **attributes))
    return ops


def rows(op: Op) -> list[Array]:
    """Random rows, rows of equal numbers at both ends, rows with one other number, and rows near one end."""
    shape, rng = op.activations[0].shape, np.random.default_rng(3)
    lone = np.full(shape, -128, np.int8)
    lone[..., -1] = 127
    near = rng.choice(np.array([126, 127], np.int8), shape)
    flat = [np.full(shape, level, np.int8) for level in (-128, 0, 127)]
    return [*(random_operands(op, rng, extreme)[0] for extreme in (False, True)), *flat, lone, near]


@pytest.mark.turns(3)
@pytest.mark.parametrize("target", TARGETS, ids=["host", "m4", "m33", "m55"])
def test_every_shape(target: rig.Target) -> None:
    runs = [Run(op, (x,), number % 2 == 1) for op in shapes() for number, x in enumerate(rows(op))]
    check_runs(target, runs)


@pytest.mark.turns(3)
@pytest.mark.parametrize("fine", [False, True], ids=["to bytes", "fine"])
@pytest.mark.parametrize("target", TARGETS, ids=["host", "m4", "m33", "m55"])
def test_every_shape_of_16_bits(target: rig.Target, fine: bool) -> None:
    """With one group, which the kernels for vectors and pairs take; the portable one has them all."""
    longest = of_16_bits(norm((1, 2**15), 2, False), fine)
    ops = [*(of_16_bits(op, fine) for op in shapes()), longest]
    taken = [op for op in ops if kernel_of(target, op) is not None]
    assert {op for op in ops if op.groups == 1} <= {*taken}  # type: ignore[attr-defined]  # of norms
    check_runs(target, [Run(op, (x,), fine) for op in taken for x in rows_of_16_bits(op)])


@pytest.mark.parametrize("target", TARGETS, ids=["host", "m4", "m33", "m55"])
def test_no_rows_are_too_long(target: rig.Target) -> None:
    """Squares of more than 2^16 elements leave 32 bits, and so may those of a channel of large images."""
    long = [norm((1, 2**17 + 3), 2, False), norm((1, 2, 2**16 + 5), 3, False, axis=1, centred=False)]
    if target is not M55:
        long.append(norm((1, 2**16 + 7, 2), 0, axis=1, groups=2))
    runs = [Run(op, (np.full(op.activations[0].shape, -128, np.int8),)) for op in long]
    runs += [Run(op, random_operands(op, np.random.default_rng(1), True)) for op in long]
    check_runs(target, runs)


def test_helium_leaves_large_images_in_groups_to_others() -> None:
    assert kernel_of(M55, norm((1, 256, 256, 2), 0, axis=1, groups=2)) is not None
    assert refusals(M55, norm((1, 257, 256, 2), 0, axis=1, groups=2)) == ["positions"]


@pytest.mark.qemu
@pytest.mark.parametrize(("channels", "most"), [(3, 7.0), (8, 6.2), (40, 6.0)])
def test_instructions_of_channel_norms_on_helium(channels: int, most: float) -> None:
    """Instructions of an element: few channels take hardly more than many."""
    op = norm((1, 32, 32, channels), 0, axis=1, groups=channels)
    kernel = kernel_of(M55, op)
    assert kernel is not None
    (result,) = rig.run(M55, [case_of(op, kernel, random_operands(op, np.random.default_rng(0)))])
    assert result.instructions <= most * op.activations[0].type.elements
