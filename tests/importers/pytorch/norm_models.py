# SPDX-License-Identifier: Apache-2.0
"""Layers and batch norms in all combinations: those that fold, and those that a fold would get wrong."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

NORMS = {1: nn.BatchNorm1d, 2: nn.BatchNorm2d, 3: nn.BatchNorm3d}

LAYERS: dict[str, tuple[Callable[[bool], nn.Module], tuple[int, ...]]] = {
    "conv1d": (lambda bias: nn.Conv1d(4, 6, 3, groups=2, bias=bias), (3, 4, 7)),
    "conv2d": (lambda bias: nn.Conv2d(4, 6, (3, 2), stride=2, padding=1, bias=bias), (2, 4, 7, 5)),
    "depthwise": (lambda bias: nn.Conv2d(4, 8, 3, groups=4, dilation=2, bias=bias), (2, 4, 7, 5)),
    "same": (lambda bias: nn.Conv2d(4, 6, 3, padding="same", bias=bias), (2, 4, 7, 5)),
    "transposed": (lambda bias: nn.ConvTranspose2d(4, 6, 3, stride=2, bias=bias), (2, 4, 3, 5)),
    "transposed_groups": (lambda bias: nn.ConvTranspose2d(4, 6, 2, groups=2, bias=bias), (2, 4, 3, 5)),
    "transposed_1d": (lambda bias: nn.ConvTranspose1d(4, 6, 2, groups=2, bias=bias), (2, 4, 5)),
    "linear": (lambda bias: nn.Linear(4, 6, bias=bias), (3, 4)),
}
IN_FLOAT = {"transposed_groups", "transposed_1d"}
"""Foldable, but with no integer form."""


def set_statistics(norm: Any, seed: int = 0) -> Any:
    """Values that show a swapped axis, a lost eps or a lost sign."""
    source = torch.Generator().manual_seed(seed)
    for name, low, high in (
        ("weight", -2.0, 2.0),
        ("bias", -1.0, 1.0),
        ("running_mean", -1.0, 1.0),
        ("running_var", 0.01, 3.0),
    ):
        held = getattr(norm, name)
        if held is not None:
            held.data.copy_(torch.rand(held.shape, generator=source) * (high - low) + low)
    return norm


class Pair(nn.Module):
    """A layer and its norm; the layer's result has a second reader on request."""

    def __init__(self, name: str, bias: bool = True, second_user: bool = False, **options: Any) -> None:
        super().__init__()
        torch.manual_seed(0)
        make, self.shape = LAYERS[name]
        self.layer, self.second_user = make(bias), second_user
        norm = NORMS[max(1, len(self.shape) - 2)](8 if name == "depthwise" else 6, **options)
        self.norm = set_statistics(norm)

    def forward(self, x: Tensor) -> Any:
        y = self.layer(x)
        return (self.norm(y), y) if self.second_user else self.norm(y)


class Other(nn.Module):
    """Layers and norms that a fold would get wrong."""

    def __init__(self, kind: str, **options: Any) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.kind = kind
        self.linear = nn.Linear(5, 3)
        self.conv = nn.Conv2d(3, 3, 3, padding=1)
        self.conv2 = nn.Conv2d(3, 3, 1)
        self.norm1, self.norm2, self.norm3 = (set_statistics(NORMS[d](3, **options), d) for d in (1, 2, 3))

    def forward(self, x: Tensor) -> Any:
        return getattr(self, self.kind)(x)

    def linear_ncl(self, x: Tensor) -> Tensor:
        return self.norm1(self.linear(x))

    def linear_nlc(self, x: Tensor) -> Tensor:
        return self.norm1(self.linear(x).transpose(1, 2))

    def linear_nchw(self, x: Tensor) -> Tensor:
        return self.norm2(self.linear(x))

    def linear_5d(self, x: Tensor) -> Tensor:
        return self.norm3(self.linear(x))

    def unbatched(self, x: Tensor) -> Tensor:
        return self.norm1(self.conv(x))

    def second_user(self, x: Tensor) -> Tensor:
        y = self.conv(x)
        return self.norm2(y) + y

    def linear_second_user(self, x: Tensor) -> Tensor:
        y = self.linear(x)
        return self.norm1(y) * y

    def shared(self, x: Tensor) -> Tensor:
        return self.norm2(self.conv(x)) + self.norm2(self.conv2(x))

    def alone(self, x: Tensor) -> Tensor:
        return F.relu(self.norm2(x))

    def alone_nc(self, x: Tensor) -> Tensor:
        return self.norm1(F.relu(self.norm1(x)))


UNFOLDABLE = {
    "linear_ncl": (2, 3, 5),
    "linear_nlc": (2, 7, 5),
    "linear_nchw": (2, 3, 5, 5),
    "linear_5d": (2, 3, 3, 5, 5),
    "unbatched": (3, 3, 5),
    "second_user": (1, 3, 5, 7),
    "linear_second_user": (7, 5),
    "shared": (1, 3, 5, 7),
    "alone": (2, 3, 5, 7),
    "alone_nc": (5, 3),
}
