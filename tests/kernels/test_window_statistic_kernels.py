# SPDX-License-Identifier: Apache-2.0
"""Statistics of windows on every core: the same bytes, near real numbers, and the instructions of a sample."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from kernels import rig
from kernels.op_cases import CMSIS_NN, Run, case_of, check_runs, kernel_of, random_operands, reference
from pillion.errors import PillionError
from pillion.ir.types import Array, DType, PerTensor, TensorType, Value
from pillion.ops import Statistic, WindowStatistic
from pillion.ops.window_statistic import MOST_SAMPLES

SANITIZED = rig.host(*rig.SANITIZED)
QEMU = pytest.mark.qemu


def op_of(statistic: Statistic, samples: int, windows: int = 1, step: float = 2.0**-11) -> WindowStatistic:
    x = Value("x", TensorType((windows, samples), DType.INT16, PerTensor(1.0)))
    y = Value("y", TensorType((windows,), DType.INT16, PerTensor(step, -(2**15))))
    return WindowStatistic(x=x, y=y, statistic=statistic)


def signals(windows: int, samples: int, rng: np.random.Generator) -> Array:
    """Noise, blows and uneven numbers of any loudness, on any constant part; the last two are extreme and constant."""
    loudness = 2.0 ** rng.uniform(2, 14, (windows, 1))
    noise = rng.normal(0, loudness / 4, (windows, samples))
    noise[::3] = np.where(rng.random(noise[::3].shape) < 0.02, 4, 0.02) * noise[::3]
    noise[1::3] = rng.uniform(-loudness[1::3], loudness[1::3], noise[1::3].shape)
    found = np.clip(np.rint(noise + rng.uniform(-(2**14), 2**14, (windows, 1))), -(2**15), 2**15 - 1)
    found[-2], found[-1] = np.where(np.arange(samples) % 2, -(2**15), 2**15 - 1), -(2**15)
    return found.astype(np.int16)


def runs() -> list[Run]:
    """Extreme, random and quiet windows."""
    rng = np.random.default_rng(0)
    found = []
    for op in WindowStatistic.examples():
        loud, random = random_operands(op, rng, True), random_operands(op, rng)
        found += [Run(op, operands) for operands in (loud, random, (random[0] >> 6,))]
    for statistic in Statistic:
        found += [
            Run(op, (signals(9, op.samples, rng),)) for op in (op_of(statistic, n, 9) for n in (31, 512))
        ]
    return found


@pytest.mark.parametrize(
    "target",
    [
        pytest.param(SANITIZED, id="host"),
        pytest.param(replace(rig.M0, folders=("portable",)), id="m0", marks=QEMU),
        pytest.param(rig.M33, id="m33", marks=QEMU),
        pytest.param(rig.M55, id="m55", marks=QEMU),
    ],
)
def test_all_cores_answer_the_reference(target: rig.Target) -> None:
    check_runs(target, [run for run in runs() if kernel_of(target, run.op)])


@pytest.mark.parametrize("samples", [2, 101, 512, MOST_SAMPLES])
@pytest.mark.parametrize("statistic", Statistic)
def test_results_are_real_numbers_rounded(statistic: Statistic, samples: int) -> None:
    x = signals(30, samples, np.random.default_rng(samples))
    away = x - x.mean(axis=-1, keepdims=True)
    deviation, peak = away.std(axis=-1), np.abs(away).max(axis=-1)
    rest = np.where(deviation, deviation, 1)
    real = {
        Statistic.DEVIATION: deviation,
        Statistic.PEAK: peak,
        Statistic.CREST: peak / rest,
        Statistic.KURTOSIS: (away**4).mean(axis=-1) / rest**4,
    }[statistic]
    op = op_of(statistic, samples, 30, real.max() / 65000)
    levels = reference(op, CMSIS_NN, (x,)).astype(float) + 2**15
    assert np.abs(levels - real / op.y.scale).max() < 0.6


@pytest.mark.qemu
@pytest.mark.parametrize(
    ("target", "most"), [(rig.M33, (2600, 5200)), (rig.M55, (800, 1600))], ids=["m33", "m55"]
)
def test_a_window_takes_few_instructions(target: rig.Target, most: tuple[int, int]) -> None:
    """Of docs/guide/motion.md: 512 samples; a kurtosis, and the others."""
    x = signals(4, 512, np.random.default_rng(1))[:1]
    for statistic in Statistic:
        op = op_of(statistic, 512)
        (found,) = rig.run(target, [case_of(op, kernel_of(target, op), (x,))])
        assert found.instructions < most[statistic is Statistic.KURTOSIS], statistic


def test_windows_of_too_many_samples_are_refused() -> None:
    with pytest.raises(PillionError, match="1 to 32768 samples"):
        replace(op_of(Statistic.PEAK, MOST_SAMPLES + 1)).check()
