# SPDX-License-Identifier: Apache-2.0
"""What is computed from places has the range of all places, not of those that calibration has seen."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import pillion

pytestmark = [pytest.mark.torch]
WIDTH, HEIGHT = 13, 7


class Call(nn.Module):
    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x)


def at(place: int) -> Tensor:
    """A heat map with one warm pixel."""
    x = torch.zeros(1, 1, HEIGHT, WIDTH)
    x.view(-1)[place] = 1.0
    return x


def place(x: Tensor) -> Tensor:
    return x.flatten(2).argmax(2)


FORMS: dict[str, Callable[[Tensor], Tensor]] = {
    "column": lambda x: (place(x) % WIDTH).float(),
    "row": lambda x: (place(x) // WIDTH).float(),
    "place": lambda x: place(x).float(),
    "between -1 and 1": lambda x: (place(x) % WIDTH).float() / (WIDTH - 1) * 2 - 1,
    "from the other side": lambda x: 12.0 - (place(x) % WIDTH),
    "point": lambda x: torch.stack([place(x) % WIDTH, place(x) // WIDTH], -1).float() * 4,
    "moved": lambda x: ((place(x) + 1).clamp(max=90) - 5).float() * 0.1,
    "one of the two largest": lambda x: torch.topk(x.flatten(1), 2).indices[:, :1].float(),
}


@pytest.mark.parametrize("name", FORMS)
def test_places_that_calibration_has_not_seen(name: str) -> None:
    function = FORMS[name]
    seen, unseen = at(2), at(WIDTH * HEIGHT - 1)
    program = pillion.compile(Call(function), seen, target="cortex-m33", calibrate=[at(2), at(15)])
    for x in (seen, unseen, at(40)):
        exact = function(x).numpy()
        largest = max(float(np.abs(function(y).numpy()).max()) for y in (at(0), seen, unseen))
        assert np.abs(program.run(x)[0] - exact).max() <= largest / 100
