# SPDX-License-Identifier: Apache-2.0
"""The Pareto front: variants that no other variant for the same target beats in every figure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pillion.sweep.optuna_search import keeps_limits
from pillion.sweep.runner import SweepRow
from pillion.sweep.sweep_file import SearchPlan

COSTS = ("ram_bytes", "flash_bytes", "instructions")
"""Costs on a chip: the axes of the picture."""


SMALL_IS_BETTER = ("mse", "mae")
"""Metrics that are errors."""


def goals_of(metrics: Sequence[str]) -> dict[str, bool]:
    """Returns the default goals: maximize metrics unless they are errors, minimize costs."""
    return {**{metric: metric not in SMALL_IS_BETTER for metric in metrics}, **dict.fromkeys(COSTS, False)}


def is_on_pareto_front(
    rows: Sequence[SweepRow], goals: Mapping[str, bool], search: SearchPlan | None = None
) -> list[bool]:
    """Returns, per row, whether no other row for the same target is at least as good in every goal and better in
    one. Unknown goals are ignored. A search compares all targets, and only variants within its limits."""
    allowed = [r.result.failure is None and (search is None or keeps_limits(r.result, search)) for r in rows]
    points = [_goal_point(row, goals) if ok else None for row, ok in zip(rows, allowed, strict=True)]
    groups: dict[str, list[int]] = {}
    for number, row in enumerate(rows):
        if points[number] is not None:
            groups.setdefault("" if search else row.job.target, []).append(number)
    marked = [False] * len(rows)
    for numbers in groups.values():
        for number in numbers:
            rivals = (points[competitor] for competitor in numbers if competitor != number)
            marked[number] = not any(_dominates(rival, points[number]) for rival in rivals)
    return marked


Point = tuple[float | None, ...]


def _goal_point(row: SweepRow, goals: Mapping[str, bool]) -> Point | None:
    """Returns the goals of a row as numbers to minimize; None if the row has none."""
    values = [row.result.value(name) for name in goals]
    signs = [-1 if is_large else 1 for is_large in goals.values()]
    if all(value is None for value in values):
        return None
    return tuple(None if value is None else sign * value for value, sign in zip(values, signs, strict=True))


def _dominates(p: Point | None, q: Point | None) -> bool:
    assert p is not None
    assert q is not None
    pairs = [(a, b) for a, b in zip(p, q, strict=True) if a is not None and b is not None]
    return bool(pairs) and all(a <= b for a, b in pairs) and any(a < b for a, b in pairs)
