# SPDX-License-Identifier: Apache-2.0
"""Fourier transforms that are written as convolutions or products with cosines and sines: the same ops as those of torch.fft."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

import pillion
from importers.pytorch.test_log_mels import Sound, sound
from importers.pytorch.test_spectra import decibels
from pillion.errors import PillionWarning
from pillion.ops import LogMel, Stft


def waves(m: Sound, window: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Gives cosines and sines [bins, samples of a frame] under a window."""
    angles = torch.arange(m.points // 2 + 1)[:, None] * torch.arange(m.size) * (2 * math.pi / m.points)
    window = m.window if window is None else window
    return torch.cos(angles) * window, torch.sin(angles) * window


def by_two_convolutions(m: Sound, x: Tensor) -> Tensor:
    """As torchlibrosa has them: a convolution for each part."""
    real, imaginary = (F.conv1d(x[:, None], part[:, None], stride=160) for part in waves(m))
    return torch.log(m.filters.t() @ (real**2 + imaginary**2) + 1e-6)


def by_one_convolution(m: Sound, x: Tensor) -> Tensor:
    """As encoders of filter banks have them: all parts are channels of one convolution, here with a scale and padding."""
    basis = torch.cat(waves(m))[:, None] * 0.25
    real, imaginary = F.conv1d(x[:, None], basis, stride=160, padding=100).chunk(2, 1)
    return 20 * torch.log10(torch.sqrt(real * real + imaginary * imaginary + 1e-8))


def by_products_with_frames(m: Sound, x: Tensor) -> Tensor:
    """Frames under a window times cosines and sines without one."""
    real, imaginary = waves(m, torch.ones(m.size))
    frames = x.unfold(-1, m.size, 160) * m.window
    return torch.log((frames @ real.t()) ** 2 + F.linear(frames, imaginary) ** 2 + 1e-6)


def magnitudes(m: Sound, x: Tensor) -> Tensor:
    real, imaginary = (F.conv1d(x[:, None], part[:, None], stride=160) for part in waves(m))
    return torch.sqrt(real**2 + imaginary**2)


def normalized(m: Sound, x: Tensor) -> Tensor:
    """Small numbers, as a transform divided by its points twice."""
    real, imaginary = (F.conv1d(x[:, None], part[:, None] / m.points**2, stride=160) for part in waves(m))
    return torch.sqrt(real**2 + imaginary**2)


def both_parts(m: Sound, x: Tensor) -> Tensor:
    """As complex denoisers read them."""
    return F.conv1d(x[:, None], torch.stack(waves(m), 1).reshape(-1, 1, m.size), stride=160)


def scaled_bins(m: Sound, x: Tensor) -> Tensor:
    """A factor for each bin: magnitudes do not have one, so parts are read."""
    real, imaginary = waves(m)
    factors = torch.linspace(0.5, 2, len(real))[:, None]
    return F.conv1d(x[:, None], torch.cat([real, -factors * imaginary])[:, None], stride=160)


Ways = dict[Callable[[Sound, Tensor], Tensor], tuple[type, int]]
WAYS: Ways = {
    **dict.fromkeys((by_two_convolutions, by_one_convolution, by_products_with_frames), (LogMel, 2)),
    **{magnitudes: (Stft, 1), normalized: (Stft, 1), both_parts: (Stft, 0), scaled_bins: (Stft, 0)},
}


@pytest.mark.parametrize("features", WAYS)
def test_waves_in_layers_are_a_transform(features: Callable[[Sound, Tensor], Tensor]) -> None:
    module, x = Sound(features).eval(), sound()
    options = {"target": "cortex-m55", "io_dtype": "int16", "precision": "int16"}
    program = pillion.compile(module, (x,), calibrate=[(x,)], **options)
    kind, power = WAYS[features]
    (op,) = (op for op in program.graph.ops if isinstance(op, (LogMel, Stft)))
    assert (type(op), op.power) == (kind, power)
    assert not {"conv2d", "linear", "batch_matmul", "magnitude"} & {op.kind for op in program.graph.ops}
    levels = np.round(x.numpy() * 2**15).astype(np.int16)
    (found,) = program.run(levels, on="host")
    (output,) = program.graph.outputs
    assert decibels((found - float(output.zero_point)) * output.scale, module(x).numpy()) > 45
    assert (found == program.run(levels, on="reference")[0]).all()


def noisy_waves(m: Sound, x: Tensor) -> Tensor:
    return F.conv1d(x[:, None], torch.cat(waves(m))[:200, None] + 1e-2 * m.window, stride=160)


def few_waves(m: Sound, x: Tensor) -> Tensor:
    return F.conv1d(x[:, None], waves(m)[0][:20, None], stride=160)


def one_sample(m: Sound, x: Tensor) -> Tensor:
    """Each row is a part of some transform, but all are the same."""
    return F.conv1d(x[:, None], torch.linspace(1, 2, 70)[:, None, None])


def read_elsewhere(m: Sound, x: Tensor) -> Tensor:
    return both_parts(m, x).sum(-1) + x[:, :258]


@pytest.mark.parametrize("features", [noisy_waves, few_waves, one_sample, read_elsewhere])
def test_other_layers_stay_unchanged(features: Callable[[Sound, Tensor], Tensor]) -> None:
    x = sound()
    program = pillion.compile(
        Sound(features).eval(), (x,), target="cortex-m55", calibrate=[(x,)], io_dtype="int16"
    )
    kinds = {op.kind for op in program.graph.ops}
    assert "conv2d" in kinds
    assert not {"log_mel", "stft"} & kinds


@pytest.mark.parametrize("options", [{"precision": "int16"}, {"int16": "*"}, {"min_quality": "40dB"}])
def test_floats_enter_in_16_bits_where_tensors_have_them(options: dict[str, str]) -> None:
    module, x = Sound(by_two_convolutions).eval(), sound() * 5.5
    program = pillion.compile(module, (x,), target="cortex-m55", calibrate=[(x,)], **options)
    assert [op.kind for op in program.graph.ops][:1] == ["quantize"]
    (op,) = (op for op in program.graph.ops if isinstance(op, LogMel))
    assert op.x.scale == 2.0**-12, "a power of two that holds fractions beyond ±1"
    (found,) = program.run(x.numpy(), on="host")
    assert decibels(found, module(x).numpy()) > 40
    assert (found == program.run(x.numpy(), on="reference")[0]).all()


def test_spectra_of_8_bits_are_named() -> None:
    def magnitudes_of_torch(m: Sound, x: Tensor) -> Tensor:
        return m.spectrum(x).abs()

    module, x = Sound(magnitudes_of_torch).eval(), sound()
    with pytest.warns(PillionWarning, match="--io-dtype int16 or --precision int16"):
        pillion.compile(module, (x,), target="cortex-m55", calibrate=[(x,)])
