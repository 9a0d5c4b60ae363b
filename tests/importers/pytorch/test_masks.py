# SPDX-License-Identifier: Apache-2.0
"""Attention with masks: the scores keep their precision, however low the masks are."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import pillion

pytestmark = [pytest.mark.torch, pytest.mark.slow]

TOKENS, DEPTH = 9, 8


class Masked(nn.Module):
    def __init__(self, function: Callable[[Tensor, Tensor], Any], mask: Tensor) -> None:
        super().__init__()
        self.function = function
        self.register_buffer("mask", mask)

    def forward(self, x: Tensor) -> Any:
        return self.function(x, self.mask)


def attend(x: Tensor, mask: Tensor) -> Tensor:
    return F.scaled_dot_product_attention(x, x, x, attn_mask=mask)


LATER = torch.ones(TOKENS, TOKENS).triu(1)
FUNCTIONS: dict[str, tuple[Callable[[Tensor, Tensor], Any], Tensor]] = {
    "finite": (attend, LATER * -1e9),
    "infinite": (attend, torch.full((TOKENS, TOKENS), -math.inf).triu(1)),
    "booleans": (attend, LATER == 0),
    "causal": (lambda x, m: F.scaled_dot_product_attention(x, x, x, is_causal=True) + m[0, 0], LATER),
    "groups of heads": (
        lambda x, m: F.scaled_dot_product_attention(x, x[:, :2], x[:, :2], attn_mask=m, enable_gqa=True),
        LATER * -1e4,
    ),
    "one mask for two layers": (lambda x, m: attend(attend(x, m), m), LATER * -1e9),
    "by hand": (lambda x, m: torch.softmax(x @ x.mT + m, -1) @ x, LATER * -1e9),
    "filled": (lambda x, m: torch.softmax((x @ x.mT).masked_fill(m, -math.inf), -1) @ x, LATER == 1),
    "filled with a number": (lambda x, m: x.masked_fill(m[:, :DEPTH], 0.5), LATER == 1),
}


def decibels(module: nn.Module, x: Tensor, target: str) -> float:
    found = pillion.compile(module.eval(), (x,), target=target).run(x)[0]
    with torch.no_grad():
        wanted = module(x).numpy()
    return float(10 * np.log10((wanted**2).mean() / ((wanted - found) ** 2).mean()))


@pytest.mark.turns(4)
@pytest.mark.parametrize("target", ["cortex-m33", "imxrt700"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_scores_keep_their_precision(name: str, target: str) -> None:
    function, mask = FUNCTIONS[name]
    x = torch.randn(2, 4, TOKENS, DEPTH, generator=torch.Generator().manual_seed(0))
    assert decibels(Masked(function, mask), x, target) > 30


def test_a_sum_that_is_read_elsewhere_keeps_its_range() -> None:
    def both(x: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        scores = x @ x.mT + mask
        return scores, torch.softmax(scores, -1)

    x = torch.randn(1, TOKENS, DEPTH, generator=torch.Generator().manual_seed(0))
    scores, _ = pillion.compile(Masked(both, LATER * -1e4).eval(), (x,), target="cortex-m33").run(x)
    assert scores.min() < -9e3


@pytest.mark.parametrize("target", ["cortex-m33", "imxrt700"])
def test_masked_scores_have_no_share(target: str) -> None:
    """The first query may see the worst key only; all others would have the highest scores that there are."""
    keys = torch.ones(TOKENS, DEPTH)
    keys[0] = -1
    answers = torch.eye(TOKENS)
    mask = torch.zeros(TOKENS, TOKENS)
    mask[0, 1:] = -1e9

    def look_up(queries: Tensor, mask: Tensor) -> Tensor:
        return torch.softmax(queries @ keys.T + mask, -1) @ answers

    queries = torch.full((1, TOKENS, DEPTH), 0.5)
    found = pillion.compile(Masked(look_up, mask).eval(), (queries,), target=target).run(queries)[0][0, 0]
    assert found[0] > 0.98
    assert found[1:].max() < 1 / 128
