# SPDX-License-Identifier: Apache-2.0
"""Calibration of which nothing useful follows is told, with the tensor; what is no number is refused."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

import pillion
from pillion.errors import PillionError, PillionWarning

pytestmark = pytest.mark.torch


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layer = nn.Linear(3, 4)

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return self.layer(x) + y


GOOD = (torch.linspace(-1, 1, 6).reshape(2, 3), torch.linspace(-2, 3, 8).reshape(2, 4))
USELESS: dict[str, tuple[Callable[[Tensor], Tensor], str]] = {
    "zeros": (torch.zeros_like, "nothing but zeros"),
    "negative zeros": (lambda x: -torch.zeros_like(x), "nothing but zeros"),
    "ones": (torch.ones_like, "nothing but 1"),
    "huge": (lambda x: torch.full_like(x, 1e30), "1e+30"),
    "huge and others": (lambda x: x * 1e30, "e+30"),
    "tiny": (lambda x: x * 1e-30, "too small"),
    "denormal": (lambda x: x * 1e-40, "too small"),
}


def compiled(*batches: tuple[Tensor, ...]) -> None:
    pillion.compile(Net(), GOOD, target="cortex-m33", calibrate=list(batches))


@pytest.mark.turns(2)
@pytest.mark.parametrize("index", [0, 1])
@pytest.mark.parametrize("name", USELESS)
def test_useless_data_are_told_with_the_tensor(name: str, index: int) -> None:
    make, words = USELESS[name]
    batch = tuple(make(x) if i == index else x for i, x in enumerate(GOOD))
    with pytest.warns(PillionWarning) as told:
        compiled(batch, batch)
    (text,) = [str(w.message) for w in told if issubclass(w.category, PillionWarning)]
    assert f"input `{'xy'[index]}`" in text
    assert words in text
    assert "calibrate with data like those" in text
    assert f"`{'yx'[index]}`" not in text


@pytest.mark.parametrize("scale", [1e-6, 1e-3, 1.0, 1e3, 1e6])
def test_useful_data_are_no_reason_to_warn(scale: float) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", PillionWarning)
        compiled(tuple(x * scale for x in GOOD), tuple(torch.zeros_like(x) for x in GOOD))


def test_a_tensor_inside_is_told_with_its_line() -> None:
    class Dead(Net):
        def forward(self, x: Tensor, y: Tensor) -> Tensor:
            return self.layer(x) * 0 + y

    with pytest.warns(PillionWarning, match=r"nothing but zeros in `mul\w*` \(test_useful_ranges.py:\d+\)"):
        pillion.compile(Dead(), GOOD, target="cortex-m33", calibrate=[GOOD])


def test_a_state_that_calibration_sees_at_zero_alone_has_a_way_out() -> None:
    x = torch.randn(1, 1, 4)
    with pytest.warns(
        PillionWarning, match=r"nothing but zeros in .*: calibrate with .* windows of several steps"
    ):
        pillion.compile(
            nn.GRU(4, 4, batch_first=True), x, target="cortex-m33", calibrate=[x] * 4, stateful=True
        )


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize("index", [0, 1])
def test_nan_and_infinity_in_samples_are_refused(value: float, index: int) -> None:
    broken = tuple(x.clone() for x in GOOD)
    broken[index][1, 2] = value
    with pytest.raises(PillionError) as refused:
        compiled(GOOD, broken)
    assert refused.value.what.startswith("sample 2 of the calibration data")
    assert f"{value} in 1 of {broken[index].numel()} places of input {index}" in refused.value.here
