# SPDX-License-Identifier: Apache-2.0
"""Spectra and logarithms of mel spectra on every core: the same bytes, and the instructions of a frame."""

from __future__ import annotations

import numpy as np
import pytest

from kernels import rig
from kernels.op_cases import CMSIS_NN, Run, case_of, check_runs, kernel_of, random_operands, reference
from ops.test_log_mel import op_of, sounds
from pillion.ops import LogMel, Op, Stft

SANITIZED = rig.host(*rig.SANITIZED)
QEMU = pytest.mark.qemu


def runs() -> list[Run]:
    """Extreme, random and quiet samples, and silence."""
    rng = np.random.default_rng(0)
    found = []
    ops: list[Op] = [*LogMel.examples(), *Stft.examples()]
    for op in ops:
        (loud,), (random,) = random_operands(op, rng, True), random_operands(op, rng)
        found += [Run(op, (x,)) for x in (loud, random, random >> 9, 0 * random)]
    return found


@pytest.mark.parametrize(
    "target",
    [
        pytest.param(SANITIZED, id="host"),
        pytest.param(rig.M33, id="m33", marks=QEMU),
        pytest.param(rig.M55, id="m55", marks=QEMU),
    ],
)
def test_all_cores_answer_the_reference(target: rig.Target) -> None:
    check_runs(target, runs())


@pytest.mark.qemu
@pytest.mark.parametrize(("target", "most"), [(rig.M33, 30_000), (rig.M55, 10_000)], ids=["m33", "m55"])
def test_a_frame_of_512_points_and_40_bands_takes_few_instructions(target: rig.Target, most: int) -> None:
    """Of docs/guide/sound.md: 480 samples, with window, FFT, powers, bands and logarithms."""
    op = op_of()
    samples = np.round(sounds()["voice"]).astype(np.int16)[None, :, None]
    (result,) = rig.run(target, [case_of(op, kernel_of(target, op), (samples,))])
    assert (result.y.reshape(op.y.shape) == reference(op, CMSIS_NN, (samples,))).all()
    assert result.instructions / op.frames <= most
