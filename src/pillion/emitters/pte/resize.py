# SPDX-License-Identifier: Apache-2.0
"""Rows for resizes that drop or repeat rows and columns evenly."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pillion.emitters.pte.movement import strided_slice_call
from pillion.emitters.pte.node import (
    KernelCall,
    NodeView,
    PteSettings,
    contiguous_view,
    no_exact_kernel_error,
    temporary_tensor,
)
from pillion.ops import ResizeNearest


@dataclass(frozen=True)
class ResizeAxis:
    """The change of one axis: every `step`-th element from `begin`, each repeated `repeats` times."""

    size: int
    begin: int
    step: int
    repeats: int

    @property
    def kept(self) -> int:
        """The number of elements before the repetition."""
        return self.size // self.repeats


def resize_nearest(op: ResizeNearest, settings: PteSettings) -> list[KernelCall]:
    """Returns the calls of a resize: copies that drop rows and columns, and one that repeats them."""
    axes = [_resize_axis(op, 0), _resize_axis(op, 1)]
    repeats_any = any(axis.repeats > 1 for axis in axes)
    cuts = [(1 + i, axis) for i, axis in enumerate(axes) if axis.kept != op.x.shape[1 + i]]
    calls: list[KernelCall] = []
    x = contiguous_view(op.x)
    for number, (i, axis) in enumerate(cuts):
        sizes = tuple(axis.kept if j == i else size for j, size in enumerate(x.sizes))
        is_last = number == len(cuts) - 1 and not repeats_any
        y = contiguous_view(op.y) if is_last else temporary_tensor(sizes, op.x.dtype)
        calls.append(strided_slice_call(x, i, axis.begin, axis.step, y.reshaped(*sizes)))
        x = y.reshaped(*sizes)
    return (
        [*calls, _repeat_pixels_call(x, axes, contiguous_view(op.y))] if repeats_any or not calls else calls
    )


def _repeat_pixels_call(x: NodeView, axes: list[ResizeAxis], y: NodeView) -> KernelCall:
    n, h, w, c = x.sizes
    expanded_shape = (n, h, axes[0].repeats, w, axes[1].repeats, c)
    return KernelCall(
        "aten::expand_copy.out",
        (x.reshaped(n, h, 1, w, 1, c), expanded_shape, False),
        y.reshaped(*expanded_shape),
    )


def _resize_axis(op: ResizeNearest, axis: int) -> ResizeAxis:
    sources, before, after = op.sources(axis), op.x.shape[1 + axis], op.size[axis]
    repeats = max(after // before, 1)
    if np.array_equal(sources, np.arange(before).repeat(repeats)):
        return ResizeAxis(after, 0, 1, repeats)
    step = int(sources[1] - sources[0]) if after > 1 else 1
    if step >= 1 and np.array_equal(sources, sources[0] + step * np.arange(after)):
        return ResizeAxis(after, int(sources[0]), step, 1)
    raise no_exact_kernel_error(
        op,
        "each row and column is left out or repeated, all equally often",
        f"{before} to {after} along axis {1 + axis}",
        "resize by a whole factor, --kernels pillion, or write C: -o folder/",
    )
