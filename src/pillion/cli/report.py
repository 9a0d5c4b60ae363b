# SPDX-License-Identifier: Apache-2.0
"""What users see: summaries, tables, progress bars, warnings. Facts are gathered as plain data first, so that `--json`
shows the same."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pillion.outside.files import form_of
from pillion.outside.progress import Advance, say, shown, stage

if TYPE_CHECKING:
    from pillion.ir.streaming import Streaming
    from pillion.place import Entry
    from pillion.program import Program
    from pillion.run.executor import RunResult

Facts = dict[str, Any]
"""What is known, as plain data that JSON can hold."""


warned: set[str] = set()
"""What the command that runs has warned of."""


def warn(text: str) -> None:
    """Prints a warning where it does not mix with the results, on standard error; the same one once for each command."""
    if text not in warned:
        warned.add(text)
        say(f"warning: {text}")


@contextmanager
def progress(quiet: bool, what: str = "") -> Iterator[Advance | None]:
    """Shows on a terminal how far long work is; nothing where that is not wanted. Compiling and running say themselves what they do; for
    other work, `what` is its name, and what comes back moves its bar."""
    with shown(False if quiet else None):
        if not what:
            yield None
            return
        with stage(what) as advance:
            yield advance


@contextmanager
def stages(quiet: bool, what: str) -> Iterator[tuple[Advance, Callable[[str], None]]]:
    """Shows a bar for work that has several stages: the first function moves it, the second says what begins."""
    with shown(False if quiet else None), ExitStack() as running:
        advance = [running.enter_context(stage(what))]

        def begin(words: str) -> None:
            running.close()
            advance[0] = running.enter_context(stage(words))

        yield lambda done, total: advance[0](done, total), begin


LITERTS = "tflite"
"""Whose bits a .tflite file is, whatever it was made from."""


def compiled(program: Program, output: Path, runtime: str = "1.4") -> Facts:
    """Gathers what there is to say about a program that was written."""
    return {
        "model": program.graph.name,
        "target": program.target.name,
        "output": str(output),
        "ops": len(program.graph.ops),
        "macs": program.graph.macs,
        "arithmetic": LITERTS if form_of(output) == ".tflite" else program.arithmetic,
        "inputs": [repr(v) for v in program.graph.inputs],
        "outputs": [repr(v) for v in program.graph.outputs],
        **_over_time(program),
        **_form(program, output, runtime),
        **(_npu(program) if program.target.npu else {}),
    }


def changed(program: Program, *, quiet: bool) -> Facts:
    """Gathers what another arithmetic than the model's own changes; nothing where it has its own."""
    with progress(quiet=quiet):
        found = program.change_of_arithmetic()
    if found is None:
        return {}
    words = {
        "own_arithmetic": found.own.value,
        "outputs_changed": found.text,
        "changed_in": found.ops_text,
    }
    if not quiet:
        return words
    ops = [{"op": c.op.name, "numbers": c.elements, "different": c.different} for c in found.ops]
    numbers = {"numbers": found.elements, "different": found.different, "largest": found.largest}
    inputs = {"inputs": found.inputs, "inputs_different": found.inputs_different}
    return words | {"change": {**inputs, **numbers, "ops": ops}}


def _over_time(program: Program) -> Facts:
    """What lives between runs and, of a stream, what each run takes and answers."""
    facts, streaming = _states(program), program.streaming
    if streaming is None:
        return facts
    return facts | {
        "takes": list(streaming.takes),
        "answers": [answer.text for answer in streaming.answers],
        "answers_equal": streaming.meaning.text,
    }


def _states(program: Program) -> Facts:
    """What lives between runs, if anything does."""
    states = program.graph.states
    return (
        {"states": [f"{s.name}: {s.before.dtype.value}{list(s.before.shape)}" for s in states]}
        if states
        else {}
    )


def _form(program: Program, output: Path, runtime: str) -> Facts:
    """What is special to the form of the output."""
    match form_of(output):
        case ".pte":
            return _pte(output.read_bytes(), runtime)
        case ".tflite":
            return {"file_bytes": output.stat().st_size}
        case _:
            return _c_project(program)


def _pte(file: bytes, runtime: str) -> Facts:
    from pillion.emitters.pte.facts import facts_of

    facts = facts_of(file)
    return {
        "runtime": f"ExecuTorch {runtime}",
        "file_bytes": facts.file_bytes,
        "arena_bytes": facts.arena_bytes,
        **({"state_bytes": facts.state_bytes} if facts.state_bytes else {}),
        "kernel_calls": facts.kernel_calls,
        "delegate_calls": facts.delegate_calls,
        "operators": list(facts.operators),
    }


def _c_project(program: Program) -> Facts:
    memory, lowered = program.memory, program.lowered
    return {
        "arena_bytes": memory.arena_bytes,
        **({"state_bytes": memory.state_bytes} if program.graph.states else {}),
        "activation_bytes": memory.activation_bytes,
        "floor_bytes": memory.floor_bytes,
        "scratch_bytes": memory.scratch_bytes,
        "constant_bytes": lowered.constant_bytes,
        "params_bytes": lowered.params_bytes,
        **_stripes(program),
    }


def _stripes(program: Program) -> Facts:
    """What runs a few rows at a time, and what that saves."""
    from pillion.ir.rows import ROWS
    from pillion.stripes.search import price

    if not program.stripes:
        return {}
    rows = []
    for stripe in program.stripes:
        ops = program.graph.ops[stripe.first : stripe.end]
        height = ops[-1].results[0].shape[ROWS]
        rows.append(
            {
                **{"from": ops[0].name, "to": ops[-1].name, "ops": len(ops)},
                **{
                    "rows_in_a_step": stripe.rows,
                    "steps": -(-height // stripe.rows) * ops[-1].results[0].shape[0],
                },
                "ended_by": _ended_by(program, stripe.end),
            }
        )
    fed = {"input": "row by row"} if program.stripes[0].fed else {}
    more = 100 * price(program.graph, program.whole, program.stripes)
    return {
        **fed,
        "arena_bytes_without_stripes": program.whole.memory.arena_bytes,
        "more_instructions": f"about {more:.1f} %",
        "stripes": rows,
    }


def _ended_by(program: Program, end: int) -> str:
    """What ends a stripe: an op whose rows are not made one after another, a stripe behind it, or that longer ones take or cost more."""
    from pillion.ops.region import why_not_in_rows

    if end == len(program.graph.ops):
        return "the last op"
    op = program.graph.ops[end]
    reason = why_not_in_rows(op)
    if any(other.first == end for other in program.stripes):
        return "the next stripe, with other rows in a step"
    return f"{op.kind} {op.name}: {reason}" if reason else "a longer stripe takes or costs more"


def _npu(program: Program) -> Facts:
    """What the NPU runs, and what of it must lie in RAM."""
    on_npu = len(program.ledger.on_npu)
    return {
        "ops_on_npu": on_npu,
        "ops_on_cpu": len(program.ledger.entries) - on_npu,
        "npu": program.payloads.summary,
        **program.payloads.figures,
        "npu_constant_bytes_copied_to_sram": program.npu_constant_bytes,
        "sram_bytes_needed": program.sram_bytes,
        "sram_bytes_of_chip": program.target.sram_bytes,
    }


def warn_of_memory(program: Program) -> None:
    """Says so where a chip has too little RAM for a program."""
    there = program.target.sram_bytes
    if there is not None and program.sram_bytes > there:
        warn(
            f"`{program.graph.name}` needs {program.sram_bytes:,} bytes of SRAM, {program.target.name} has {there:,}: "
            f"arena {program.memory.arena_bytes:,}, weights of the NPU {program.npu_constant_bytes:,}; smaller inputs "
            "make the arena smaller, --keep-on-cpu leaves weights in flash"
        )


def explain_columns(program: Program) -> dict[str, Sequence[str]]:
    """Chooses the columns of `explained` that fit on a screen; `--json` has the rest."""
    if program.target.npu is None:
        return {"ops": ("op", "kind", "kernel", "cpu_cycles_estimate", "source", "why_this_kernel")}
    return {"ops": ("op", "kind", "unit", "kernel", "because", "flip", "crossing_bytes", "source")}


def explained(program: Program) -> Facts:
    """Gathers where each op runs, and why."""
    from pillion.ops.region import why_not_in_rows

    ledger, npu = program.ledger, program.target.npu
    live = dict(
        zip((s.choice.op.name for s in program.lowered.steps), program.memory.live_bytes, strict=True)
    )
    kernels = {step.choice.op.name: step.choice for step in program.lowered.steps}
    rows = [
        {
            **entry.as_row(),
            "arithmetic": npu.arithmetic.value
            if npu and entry.segment is not None
            else program.graph.arithmetic.value,
            "kernel": "npu" if entry.segment is not None else kernels[entry.op.name].kernel.name,
            "arena_bytes": live.get(entry.op.name),
            "ends_a_stripe": why_not_in_rows(entry.op),
            "why_this_kernel": "" if entry.segment is not None else kernels[entry.op.name].short_reason,
        }
        for entry in ledger
    ]
    return {
        "model": program.graph.name,
        "target": program.target.name,
        "arithmetic": program.arithmetic,
        **_over_time(program),
        "ops_on_npu": len(ledger.on_npu),
        "ops_on_cpu": len(rows) - len(ledger.on_npu),
        "crossing_bytes": ledger.crossing_bytes,
        "segments": [_segment_row(number, entries) for number, entries in ledger.segments.items()],
        **_stripes(program),
        "ops": rows,
    }


def _segment_row(number: int, entries: Sequence[Entry]) -> Facts:
    cost = entries[0].deciding
    return {
        "segment": number,
        "ops": len(entries),
        "macs": sum(entry.op.macs for entry in entries),
        "crossing_bytes": sum(entry.crossing_bytes for entry in entries),
        "cycles": f"{cost.got}, wanted {cost.wanted}",
    }


def ran(model: str, on: str, result: RunResult, streaming: Streaming | None = None) -> Facts:
    """Gathers what there is to say about a run, of a stream for instance."""
    facts: Facts = {"model": model, "on": on, "outputs": [_summary(o) for o in result.outputs]}
    if result.profile is None:
        return facts
    profile = result.profile
    ops = [
        {
            **{"kind": op.kind, "name": op.name, "kernel": op.kernel, "macs": op.macs},
            **{"instructions": count, "why": op.why},
        }
        for op, count in zip(profile.ops, profile.op_instructions, strict=True)
    ]
    regions = [{"region": r.name, "predicted": r.predicted, "found": r.found} for r in profile.regions]
    return {
        **facts,
        "instructions": profile.instructions,
        **(_each_call(profile.instructions, streaming) if streaming else {}),
        "code_bytes": profile.code_bytes,
        "stack_bytes": profile.stack_bytes,
        "regions": regions,
        "ops": ops,
    }


def _each_call(instructions: int, streaming: Streaming) -> Facts:
    """What the calls of a stream take: those that have frames enough run the model, the others copy frames."""
    fed = streaming.inputs[0]
    return {
        "instructions_of_the_longest_call": instructions,
        "instructions_per_call": round(instructions / streaming.calls),
        "instructions_per_frame": round(instructions / fed.frames),
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


def show(facts: Facts, as_json: bool, columns: Mapping[str, Sequence[str]] = {}) -> None:  # never changed
    """Prints facts as JSON, or as lines with tables for lists of rows, of which `columns` may name the columns."""
    if as_json:
        print(json.dumps(facts, indent=2))
        return
    width = max(len(key) for key in facts)
    for key, value in facts.items():
        if isinstance(value, list) and value and isinstance(value[0], dict):
            print(f"{key}:")
            print(table(value, columns.get(key) or list(value[0])))
        else:
            print(f"{key.replace('_', ' '):{width}}  {_cell(value)}")


def show_rows(rows: Sequence[Mapping[str, Any]], columns: Sequence[str], as_json: bool) -> None:
    """Prints rows as JSON or as a table."""
    print(json.dumps(list(rows), indent=2) if as_json else table(rows, columns))


WHOLE = frozenset(
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
"""Columns of sentences, which are never shortened."""


def table(rows: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> str:
    """Lays rows out in aligned columns; numbers to the right."""
    cells = [
        [_cell(row.get(c)) if c in WHOLE else _shortened(_cell(row.get(c))) for c in columns] for row in rows
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
"""The longest text of a cell; the end of a name tells more than its beginning."""


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
