# SPDX-License-Identifier: Apache-2.0
"""Lowers PyTorch's views, which see elements in logical order. Views that only split or join neighbouring axes
move no data in any layout."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pillion.importers.torch.layout import NHWC, Builder, LayoutValue, Order
from pillion.ir.types import Shape


@dataclass(frozen=True)
class RegroupedAxes:
    """Neighbouring axes before a view and the axes that they become; both have the same number of elements."""

    before: tuple[int, ...]
    after: tuple[int, ...]


def reshape_logical(b: Builder, x: LayoutValue, shape: Shape) -> LayoutValue:
    """Reshapes a tensor in logical order."""
    runs = match_axis_runs(x.shape, shape)
    in_memory = sorted(runs, key=lambda run: min(map(x.order.index, run.before)))
    if not all(_is_contiguous_run(x.order, run) for run in in_memory):
        x = _make_runs_contiguous(b, x, in_memory)
    order = _view_result_order(x.order, [axis for run in in_memory for axis in run.after], shape)
    return LayoutValue(b.reshape(x.value, tuple(shape[axis] for axis in order)), order)


def match_axis_runs(before: Shape, after: Shape) -> list[RegroupedAxes]:
    """Returns the smallest corresponding runs of axes; axes of size 1 belong to no run."""
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
            runs.append(RegroupedAxes(tuple(left), tuple(right)))
            left, right, there, here = [], [], 1, 1
    return runs


def _is_contiguous_run(order: Order, run: RegroupedAxes) -> bool:
    """Whether the axes are neighbours in memory. Axes of size 1 in between count as a gap; moving them is free."""
    positions = [order.index(axis) for axis in run.before]
    return positions == list(range(positions[0], positions[0] + len(positions)))


def _make_runs_contiguous(b: Builder, x: LayoutValue, runs: Sequence[RegroupedAxes]) -> LayoutValue:
    """Arranges the tensor so that each run is contiguous, in logical order if that suffices."""
    moved = [axis for run in runs for axis in run.before]
    units = [axis for axis in range(x.rank) if axis not in moved]
    order = tuple(range(x.rank)) if moved == sorted(moved) else (*units, *moved)
    return LayoutValue(b.arrange(x, order), order)


def _view_result_order(before: Order, moved: Sequence[int], shape: Shape) -> Order:
    """Returns the layout of the result: axes of size 1 fit anywhere and complete NHWC or logical order if
    possible."""
    every = tuple(range(len(shape)))
    if list(moved) == sorted(moved) and not (len(shape) == 4 and before == NHWC):
        return every
    if len(shape) == 4 and list(moved) == sorted(moved, key=NHWC.index):
        return NHWC
    return (*(axis for axis in every if axis not in moved), *moved)
