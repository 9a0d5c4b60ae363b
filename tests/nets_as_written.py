# SPDX-License-Identifier: Apache-2.0
"""Small nets as people write them, and how many decibels each may lose against a plain simulation of int8."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

Shape = tuple[int, ...]


class Call(nn.Module):
    """A function as a module, with the layers that it uses."""

    def __init__(self, function: Callable[..., Any], /, **layers: Any) -> None:
        super().__init__()
        self.function = function
        for name, layer in layers.items():
            setattr(self, name, layer)

    def forward(self, *inputs: Tensor) -> Any:
        return self.function(*inputs, *self.children())


@dataclass(frozen=True)
class Net:
    """A net, the shapes of its inputs, and how far it may stay behind a plain simulation: where an operator becomes several, each of
    them rounds."""

    make: Callable[[], nn.Module]
    shapes: tuple[Shape, ...]
    may_lose: float = 1.0

    def built(self) -> nn.Module:
        """The net with random weights and statistics, the same each time."""
        torch.manual_seed(0)
        return with_statistics(self.make()).eval()

    def inputs(self) -> tuple[Tensor, ...]:
        """Random inputs, the same each time."""
        return tuple(
            torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape) + number))
            for number, shape in enumerate(self.shapes)
        )


def with_statistics(module: nn.Module) -> nn.Module:
    """Norms as training leaves them, not as they begin."""
    for part in module.modules():
        mean, variance = getattr(part, "running_mean", None), getattr(part, "running_var", None)
        with torch.no_grad():
            if isinstance(mean, Tensor) and isinstance(variance, Tensor):
                mean.normal_(0, 0.3), variance.uniform_(0.5, 1.5)
            if isinstance(part, (nn.LayerNorm, nn.GroupNorm, nn.RMSNorm, nn.InstanceNorm2d)):
                for name, held in part.named_parameters():
                    held.uniform_(0.5, 1.5) if name == "weight" else held.normal_(0, 0.3)
    return module


def net(module: Callable[[], nn.Module], *shapes: Shape, may_lose: float = 1.0) -> Net:
    return Net(module, shapes, may_lose)


def call(function: Callable[..., Any], *shapes: Shape, may_lose: float = 1.0, **layers: Any) -> Net:
    """A net that is a function; layers come behind the inputs."""
    return Net(lambda: Call(function, **layers), shapes, may_lose)


def resized(shape: Shape = (2, 3, 11, 7), may_lose: float = 1.0, **options: Any) -> Net:
    return call(lambda x: F.interpolate(x, **options), shape, may_lose=may_lose)


def conv3d_net() -> nn.Module:
    return nn.Sequential(
        *(nn.Conv3d(2, 6, 3, padding=1), nn.BatchNorm3d(6), nn.ReLU(), nn.MaxPool3d(2)),
        nn.Conv3d(6, 5, (2, 3, 3), stride=(1, 2, 2)),
    )


def padded_convolutions(mode: str) -> nn.Module:
    first = nn.Conv2d(3, 8, 3, padding=1, padding_mode=mode)
    return nn.Sequential(first, nn.ReLU(), nn.Conv2d(8, 4, 3, stride=2, padding=1, padding_mode=mode))


def normed(norm: nn.Module) -> nn.Module:
    return nn.Sequential(nn.Conv2d(3, 8, 3), norm, nn.ReLU())


IMAGE, ROW, VOLUME = (2, 3, 11, 7), (2, 3, 13), (1, 2, 7, 8, 9)
EQUAL_SCALE = 14.0
"""Average pools have the scale of their operand, whatever their results are."""

torch.manual_seed(0)  # of the layers that are made here
NETS: dict[str, Net] = {
    # Pools.
    "adaptive maximum": call(lambda x: F.adaptive_max_pool2d(x, (3, 4)), IMAGE),
    "adaptive maximum of one image": net(lambda: nn.AdaptiveMaxPool2d(3), (3, 8, 7)),
    "adaptive maximum of a signal": net(lambda: nn.AdaptiveMaxPool1d(5), ROW),
    "adaptive maximum of a volume": net(lambda: nn.AdaptiveMaxPool3d(2), VOLUME),
    "adaptive average": call(lambda x: F.adaptive_avg_pool2d(x, (3, 4)), IMAGE, may_lose=EQUAL_SCALE),
    "adaptive average of many windows": net(
        lambda: nn.AdaptiveAvgPool2d(7), (1, 8, 10, 10), may_lose=EQUAL_SCALE
    ),
    "adaptive average to more pixels": net(lambda: nn.AdaptiveAvgPool2d(7), (1, 8, 2, 3)),
    "adaptive average of one pixel": net(lambda: nn.AdaptiveAvgPool2d(6), (1, 8, 1, 1)),
    "adaptive average of one signal": net(lambda: nn.AdaptiveAvgPool1d(3), (3, 8)),
    "adaptive average of a volume": net(
        lambda: nn.AdaptiveAvgPool3d((2, 3, 2)), (2, 3, 5, 7, 6), may_lose=EQUAL_SCALE
    ),
    "maximum with gaps": net(lambda: nn.MaxPool2d(3, 2, padding=1, dilation=2), (2, 3, 11, 13)),
    "maximum with gaps and a partial window": net(
        lambda: nn.MaxPool2d(3, 2, padding=1, dilation=(2, 3), ceil_mode=True), (2, 3, 12, 13)
    ),
    "maximum with gaps in a signal": net(lambda: nn.MaxPool1d(3, 1, dilation=2), ROW),
    "maximum over volumes": net(lambda: nn.MaxPool3d(3, 2, padding=1), VOLUME),
    "maximum with gaps between images": net(lambda: nn.MaxPool3d(2, 2, dilation=(2, 1, 1)), VOLUME),
    "average with a divisor": net(lambda: nn.AvgPool2d(3, 2, padding=1, divisor_override=2), IMAGE),
    "average with a divisor and a partial window": net(
        lambda: nn.AvgPool2d(3, 2, padding=1, ceil_mode=True, divisor_override=5), (2, 3, 12, 14)
    ),
    "sums over windows of one image": net(lambda: nn.AvgPool2d(3, 2, divisor_override=1), (3, 12, 14)),
    "average over volumes": net(lambda: nn.AvgPool3d(3, 2, padding=1), VOLUME, may_lose=20),
    # Resizes.
    "nearest signal": net(lambda: nn.Upsample(scale_factor=3), (2, 3, 7)),
    "linear signal": net(lambda: nn.Upsample(size=17, mode="linear"), (2, 3, 7)),
    "linear signal, corners": net(
        lambda: nn.Upsample(scale_factor=2, mode="linear", align_corners=True), (2, 3, 7), may_lose=2
    ),
    "nearest exact": resized(size=(17, 9), mode="nearest-exact"),
    "nearest exact signal": resized((2, 3, 8), scale_factor=0.5, mode="nearest-exact"),
    "nearest by a broken factor": resized(scale_factor=1.5),
    "bilinear by a broken factor": resized(scale_factor=1.5, mode="bilinear", may_lose=3),
    "bicubic": resized(scale_factor=2, mode="bicubic", may_lose=2.5),
    "bicubic, corners": resized(size=(5, 13), mode="bicubic", align_corners=True, may_lose=2),
    "bilinear against aliasing": resized(size=(5, 4), mode="bilinear", antialias=True, may_lose=3.5),
    "area": resized(size=(5, 4), mode="area", may_lose=EQUAL_SCALE),
    "trilinear": resized((1, 2, 3, 4, 5), scale_factor=2, mode="trilinear", may_lose=6),
    "nearest volume": resized((1, 2, 3, 4, 5), scale_factor=2),
    # Pads.
    "mirrored": call(lambda x: F.pad(x, (3, 2, 1, 4), mode="reflect"), IMAGE),
    "edges": call(lambda x: F.pad(x, (3, -2, 1, 4), mode="replicate"), IMAGE),
    "around": call(lambda x: F.pad(x, (3, 2, 1, 4), mode="circular"), IMAGE),
    "edges of a volume": call(lambda x: F.pad(x, (1, 2, 1, 0, 2, 1), mode="replicate"), (2, 3, 4, 5, 6)),
    "pads as layers": net(
        lambda: nn.Sequential(
            *(nn.ReflectionPad2d(2), nn.Conv2d(3, 4, 5), nn.ReplicationPad2d(1), nn.CircularPad2d(1)),
            *(nn.ZeroPad2d(1), nn.ConstantPad2d(1, 0.5)),
        ),
        IMAGE,
    ),
    "mirroring convolutions": net(lambda: padded_convolutions("reflect"), IMAGE),
    "circular convolutions": net(lambda: padded_convolutions("circular"), IMAGE),
    "circular convolution of a signal": net(
        lambda: nn.Conv1d(3, 4, 3, padding=2, padding_mode="circular"), (2, 3, 9)
    ),
    # Layers.
    "transposed convolution in groups": net(
        lambda: nn.ConvTranspose2d(6, 9, 3, 2, 1, 1, groups=3), (2, 6, 5, 7)
    ),
    "transposed depthwise convolution": net(
        lambda: nn.ConvTranspose2d(6, 6, 4, 2, 1, groups=6), (2, 6, 5, 7)
    ),
    "transposed convolution in groups with gaps": net(
        lambda: nn.ConvTranspose2d(6, 4, 3, (2, 3), (1, 0), (0, 2), groups=2, dilation=(2, 3)), (2, 6, 5, 7)
    ),
    "transposed convolution with pixels between": net(
        lambda: nn.ConvTranspose2d(6, 6, 2, 3, groups=2), (2, 6, 5, 7)
    ),
    "transposed depthwise convolution of a signal": net(
        lambda: nn.ConvTranspose1d(6, 6, 5, 3, 2, 1, groups=6, bias=False), (2, 6, 9)
    ),
    "transposed convolution in groups of one image": net(
        lambda: nn.ConvTranspose2d(6, 9, 3, 2, 1, groups=3), (6, 5, 7)
    ),
    "convolutions of volumes": net(conv3d_net, (2, 2, 6, 8, 9)),
    "convolution of volumes in groups": net(
        lambda: nn.Conv3d(4, 8, 3, padding=(1, 2, 0), dilation=(2, 1, 1), stride=(2, 1, 2), groups=2),
        (2, 4, 7, 8, 9),
    ),
    "convolution of one volume": net(lambda: nn.Conv3d(4, 4, 3, padding="same", groups=4), (4, 5, 6, 7)),
    "transposed convolution of volumes": net(lambda: nn.ConvTranspose3d(4, 3, 3, 2, 1, 1), (1, 4, 3, 4, 5)),
    "bilinear layer": call(
        lambda a, b, layer: layer(a, b), (2, 3, 5), (2, 3, 7), layer=nn.Bilinear(5, 7, 4), may_lose=3.5
    ),
    "patches that overlap": net(lambda: nn.Fold((8, 9), 3, padding=1, stride=2), (2, 36, 20)),
    "patches of one image with gaps": net(lambda: nn.Fold((6, 7), 2, dilation=2), (12, 20)),
    "sum and product of matrices": call(
        lambda a, b, c: torch.baddbmm(a, b, c, beta=0.5, alpha=2.0), (2, 3, 5), (2, 3, 4), (2, 4, 5)
    ),
    "pictures": call(lambda a, b: torch.einsum("bchw,bcd->bdhw", a, b), (2, 3, 4, 5), (2, 3, 6)),
    "diagonals": call(
        lambda x: (torch.einsum("bii->bi", x[:, :, :4]), torch.diagonal(x, 1, 1, 2), x[0].trace()), (3, 4, 5)
    ),
    "shuffled pixels and channels": call(
        lambda x: F.channel_shuffle(F.pixel_unshuffle(F.pixel_shuffle(x, 2), 2), 2), (1, 8, 4, 6)
    ),
    # Norms.
    "layer norm": net(lambda: nn.Sequential(nn.Linear(16, 32), nn.LayerNorm(32)), (4, 9, 16)),
    "layer norm over two axes": net(lambda: nn.LayerNorm((5, 6)), (3, 5, 6)),
    "rms norm": net(lambda: nn.Sequential(nn.Linear(16, 32), nn.RMSNorm(32)), (4, 9, 16)),
    "group norm": net(lambda: normed(nn.GroupNorm(4, 8)), IMAGE),
    "group norm of one group": net(lambda: normed(nn.GroupNorm(1, 8)), IMAGE),
    "instance norm": net(lambda: normed(nn.InstanceNorm2d(8, affine=True)), IMAGE),
    "instance norm of a signal": net(lambda: nn.InstanceNorm1d(3), (2, 3, 17)),
    "instance norm of one image": net(lambda: nn.InstanceNorm2d(3), (3, 9, 8)),
    "instance norm by running statistics": net(
        lambda: normed(nn.InstanceNorm2d(8, affine=True, track_running_stats=True)), IMAGE
    ),
    "local response norm": net(lambda: nn.LocalResponseNorm(3, alpha=0.1, k=1.0), (2, 7, 5, 6)),
    "vectors of length 1": call(lambda x: F.normalize(x, dim=1), (4, 16, 5)),
    "vectors of sum 1": call(lambda x: F.normalize(x, p=1, dim=-1), (4, 16)),
    "lengths": call(
        lambda x: (x.norm(dim=1), torch.linalg.vector_norm(x, 3, dim=1), x.norm(float("inf"), dim=0)), (4, 16)
    ),
    "cosines": call(
        lambda a, b: F.cosine_similarity(a, b + a, dim=1), (2, 16, 3, 4), (2, 16, 3, 4), may_lose=2
    ),
    "distances": call(lambda a, b: F.pairwise_distance(a, b), (4, 16), (4, 16), may_lose=5),
    "deviations": call(
        lambda x: (x.std(1), x.var((1, 2), keepdim=True), *torch.std_mean(x, 2)), (4, 16, 13), may_lose=6
    ),
    "log of sums": call(lambda x: torch.logsumexp(x, 1), (4, 16), may_lose=2),
    "larger ones": call(
        lambda x: (torch.fmax(x, x.flip(1)), torch.logaddexp(x, x.flip(1))), (4, 16), may_lose=3
    ),
    "hypotenuses": call(lambda x: torch.hypot(x, x.flip(1)), (4, 16), may_lose=4),
    "decoder with a mask": net(
        lambda: Call(
            lambda x, y, decoder: decoder(y, x, tgt_mask=nn.Transformer.generate_square_subsequent_mask(5)),
            decoder=nn.TransformerDecoder(nn.TransformerDecoderLayer(16, 2, 32, batch_first=True), 1),
        ),
        (1, 12, 16),
        (1, 5, 16),
        may_lose=3,
    ),
    "encoder with a mask": net(
        lambda: Call(
            lambda x, encoder: encoder(x, mask=nn.Transformer.generate_square_subsequent_mask(12)),
            encoder=nn.TransformerEncoder(
                nn.TransformerEncoderLayer(16, 2, 32, batch_first=True), 1, enable_nested_tensor=False
            ),
        ),
        (1, 12, 16),
        may_lose=3,
    ),
    # An angle is a quotient, a table and three choices between differences, and rounded in each; near the origin one step of a coordinate
    # turns far. Both nets keep off the jump by 2 pi (x < 0 and y near 0), where one step is the whole range.
    "angles": call(lambda x, y: torch.atan2(x, y.abs() + 0.5), (4, 16), (4, 16), may_lose=6),
    "angles behind": call(lambda x, y: torch.atan2(x.abs(), y), (4, 16), (16,), may_lose=8),
    "distances of all pairs": call(
        lambda x, y: tuple(torch.cdist(x, y, p) for p in (2.0, 1.0, 3.0, float("inf"))),
        (2, 7, 9),
        (2, 5, 9),
        may_lose=5,
    ),
    "distances of many pairs": call(lambda x, y: torch.cdist(x, y), (41, 9), (50, 9), may_lose=5),
    # Both jump where the quotient is next to a whole number, and the steps of int8 decide on which side.
    "whole quotients": call(
        lambda x, y: (
            torch.floor_divide(x * 4, y.abs() + 0.5),
            torch.div(x * 4, y.abs() + 0.5, rounding_mode="trunc"),
            torch.ldexp(x, y),
        ),
        (60, 64),
        (60, 64),
        may_lose=9,
    ),
    "what is left of quotients": call(
        lambda x, y: (torch.remainder(x * 4, y.abs() + 0.5), torch.fmod(x * 4, y.abs() + 0.5)),
        (60, 64),
        (64,),
        may_lose=9,
    ),
    "copies of views": call(
        lambda x: (
            torch.ops.aten.t_copy(torch.ops.aten.alias_copy(x)),
            torch.ops.aten.unfold_copy(torch.ops.aten.detach_copy(x), 1, 3, 2),
            *torch.ops.aten.split_copy(x, 3, 1),
        ),
        (5, 7),
    ),
}
