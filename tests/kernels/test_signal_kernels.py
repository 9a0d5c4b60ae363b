# SPDX-License-Identifier: Apache-2.0
"""The stages of TensorFlow Lite Micro's sound features on every core: the reference's bytes, and the instructions of a frame."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from kernels import rig
from kernels.op_cases import Run, case_of, check_runs, kernel_of
from pillion.ir.op import Op
from pillion.ir.types import Array
from pillion.ops import SignalStage, Stage

SANITIZED = rig.host(*rig.SANITIZED)
QEMU = pytest.mark.qemu
M0, M33, M55 = (replace(core, folders=("portable",)) for core in (rig.M0, rig.M33, rig.M55))


def drawn(op: Op, rng: np.random.Generator, kind: str) -> tuple[Array, ...]:
    """Extreme numbers, or words with any number of bits, small ones among them; shifts are near their range."""
    found = []
    for v in op.activations:
        bits = 8 * v.dtype.size_bytes
        words = rng.integers(0, 2**bits, v.shape) >> rng.integers(0, bits + 1, v.shape)
        if kind == "extreme":
            words = rng.choice([0, 1, 2 ** (bits - 1) - 1, 2 ** (bits - 1), 2**bits - 1], v.shape)
        words = words if v.shape else rng.integers(0, 34, ())
        found.append(words.astype(f"uint{bits}").view(v.dtype.numpy))
    return tuple(found)


def runs() -> list[Run]:
    """Words of all lengths, and extreme ones."""
    rng = np.random.default_rng(0)
    kinds = ("extreme", "extreme", "any", "any", "any")
    return [Run(op, drawn(op, rng, kind)) for op in SignalStage.examples() for kind in kinds]


@pytest.mark.parametrize(
    "target",
    [
        pytest.param(SANITIZED, id="host"),
        pytest.param(M0, id="m0", marks=QEMU),
        pytest.param(M33, id="m33", marks=QEMU),
        pytest.param(M55, id="m55", marks=QEMU),
    ],
)
def test_all_cores_answer_the_reference(target: rig.Target) -> None:
    check_runs(target, runs())


@pytest.mark.qemu
@pytest.mark.parametrize(("target", "most"), [(M33, 41_000), (M55, 41_000)], ids=["m33", "m55"])
def test_an_fft_takes_fewer_instructions_than_that_of_tensorflow(target: rig.Target, most: int) -> None:
    """Of 512 points, as docs/guide/sound.md says."""
    op = next(op for op in SignalStage.examples() if isinstance(op, SignalStage) and op.numbers == (512,))
    operands = drawn(op, np.random.default_rng(1), "any")
    (result,) = rig.run(target, [case_of(op, kernel_of(target, op), operands)])
    assert op.stage is Stage.RFFT
    assert result.instructions / op.x.shape[0] <= most
