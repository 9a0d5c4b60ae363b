# SPDX-License-Identifier: Apache-2.0
"""Boxes and scores in one result: who has few steps of the common scale is told."""

from __future__ import annotations

import re
import warnings

import pytest
import torch
from torch import Tensor, nn

import pillion

pytestmark = pytest.mark.torch


class Head(nn.Module):
    """Boxes in pixels, and scores."""

    def __init__(self, pixels: float, nested: bool = False) -> None:
        super().__init__()
        self.pixels, self.nested = pixels, nested

    def forward(self, x: Tensor) -> Tensor:
        boxes, scores = x[:, :4] * self.pixels, x[:, 4:].sigmoid()
        if self.nested:
            first = torch.cat([boxes, scores[:, :1]], 1)
            return torch.cat([first, boxes], 1).transpose(1, 2).reshape(-1, 9)
        return torch.cat([boxes, scores], 1)


def said(net: nn.Module) -> list[str]:
    """The warnings of a compilation."""
    x = torch.randn(1, 6, 5, generator=torch.Generator().manual_seed(0))
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        pillion.compile(net, x, target="cortex-m33")
    return [str(one.message) for one in seen if "joins numbers" in str(one.message)]


@pytest.mark.parametrize("nested", [False, True])
def test_scores_beside_pixels_are_named(nested: bool) -> None:
    (text,) = said(Head(300.0, nested))
    assert "output 0" in text
    assert "sigmoid" in text
    assert "test_mixed_scale_concat.py" in text
    found = re.search(r"has (\d+) of 255 steps", text)
    assert found is not None
    assert int(found[1]) <= 1


def test_numbers_of_like_size_are_not() -> None:
    assert said(Head(2.0)) == []


class Apart(Head):
    """What the warning says to write."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:  # type: ignore[override]  # another result
        return x[:, :4] * self.pixels, x[:, 4:].sigmoid()


def test_the_way_out_is_one() -> None:
    assert said(Apart(300.0)) == []
