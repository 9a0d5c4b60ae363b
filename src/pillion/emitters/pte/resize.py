# SPDX-License-Identifier: Apache-2.0
"""Rows for images of another size, where whole rows and columns are left out or repeated equally often."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pillion.emitters.pte.movement import cut
from pillion.emitters.pte.node import KernelCall, Settings, View, plain, refusal, temp
from pillion.ops import ResizeNearest


@dataclass(frozen=True)
class Axis:
    """How one axis changes: from `begin` every `step`-th of the image, each `repeats` times."""

    size: int
    begin: int
    step: int
    repeats: int

    @property
    def kept(self) -> int:
        """The rows or columns that are there before they are repeated."""
        return self.size // self.repeats


def resize_nearest(op: ResizeNearest, settings: Settings) -> list[KernelCall]:
    """Gives the calls of a resize: copies that leave rows and columns out, and one that repeats them."""
    axes = [_axis(op, 0), _axis(op, 1)]
    repeats_any = any(axis.repeats > 1 for axis in axes)
    cuts = [(1 + i, axis) for i, axis in enumerate(axes) if axis.kept != op.x.shape[1 + i]]
    calls: list[KernelCall] = []
    x = plain(op.x)
    for number, (i, axis) in enumerate(cuts):
        sizes = tuple(axis.kept if j == i else size for j, size in enumerate(x.sizes))
        is_last = number == len(cuts) - 1 and not repeats_any
        y = plain(op.y) if is_last else temp(sizes, op.x.dtype)
        calls.append(cut(x, i, axis.begin, axis.step, y.reshaped(*sizes)))
        x = y.reshaped(*sizes)
    return [*calls, _repeat(x, axes, plain(op.y))] if repeats_any or not calls else calls


def _repeat(x: View, axes: list[Axis], y: View) -> KernelCall:
    n, h, w, c = x.sizes
    whole = (n, h, axes[0].repeats, w, axes[1].repeats, c)
    return KernelCall(
        "aten::expand_copy.out", (x.reshaped(n, h, 1, w, 1, c), whole, False), y.reshaped(*whole)
    )


def _axis(op: ResizeNearest, axis: int) -> Axis:
    sources, before, after = op.sources(axis), op.x.shape[1 + axis], op.size[axis]
    repeats = max(after // before, 1)
    if np.array_equal(sources, np.arange(before).repeat(repeats)):
        return Axis(after, 0, 1, repeats)
    step = int(sources[1] - sources[0]) if after > 1 else 1
    if step >= 1 and np.array_equal(sources, sources[0] + step * np.arange(after)):
        return Axis(after, int(sources[0]), step, 1)
    raise refusal(
        op,
        "each row and column is left out or repeated, all equally often",
        f"{before} to {after} along axis {1 + axis}",
        "resize by a whole factor, or write C: -o folder/",
    )
