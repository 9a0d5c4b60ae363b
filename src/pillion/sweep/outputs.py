# SPDX-License-Identifier: Apache-2.0
"""Outputs of a whole sweep: table, picture, and both as plain data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pillion.sweep.optuna_search import keeps_limits
from pillion.sweep.pareto import goals_of, is_on_pareto_front
from pillion.sweep.result_table import (
    TABLE_CSV,
    TABLE_JSON,
    Cells,
    as_csv,
    as_json,
    columns_shown,
    failure_rows,
    result_table,
)
from pillion.sweep.runner import SweepRow
from pillion.sweep.scatter_plot import draw_scatter_plot
from pillion.sweep.store import Store
from pillion.sweep.sweep_file import SearchPlan, SweepFile

PICTURE = "pareto"
LIMITS = "within_limits"


@dataclass(frozen=True)
class SweepOutput:
    """The results of a sweep."""

    facts: dict[str, Any]
    table: list[Cells]
    columns: list[str]


def write_views(
    plan: SweepFile, rows: Sequence[SweepRow], store: Store, search: SearchPlan | None
) -> SweepOutput:
    """Writes table and picture to the store, and returns the results."""
    metrics = list(dict.fromkeys(name for row in rows for name in row.result.metrics))
    goals = search.goals if search else goals_of(metrics)
    marked = is_on_pareto_front(rows, goals, search)
    table = result_table(rows, marked, metrics)
    if search is not None:
        table = [
            {**cells, LIMITS: keeps_limits(row.result, search)}
            for cells, row in zip(table, rows, strict=True)
        ]
    shown = {**goals_of(metrics), **goals}
    pictures = draw_scatter_plot(rows, marked, shown, f"{plan.path.name}: {len(rows):,} variants")
    written = {f"{PICTURE}.{form}": content for form, content in pictures.items()}
    failed = failure_rows(rows)
    facts = {
        "sweep": str(plan.path),
        "output": str(store.folder),
        "variants": len(rows),
        "failed": sum(row.result.failure is not None for row in rows),
        "usable": sum(
            row.result.failure is None and (search is None or keeps_limits(row.result, search))
            for row in rows
        ),
        "best_means": "no other is better within the limits"
        if search
        else "of its target, no other is better in all figures",
        "best": [cells["variant"] for cells in table if cells["best"]],
        "written": [TABLE_CSV, TABLE_JSON, *written],
        "failures": failed,
        "table": table,
    }
    for name, content in {TABLE_CSV: as_csv(table), TABLE_JSON: as_json(facts), **written}.items():
        store.write(name, content)
    columns = columns_shown(table, rows, metrics)
    return SweepOutput(facts, table, [*columns, *([LIMITS] if search else [])])
