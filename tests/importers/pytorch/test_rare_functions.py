# SPDX-License-Identifier: Apache-2.0
"""Functions that few networks call, made of those that all call; and real numbers of other sizes than 32 bits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import pillion
from nightly import part_of
from pillion.errors import PillionError
from pillion.importers.torch.export import export
from pillion.importers.torch.rewrite.pipeline import rewrite_for_quantization

pytestmark = pytest.mark.torch


class Call(nn.Module):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function
        self.register_buffer("factors", torch.linspace(-1, 2, 6, dtype=torch.float64))
        self.layer = nn.Linear(6, 4)

    def forward(self, x: Tensor, y: Tensor) -> Any:
        return self.function(self, x, y)


Function = Callable[[Any, Tensor, Tensor], Any]
FUNCTIONS: dict[str, Function] = {
    "quantile": lambda net, x, y: x.quantile(0.3, 1),
    "quantile of all": lambda net, x, y: torch.quantile(x, 0.9, keepdim=True),
    "quantile that is there": lambda net, x, y: x.quantile(0.5, 0, True, interpolation="higher"),
    "nearest quantile": lambda net, x, y: x.quantile(0.31, 1, interpolation="nearest"),
    "quantile between two": lambda net, x, y: x.quantile(0.31, 1, interpolation="midpoint"),
    "taken from the end": lambda net, x, y: torch.take_along_dim(x, torch.tensor([[-1], [0], [-2]]), 1),
    "filled": lambda net, x, y: x.masked_fill(torch.arange(6) > 3, 0.7),
    "median of all": lambda net, x, y: x.median() + y,
    "extremes": lambda net, x, y: torch.aminmax(x, dim=1, keepdim=True),
    "extremes of all": lambda net, x, y: (x - x.aminmax().min) / (x.aminmax().max - x.aminmax().min),
    "largest so far": lambda net, x, y: torch.cummax(x, 1).values,
    "least so far": lambda net, x, y: torch.cummin(x, 0)[0],
    "sums without gaps": lambda net, x, y: (x.nansum(1), torch.nanmean(y, 0)),
    "numbers as they are": lambda net, x, y: torch.where(torch.isnan(x) | torch.isinf(x), y, x),
    "finite ones": lambda net, x, y: x * torch.isfinite(x),
    "a quarter of a turn": lambda net, x, y: torch.rot90(x, 1, (0, 1)),
    "three quarters": lambda net, x, y: torch.rot90(x.unsqueeze(0), 3, (1, 2)),
    "turned over": lambda net, x, y: torch.rot90(x, -2, (1, 0)),
    "turned not at all": lambda net, x, y: torch.rot90(x, 4) * 2,
    "diagonals": lambda net, x, y: torch.diag_embed(x),
    "diagonals beside the main one": lambda net, x, y: torch.diag_embed(x, 1, 0, 2),
    "a diagonal": lambda net, x, y: torch.diag(x[0]),
    "blocks": lambda net, x, y: torch.block_diag(x, y[:2], x[0, :1]),
    "put": lambda net, x, y: x.clone().put_(
        torch.tensor([[1, 2], [7, 5]]), torch.tensor([[1.0, -2.0], [0.5, 2.0]])
    ),
    "signs of others": lambda net, x, y: torch.copysign(x, y),
    "powers of two that are added": lambda net, x, y: torch.logaddexp2(x, y),
    "a dot product": lambda net, x, y: torch.vdot(x[0], y[1]),
    "double": lambda net, x, y: (x.double() * 2).float(),
    "half": lambda net, x, y: (x.half() + y.half()).float(),
    "brain floats": lambda net, x, y: x.to(torch.bfloat16).softmax(-1).to(x.dtype),
    "a softmax in 64 bits": lambda net, x, y: x.softmax(-1, dtype=torch.float64).to(x.dtype),
    "a mean in 64 bits": lambda net, x, y: x.mean(-1, dtype=torch.float64).float(),
    "a sum in its own": lambda net, x, y: x.sum(-1, dtype=torch.float32),
    "a buffer of 64 bits": lambda net, x, y: (x * net.factors).float(),
    "a layer in 64 bits": lambda net, x, y: nn.functional.linear(
        x.double(), net.layer.weight.double()
    ).float(),
    "as the other": lambda net, x, y: (x.double() + 1).type_as(y),
    "a layer in 32 bits": lambda net, x, y: net.layer(x.float()),
}
EXACT: dict[str, Function] = {
    "counts": lambda net, x, y: torch.count_nonzero(x > 0.5, 1),
    "a count": lambda net, x, y: torch.count_nonzero(x > 0),
    "signs": lambda net, x, y: torch.signbit(x - 0.01),
}


def inputs(seed: int = 0) -> tuple[Tensor, Tensor]:
    """Numbers no nearer to one another, and to the bounds above, than steps of int8 tell apart."""
    generator = torch.Generator().manual_seed(seed)
    grid = torch.linspace(-2.3, 2.4, 18)
    x, y = (grid[torch.randperm(18, generator=generator)].reshape(3, 6) for _ in range(2))
    return x, y


def tensors(answer: Any) -> list[Tensor]:
    return list(answer) if isinstance(answer, (tuple, list)) else [answer]


@pytest.mark.turns(4)
@pytest.mark.parametrize("name", [*FUNCTIONS, *EXACT])
def test_they_are_the_same_in_float(name: str) -> None:
    net, given = Call({**FUNCTIONS, **EXACT}[name]).eval(), inputs()
    with torch.no_grad():
        found = tensors(rewrite_for_quantization(export(net, given).module(check_guards=False))(*given))  # type: ignore[arg-type]  # a GraphModule
        for one, other in zip(tensors(net(*given)), found, strict=True):
            few = 2e-2 if name in ("half", "brain floats") else 1e-5
            torch.testing.assert_close(other.to(one.dtype), one, rtol=few, atol=few)


@pytest.mark.turns(4)
@pytest.mark.parametrize("name", part_of(FUNCTIONS, 3))
def test_they_compile(name: str) -> None:
    net, samples = Call(FUNCTIONS[name]).eval(), [inputs(seed) for seed in range(8)]
    program = pillion.compile(net, samples[0], target="cortex-m33", calibrate=samples)
    wanted = [y.detach().double().numpy() for y in tensors(net(*samples[3]))]
    for one, found, host in zip(
        wanted, program.run(*samples[3]), program.run(*samples[3], on="host"), strict=True
    ):
        assert found.shape == one.shape
        assert np.square(one - found).sum() <= np.square(one).sum() / 900
        np.testing.assert_array_equal(host, found)


@pytest.mark.parametrize("name", EXACT)
def test_counts_are_exact(name: str) -> None:
    net, samples = Call(EXACT[name]).eval(), [inputs(seed) for seed in range(8)]
    program = pillion.compile(net, samples[0], target="cortex-m33", calibrate=samples)
    np.testing.assert_array_equal(program.run(*samples[3])[0], net(*samples[3]).numpy())


REFUSED: dict[str, tuple[Function, str]] = {
    "noise": (lambda net, x, y: x + torch.randn_like(x), "hand them over as an input"),
    "where the largest were": (lambda net, x, y: torch.cummax(x, 1).indices, "aten.cummax"),
    "a row at a computed place": (lambda net, x, y: x[x.mean(1).argmax()] * 2, "a number of Python"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_others_are_refused(name: str) -> None:
    function, words = REFUSED[name]
    with pytest.raises(PillionError, match=words):
        pillion.compile(Call(function).eval(), inputs(), target="cortex-m33")
