# SPDX-License-Identifier: Apache-2.0
"""Logarithms of mel spectra against real numbers, for loud, quiet and lively sounds, and what is refused."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from pillion.errors import PillionError
from pillion.ir.numerics import Arithmetic
from pillion.ir.types import Array, DType, PerTensor, TensorType, Value, constant_value
from pillion.ops import LogMel
from pillion.ops.example_values import make_op, value

RATE, SECONDS, HOP = 16_000, 0.2, 320
WINDOW = (0.5 - 0.5 * np.cos(2 * np.pi * np.arange(480) / 480)).astype(np.float32)


def mel_filters(points: int, bands: int) -> Array:
    """Triangles from 64 Hz to half the rate, equally wide on the mel scale."""
    low, high = (2595 * math.log10(1 + hertz / 700) for hertz in (64, RATE / 2))
    edges = 700 * (10 ** (np.linspace(low, high, bands + 2) / 2595) - 1)
    hertz = np.arange(points // 2 + 1)[:, None] * RATE / points
    rising = (hertz - edges[:-2]) / (edges[1:-1] - edges[:-2])
    falling = (edges[2:] - hertz) / (edges[2:] - edges[1:-1])
    return np.maximum(np.minimum(rising, falling), 0).astype(np.float32)


def sounds() -> dict[str, Array]:
    """Noise, a word of a 120 Hz voice in near silence, loud and quiet, the voice in noise of 3 steps, and a tone at -60 dB
    with and without noise."""
    rng = np.random.default_rng(3)
    t = np.arange(int(RATE * SECONDS)) / RATE
    hertz = 120 * np.arange(1, 60)
    shape = sum(np.exp(-(((hertz - centre) / 150) ** 2)) for centre in (700, 1200, 2600)) + 1e-3
    voice = (shape[:, None] * np.sin(2 * np.pi * hertz[:, None] * t + hertz[:, None] ** 2)).sum(axis=0)
    voice /= np.abs(voice).max()
    envelope = np.exp(-(((t - SECONDS / 2) / (SECONDS / 8)) ** 2))
    word = voice * envelope + rng.normal(0, 0.02, len(t)) * envelope + rng.normal(0, 6e-5, len(t))
    tone = 32.768 * np.sin(2 * np.pi * 1000.3 * t)
    return {
        "noise": rng.normal(0, 3276.8, len(t)),
        "word": 31_238 * word,
        "quiet word": 3124 * word,
        "voice": 8807 * voice + rng.normal(0, 3, len(t)),
        "tone in noise": tone + rng.normal(0, 0.5, len(t)),
        "tone": tone,
    }


def op_of(points: int = 512, bands: int = 40, window: Array = WINDOW, **fields: Any) -> LogMel:
    made = make_op(
        LogMel,
        Value("y", TensorType((), DType.INT16, PerTensor(0.001))),
        x=Value("x", TensorType((1, int(RATE * SECONDS), 1), DType.INT16, PerTensor(2.0**-15))),
        window=constant_value("window", window),
        filters=constant_value("filters", mel_filters(points, bands)),
        **{"hop": HOP, "slope": math.log(2), "offset": 1e-6, **fields},
    )
    assert isinstance(made, LogMel)
    return made


@pytest.mark.parametrize(("offset", "power"), [(1e-6, 2), (1e-10, 2), (1e-5, 1)])
@pytest.mark.parametrize(("points", "bands"), [(512, 40), (1024, 64), (2048, 13)])
def test_logarithms_of_all_sounds_are_close_to_real_ones(
    points: int, bands: int, offset: float, power: int
) -> None:
    op = op_of(points, bands, offset=offset, power=power)
    op.check()
    decibels = {}
    for name, sound in sounds().items():
        samples = np.clip(np.round(sound), *DType.INT16.bounds).astype(np.int16)
        found = op.reference(Arithmetic.CMSIS_NN, samples[None, :, None])[0] * op.y.scale
        frames = np.lib.stride_tricks.sliding_window_view(samples / 2**15, 480)[::HOP] * WINDOW
        wanted = np.log(
            np.abs(np.fft.rfft(frames, points)) ** power @ op.filters.constant.astype(float) + offset
        )
        decibels[name] = 10 * math.log10((wanted**2).sum() / ((found - wanted) ** 2).sum())
    assert min(decibels.values()) > 45, decibels


def test_silence_is_the_logarithm_of_offset_or_floor_or_the_least_result() -> None:
    silence = np.zeros((1, int(RATE * SECONDS), 1), np.int16)
    for fields, wanted in (
        ({"offset": 1e-6}, math.log(1e-6)),
        ({"offset": 0.0, "floor": 1e-4}, math.log(1e-4)),
        ({"offset": 1.0}, 0.0),
        ({"offset": 0.0}, -32.768),
    ):
        found = op_of(**fields).reference(Arithmetic.CMSIS_NN, silence) * 0.001
        assert np.abs(found - wanted).max() < 0.002, fields


def test_frames_are_independent() -> None:
    """Each one has an exponent of its own: a loud one changes nothing in the others."""
    op = op_of()
    samples = np.round(sounds()["voice"] / 50).astype(np.int16)[None, :, None]
    quiet = op.reference(Arithmetic.CMSIS_NN, samples)
    samples[0, -HOP:] = 32767
    loud = op.reference(Arithmetic.CMSIS_NN, samples)
    assert (quiet[0, :-2] == loud[0, :-2]).all()
    assert (quiet[0, -1] != loud[0, -1]).any()


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        ({"filters": constant_value("f", np.ones((301, 3), np.float32))}, "a power of two"),
        ({"filters": constant_value("f", -np.ones((257, 3), np.float32))}, "no filter"),
        ({"filters": constant_value("f", np.zeros((257, 3), np.float32))}, "not all 0"),
        ({"window": constant_value("w", np.full(480, np.nan, np.float32))}, "finite"),
        ({"window": constant_value("w", np.ones(513, np.float32))}, "fits in the FFT"),
        ({"hop": 0}, "fits in the FFT"),
        ({"power": 0}, "magnitudes or their squares"),
        ({"x": value("x", (1, 4000, 1))}, "int16"),
        ({"x": Value("x", TensorType((1, 4000, 2), DType.INT16, PerTensor(1.0)))}, "one channel"),
        ({"slope": 1e9}, "near the range"),
        ({"offset": 1e30}, "near the powers"),
    ],
)
def test_invalid_attributes_are_refused(change: dict[str, Any], rule: str) -> None:
    with pytest.raises(PillionError, match=rule):
        replace(op_of(), **change).check()
