# SPDX-License-Identifier: Apache-2.0
"""Building blocks of decompositions: batches of one, volumes as images, and running reductions."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

TensorFunction = Callable[..., Tensor]


def accept_unbatched(rank: int) -> Callable[[TensorFunction], TensorFunction]:
    """Makes a function of tensors of `rank` axes take one without the batch axis, too."""

    def decorate(function: TensorFunction) -> TensorFunction:
        def decomposed(x: Tensor, *rest: object, **options: object) -> Tensor:
            if x.dim() == rank:
                return function(x, *rest, **options)
            return function(x.unsqueeze(0), *rest, **options).squeeze(0)

        return decomposed

    return decorate


def window_count(
    size: int, kernel: int, step: int, border: int = 0, apart: int = 1, ceil_mode: bool = False
) -> int:
    """Returns the number of windows along an axis; `ceil_mode` includes a last window that begins inside the image
    or its padding."""
    room = size + 2 * border - apart * (kernel - 1) - 1
    count = (-(-room // step) if ceil_mode else room // step) + 1
    return count - 1 if ceil_mode and (count - 1) * step >= size + border else count


def over_volumes(x: Tensor, images: TensorFunction, depth: TensorFunction) -> Tensor:
    """Applies a function to the images [N, D, H, W] of volumes [..., D, H, W], then one to the depths [N, 1, D, H·W]."""
    *lead, frames, height, width = x.shape
    flat = images(x.reshape(-1, frames, height, width))
    height, width = flat.shape[-2:]
    return depth(flat.reshape(-1, 1, frames, height * width)).reshape(*lead, -1, height, width)


def running_reduction(function: Callable[[Tensor, Tensor], Tensor], x: Tensor, dim: int) -> Tensor:
    """Reduces, for each element, all elements up to it, by combining with the elements 1, 2, 4, … places before."""
    step, size = 1, x.shape[dim]
    while step < size:
        first = x.narrow(dim, 0, step)
        met = function(x.narrow(dim, step, size - step), x.narrow(dim, 0, size - step))
        x, step = torch.cat([first, met], dim), 2 * step
    return x
