# SPDX-License-Identifier: Apache-2.0
"""Spectra of 16-bit samples against real numbers, for loud and quiet sounds, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from ops.test_log_mel import HOP, RATE, SECONDS, WINDOW, sounds
from pillion.errors import PillionError
from pillion.ir.numerics import Arithmetic
from pillion.ir.types import DType, PerTensor, TensorType, Value, constant_value
from pillion.ops import Stft
from pillion.ops.example_values import make_op, value


def op_of(scale: float = 0.01, **fields: Any) -> Stft:
    made = make_op(
        Stft,
        Value("y", TensorType((), DType.INT16, PerTensor(scale))),
        x=Value("x", TensorType((1, int(RATE * SECONDS), 1), DType.INT16, PerTensor(2.0**-15))),
        window=constant_value("window", WINDOW),
        **{"hop": HOP, "points": 512, "power": 1, **fields},
    )
    assert isinstance(made, Stft)
    return made


@pytest.mark.parametrize("power", [0, 1, 2])
@pytest.mark.parametrize("points", [512, 1024, 2048])
def test_spectra_of_all_sounds_are_close_to_real_ones(points: int, power: int) -> None:
    """With the scale that calibration would choose for each of them."""
    for name, sound in sounds().items():
        samples = np.clip(np.round(sound), *DType.INT16.bounds).astype(np.int16)
        frames = np.lib.stride_tricks.sliding_window_view(samples / 2**15, 480)[::HOP] * WINDOW
        exact = np.fft.rfft(frames, points)
        wanted = np.abs(exact) ** power if power else np.stack([exact.real, exact.imag], axis=-1)
        op = op_of(float(np.abs(wanted).max()) / 32767, points=points, power=power)
        op.check()
        found = op.reference(Arithmetic.CMSIS_NN, samples[None, :, None])[0] * op.y.scale
        decibels = 10 * np.log10((wanted**2).sum() / ((found - wanted) ** 2).sum())
        assert decibels > 65, (name, decibels)


def test_spectra_saturate_and_silence_gives_zeros() -> None:
    """In steps far too fine, moderate and far too coarse ones; quiet frames are shifted by 46 bits."""
    op = op_of()
    loud = np.round(sounds()["noise"]).astype(np.int16)[None, :, None]
    for power, least in ((0, -32768), (1, 0), (2, 0)):
        fine, coarse = (replace(op_of(scale, power=power)) for scale in (1e-6, 1e6))
        y = fine.reference(Arithmetic.CMSIS_NN, loud)
        assert (y.max(), y.min() < -32760 if power == 0 else y.min() >= least) == (32767, True)
        assert not coarse.reference(Arithmetic.CMSIS_NN, loud).any()
        for silence in (0 * loud, np.minimum(0 * loud + 1, 1)):
            assert np.abs(op_of(power=power).reference(Arithmetic.CMSIS_NN, silence)).max() <= 1
    assert op.frames == 9


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        ({"points": 96}, "a power of two"),
        ({"points": 4096}, "a power of two"),
        ({"points": 256}, "fits in the FFT"),
        ({"power": 3}, "magnitudes, squares or pairs"),
        ({"window": constant_value("w", np.zeros(480, np.float32))}, "not all 0"),
        ({"x": value("x", (1, 4000, 1))}, "int16"),
        ({"y": Value("y", TensorType((1, 9, 257), DType.INT16, PerTensor(1e-30)))}, "near the range"),
    ],
)
def test_invalid_attributes_are_refused(change: dict[str, Any], rule: str) -> None:
    with pytest.raises(PillionError, match=rule):
        replace(op_of(), **change).check()
