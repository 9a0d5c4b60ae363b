# SPDX-License-Identifier: Apache-2.0
"""What users see: summaries, tables, progress bars, warnings. Facts are gathered as plain data first, so that `--json`
shows the same."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pillion.executors import RunResult
from pillion.ir.op import Op
from pillion.program import Program

Progress = Callable[[int, int | None], None]
Facts = dict[str, Any]


def warn(text: str) -> None:
    print(f"warning: {text}", file=sys.stderr)


@contextmanager
def progress(quiet: bool) -> Iterator[Progress | None]:
    """A bar for calibration, on standard error; nothing where that is no terminal."""
    if quiet or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    columns = (TextColumn("calibrating"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Bar(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("calibrating", total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def compiled(program: Program, output: Path) -> Facts:
    """What there is to say about a program that was written."""
    memory, lowered = program.memory, program.lowered
    return {
        "model": program.graph.name,
        "target": program.target.name,
        "output": str(output),
        "ops": len(program.graph.ops),
        "macs": program.graph.macs,
        "inputs": [repr(v) for v in program.graph.inputs],
        "outputs": [repr(v) for v in program.graph.outputs],
        "arena_bytes": memory.arena_bytes,
        "activation_bytes": memory.activation_bytes,
        "floor_bytes": memory.floor_bytes,
        "scratch_bytes": memory.scratch_bytes,
        "constant_bytes": lowered.constant_bytes,
        "params_bytes": lowered.params_bytes,
    }


EXPLAIN_COLUMNS = (
    "op",
    "kind",
    "unit",
    "segment",
    "rule",
    "wanted",
    "got",
    "flip",
    "crossing_bytes",
    "npu_cycles_estimate",
    "cpu_cycles_estimate",
    "source",
)


def explained(program: Program) -> Facts:
    """Where each op runs, and why."""
    rows = [entry.as_row() for entry in program.ledger] or [_cpu_row(op) for op in program.graph.ops]
    on_npu = sum(row["unit"] == "npu" for row in rows)
    return {
        "model": program.graph.name,
        "target": program.target.name,
        "ops_on_npu": on_npu,
        "ops_on_cpu": len(rows) - on_npu,
        "segments": len({row["segment"] for row in rows if row["segment"] is not None}),
        "crossing_bytes": sum(row["crossing_bytes"] for row in rows),
        "ops": rows,
    }


def _cpu_row(op: Op) -> Facts:
    """The row of an op on a chip without an NPU."""
    row: Facts = dict.fromkeys(EXPLAIN_COLUMNS)
    return {
        **row,
        "op": op.name,
        "kind": op.kind,
        "unit": "cpu",
        "rule": "target.npu",
        "wanted": "an NPU",
        "got": "none",
        "flip": "--target imxrt700",
        "crossing_bytes": 0,
        "source": op.source,
    }


def ran(manifest: Mapping[str, Any], on: str, result: RunResult) -> Facts:
    """What there is to say about a run."""
    facts: Facts = {"model": manifest["model"], "on": on, "outputs": [_summary(o) for o in result.outputs]}
    if result.profile is None:
        return facts
    profile = result.profile
    ops = [
        {**{k: op[k] for k in ("kind", "name", "kernel", "macs", "why")}, "instructions": count}
        for op, count in zip(manifest["ops"], profile.op_instructions, strict=True)
    ]
    regions = [{"region": r.name, "predicted": r.predicted, "found": r.found} for r in profile.regions]
    return {
        **facts,
        "instructions": profile.instructions,
        "code_bytes": profile.code_bytes,
        "stack_bytes": profile.stack_bytes,
        "regions": regions,
        "ops": ops,
    }


def _summary(array: Any) -> Facts:
    flat = array.ravel()
    return {
        "dtype": array.dtype.name,
        "shape": list(array.shape),
        "min": flat.min().item() if flat.size else None,
        "max": flat.max().item() if flat.size else None,
        "argmax": int(flat.argmax()) if flat.size else None,
    }


def show(facts: Facts, as_json: bool) -> None:
    """Facts as JSON, or as lines with tables for lists of rows."""
    if as_json:
        print(json.dumps(facts, indent=2))
        return
    width = max(len(key) for key in facts)
    for key, value in facts.items():
        if isinstance(value, list) and value and isinstance(value[0], dict):
            print(f"{key}:")
            print(table(value, [k for k in value[0] if k != "why"]))
        else:
            print(f"{key.replace('_', ' '):{width}}  {_cell(value)}")


def show_rows(rows: Sequence[Mapping[str, Any]], columns: Sequence[str], as_json: bool) -> None:
    """Rows as JSON or as a table."""
    print(json.dumps(list(rows), indent=2) if as_json else table(rows, columns))


WHOLE = frozenset({"summary", "wanted", "flip"})
"""Columns of sentences, which are never shortened."""


def table(rows: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> str:
    """Rows in aligned columns; numbers to the right."""
    cells = [
        [_cell(row.get(c)) if c in WHOLE else _shortened(_cell(row.get(c))) for c in columns] for row in rows
    ]
    widths = [
        max(len(c), *(len(row[i]) for row in cells), 0) if cells else len(c) for i, c in enumerate(columns)
    ]
    numeric = [all(isinstance(row.get(c), (int, float)) for row in rows) for c in columns]
    lines = [[c.replace("_", " ") for c in columns], *cells]
    return "\n".join(
        "  ".join(
            cell.rjust(w) if n else cell.ljust(w) for cell, w, n in zip(line, widths, numeric, strict=True)
        ).rstrip()
        for line in lines
    )


LONGEST_NAME = 44
"""Of a cell of text; the end of a name tells more than its beginning."""


def _cell(value: Any) -> str:
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:.4g}"
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def _shortened(cell: str) -> str:
    return cell if len(cell) <= LONGEST_NAME else "…" + cell[1 - LONGEST_NAME :]
