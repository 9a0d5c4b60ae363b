# SPDX-License-Identifier: Apache-2.0
"""What is written to a copy does not change what it is a copy of, and calls on the same tensor twice do not stand for those on two."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import pillion
from pillion.errors import PillionError

pytestmark = pytest.mark.torch


class Called(nn.Module):
    """A function of tensors, with a convolution."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.function, self.layer = function, nn.Conv1d(3, 3, 3, padding=1)

    def forward(self, *inputs: Tensor) -> Any:
        return self.function(self.layer, *inputs)


def check(function: Callable[..., Any], count: int = 1) -> None:
    """All results are PyTorch's, as near as steps of int8 are."""
    inputs = torch.randn(count, 1, 6, 5, generator=torch.Generator().manual_seed(0)).unbind()
    net = Called(function).eval()
    with torch.no_grad():
        wanted = net(*(x.clone() for x in inputs))
    found = pillion.compile(net, inputs, target="cortex-m33", progress=False).run(*inputs)
    for ours, exact in zip(found, wanted if isinstance(wanted, tuple) else (wanted,), strict=True):
        assert np.abs(ours - exact.numpy()).max() < 0.03 * float(exact.abs().max())


def changed_part(layer: nn.Module, x: Tensor) -> Tensor:
    y = x.clone()
    y[:, :3].mul_(2)
    return x + y


def changed_whole(layer: nn.Module, x: Tensor) -> Tensor:
    y = x.clone()
    y.mul_(2)
    return x + y


def partial_convolution(layer: nn.Module, x: Tensor) -> Tensor:
    y = x.clone()
    y[:, :3, :] = layer(y[:, :3, :])
    return x + y.relu()


def copy_of_a_copy(layer: nn.Module, x: Tensor) -> tuple[Tensor, ...]:
    y = x.detach().clone()
    y[:, 1:3].relu_()
    z = y.clone()
    z[:, 0] += 1
    return x * 2, y * 2, z * 2


def view_of_a_copy(layer: nn.Module, x: Tensor) -> Tensor:
    y = x.contiguous().clone().view(1, -1)
    y[:, ::2] = 1.0
    return x.view(1, -1) * y


def cast_that_copies(layer: nn.Module, x: Tensor) -> Tensor:
    y = x.to(torch.float32, copy=True)
    y.add_(1)
    return x * y


def copied_into(layer: nn.Module, x: Tensor) -> Tensor:
    y = torch.empty_like(x).copy_(x)
    y[:, :2] = 0
    return x + y


def states_in_between(layer: nn.Module, x: Tensor) -> Tensor:
    h, seen = x * 1, []
    for t in range(3):
        h[:, t] = h[:, t] + 1
        seen.append(h.clone())
    return torch.stack(seen)


def views(layer: nn.Module, x: Tensor) -> tuple[Tensor, ...]:
    """Of all of a tensor, in other shapes and orders, one behind the other, and of parts of these."""
    a, b, c, d = x * 1, x * 2, x * 3, x - 1
    a.view(1, 3, 2, 5)[:, :, 0].mul_(2)
    a.view(-1)[3:9].zero_()
    b.transpose(1, 2)[:, 0] = 1.0
    b.permute(2, 0, 1)[1:3, 0].add_(2)
    flat = c.flatten(1)
    flat[:, :3] = 5.0
    d.narrow(1, 1, 2).copy_(x.narrow(1, 0, 2))
    d.unsqueeze(0).squeeze(1)[0, :2].mul_(3)
    first, second = d.chunk(2, 1)
    first.add_(second)
    return a, a + x, b, c, flat, d, x * 2


COPIES = (changed_part, changed_whole, partial_convolution, copy_of_a_copy, view_of_a_copy)
LATER = (cast_that_copies, copied_into, states_in_between, views)


@pytest.mark.turns(3)
@pytest.mark.parametrize("function", [*COPIES, *LATER], ids=lambda function: function.__name__)
def test_a_write_to_a_copy_changes_the_copy_alone(function: Callable[..., Any]) -> None:
    check(function)


HIDDEN: tuple[Callable[[Tensor], Tensor], ...] = (
    lambda a: a.as_strided((2, 3), (5, 1)),
    lambda a: a.unfold(1, 2, 2),
)


@pytest.mark.parametrize("view", HIDDEN)
def test_views_that_become_copies_are_not_written_to(view: Callable[[Tensor], Tensor]) -> None:
    def written(layer: nn.Module, x: Tensor) -> Tensor:
        a = x * 1
        view(a).mul_(2)
        return a

    with pytest.raises(PillionError, match="writes into a tensor that others see"):
        check(written)


def twice(layer: nn.Module, x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
    a, b = x + 1, y * 2
    same = torch.stack([a, a]), torch.addcmul(a, b, b), torch.addcmul(a, a, a), torch.hypot(b, b)
    return torch.stack([a, b]), torch.addcmul(a, a, b), torch.hypot(a, b), *same


def test_one_tensor_twice_is_not_two() -> None:
    check(twice, 2)


WRITTEN: dict[str, Callable[[nn.Module, Tensor], Tensor]] = {
    "zero_": lambda layer, x: _after(x, lambda y: y.unbind(1)[1].zero_()),
    "a diagonal": lambda layer, x: _after(x, lambda y: torch.diagonal(y, 0, 1, 2).fill_(0.5)),
    "a part": lambda layer, x: _after(x, lambda y: y.split(2, 1)[2].add_(1)),
    "a triangle": lambda layer, x: _after(x, lambda y: y.tril_()),
}


def _after(x: Tensor, write: Callable[[Tensor], Any]) -> Tensor:
    y = x.clone()
    write(y)
    return y + x


@pytest.mark.parametrize("name", WRITTEN)
def test_writes_to_parts_are_seen(name: str) -> None:
    check(WRITTEN[name])


def test_a_write_that_is_made_of_others_is_not_lost() -> None:
    """It would write to a strided view, which is a copy here."""
    with pytest.raises(PillionError, match="writes into a tensor"):
        check(lambda layer, x: _after(x[0], lambda y: y.fill_diagonal_(0)))
