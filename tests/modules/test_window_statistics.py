# SPDX-License-Identifier: Apache-2.0
"""Statistics of windows: as SciPy computes them, and in programs of 16 bits, loud and quiet."""

from __future__ import annotations

import shutil

import numpy as np
import pytest
import torch
from scipy.stats import kurtosis

import pillion
from pillion.ir.types import Array
from pillion.modules import WindowStatistics

SAMPLES = 400
KINDS = 4


def windows(count: int, seed: int) -> Array:
    """Three axes of noise, of tones in noise, of blows and of uneven numbers, from -6 to -40 dB of full scale."""
    rng = np.random.default_rng(seed)
    time = np.arange(SAMPLES)
    found = []
    for number in range(count):
        blows = (time % 57 < 4) * rng.normal(0, 5, (3, SAMPLES))
        tone = np.sin(rng.uniform(0.05, 2) * time + rng.uniform(0, 6, (3, 1)))
        noise = rng.normal(0, 1, (3, SAMPLES))
        kind = (noise, tone + 0.1 * noise, 0.5 * noise + blows, rng.uniform(-1, 1, (3, SAMPLES)))[
            number % KINDS
        ]
        found.append(kind / np.abs(kind).max() * 10 ** rng.uniform(-2, -0.3) + 0.01)
    return (np.rint(np.stack(found)[:, None] * 2**15) / 2**15).astype(np.float32)


def test_statistics_equal_scipy() -> None:
    x = windows(2 * KINDS, 0)
    deviation, peak, crest, fourth = (y.numpy() for y in WindowStatistics()(torch.from_numpy(x)))
    about = np.abs(x.astype(float) - x.mean(-1, keepdims=True)).max(-1)
    np.testing.assert_allclose(deviation, x.astype(float).std(-1), rtol=1e-4)
    np.testing.assert_allclose(peak, about, rtol=1e-4)
    np.testing.assert_allclose(crest, about / x.astype(float).std(-1), rtol=1e-4)
    np.testing.assert_allclose(fourth, kurtosis(x, axis=-1, fisher=False), rtol=1e-4)
    assert not any(y.any() for y in WindowStatistics()(torch.full((1, 3, 8), 0.25)))


def test_statistics_have_gradients() -> None:
    x = torch.from_numpy(windows(2, 3)).double().requires_grad_()
    assert torch.autograd.gradcheck(WindowStatistics(), (x[..., :20],))
    flat = torch.zeros(1, 8, requires_grad=True)
    sum(WindowStatistics()(flat)).sum().backward()
    assert flat.grad is not None
    assert torch.isfinite(flat.grad).all()


@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
@pytest.mark.qemu
@pytest.mark.slow
def test_programs_of_16_bits_are_near_real_numbers_in_each_window() -> None:
    calibration, x = windows(16 * KINDS, 1), windows(10 * KINDS, 2)
    samples = [(torch.from_numpy(window),) for window in calibration]
    options = {"calibrate": samples, "io_dtype": "int16", "int16": "*"}
    program = pillion.compile(WindowStatistics().eval(), samples[0], target="cortex-m55", **options)
    (given,), outputs = program.graph.inputs, program.graph.outputs
    levels = np.rint(x / given.scale).astype(np.int16)
    errors = []
    for number, window in enumerate(levels):
        answers = program.run(window)
        for on in ("host", "mps3-an547") if number < 2 else ():
            for ours, theirs in zip(answers, program.run(window, on=on), strict=True):
                np.testing.assert_array_equal(ours, theirs)
        wanted = WindowStatistics()(torch.from_numpy(window * np.float32(given.scale)))
        real = [(y.astype(float) - v.zero_point) * v.scale for y, v in zip(answers, outputs, strict=True)]
        errors.append(
            [np.abs(a - b.numpy()).max() / b.abs().max() for a, b in zip(real, wanted, strict=True)]
        )
    decibels = -20 * np.log10(np.max(errors, axis=0))
    assert (decibels > (45, 55, 70, 55)).all(), decibels
