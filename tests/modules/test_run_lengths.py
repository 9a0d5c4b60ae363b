# SPDX-License-Identifier: Apache-2.0
"""Run lengths of maps of classes, in PyTorch and in programs."""

from __future__ import annotations

import shutil

import pytest
import torch
from torch import Tensor, nn

import pillion
from pillion import PillionError
from pillion.modules import RunLengths


def runs_of(row: list[int], most: int) -> list[list[int]]:
    runs: list[list[int]] = []
    for label in row:
        if runs and runs[-1][0] == label:
            runs[-1][1] += 1
        else:
            runs.append([label, 1])
    return (runs + [[0, 0]] * most)[:most]


def test_runs_go_line_by_line_and_are_cut_off() -> None:
    torch.manual_seed(0)
    for shape, most in (((2, 5, 7), 40), ((1, 3, 3), 2), ((3, 1), 4), ((2, 31), 1)):
        labels = torch.randint(0, 3, shape)
        found = RunLengths(most)(labels)
        assert found.tolist() == [runs_of(row, most) for row in labels.flatten(1).tolist()]


class Segments(nn.Module):
    def __init__(self, most: int) -> None:
        super().__init__()
        self.conv, self.runs = nn.Conv2d(3, 4, 5, padding=2, bias=False), RunLengths(most)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        labels = self.conv(x).argmax(1)
        return labels, self.runs(labels)


@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
@pytest.mark.qemu
@pytest.mark.parametrize("most", [5, 300])
def test_programs_find_the_runs_of_their_labels(most: int) -> None:
    """Blobs of a picture, odd and not square; the map of classes is an output, too."""
    torch.manual_seed(most)
    x = nn.functional.interpolate(torch.randn(2, 3, 4, 5), (17, 23))
    program = pillion.compile(Segments(most).eval(), (x,), target="cortex-m33", calibrate=[(x,)])
    for on in ("reference", "host", "mps2-an505"):
        labels, runs = program.run(x.numpy(), on=on)
        assert runs.tolist() == [runs_of(row, most) for row in labels.reshape(2, -1).tolist()]
        assert most == 5 or runs[..., 1].sum(1).tolist() == [17 * 23] * 2


@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
def test_a_run_may_be_a_whole_picture() -> None:
    """More pixels than 16 bits count."""
    dark = torch.zeros(1, 3, 263, 251)
    program = pillion.compile(
        Segments(2).eval(), (dark,), target="cortex-m33", calibrate=[(dark,), (dark + 1,)]
    )
    for on in ("reference", "host"):
        (run, rest) = program.run(dark.numpy(), on=on)[1][0].tolist()
        assert run[1] == 263 * 251 > 2**16
        assert rest == [0, 0]


@pytest.mark.parametrize(
    ("most", "labels", "here"), [(0, None, "0"), (3, torch.zeros(1, 4), "torch.float32")]
)
def test_other_runs_are_refused(most: int, labels: Tensor | None, here: str) -> None:
    with pytest.raises(PillionError) as error:
        RunLengths(most)(labels)
    assert error.value.here == here
