# SPDX-License-Identifier: Apache-2.0
"""Gain control and noise reduction of mel spectra: as their formulas say, in training, in programs and in streams."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import pillion
from ops.test_log_mel import mel_filters
from pillion import PillionError
from pillion.ir.types import Array
from pillion.modules import NoiseReduction, Pcen

HOP, POINTS, BANDS, EPS = 320, 512, 40, 1e-6


def learned() -> Pcen:
    """Parameters that differ from band to band."""
    module, rng = Pcen(BANDS, r=0.4), np.random.default_rng(2)
    with torch.no_grad():
        module.beta.copy_(torch.tensor(rng.uniform(0, 0.4, BANDS)))
        module.log_delta.copy_(torch.tensor(np.log(rng.uniform(0.5, 10, BANDS))))
    return module


MODULES: dict[str, Callable[[], nn.Module]] = {
    "pcen": lambda: Pcen(BANDS),
    "learned pcen": learned,
    "noise reduction": lambda: NoiseReduction(BANDS),
}


def sound(frames: int) -> Array:
    """Words of a voice, loud and quiet, in noise 60 dB below them: samples in ±1 of 16 bits."""
    rng = np.random.default_rng(5)
    t = np.arange(HOP * frames)
    hertz = 120 * np.arange(1, 60)
    shape = sum(np.exp(-(((hertz - centre) / 150) ** 2)) for centre in (700, 1200, 2600)) + 1e-3
    voice = (shape[:, None] * np.sin(2 * np.pi * hertz[:, None] / 16_000 * t + hertz[:, None] ** 2)).sum(
        axis=0
    )
    envelope = sum(
        rng.uniform(0.02, 1) * np.exp(-(((t - centre) / rng.uniform(1500, 4000)) ** 2))
        for centre in rng.uniform(0, len(t), 8)
    )
    found = voice / np.abs(voice).max() / 2 * envelope + rng.normal(0, 0.02, len(t)) * envelope
    return np.round(np.clip(found + rng.normal(0, 3e-4, len(t)), -1, 1 - 2**-15) * 2**15) / 2**15


class Ears(nn.Module):
    def __init__(self, normalize: nn.Module) -> None:
        super().__init__()
        self.register_buffer("window", torch.hann_window(480))
        self.register_buffer("filters", torch.tensor(mel_filters(POINTS, BANDS)))
        self.normalize = normalize

    def forward(self, x: Tensor) -> Tensor:
        power = torch.fft.rfft(x.unfold(-1, 480, HOP) * self.window, POINTS).abs().square()
        return self.normalize(torch.log(power @ self.filters + EPS))


def levels_of(energies: Array, smoothing: float) -> Array:
    """The levels of frames [frames, bands], in float64."""
    level, found = np.full(energies.shape[1], EPS), []
    for energy in energies:
        level = (1 - smoothing) * level + smoothing * energy
        found.append(level)
    return np.stack(found)


def test_modules_compute_their_formulas_from_call_to_call() -> None:
    energies = np.exp(np.random.default_rng(0).normal(-3, 4, (60, 5))) + EPS
    calls = torch.tensor(np.log(energies), dtype=torch.float32)[None].split(7, 1)
    pcen, reduction = Pcen(5, 0.1, 0.9, 3.0, 0.4).eval(), NoiseReduction(5, 0.1, 0.1).eval()
    levels = levels_of(energies, 0.1)
    wanted = (energies / levels**0.9 + 3.0) ** 0.4 - 3.0**0.4
    with torch.no_grad():
        np.testing.assert_allclose(torch.cat([*map(pcen, calls)], 1)[0], wanted, rtol=2e-3, atol=1e-4)
        found = torch.cat([*map(reduction, calls)], 1)[0]
    kept = np.maximum(energies - levels, 0.1 * energies)
    np.testing.assert_allclose(found, np.log(kept), rtol=1e-3, atol=2e-3)


def test_in_training_signals_begin_anew_and_all_parameters_learn() -> None:
    module, x = Pcen(4).train(), torch.randn(3, 20, 4) * 3
    first, again = module(x), module(x)
    assert (first == again).all()
    loud = module(x + 40).square().mean() + module(-x - 40).square().mean()
    (first.mean() + loud).backward()
    for name, parameter in module.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.abs().sum() > 0, name
        assert parameter.grad.isfinite().all(), name
    reduction, quiet = NoiseReduction(4).train(), torch.full((2, 9, 4), -20.0, requires_grad=True)
    reduction(torch.cat([quiet, -quiet, quiet], 1)).sum().backward()
    assert quiet.grad is not None
    assert quiet.grad.isfinite().all()


def decibels(found: Array, wanted: Array) -> float:
    return float(10 * np.log10((wanted**2).sum() / ((found - wanted) ** 2).sum()))


@pytest.mark.parametrize("name", MODULES)
@pytest.mark.parametrize("options", [{"precision": "int16"}, {"int16": ["*normalize*"]}])
def test_streams_from_samples_are_near_the_real_numbers(name: str, options: dict[str, Any]) -> None:
    """Of 250 frames: each run takes 320 new samples, and the program keeps the others."""
    samples = np.lib.stride_tricks.sliding_window_view(sound(252), 480)[::HOP][:250]
    frames = [(torch.tensor(frame[None], dtype=torch.float32),) for frame in samples]
    target: dict[str, Any] = {"target": "cortex-m55", "calibrate": frames, "io_dtype": "int16", **options}
    whole = pillion.compile(Ears(MODULES[name]()).eval(), frames[0], **target)
    (output,) = whole.graph.outputs
    levels = [[np.round(frame[0].numpy() * 2**15).astype(np.int16)] for frame in frames]
    answers = [found[0] for found in whole.stream("host").run(levels)]
    for found, (exact,) in zip(answers[:9], whole.stream("reference").run(levels[:9]), strict=True):
        assert (found == exact).all()
    model = Ears(MODULES[name]()).eval()
    with torch.no_grad():
        wanted = np.stack([model(*frame) for frame in frames])
    real = (np.stack(answers) - float(output.zero_point)) * output.scale
    assert decibels(real[20:], wanted[20:]) > 40
    program = pillion.compile(Ears(MODULES[name]()).eval(), frames[0], **target, stream="x:1", hop=HOP)
    levels_of_sound = np.round(sound(252) * 2**15).astype(np.int16)
    new = [[levels_of_sound[None, i * HOP : (i + 1) * HOP]] for i in range(30)]
    padded = np.pad(levels_of_sound, (480 - HOP, 0))
    windows = [[padded[None, i * HOP :][:, :480]] for i in range(30)]
    streamed, exact = program.stream("host").run(new), whole.stream("reference").run(windows)
    assert [len(found) for found in streamed] == [0, *[1] * 29]  # the first window is not full
    for found, wanted in zip(streamed[1:], exact[1:], strict=True):
        np.testing.assert_array_equal(found[0], wanted[0])


@pytest.mark.qemu
def test_cores_answer_the_reference() -> None:
    """Three frames a call, of two bands more than a vector has."""
    module = nn.Sequential(Pcen(BANDS), NoiseReduction(BANDS)).eval()
    rng = np.random.default_rng(1)
    calls = [(torch.tensor(rng.normal(-5, 4, (1, 3, BANDS)), dtype=torch.float32),) for _ in range(6)]
    for target, board in (("cortex-m33", "mps2-an505"), ("cortex-m55", "mps3-an547")):
        program = pillion.compile(module, calls[0], target=target, calibrate=calls, precision="int16")
        given = [
            [
                rng.integers(-128, 128, x.shape, dtype=np.int8).astype(v.dtype.numpy)
                for x, v in zip(call, program.graph.inputs, strict=True)
            ]
            for call in calls
        ]
        for found, exact in zip(
            program.stream(board).run(given), program.stream("reference").run(given), strict=True
        ):
            np.testing.assert_array_equal(found[0], exact[0])


@pytest.mark.parametrize(
    ("make", "rule"),
    [
        (lambda: Pcen(0), "bands are 1 or more"),
        (lambda: Pcen(4, smoothing=1.0), "smoothing"),
        (lambda: Pcen(4, delta=0.0), "delta above 0"),
        (lambda: NoiseReduction(4, least=0.0), "least share"),
        (lambda: NoiseReduction(4, initial=0.0), "an energy above 0"),
        (lambda: Pcen(4).eval()(torch.zeros(2, 3, 4)), "inputs are logarithms"),
        (lambda: Pcen(4)(torch.zeros(3, 4)), "inputs are logarithms"),
    ],
)
def test_invalid_arguments_are_refused(make: Callable[[], object], rule: str) -> None:
    with pytest.raises(PillionError, match=rule):
        make()
