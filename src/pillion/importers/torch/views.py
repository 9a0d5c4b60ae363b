# SPDX-License-Identifier: Apache-2.0
"""PyTorch's views see elements in logical order. Most of them only split or join neighbouring axes; those
need not move any data, wherever the other axes lie."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pillion.importers.torch.layout import NHWC, Builder, Order, Placed
from pillion.ir.types import Shape


@dataclass(frozen=True)
class Run:
    """A run of neighbouring axes before a view and those that they become: as many elements on both sides."""

    before: tuple[int, ...]
    after: tuple[int, ...]


def view(b: Builder, x: Placed, shape: Shape) -> Placed:
    """Gives the elements in the same logical order under another shape."""
    runs = matched(x.shape, shape)
    in_memory = sorted(runs, key=lambda run: min(map(x.order.index, run.before)))
    if not all(_is_run(x.order, run) for run in in_memory):
        x = _with_runs(b, x, in_memory)
    order = _order(x.order, [axis for run in in_memory for axis in run.after], shape)
    return Placed(b.reshape(x.value, tuple(shape[axis] for axis in order)), order)


def matched(before: Shape, after: Shape) -> list[Run]:
    """Gives the smallest runs of axes that correspond; axes of size 1 belong to none."""
    old = [axis for axis, size in enumerate(before) if size != 1]
    new = [axis for axis, size in enumerate(after) if size != 1]
    runs, left, right, there, here = [], [], [], 1, 1
    while old or new:
        if old and (there <= here or not new):
            left.append(old.pop(0))
            there *= before[left[-1]]
        else:
            right.append(new.pop(0))
            here *= after[right[-1]]
        if there == here and left and right:
            runs.append(Run(tuple(left), tuple(right)))
            left, right, there, here = [], [], 1, 1
    return runs


def _is_run(order: Order, run: Run) -> bool:
    """Whether the axes lie one after another. Axes of size 1 in between were left out by `matched`, not here,
    but moving those is free."""
    places = [order.index(axis) for axis in run.before]
    return places == list(range(places[0], places[0] + len(places)))


def _with_runs(b: Builder, x: Placed, runs: Sequence[Run]) -> Placed:
    """Arranged so that every run lies in one piece: in logical order if that does, too."""
    moved = [axis for run in runs for axis in run.before]
    units = [axis for axis in range(x.rank) if axis not in moved]
    order = tuple(range(x.rank)) if moved == sorted(moved) else (*units, *moved)
    return Placed(b.arrange(x, order), order)


def _order(before: Order, moved: Sequence[int], shape: Shape) -> Order:
    """Where the axes of the result lie: those of size 1 fit anywhere, and complete an image or logical order
    if they can."""
    every = tuple(range(len(shape)))
    if list(moved) == sorted(moved) and not (len(shape) == 4 and before == NHWC):
        return every
    if len(shape) == 4 and list(moved) == sorted(moved, key=NHWC.index):
        return NHWC
    return (*(axis for axis in every if axis not in moved), *moved)
