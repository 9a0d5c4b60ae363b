# SPDX-License-Identifier: Apache-2.0
"""Functions of bytes that give bytes: lookups in a table, and layers whose sums are rounded down and clipped."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor


def look_up_bytes(x: Tensor, table: Tensor) -> Tensor:
    """Returns the entries of a table of 256 bytes."""
    return table[x.long()]


def convolve_bytes(
    x: Tensor, weight: Tensor, bias: Tensor, places: int, window: tuple[Any, Any, Any, int]
) -> Tensor:
    """Convolves bytes with integers, drops the lowest `places` bits of the sums, and clips them to 0 ... 255. `window` is
    stride, padding, dilation and groups."""
    sums = F.conv2d(x.float(), weight.float(), bias.float(), *window)
    return torch.floor(sums / 2**places).clamp(0, 255).to(torch.uint8)
