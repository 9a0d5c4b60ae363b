# SPDX-License-Identifier: Apache-2.0
"""Scores that no share is left of are cut off: the steps are spent on those near the largest of their row."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import pillion
from pillion.ops import BatchMatmul, Mul, Softmax


class Peaked(nn.Module):
    """Attention of keys that are the queries: the largest score of each row is large, and others are as far below zero."""

    def __init__(self, *, shown: bool = False, scaled: bool = True) -> None:
        super().__init__()
        self.value, self.shown, self.scaled = nn.Linear(16, 16), shown, scaled

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        scores = x @ x.transpose(1, 2)
        scores = scores * 4.0 if self.scaled else scores
        answer = torch.softmax(scores, -1) @ self.value(x)
        return (answer, scores) if self.shown else (answer,)


def samples(count: int, seed: int) -> list[Tensor]:
    made = torch.Generator().manual_seed(seed)
    return [2 * nn.functional.normalize(torch.randn(1, 24, 16, generator=made), dim=2) for _ in range(count)]


def compiled(net: nn.Module, **options: object) -> pillion.Program:
    data = samples(8, 0)
    return pillion.compile(net, data[0], target="cortex-m55", calibrate=data, progress=False, **options)  # type: ignore[arg-type]


def lowest(program: pillion.Program, kind: type) -> float:
    """The lower end of what is made by the first op of a kind, or read by the softmax."""
    op = next(op for op in program.graph.ops if isinstance(op, kind))
    held = op.x if isinstance(op, Softmax) else op.results[0]
    return held.scale * (-128 - held.zero_point)


def decibels(net: nn.Module, program: pillion.Program) -> float:
    judged = samples(4, 1)
    with torch.no_grad():
        real = np.concatenate([net(x)[0].numpy() for x in judged])
    noise = np.concatenate([program.run(x)[0] for x in judged]) - real
    return float(10 * np.log10((real**2).sum() / (noise**2).sum()))


@pytest.fixture(scope="module")
def net() -> nn.Module:
    torch.manual_seed(0)
    return Peaked().eval()


def test_scores_are_cut_where_softmax_shares_vanish(net: nn.Module) -> None:
    """The largest score of a row is 16; 24 keys have less than a quarter of 1/256 together from 10 below it on."""
    program = compiled(net)
    assert lowest(program, Softmax) == 0.0
    assert lowest(program, BatchMatmul) == 0.0
    whole = compiled(net, tuning=pillion.Tuning(ranges="minmax"))
    assert lowest(whole, Softmax) < -8
    assert decibels(net, program) > 35


def test_scores_that_others_read_are_held_to_the_end() -> None:
    torch.manual_seed(0)
    assert lowest(compiled(Peaked(shown=True).eval()), Mul) < -8
    assert lowest(compiled(Peaked(shown=True, scaled=False).eval()), BatchMatmul) < -2


def test_scores_that_reach_less_far_are_left() -> None:
    """A share of e^-8 counts, where the largest score of a row is 4."""
    torch.manual_seed(0)
    program = compiled(Peaked(scaled=False).eval())
    assert lowest(program, Softmax) == pytest.approx(lowest(program, BatchMatmul))
    assert lowest(program, Softmax) < -2
