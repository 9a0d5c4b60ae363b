# SPDX-License-Identifier: Apache-2.0
"""What a refusal says: each line once, all problems at once, and what to write instead, which compiles."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import pillion
from pillion.errors import PillionError, distinct_lines_with_counts
from pillion.importers.torch.rows.refusal_reasons import REASONS

pytestmark = pytest.mark.torch

TURNS = torch.arange(16)[:, None] * torch.arange(9)[None] * (2 * math.pi / 16)
CONSTANTS = {
    "cosines": torch.cos(TURNS),
    "sines": torch.sin(TURNS),
    "cosine_windows": (torch.cos(TURNS) * torch.hann_window(16)[:, None]).t().reshape(9, 1, 16),
    "sine_windows": (torch.sin(TURNS) * torch.hann_window(16)[:, None]).t().reshape(9, 1, 16),
}
SHAPES = {
    "F.conv1d": (2, 1, 64),
    "F.interpolate": (2, 3, 7, 5),
    "F.adaptive_max_pool2d": (2, 3, 7, 5),
    "F.instance_norm": (2, 3, 7, 5),
    "cosines": (2, 16),
    "softmax": (5, 5),
}
"""By a word of what is written instead; other tensors are [2, 5, 4]."""
WRITTEN = sorted({reason.instead for reason in REASONS.values() if reason.instead})


class Call(nn.Module):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *inputs: Tensor) -> Any:
        return self.function(*inputs)


@pytest.mark.turns(3)
@pytest.mark.parametrize("instead", WRITTEN)
def test_suggested_code_compiles(instead: str) -> None:
    shape = next((s for word, s in SHAPES.items() if word in instead), (2, 5, 4))
    x, y = (torch.rand(shape, generator=torch.Generator().manual_seed(i)) + 0.5 for i in range(2))
    known = {"torch": torch, "F": F, **CONSTANTS}

    def forward(*inputs: Tensor) -> Any:
        return eval(instead, {**known, "x": inputs[0], "y": inputs[-1]})

    inputs = (x, y) if "y" in instead.replace("type", "").replace("x @ x", "") else (x,)
    program = pillion.compile(Call(forward), inputs, target="cortex-m33")
    assert program.run(*inputs)[0].size


def refusal(function: Callable[..., Any], *shapes: tuple[int, ...]) -> PillionError:
    inputs = tuple(torch.rand(shape) + 0.5 for shape in shapes)
    with pytest.raises(PillionError) as refused:
        pillion.compile(Call(function), inputs, target="cortex-m33")
    assert all((refused.value.what, refused.value.rule, refused.value.here, refused.value.help))
    return refused.value


REFUSED: dict[str, tuple[Callable[..., Any], tuple[tuple[int, ...], ...], str, str]] = {
    "spectrum": (
        lambda x: torch.stft(x, 16, 8, window=x[0, :16], return_complex=True).abs(),
        ((2, 64),),
        "aten.stft",
        "F.conv1d(x, cosine_windows",
    ),
    "random slopes": (lambda x: F.rrelu(x, training=True), ((2, 5),), "rrelu", "nn.LeakyReLU"),
    "places that are computed": (
        lambda x, y: F.grid_sample(x, y, align_corners=False),
        ((1, 3, 4, 4), (1, 4, 4, 2)),
        "aten.grid_sampler",
        "F.interpolate",
    ),
    "places of the largest": (
        lambda x: F.max_unpool2d(*F.max_pool2d(x, 3, 2, return_indices=True), 3, 2),
        ((1, 3, 9, 9),),
        "aten.max_unpool2d",
        "F.interpolate",
    ),
    "all pairs": (lambda x, y: torch.cdist(x, y, 0), ((2, 5, 4), (2, 6, 4)), "cdist", "(x[:, :, None] != y"),
    "numbers of Python": (
        lambda x, y: torch.full_like(x, y.amax().item()) + x,
        ((2, 5), (2, 5)),
        "_local_scalar_dense",
        "torch.zeros_like(x) + y.amax()",
    ),
    "powers": (lambda x, y: x**y, ((2, 5), (2, 5)), "aten.pow", "torch.exp(y * torch.log(x))"),
    "statistics of the batch": (
        lambda x: F.batch_norm(x, None, None, training=True),
        ((2, 5, 4, 4),),
        "batch_norm",
        "F.instance_norm(x)",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_each_has_a_reason_of_its_own(name: str) -> None:
    function, shapes, operator, instead = REFUSED[name]
    error = str(refusal(function, *shapes))
    assert operator in error
    assert instead in error


def test_equal_lines_stand_once_with_their_number() -> None:
    def function(x: Tensor) -> Tensor:
        for _ in range(3):
            x = torch.logcumsumexp(x, 1)
        return x

    error = refusal(function, (2, 5))
    assert error.what.startswith("3 ops")
    assert error.here.count("aten.logcumsumexp") == 1
    assert error.here.endswith("(3 times)")
    assert distinct_lines_with_counts(["a", "b", "a"]) == ["a  (2 times)", "b"]


def test_all_problems_are_listed_at_once() -> None:
    """A write that others see, an operator without a form, and two powers."""

    def function(x: Tensor, y: Tensor) -> Tensor:
        changed = x * 2
        flat = changed.view(-1)
        changed.add_(1)
        return torch.logcumsumexp(flat.view(3, 4), 1) + x**y

    error = refusal(function, (3, 4), (3, 4))
    assert "writes into a tensor that others see" in error.here
    assert "logcumsumexp" in error.here
    assert "aten.pow" in error.here


def test_writes_alone_are_called_by_their_name() -> None:
    def function(x: Tensor) -> Tensor:
        windows = x.unfold(1, 2, 1)
        windows.add_(1)
        windows.mul_(2)
        return x * 2

    error = refusal(function, (3, 4))
    assert "writes into a tensor that others see" in error.what
    assert "test_reasons.py" in error.here


def test_training_refuses_writes_before_it_begins() -> None:
    def function(x: Tensor) -> Tensor:
        x.unfold(1, 2, 1).add_(1)
        return x * 2

    with pytest.raises(PillionError) as refused:
        pillion.prepare_qat(Call(function), (torch.rand(3, 4),), target="cortex-m33")
    assert "writes into a tensor" in refused.value.what


def test_a_result_that_is_put_into_a_tensor_is_refused_before_anything_is_computed() -> None:
    """`nn.CrossMapLRN2d` computes so."""
    error = refusal(lambda x: nn.CrossMapLRN2d(5)(x), (1, 6, 5, 4))
    assert "writes into a tensor" in error.what


def test_a_model_that_gives_no_number_is_refused() -> None:
    """A power of something below zero."""
    error = refusal(lambda x: nn.LPPool2d(1.5, 2)(x - 2), (1, 3, 6, 6))
    assert "not finite" in error.what
