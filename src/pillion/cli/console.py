# SPDX-License-Identifier: Apache-2.0
"""Terminal output: warnings, progress bars, lines and tables, or the same facts as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

from pillion.errors import escape_controls
from pillion.host_io.progress import print_above_bars, show_progress, stage

Facts = dict[str, Any]
"""Results as plain data that JSON can represent."""


warned: set[str] = set()
"""Warnings printed by the running command."""


def warn(text: str) -> None:
    """Prints a warning on standard error, once per command and text."""
    if text not in warned:
        warned.add(text)
        print_above_bars(f"warning: {text}")


@contextmanager
def progress_bar(quiet: bool, what: str = "") -> Iterator[Any]:
    """Shows a progress bar on a terminal unless `quiet`. Compiling and running name their own stages; for other
    work, `what` names it, and the yielded function moves the bar."""
    with show_progress(False if quiet else None), stage(what) if what else nullcontext() as advance:
        yield advance


def known(**facts: Any) -> Facts:
    """Returns the facts that are neither empty nor zero."""
    return {name: value for name, value in facts.items() if value}


def print_facts(
    facts: Facts, as_json: bool, columns: Mapping[str, Sequence[str]] = {}
) -> None:  # never changed
    """Prints facts as JSON, or as lines and tables. `columns` selects the columns of a table."""
    if as_json:
        print(json.dumps(facts, indent=2))
        return
    width = max(len(key) for key in facts)
    for key, value in facts.items():
        if isinstance(value, list) and value and isinstance(value[0], dict):
            print(f"{key}:")
            print(format_table(value, columns.get(key) or list(value[0])))
        else:
            print(f"{key.replace('_', ' '):{width}}  {_format_cell(value)}")


def print_line(line: str) -> None:
    """Prints one line of the result."""
    print(escape_controls(line))


def show_rows(rows: Sequence[Mapping[str, Any]], columns: Sequence[str], as_json: bool) -> None:
    """Prints rows as JSON or as a table."""
    print(json.dumps(list(rows), indent=2) if as_json else format_table(rows, columns))


UNSHORTENED = frozenset(
    {
        "summary",
        "because",
        "flip",
        "cycles",
        "why_this_kernel",
        "why",
        "note",
        "wants",
        "kernels",
        "enables",
        "version",
    }
)
"""Columns that hold sentences and are never shortened."""


def format_table(rows: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> str:
    """Formats rows in aligned columns; numbers are right-aligned."""
    cells = [
        [
            _format_cell(row.get(c)) if c in UNSHORTENED else _shorten_cell(_format_cell(row.get(c)))
            for c in columns
        ]
        for row in rows
    ]
    widths = [
        max(len(c), *(len(row[i]) for row in cells), 0) if cells else len(c) for i, c in enumerate(columns)
    ]
    numeric = [all(isinstance(row.get(c), (int, float, type(None))) for row in rows) for c in columns]
    lines = [[c.replace("_", " ") for c in columns], *cells]
    return "\n".join(
        "  ".join(
            cell.rjust(w) if n else cell.ljust(w) for cell, w, n in zip(line, widths, numeric, strict=True)
        ).rstrip()
        for line in lines
    )


LONGEST_NAME = 44
"""Longest text of a cell. Longer names lose their beginning, because the end says more."""


def _format_cell(value: Any) -> str:
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:.4g}"
    return escape_controls(", ".join(map(str, value)) if isinstance(value, list) else str(value))


def _shorten_cell(cell: str) -> str:
    return cell if len(cell) <= LONGEST_NAME else "…" + cell[1 - LONGEST_NAME :]
