# SPDX-License-Identifier: Apache-2.0
"""Filters in front of layers that are streamed."""

from __future__ import annotations

import shutil

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import pillion
from pillion import PillionError
from pillion.modules import BiquadCascade

SAMPLES, HOP, RUNS, SIGNALS = 60, 15, 12, 2
SECTIONS = [[0.86, -1.72, 0.86, 1.0, -1.7, 0.75], [0.1, 0.2, 0.1, 1.0, -0.9, 0.3]]


class Filtered(nn.Module):
    """Rows of a convolution over filtered signals, every second of which it takes, and their mean."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(4)
        self.filter = BiquadCascade(SECTIONS, signals=SIGNALS)
        self.conv = nn.Conv1d(SIGNALS, 3, 5, padding=(0,), stride=1)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        rows = self.conv(nn.functional.pad(self.filter(x), (4, 0)))
        return rows, rows.amax(2)


def signal() -> Tensor:
    generator = torch.Generator().manual_seed(1)
    return 0.2 * torch.randn(1, SIGNALS, HOP * RUNS, generator=generator)


def compiled(samples: int, **options: object) -> pillion.Program:
    """A program of so many samples, calibrated with the whole signal in each case."""
    steps = [(part,) for part in signal().split(samples, 2)]
    return pillion.compile(
        Filtered().eval(),
        steps[0],
        target="cortex-m33",
        calibrate=steps,
        io_dtype="int16",
        precision="int16",
        progress=False,
        **options,
    )


@pytest.fixture(scope="module")
def stream() -> pillion.Program:
    return compiled(SAMPLES, stream="x:2", hop=HOP)


def hops(program: pillion.Program) -> list[list[np.ndarray]]:
    levels = np.rint(signal().numpy() / program.graph.inputs[0].scale).astype(np.int16)
    return [[part] for part in np.split(levels, RUNS, 2)]


def test_streamed_filters_equal_the_whole_signal(stream: pillion.Program) -> None:
    whole = compiled(HOP * RUNS)
    steps = hops(stream)
    assert [v.type.quant for v in whole.graph.outputs] == [v.type.quant for v in stream.graph.outputs]
    (rows, _) = whole.run(np.concatenate([x for (x,) in steps], 2))
    answers = stream.stream().run(steps)
    found = np.concatenate([answer[0] for answer in answers if answer], 2)
    assert np.array_equal(found, rows[:, :, SAMPLES - HOP :])  # answers begin when a window is full


@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
def test_streamed_filters_in_c_equal_the_reference_for_200_steps(stream: pillion.Program) -> None:
    steps = hops(stream) * 17
    reference, c = stream.stream(), stream.stream("host")
    wanted, found = reference.run(steps[:200]), c.run(steps[:200])
    assert all(
        np.array_equal(a, b) for pair in zip(wanted, found, strict=True) for a, b in zip(*pair, strict=True)
    )
    (filtered,) = (op for op in stream.graph.ops if op.kind == "biquads")
    assert filtered.operands[0].shape == (SIGNALS, HOP)


def test_requantized_samples_need_no_constant(stream: pillion.Program) -> None:
    constants = [v for op in stream.graph.ops for v in op.operands if v.is_constant]
    assert max(v.type.elements for v in constants) <= 3 * SIGNALS * 5


class Late(nn.Module):
    """A filter of rows that begin later than the signal."""

    def __init__(self) -> None:
        super().__init__()
        self.filter = BiquadCascade(SECTIONS, signals=SIGNALS)

    def forward(self, x: Tensor) -> Tensor:
        return self.filter(x[:, :, 3:] - x[:, :, :-3])


def test_a_filter_of_rows_that_begin_later_is_refused() -> None:
    with pytest.raises(PillionError, match="cannot be streamed") as error:
        pillion.compile(
            Late().eval(),
            (signal()[:, :, :SAMPLES],),
            target="cortex-m33",
            calibrate=[(signal()[:, :, :SAMPLES],)],
            stream="x:2",
            hop=HOP,
            progress=False,
        )
    assert "begins with the first frame of the signal" in error.value.rule
