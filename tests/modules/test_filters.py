# SPDX-License-Identifier: Apache-2.0
"""Cascades of biquads: as SciPy computes them, in PyTorch and in programs, over long signals and in silence."""

from __future__ import annotations

import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy.signal import butter, ellip, sosfilt
from torch import Tensor, nn

import pillion
from pillion import PillionError
from pillion.ir.numerics import Arithmetic
from pillion.ir.types import Array, DType, PerTensor, TensorType, Value
from pillion.modules import BiquadCascade, filters
from pillion.ops import Biquads
from pillion.ops.biquads import COEFFICIENTS, MOST_RADIUS, MOST_SECTIONS, PLACES, state_rows
from pillion.ops.example_values import make_op

STEPS = 2000
FILTERS = {
    "high pass": butter(2, 0.01, "highpass", output="sos"),
    "slow high pass": butter(2, 0.0005, "highpass", output="sos"),
    "slow low pass": butter(4, 0.004, output="sos"),
    "narrow band": butter(2, [0.1, 0.104], "bandpass", output="sos"),
    "steep": ellip(6, 0.5, 60, 0.3, output="sos"),
    "odd": butter(3, 0.21, "highpass", output="sos"),
    "dc blocker": [[0.9995, -0.9995, 0, 1, -0.999, 0]],
}


def op_of(sections: Any, signals: int = 1, samples: int = STEPS) -> Biquads:
    coefficients = tuple(BiquadCascade(sections).coefficients)
    quant = PerTensor(2.0**-15)
    made = make_op(
        Biquads,
        Value("y", TensorType((), DType.INT16, quant)),
        x=Value("x", TensorType((signals, samples), DType.INT16, quant)),
        past=Value(
            "past", TensorType((signals, state_rows(len(coefficients) // COEFFICIENTS)), DType.INT16, quant)
        ),
        coefficients=coefficients,
    )
    assert isinstance(made, Biquads)
    return made


def filtered(op: Biquads, x: Array, steps: int = 1) -> Array:
    """What runs one after the other answer."""
    state, found = np.zeros(op.past.shape, np.int16), []
    for _ in range(steps):
        y = op.reference(Arithmetic.CMSIS_NN, x, state)
        found.append(y[:, : x.shape[1]])
        state = y[:, x.shape[1] :]
    return np.concatenate(found, axis=1)


@pytest.mark.parametrize("name", FILTERS)
def test_a_filter_is_within_a_step_of_one_with_the_rounded_coefficients_however_loud_and_however_long(
    name: str,
) -> None:
    rng, op = np.random.default_rng(1), op_of(FILTERS[name], 3)
    time = np.arange(STEPS)
    x = np.stack(
        [rng.choice([-32768, 32767], STEPS), rng.normal(800, 9, STEPS), 3000 * np.sin(0.05 * time) + 29_000]
    )
    x = np.rint(x).astype(np.int16)
    b, a = op.levels[:, :3] / 2.0**PLACES, -op.levels[:, 3:] / 2.0**PLACES
    ours = filtered(op, x)
    exact = sosfilt(np.concatenate([b, np.ones((len(a), 1)), a], axis=1), x.astype(float))
    far = np.abs(ours - np.clip(exact, *DType.INT16.bounds))
    assert far.max() < 0.75, far.max(axis=1)
    wanted = np.clip(sosfilt(FILTERS[name], x.astype(float)), *DType.INT16.bounds)
    error = np.square(ours[::2] - wanted[::2]).sum(axis=1)
    assert (10 * np.log10(np.square(wanted[::2]).sum(axis=1) / error) > 50).all()


@pytest.mark.parametrize("name", FILTERS)
def test_filters_of_silence_are_silent_and_impulses_decay(name: str) -> None:
    """A low pass of a constant holds it; all are still 100 decay times after a blow, but for less than half a step."""
    op = op_of(FILTERS[name], samples=1)
    assert not filtered(op, np.zeros((1, 1), np.int16), 50).any()
    blow = np.zeros((1, 12_000), np.int16)
    blow[:, :20] = 32_767
    op = op_of(FILTERS[name], samples=12_000)
    assert not filtered(op, blow)[:, -1000:].any()


def test_a_module_is_scipys_filter_and_continues_where_it_ended() -> None:
    sections = FILTERS["steep"] * [[2, 2, 2, 2, 2, 2]]
    x = np.random.default_rng(0).normal(size=(7, 2, 3, 521)).astype(np.float32)
    module = BiquadCascade(sections, signals=6)
    found = np.concatenate([module(torch.from_numpy(part)).numpy() for part in x], axis=-1)
    assert np.abs(found - sosfilt(FILTERS["steep"], np.concatenate(list(x), axis=-1))).max() < 1e-5


class Filtered(nn.Module):
    def __init__(self, filter: BiquadCascade) -> None:
        super().__init__()
        self.filter = filter

    def forward(self, x: Tensor) -> Tensor:
        return self.filter(x)


@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
@pytest.mark.qemu
@pytest.mark.parametrize("scale", [1.0, 2.0**15])
def test_programs_filter_streams_of_samples_on_all_executors(scale: float) -> None:
    """Samples in ±1 and samples that are whole numbers, three axes, 37 samples a run."""
    rng = np.random.default_rng(0)
    x = np.clip(np.rint(rng.normal(1500, 4000, (54, 1, 3, 37))), *DType.INT16.bounds)
    samples = [(torch.from_numpy((part * scale / 2**15).astype(np.float32)),) for part in x]
    module = Filtered(BiquadCascade(FILTERS["high pass"], 3)).eval()
    program = pillion.compile(module, samples[0], target="cortex-m55", calibrate=samples, io_dtype="int16")
    steps = [[part.astype(np.int16)] for part in x]
    answers = {
        on: program.stream(on).run(steps[: None if on == "host" else 5])
        for on in ("host", "reference", "mps3-an547")
    }
    for on in ("reference", "mps3-an547"):
        for ours, theirs in zip(answers["host"], answers[on], strict=False):
            np.testing.assert_array_equal(ours[0], theirs[0])
    wanted = sosfilt(FILTERS["high pass"], np.concatenate(list(x), axis=-1))
    assert np.abs(np.concatenate([y[0] for y in answers["host"]], axis=-1) - wanted).max() < 0.75


@pytest.mark.parametrize(
    ("sections", "rule", "here"),
    [
        ([[1, 0, 0, 1, -2, 1]], f"radius of at most {MOST_RADIUS}", "a pole of radius 1"),
        ([[1, 0, 0, 1, -1.2, 1.44]], "is not stable", "a pole of radius 1.2"),
        ([[1, 0, 0, 1, 0]], "rows b0, b1, b2, a0, a1, a2", "[1, 5]"),
        ([[1, 0, 0, 0, 0, 0]], "a0 not 0", "[[1.0, 0.0, 0.0, 0.0"),
        ([[1, 0, np.inf, 1, 0, 0]], "finite", "inf"),
        ([[1, 0, 0, 1, 0, 0]] * (MOST_SECTIONS + 1), f"1 to {MOST_SECTIONS} rows", "[9, 6]"),
    ],
)
def test_unstable_filters_are_refused(sections: Any, rule: str, here: str) -> None:
    with pytest.raises(PillionError) as refused:
        BiquadCascade(sections)
    assert rule in refused.value.rule
    assert here in refused.value.here


def test_a_filter_refuses_signals_without_states() -> None:
    with pytest.raises(PillionError, match="3 signals"):
        BiquadCascade.dc_blocker(signals=3)(torch.zeros(1, 2, 10))


@pytest.mark.parametrize(
    ("coefficients", "rule"),
    [
        ((9, 0, 0, 0, 0), "sum to 8"),
        ((1, 0, 0, -1.99, 0.99001) * 2, "above 4096 times the input"),
        ((1e-6, 0, 0, 0, 0), "at least 3.8e-06"),
        ((1, 0, 0, 0), "4 coefficients"),
        ((1, 0, 0, -2, 1), "a pole of radius 1"),
    ],
)
def test_filters_beyond_32_bit_sums_are_refused(coefficients: tuple[float, ...], rule: str) -> None:
    op = op_of(FILTERS["dc blocker"])
    sections = len(coefficients) // COEFFICIENTS or 1
    past = replace(op.past, type=replace(op.past.type, shape=(1, state_rows(sections))))
    with pytest.raises(PillionError, match=rule):
        replace(op, past=past, coefficients=coefficients).check()


def test_all_tensors_may_have_16_bits_already() -> None:
    x = torch.rand(1, 64) / 8
    options = {"target": "cortex-m33", "calibrate": [(x,)], "io_dtype": "int16"}
    made = [
        pillion.compile(BiquadCascade.dc_blocker(0.99).eval(), (x,), precision=precision, **options)
        for precision in ("int8", "int16")
    ]
    assert str(made[0].graph) == str(made[1].graph)


def test_module_op_and_kernel_have_the_same_limits() -> None:
    """Modules stand alone, and C cannot ask: their limits are written again."""
    kernel = Path(__file__).resolve().parents[2] / "kernels" / "include" / "pillion" / "biquads.h"
    (in_c,) = re.findall(r"#define MOST_SECTIONS (\d+)", kernel.read_text("utf-8"))
    assert (filters.MOST_SECTIONS, filters.MOST_RADIUS) == (MOST_SECTIONS, MOST_RADIUS)
    assert int(in_c) == MOST_SECTIONS
