# SPDX-License-Identifier: Apache-2.0
"""Networks whose parts are hard for int8, for benchmarks/quality.py: as people write them, and small."""

from __future__ import annotations

import torch
from torch import Tensor, nn

FEATURES, HEADS, BLOCKS, CHANNELS = 48, 4, 3, 32


def example_inputs() -> tuple[Tensor, ...]:
    """Gives an image for any network."""
    return (torch.zeros(1, 3, 32, 32),)


class VisionTransformer(nn.Module):
    """Patches behind a class token, to all of which positions are added. Token and positions are a hundredth of the patches, as they are drawn."""

    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, FEATURES, 8, 8)
        self.token = nn.Parameter(torch.randn(1, 1, FEATURES) * 0.02)
        self.positions = nn.Parameter(torch.randn(1, 17, FEATURES) * 0.02)
        layer = nn.TransformerEncoderLayer(
            FEATURES, HEADS, 2 * FEATURES, 0.0, "gelu", batch_first=True, norm_first=True
        )
        self.blocks = nn.TransformerEncoder(layer, BLOCKS, enable_nested_tensor=False)
        self.norm, self.head = nn.LayerNorm(FEATURES), nn.Linear(FEATURES, 10)

    def forward(self, x: Tensor) -> Tensor:
        """Gives a score for each class."""
        patches = self.patches(x).flatten(2).transpose(1, 2)
        tokens = torch.cat([self.token.expand(x.shape[0], -1, -1), patches], 1) + self.positions
        scores: Tensor = self.head(self.norm(self.blocks(tokens))[:, 0])
        return scores


class PartialBlocks(nn.Module):
    """Blocks in which a convolution sees a quarter of the channels, and reaches far; the others are joined to it as they are."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, CHANNELS, 4, 4), nn.BatchNorm2d(CHANNELS))
        some = [nn.Conv2d(CHANNELS // 4, CHANNELS // 4, 3, padding=1) for _ in range(BLOCKS)]
        every = [nn.Conv2d(CHANNELS, CHANNELS, 1) for _ in range(BLOCKS)]
        self.some, self.every = nn.ModuleList(some), nn.ModuleList(every)
        self.head = nn.Linear(CHANNELS, 10)

    def forward(self, x: Tensor) -> Tensor:
        """Gives a score for each class."""
        x = self.stem(x)
        for some, every in zip(self.some, self.every, strict=True):
            first, rest = x.split([CHANNELS // 4, CHANNELS - CHANNELS // 4], 1)
            x = x + every(torch.relu(torch.cat([some(first) * 30, rest], 1))) * 0.1
        scores: Tensor = self.head(x.mean((2, 3)))
        return scores


class NormsBehind(VisionTransformer):
    """The same with each norm behind its sum, as `nn.TransformerEncoderLayer` has them unless it is asked otherwise."""

    def __init__(self) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(FEATURES, HEADS, 2 * FEATURES, 0.0, "gelu", batch_first=True)
        self.blocks = nn.TransformerEncoder(layer, BLOCKS, enable_nested_tensor=False)


class PeakedAttention(nn.Module):
    """Attention over 64 patches whose scores are large: a few keys of each query have nearly all of it."""

    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, CHANNELS, 4, 4)
        self.each = nn.ModuleList(nn.Linear(CHANNELS, CHANNELS) for _ in range(3))
        self.head = nn.Linear(CHANNELS, 10)

    def forward(self, x: Tensor) -> Tensor:
        """Gives a score for each class and patch."""
        tokens = self.patches(x).flatten(2).transpose(1, 2)
        query, key, held = (layer(tokens).unflatten(2, (HEADS, -1)).transpose(1, 2) for layer in self.each)
        shares = torch.softmax(query @ key.transpose(2, 3) * 8, -1)
        scores: Tensor = self.head((shares @ held).transpose(1, 2).flatten(2))
        return scores


class SoftArgmax(nn.Module):
    """Where eight features are in an image: a softmax over all places, times these."""

    def __init__(self) -> None:
        super().__init__()
        layers = nn.Conv2d(3, 16, 3, 2, 1), nn.BatchNorm2d(16), nn.ReLU(), nn.Conv2d(16, 8, 3, 1, 1)
        self.features = nn.Sequential(*layers)
        self.register_buffer("places", torch.linspace(-1, 1, 16))

    def forward(self, x: Tensor) -> Tensor:
        """Gives both coordinates of each feature."""
        maps = 4 * self.features(x)
        shares = torch.softmax(maps.flatten(2), -1).view_as(maps)
        columns, rows = shares * self.places, shares * self.places[:, None]
        return torch.stack([columns.sum((2, 3)), rows.sum((2, 3))], -1)
