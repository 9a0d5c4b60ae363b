# SPDX-License-Identifier: Apache-2.0
"""Cascades of biquads on every core: the same bytes, and the instructions of a section."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from kernels import rig
from kernels.op_cases import CMSIS_NN, Run, case_of, check_runs, kernel_of, random_operands, reference
from pillion.ir.types import TensorType
from pillion.ops import Biquads

SANITIZED = rig.host(*rig.SANITIZED)
QEMU = pytest.mark.qemu
M0 = replace(rig.M0, folders=("portable",))


def runs() -> list[Run]:
    """Extreme and random samples and states, and silence."""
    rng = np.random.default_rng(0)
    found = []
    for op in Biquads.examples():
        loud, random = random_operands(op, rng, True), random_operands(op, rng)
        found += [Run(op, operands) for operands in (loud, random, (random[0] >> 9, 0 * random[1]))]
    return found


@pytest.mark.parametrize(
    "target",
    [
        pytest.param(SANITIZED, id="host"),
        pytest.param(M0, id="m0", marks=QEMU),
        pytest.param(rig.M33, id="m33", marks=QEMU),
        pytest.param(rig.M55, id="m55", marks=QEMU),
    ],
)
def test_all_cores_answer_the_reference(target: rig.Target) -> None:
    check_runs(target, runs())


@pytest.mark.qemu
@pytest.mark.parametrize(("target", "most"), [(rig.M33, 24), (rig.M55, 11)], ids=["m33", "m55"])
def test_a_section_takes_few_instructions_a_sample(target: rig.Target, most: int) -> None:
    """Of docs/guide/motion.md."""
    op = list(Biquads.examples())[1]
    x, y = (
        replace(v, type=TensorType((1, 1000 + more), v.dtype, v.type.quant))
        for v, more in ((op.x, 0), (op.y, 20))
    )
    op = replace(op, x=x, y=y)
    operands = random_operands(op, np.random.default_rng(1))
    (result,) = rig.run(target, [case_of(op, kernel_of(target, op), operands)])
    assert (result.y.reshape(op.y.shape) == reference(op, CMSIS_NN, operands)).all()
    assert result.instructions / (1000 * op.sections) <= most
