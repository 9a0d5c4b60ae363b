# SPDX-License-Identifier: Apache-2.0
"""The table of a sweep: a row per variant with its differing options, figures and files."""

from __future__ import annotations

import csv
import io
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from pillion.sweep.axes import ARGUMENTS, FOR_ALL, OF_MODELS, Value
from pillion.sweep.job_result import Figures
from pillion.sweep.jobs import PATHS
from pillion.sweep.runner import SweepRow
from pillion.sweep.store import JOBS

TABLE_CSV, TABLE_JSON = "table.csv", "table.json"
Cells = dict[str, Any]
SHOWN = ("ram_bytes", "flash_bytes", "instructions")
"""Figures shown on a screen."""


def result_table(rows: Sequence[SweepRow], marked: Sequence[bool], names: Sequence[str]) -> list[Cells]:
    """Returns a row of plain data per variant; `names` are the metrics."""
    keys = list(dict.fromkeys(key for row in rows for key in row.job.values))
    return [
        {
            "variant": number,
            "best": is_best,
            "model": row.job.model,
            **{column_name(key): _plain_value(key, row.job.values.get(key)) for key in keys},
            **{name: row.result.value(name) for name in (*names, *Figures.names())},
            "seconds": round(row.result.seconds, 3),
            "left_out": "; ".join(f"{k}: {v}" for k, v in row.result.left_out.items()),
            "warnings": "; ".join(row.result.warnings),
            "failure": row.result.failure.what if row.result.failure else "",
            "folder": f"{JOBS}/{row.job.key}",
        }
        for number, (row, is_best) in enumerate(zip(rows, marked, strict=True), 1)
    ]


def column_name(key: str) -> str:
    """Returns the column name of an axis: arguments lose their prefix unless an option has the same name."""
    bare = key.removeprefix(ARGUMENTS)
    return bare if bare not in _TAKEN else key


_TAKEN = frozenset(
    {
        *("variant", "best", "model", "seconds", "left_out", "warnings", "failure", "folder"),
        *(*FOR_ALL, *OF_MODELS, *Figures.names()),
    }
)


def _plain_value(key: str, value: Value | None) -> Any:
    if key == "input_size" and isinstance(value, tuple):
        return "x".join(map(str, value))
    if key in PATHS and value is not None:
        return str(value).rpartition("/")[2]
    return json.dumps(value) if isinstance(value, tuple) else value


def columns_shown(table: Sequence[Cells], rows: Sequence[SweepRow], names: Sequence[str]) -> list[str]:
    """Returns the columns for a screen: differing options, metrics, and known figures."""
    keys = list(dict.fromkeys(column_name(key) for row in rows for key in row.job.values))
    differing = [key for key in ("model", *keys) if len({repr(cells[key]) for cells in table}) > 1]
    figures = [name for name in (*names, *SHOWN) if any(cells[name] is not None for cells in table)]
    return ["variant", *differing, *figures]


def as_csv(table: Sequence[Cells]) -> bytes:
    """Returns the table as CSV with a header."""
    text = io.StringIO()
    writer = csv.DictWriter(text, list(table[0]) if table else ["variant"], lineterminator="\n")
    writer.writeheader()
    writer.writerows(table)
    return text.getvalue().encode()


def as_json(facts: Mapping[str, Any]) -> bytes:
    """Returns a sweep's results as JSON."""
    return (json.dumps(facts, indent=2) + "\n").encode()


def failure_rows(rows: Sequence[SweepRow]) -> list[Cells]:
    """Returns each distinct failure, most frequent first, with its count and one variant."""
    counted = Counter(str(row.result.failure.error) for row in rows if row.result.failure)
    first = {
        str(row.result.failure.error): number
        for number, row in reversed(list(enumerate(rows, 1)))
        if row.result.failure
    }
    return [
        {"variants": count, "first_variant": first[text], "message": text}
        for text, count in counted.most_common()
    ]
