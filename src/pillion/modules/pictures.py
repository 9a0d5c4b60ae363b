# SPDX-License-Identifier: Apache-2.0
"""From the bytes of a camera to the numbers of a network: formats, parts and turns of pictures.

Lines are uint8 [batch, height, bytes of a line], as a camera writes them; pictures are uint8 [batch, channels, height,
width]. Sums of bytes are exact in PyTorch's float32, so programs compute the same bytes."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pillion.modules.arguments import require

CHROMA_ZERO = 128
"""The byte of a colour difference that stands for 0."""
YUV_TO_RGB = {"y": (64, 64, 64), "u": (0, -22, 113), "v": (90, -46, 0)}
"""64ths of red, green and blue in a step of brightness and of the two colour differences: BT.601, full range."""
GREY_SHARES = (38, 75, 15)
"""128ths of red, green and blue in the brightness of a pixel."""


class _ByteLayer(nn.Module):
    """Sums bytes of a window with factors [results, bytes], rounds half up, and clips to 0 ... 255."""

    factors: Tensor
    offsets: Tensor

    def __init__(self, factors: Tensor, offsets: Tensor | float = 0.0, window: int = 1) -> None:
        super().__init__()
        self.window = window
        self.register_buffer("factors", factors.reshape(len(factors), -1, window, window), persistent=False)
        self.register_buffer("offsets", offsets + torch.full((len(factors),), 0.5), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        """Returns bytes [batch, results, height, width] of bytes [batch, channels, height, width]."""
        sums = F.conv2d(x.float(), self.factors, self.offsets, self.window)
        return sums.floor().clamp(0, 255).to(torch.uint8)


def _require_bytes(module: nn.Module, x: Tensor, axes: int, multiples: Sequence[int] = ()) -> None:
    """Raises if a tensor is not bytes with the expected number of axes, or if its last axes are no multiples of some
    numbers."""
    here = f"{str(x.dtype).removeprefix('torch.')}{list(x.shape)}"
    require(x.dtype == torch.uint8 and x.dim() == axes, module, f"the input is uint8 with {axes} axes", here)
    for size, multiple in zip(x.shape[::-1], multiples[::-1], strict=False):
        require(size % multiple == 0, module, f"a side of the input is a multiple of {multiple}", here)


class Yuv422ToRgb(nn.Module):
    """Converts lines of YUV 4:2:2, four bytes for two pixels in the order `yuyv`, `uyvy`, `yvyu` or `vyuy`, to RGB.

    red = (64 Y + 90 (V - 128) + 32) >> 6, green = (64 Y - 22 (U - 128) - 46 (V - 128) + 32) >> 6,
    blue = (64 Y + 113 (U - 128) + 32) >> 6, clipped to 0 ... 255: BT.601 with all of 0 ... 255, as in JPEG."""

    def __init__(self, order: str = "yuyv") -> None:
        super().__init__()
        require(sorted(order) == list("uvyy") and order[0::2] in ("yy", "uv", "vu"), self, ORDERS, order)
        first, second = (i for i, letter in enumerate(order) if letter == "y")
        factors = torch.zeros(6, 4)
        for i, letter in enumerate(order):
            column = torch.tensor(YUV_TO_RGB[letter]) / 64
            factors[:3, i] = column if i != second else 0.0
            factors[3:, i] = column if i != first else 0.0
        zeros = torch.tensor([0.0 if letter == "y" else CHROMA_ZERO for letter in order])
        self.layer = _ByteLayer(factors, -factors @ zeros)

    def forward(self, lines: Tensor) -> Tensor:
        """Returns the picture [batch, 3, height, width] of lines [batch, height, 2 * width], or of the same bytes as
        pairs of pixels [batch, 4, height, width / 2]."""
        if lines.dim() == 4:
            _require_bytes(self, lines, 4, (4, 1, 1))
            pairs = lines
        else:
            _require_bytes(self, lines, 3, (4,))
            pairs = lines.reshape(*lines.shape[:2], -1, 4).permute(0, 3, 1, 2)
        batch, _, height, count = pairs.shape
        both = self.layer(pairs).permute(0, 2, 3, 1)
        return both.reshape(batch, height, 2 * count, 3).permute(0, 3, 1, 2)


ORDERS = "the order is yuyv, uyvy, yvyu or vyuy"


class Rgb565ToRgb(nn.Module):
    """Converts lines of RGB565, two bytes for a pixel, the low one first unless `big_endian`, to RGB.

    Of 5 or 6 bits the highest are repeated below: r << 3 | r >> 2, g << 2 | g >> 4, b << 3 | b >> 2."""

    def __init__(self, big_endian: bool = False) -> None:
        super().__init__()
        self.high = 0 if big_endian else 1
        self.layer = _ByteLayer(torch.tensor([[1.0, 0, 0, 0], [0, 1, 1, 0], [0, 0, 0, 1]]))

    def forward(self, lines: Tensor) -> Tensor:
        """Returns the picture [batch, 3, height, width] of lines [batch, height, 2 * width]."""
        _require_bytes(self, lines, 3, (2,))
        high, low = lines[..., self.high :: 2].int(), lines[..., 1 - self.high :: 2].int()
        parts = (
            (high & 0xF8) | (high >> 5),
            ((high & 7) << 5) | ((high >> 1) & 3),
            (low >> 5) << 2,
            ((low & 31) << 3) | ((low >> 2) & 7),
        )
        return self.layer(torch.stack([part.to(torch.uint8) for part in parts], -1).permute(0, 3, 1, 2))


class BayerToRgb(nn.Module):
    """Converts a mosaic of 2x2 cells, `rggb`, `grbg`, `gbrg` or `bggr` from left to right and top to bottom, to one RGB
    pixel a cell. Green is (first + second + 1) >> 1 of the two of a cell."""

    def __init__(self, pattern: str = "rggb") -> None:
        super().__init__()
        rule = "the pattern is rggb, grbg, gbrg or bggr"
        require(pattern in rule.replace(",", "").split()[3:], self, rule, pattern)
        factors = [[float(letter == color) for letter in pattern] for color in "rgb"]
        self.layer = _ByteLayer(F.normalize(torch.tensor(factors), 1.0), window=2)

    def forward(self, lines: Tensor) -> Tensor:
        """Returns the picture [batch, 3, height / 2, width / 2] of lines [batch, height, width], or of the same bytes
        with one channel, [batch, 1, height, width]."""
        _require_bytes(self, lines, 4 if lines.dim() == 4 else 3, (2, 2))
        return self.layer(lines if lines.dim() == 4 else lines.unsqueeze(1))


class GrayToRgb(nn.Module):
    """Converts lines of grey pixels to RGB with three equal channels."""

    def forward(self, lines: Tensor) -> Tensor:
        """Returns the picture [batch, 3, height, width] of lines [batch, height, width]."""
        _require_bytes(self, lines, 3)
        return torch.stack([lines] * 3, -1).permute(0, 3, 1, 2)


class RgbToGray(nn.Module):
    """Computes the brightness (38 R + 75 G + 15 B + 64) >> 7 of each pixel."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = _ByteLayer(torch.tensor([GREY_SHARES]) / 128)

    def forward(self, picture: Tensor) -> Tensor:
        """Returns the brightness [batch, 1, height, width] of a picture [batch, 3, height, width]."""
        _require_bytes(self, picture, 4)
        return self.layer(picture)


class Crop(nn.Module):
    """Cuts out `height` rows and `width` columns, in the middle unless `top` and `left` say where they begin.
    Half a pixel is rounded to an even one, as torchvision does."""

    def __init__(self, height: int, width: int, top: int | None = None, left: int | None = None) -> None:
        super().__init__()
        require(
            min(height, width, top or 0, left or 0) >= 0 < height * width,
            self,
            "sizes are above 0, places are 0 or more",
            (height, width, top, left),
        )
        self.sizes, self.places = (height, width), (top, left)

    def forward(self, picture: Tensor) -> Tensor:
        """Returns the part [batch, channels, height, width] of a picture."""
        for axis, size, first in zip((2, 3), self.sizes, self.places, strict=True):
            start = round((picture.shape[axis] - size) / 2) if first is None else first
            inside = start >= 0 and start + size <= picture.shape[axis]
            require(inside, self, "the part lies inside the picture", f"{size} of {list(picture.shape)}")
            picture = picture.narrow(axis, start, size)
        return picture


class Rotate(nn.Module):
    """Turns a picture by `quarters` times 90 degrees to the left; negative numbers turn to the right."""

    def __init__(self, quarters: int) -> None:
        super().__init__()
        self.quarters = quarters

    def forward(self, picture: Tensor) -> Tensor:
        """Returns the turned picture."""
        return picture.rot90(self.quarters, (2, 3))


class Resize(nn.Module):
    """Resizes a picture to `height` and `width` by interpolation between four pixels, without antialiasing."""

    def __init__(self, height: int, width: int) -> None:
        super().__init__()
        require(min(height, width) >= 1, self, "height and width are 1 or more", (height, width))
        self.sizes = height, width

    def forward(self, picture: Tensor) -> Tensor:
        """Returns the picture [batch, channels, height, width]."""
        return F.interpolate(picture, self.sizes, mode="bilinear")


class Normalize(nn.Module):
    """Converts bytes to numbers: (byte / 255 - mean) / std, of each channel or with the same numbers for all."""

    mean: Tensor
    std: Tensor

    def __init__(self, mean: float | Sequence[float] = 0.0, std: float | Sequence[float] = 1.0) -> None:
        super().__init__()
        for name, given in (("mean", mean), ("std", std)):
            numbers = torch.tensor(given, dtype=torch.float32).reshape(-1, 1, 1)
            fits = bool(numbers.isfinite().all()) and (name == "mean" or bool((numbers > 0).all()))
            require(fits, self, "mean and std are finite numbers, std above 0", given)
            self.register_buffer(name, numbers, persistent=False)

    def forward(self, picture: Tensor) -> Tensor:
        """Returns float32 [batch, channels, height, width]."""
        return (picture.float() / 255 - self.mean) / self.std
