# SPDX-License-Identifier: Apache-2.0
"""Spectra with logarithms as people write them, with samples of 16 bits: each becomes one op."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import pillion
from ops.test_log_mel import mel_filters
from pillion.modules import BiquadCascade
from pillion.ops import LogMel
from streams.stream_checks import require_windows, signals, steps

SAMPLES = 2000
Features = Callable[["Sound", Tensor], Tensor]


class Sound(nn.Module):
    def __init__(self, features: Features, points: int = 256, size: int = 200) -> None:
        super().__init__()
        self.features, self.points, self.size = features, points, size
        self.register_buffer("window", torch.hann_window(size))
        self.register_buffer("filters", torch.tensor(mel_filters(points, 20)))

    def spectrum(self, x: Tensor, center: bool = False) -> Tensor:
        return torch.stft(x, self.points, 160, self.size, self.window, center=center, return_complex=True)

    def forward(self, x: Tensor) -> Tensor:
        return self.features(self, x)


def by_products(m: Sound, x: Tensor) -> Tensor:
    power = m.spectrum(x).abs() ** 2
    return torch.log(torch.matmul(power.transpose(-1, -2), m.filters).transpose(-1, -2) + 1e-6)


def in_decibels(m: Sound, x: Tensor) -> Tensor:
    """As torchaudio has them: frames around their middle, and the least power of AmplitudeToDB."""
    mel = torch.matmul(m.filters.t(), m.spectrum(x, center=True).abs().pow(2.0))
    return 10.0 * torch.log10(torch.clamp(mel, min=1e-10)) - 3.0


def by_parts(m: Sound, x: Tensor) -> Tensor:
    spectrum = m.spectrum(x)
    return (spectrum.real.square() + spectrum.imag.square() + 1e-8).log2() / 2


def by_frames(m: Sound, x: Tensor) -> Tensor:
    frames = x.unfold(-1, m.size, 160) * m.window
    return torch.log1p(torch.fft.rfft(frames, m.points).abs().square() @ m.filters)


def amplitudes(m: Sound, x: Tensor) -> Tensor:
    """As torchaudio has them with power=1."""
    return torch.log(m.spectrum(x).abs().transpose(-1, -2) @ m.filters + 1e-4)


WAYS = (by_products, in_decibels, by_parts, by_frames, amplitudes)


def sound(batch: int = 2) -> Tensor:
    rng = np.random.default_rng(0)
    loudness = np.linspace(0.001, 0.3, SAMPLES)
    levels = np.round(np.clip(rng.normal(0, 1, (batch, SAMPLES)) * loudness, -1, 1 - 2**-15) * 2**15)
    return torch.tensor(levels / 2**15, dtype=torch.float32)


@pytest.mark.parametrize("features", WAYS)
def test_spectra_are_one_op_of_16_bit_samples(features: Features) -> None:
    module, x = Sound(features).eval(), sound()
    program = pillion.compile(module, (x,), target="cortex-m55", calibrate=[(x,)], io_dtype="int16")
    assert [type(op) for op in program.graph.ops].count(LogMel) == 1
    assert {op.kind for op in program.graph.ops} <= {
        "log_mel",
        "reshape",
        "transpose",
        "slice",
        "flip",
        "concat",
    }
    levels = np.round(x.numpy() * 2**15).astype(np.int16)
    (found,) = program.run(levels, on="host")
    (output,) = program.graph.outputs
    wanted = module(x).numpy()
    error = (found - float(output.zero_point)) * output.scale - wanted
    assert 10 * math.log10((wanted**2).sum() / (error**2).sum()) > 37
    assert (found == program.run(levels, on="reference")[0]).all()


def cepstrum(m: Sound, x: Tensor) -> Tensor:
    """Mel cepstral coefficients as torchaudio's MFCC has them, with its 80 dB below the loudest of all."""
    decibels = in_decibels(m, x)
    kept = torch.max(decibels, decibels.amax((-2, -1), keepdim=True) - 80.0)
    bands = kept.shape[1]
    turns = math.pi / bands * (torch.arange(bands) + 0.5)[:, None] * torch.arange(13)
    return torch.matmul(kept.transpose(-1, -2), torch.cos(turns) * math.sqrt(2 / bands)).transpose(-1, -2)


@pytest.mark.parametrize(("precision", "least"), [("int8", 35), ("int16", 55)])
def test_mel_cepstra_are_a_product_of_the_logarithms(precision: str, least: int) -> None:
    module, x = Sound(cepstrum).eval(), sound()
    options = {"target": "cortex-m55", "io_dtype": "int16"}
    program = pillion.compile(module, (x,), calibrate=[(x,)], precision=precision, **options)
    kinds = [op.kind for op in program.graph.ops]
    assert [kinds.count(kind) for kind in ("log_mel", "reduce_max", "linear")] == [1, 1, 1]
    (found,) = program.run(np.round(x.numpy() * 2**15).astype(np.int16), on="host")
    (output,) = program.graph.outputs
    wanted = module(x).numpy()
    error = (found - float(output.zero_point)) * output.scale - wanted
    assert 10 * math.log10((wanted**2).sum() / (error**2).sum()) > least


def read_twice(m: Sound, x: Tensor) -> Tensor:
    return by_products(m, x).sum(-1) + x[:, :20]


def without_mean(m: Sound, x: Tensor) -> Tensor:
    return torch.fft.rfft((x - x.mean(-1, keepdim=True))[:, :256]).abs()


@pytest.mark.parametrize("features", [read_twice, without_mean])
def test_other_spectra_stay_products_of_8_bits(features: Features) -> None:
    x = sound()
    program = pillion.compile(
        Sound(features).eval(), (x,), target="cortex-m55", calibrate=[(x,)], io_dtype="int16"
    )
    kinds = [op.kind for op in program.graph.ops]
    assert not {"log_mel", "stft"} & set(kinds)
    assert {"conv2d", "linear"} & set(kinds)


def test_samples_may_be_the_integers_of_a_recording() -> None:
    x = sound() * 2**15
    program = pillion.compile(
        Sound(by_products).eval(), (x,), target="cortex-m33", calibrate=[(x,)], io_dtype="int16"
    )
    (value,) = program.graph.inputs
    assert (value.dtype.value, value.scale) == ("int16", 1.0)


class Spotter(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.sound = Sound(by_products)
        self.conv, self.head = nn.Conv1d(20, 6, 3), nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(torch.relu(self.conv(self.sound(x))).mean(-1))


@pytest.mark.qemu
@pytest.mark.turns(2)
@pytest.mark.parametrize(("target", "board"), [("cortex-m33", "mps2-an505"), ("cortex-m55", "mps3-an547")])
def test_streams_begin_at_the_samples(target: str, board: str) -> None:
    """Frames that overlap are made of new samples and of those that a run keeps for the next one."""
    torch.manual_seed(0)
    model, x = Spotter().eval(), sound(1)[:, : 160 * 9 + 256]
    options = {"target": target, "calibrate": [(x,)], "io_dtype": "int16"}
    whole = pillion.compile(model, (x,), **options)
    program = pillion.compile(model, (x,), **options, stream="x:1", hop=160)
    streaming = program.streaming
    assert streaming is not None
    held = signals(whole.graph, streaming, 16)
    given = list(steps(whole.graph, streaming, held, 16))
    for on in ("host", board):
        assert require_windows(whole.graph, streaming, program.stream(on).run(given), held) >= 5


class Filtered(nn.Module):
    """A filtered signal of two axes that a spectrum, a norm and a convolution read."""

    def __init__(self) -> None:
        super().__init__()
        self.filter = BiquadCascade.dc_blocker(0.97, signals=2)
        self.sound, self.conv = Sound(by_frames), nn.Conv1d(2, 3, 5)

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        x = self.filter(x)
        return self.sound(x), nn.functional.layer_norm(x, x.shape[-1:]), self.conv(x).relu()


@pytest.mark.parametrize("int16", [None, "*"])
def test_spectra_of_filtered_signals_are_one_op_whoever_else_reads_them(int16: str | None) -> None:
    torch.manual_seed(0)
    module, x = Filtered().eval(), sound()[None] + 0.1
    program = pillion.compile(
        module, (x,), target="cortex-m55", calibrate=[(x,)] * 4, io_dtype="int16", int16=int16
    )
    assert [type(op) for op in program.graph.ops].count(LogMel) == 1
    levels = np.round(x.numpy() * 2**15).astype(np.int16)
    runs = [[levels[..., ::-1].copy()], [levels]]
    answers = program.stream("reference").run(runs)
    for ours, theirs in zip(answers, program.stream("host").run(runs), strict=True):
        for a, b in zip(ours, theirs, strict=True):
            np.testing.assert_array_equal(a, b)
    wanted = [module(torch.from_numpy(levels_[0] / np.float32(2**15))) for levels_ in runs][-1]
    for v, found, exact in zip(program.graph.outputs, answers[-1], wanted, strict=True):
        real = (found.astype(float) - v.zero_point) * v.scale
        error = np.square(real - exact.detach().numpy()).sum()
        least = 40 if int16 else 25
        assert 10 * np.log10(exact.square().sum().item() / error) > least, v.name
