# SPDX-License-Identifier: Apache-2.0
"""Spectra without logarithms as people write them, with samples of 16 bits: each becomes one op."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import pillion
from importers.pytorch.test_log_mels import SAMPLES, Sound, sound
from pillion.ops import Stft
from streams.stream_checks import require_windows, signals, steps

MOVES = {"reshape", "transpose", "slice", "flip", "concat"}


def magnitudes(m: Sound, x: Tensor) -> Tensor:
    return m.spectrum(x, center=True).abs()


def normalized_squares(m: Sound, x: Tensor) -> Tensor:
    """As torchaudio's Spectrogram(normalized=True) has them."""
    return (m.spectrum(x) / m.window.square().sum().sqrt()).abs().pow(2.0).transpose(-1, -2)


def squares_of_parts(m: Sound, x: Tensor) -> Tensor:
    spectrum = torch.fft.rfft(x.unfold(-1, m.size, 160) * m.window, m.points)
    return (spectrum.real**2 + spectrum.imag**2) * 0.5


def of_a_whole_window(m: Sound, x: Tensor) -> Tensor:
    """As spectra of vibration are written."""
    return torch.fft.rfft(x[:, :256] * torch.hann_window(256)).abs() * 2 / 256


def without_window(m: Sound, x: Tensor) -> Tensor:
    return torch.fft.rfft(x.unfold(-1, 128, 64)).abs().square()


def real_and_imaginary(m: Sound, x: Tensor) -> Tensor:
    return torch.view_as_real(m.spectrum(x))


def imaginary(m: Sound, x: Tensor) -> Tensor:
    return torch.fft.rfft(x[:, None, 1000:], 1024).imag


def spectra_and_norms(m: Sound, x: Tensor) -> tuple[Tensor, Tensor]:
    """Neither magnitudes nor squares are all that is read."""
    spectrum = m.spectrum(x)
    return spectrum.abs(), spectrum.real


WAYS: dict[Callable[[Sound, Tensor], Tensor], int] = {
    **{magnitudes: 1, normalized_squares: 2, squares_of_parts: 2, of_a_whole_window: 1, without_window: 2},
    **{real_and_imaginary: 0, imaginary: 0},
}


def decibels(found: np.ndarray, wanted: np.ndarray) -> float:
    return 10 * math.log10((wanted**2).sum() / ((found - wanted) ** 2).sum())


@pytest.mark.parametrize("precision", ["int8", "int16"])
@pytest.mark.parametrize("features", WAYS)
def test_spectra_are_one_op_of_16_bit_samples(
    features: Callable[[Sound, Tensor], Tensor], precision: str
) -> None:
    module, x = Sound(features).eval(), sound()
    options = {"target": "cortex-m55", "io_dtype": "int16", "precision": precision}
    program = pillion.compile(module, (x,), calibrate=[(x,)], **options)
    (op,) = (op for op in program.graph.ops if isinstance(op, Stft))
    assert op.power == WAYS[features]
    assert {op.kind for op in program.graph.ops} <= MOVES | {"stft"}
    levels = np.round(x.numpy() * 2**15).astype(np.int16)
    (found,) = program.run(levels, on="host")
    (output,) = program.graph.outputs
    real = (found - float(output.zero_point)) * output.scale
    assert decibels(real, module(x).numpy()) > (60 if precision == "int16" else 20)
    assert (found == program.run(levels, on="reference")[0]).all()


def test_parts_are_computed_once_if_magnitudes_are_not_all_that_is_read() -> None:
    module, x = Sound(spectra_and_norms).eval(), sound()  # type: ignore[arg-type]  # two results
    program = pillion.compile(
        module, (x,), target="cortex-m55", calibrate=[(x,)], io_dtype="int16", precision="int16"
    )
    assert [op.power for op in program.graph.ops if isinstance(op, Stft)] == [0]
    found = program.run(np.round(x.numpy() * 2**15).astype(np.int16), on="host")
    for y, output, wanted in zip(found, program.graph.outputs, module(x), strict=True):
        assert decibels((y - float(output.zero_point)) * output.scale, wanted.numpy()) > 40


class Machine(nn.Module):
    """Magnitudes of vibration, with the mean of their bands."""

    def __init__(self) -> None:
        super().__init__()
        self.sound, self.head = Sound(magnitudes_of_frames, 128, 128), nn.Linear(65, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.sound(x)).mean(1)


def magnitudes_of_frames(m: Sound, x: Tensor) -> Tensor:
    return torch.fft.rfft(x.unfold(-1, 128, 128) * m.window).abs()


@pytest.mark.qemu
def test_streams_of_spectra_begin_at_the_samples() -> None:
    torch.manual_seed(0)
    model, x = Machine().eval(), sound(1)[:, : SAMPLES // 128 * 128]
    options = {"target": "cortex-m33", "calibrate": [(x,)], "io_dtype": "int16"}
    whole = pillion.compile(model, (x,), **options)
    program = pillion.compile(model, (x,), **options, stream="x:1", hop=128)
    streaming = program.streaming
    assert streaming is not None
    held = signals(whole.graph, streaming, 24)
    given = list(steps(whole.graph, streaming, held, 24))
    for on in ("host", "mps2-an505"):
        assert require_windows(whole.graph, streaming, program.stream(on).run(given), held) >= 5
