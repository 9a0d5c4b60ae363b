# SPDX-License-Identifier: Apache-2.0
"""All variants of a plan: every combination of axis values, for each model."""

from __future__ import annotations

import itertools
import math

from pillion.errors import PillionError
from pillion.sweep.axes import Axis, AxisRange, Value
from pillion.sweep.jobs import Job, JobFactory
from pillion.sweep.sweep_file import ModelPlan, SweepFile

MOST_VARIANTS = 100_000
"""Largest sweep."""


def count_variants(plan: SweepFile) -> int:
    """Returns the number of variants. Raises if they cannot be counted, or exceed `MOST_VARIANTS`."""
    total = 0
    for model in plan.models:
        sizes = [len(_axis_values(plan, key, axis)) for key, axis in plan.axes_of(model).items()]
        total += math.prod(sizes)
    if total > MOST_VARIANTS:
        raise PillionError(
            f"{plan.path} has {total:,} variants",
            rule=f"{MOST_VARIANTS:,} at most are tried one by one",
            here=", ".join(f"{model.name}: {len(plan.axes_of(model))} axes" for model in plan.models),
            help="fewer values, or --search 200 with a [search] in the file",
        )
    return total


def _axis_values(plan: SweepFile, key: str, axis: Axis) -> tuple[Value, ...]:
    if not isinstance(axis, AxisRange):
        return axis
    if axis.step is None:
        raise PillionError(
            f"{plan.path} cannot be swept: `{key}` has no end of values",
            rule="a range has a step, where all variants are tried",
            here=f"{key} = {{ low = {axis.low}, high = {axis.high} }}",
            help="add a step, or search: --search 200 with a [search] in the file",
        )
    return axis.values


def all_variants(plan: SweepFile) -> list[tuple[ModelPlan, dict[str, Value]]]:
    """Returns every variant: its model, and a value per axis."""
    count_variants(plan)
    variants = []
    for model in plan.models:
        axes = plan.axes_of(model)
        values = [_axis_values(plan, key, axis) for key, axis in axes.items()]
        variants += [(model, dict(zip(axes, chosen, strict=True))) for chosen in itertools.product(*values)]
    return variants


def all_jobs(plan: SweepFile) -> list[Job]:
    """Returns a job for every variant of a plan."""
    make = JobFactory()
    return [make.job(model, values, plan.measure) for model, values in all_variants(plan)]
