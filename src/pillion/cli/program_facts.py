# SPDX-License-Identifier: Apache-2.0
"""Facts about programs as plain data, for tables and `--json`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pillion.cli.console import Facts, known, progress_bar, warn
from pillion.host_io.atomic_files import output_suffix
from pillion.option_values import NEWEST_RUNTIME

if TYPE_CHECKING:
    from pillion.emitters.c.lower import CProgram
    from pillion.emitters.image.reader import ProgramImage
    from pillion.ir.precision_choice import PrecisionChoice
    from pillion.partition import LedgerEntry
    from pillion.partition.ledger import LoopEntry
    from pillion.program import Program

LITERTS = "tflite"
"""The arithmetic of every .tflite file."""


def compiled_program_facts(program: Program, output: Path, runtime: str = NEWEST_RUNTIME) -> Facts:
    """Returns the facts about a written program."""
    form = _output_format_facts(program, output, runtime)
    return {
        "model": program.graph.name,
        "target": program.target.name,
        "output": str(output),
        "ops": len(program.graph.ops),
        "macs": program.graph.macs,
        "arithmetic": LITERTS if output_suffix(output) == ".tflite" else program.arithmetic,
        "inputs": [repr(v) for v in program.graph.inputs],
        "outputs": [repr(v) for v in program.graph.outputs],
        **_stream_facts(program),
        **precision_facts(program),
        **form,
        **(_npu_facts(program, _sram_bytes(program, output, form)) if program.target.npu else {}),
    }


def arithmetic_change_facts(program: Program, *, quiet: bool) -> Facts:
    """Returns the effect of a chosen arithmetic; empty if it is the model's own."""
    with progress_bar(quiet=quiet):
        change = program.change_of_arithmetic()
    if change is None:
        return {}
    words = {
        "own_arithmetic": change.own.value,
        "outputs_changed": change.text,
        "changed_in": change.ops_text,
    }
    if not quiet:
        return words
    ops = [{"op": c.op.name, "numbers": c.elements, "different": c.different} for c in change.ops]
    numbers = {"numbers": change.elements, "different": change.different, "largest": change.largest}
    inputs = {"inputs": change.inputs, "inputs_different": change.inputs_different}
    return words | {"change": {**inputs, **numbers, "ops": ops}}


def _stream_facts(program: Program) -> Facts:
    """Returns the states and, for a stream, the inputs and outputs of each run."""
    facts, streaming = _state_facts(program), program.streaming
    if streaming is None:
        return facts
    return facts | {
        "takes": list(streaming.takes),
        "answers": [answer.text for answer in streaming.answers],
        "answers_equal": streaming.meaning.text,
    }


def _state_facts(program: Program) -> Facts:
    """Returns the states, if any."""
    return known(
        states=[f"{s.name}: {s.before.dtype.value}{list(s.before.shape)}" for s in program.graph.states]
    )


def _output_format_facts(program: Program, output: Path, runtime: str) -> Facts:
    """Returns the facts that depend on the output format."""
    match output_suffix(output):
        case ".pte":
            return _pte_facts(output.read_bytes(), runtime)
        case ".plm":
            from pillion.emitters.image.reader import read_image

            return image_facts(read_image(output))
        case ".tflite":
            return {"file_bytes": output.stat().st_size}
        case _:
            return _c_project(program)


def image_facts(image: ProgramImage) -> Facts:
    """Returns the facts about a program image."""
    from pillion.emitters.image.kernel_abi import kernel_abi

    return {
        "file_bytes": len(image.content),
        "arena_bytes": image.arena_bytes,
        **known(state_bytes=image.state_bytes),
        "constant_bytes": image.constant_bytes,
        "params_bytes": image.params_bytes,
        "schedule_bytes": image.schedule_bytes,
        **known(rows_in=image.rows, npu_segments=image.segments, first_valid_run=image.warm_up),
        "kernels": [kernel_abi().kernels[number].name for number in image.kernels],
    }


def _pte_facts(file: bytes, runtime: str) -> Facts:
    from pillion.emitters.pte.file_facts import facts_of

    facts = facts_of(file)
    return {
        "runtime": f"ExecuTorch {runtime}",
        "file_bytes": facts.file_bytes,
        "arena_bytes": facts.arena_bytes,
        **known(state_bytes=facts.state_bytes),
        "kernel_calls": facts.kernel_calls,
        "delegate_calls": facts.delegate_calls,
        **known(operators=list(facts.operators)),
    }


def _speed_constant_facts(lowered: CProgram) -> Facts:
    """Returns the constant bytes that faster kernels add, if any."""
    return known(
        constant_bytes_for_speed=sum(step.choice.kernel.extra_flash(step.choice.op) for step in lowered.steps)
    )


def _c_project(program: Program) -> Facts:
    memory, lowered = program.memory, program.lowered
    return {
        "arena_bytes": memory.arena_bytes,
        **({"state_bytes": memory.state_bytes} if program.graph.states else {}),
        "activation_bytes": memory.activation_bytes,
        "floor_bytes": memory.floor_bytes,
        "scratch_bytes": memory.scratch_bytes,
        "constant_bytes": lowered.constant_bytes,
        **_speed_constant_facts(lowered),
        "params_bytes": lowered.params_bytes,
        **_memory_use_facts(program),
        **_npu_copy_facts(program),
        **_stripe_facts(program),
        **_overlap_facts(program),
    }


def precision_facts(program: Program) -> Facts:
    """Returns the number of tensors with 16 bits and, if the compiler chose them, their gain."""
    made = [v for op in program.graph.ops for v in op.results if v.dtype.value in ("int8", "int16")]
    wide = sum(v.dtype.value == "int16" for v in made)
    choice = program.precision
    gains = _choice_facts(choice) if choice else {}
    wide_facts = {"tensors_of_16_bits": f"{wide} of {len(made)}", **gains} if wide or choice else {}
    fitted = known(layers_of_fitted_weights=program.fitted_layers)
    return {**wide_facts, **_four_bit_facts(program), **fitted}


def _four_bit_facts(program: Program) -> Facts:
    """Returns the layers with weights of 4 bits and, if the compiler chose them, their cost."""
    names = [op.name for op in program.graph.ops if any(v.dtype.value == "int4" for v in op.operands)]
    choice = program.four_bits
    costs = (
        {
            "flash_bytes": choice.after_bytes,
            "flash_bytes_with_8_bits": choice.before_bytes,
            "flash_quality_db": round(choice.after, 1),
            "flash_quality_db_with_8_bits": round(choice.before, 1),
            "layers_by_damage": list(choice.layers),
            **({"layers_of_slower_kernels": list(choice.slower)} if choice.slower else {}),
        }
        if choice
        else {}
    )
    return {"layers_of_4_bits": len(names), **costs} if names or choice else {}


def _choice_facts(choice: PrecisionChoice) -> Facts:
    """Returns the gains and costs of the chosen tensors. Decibels are lower bounds."""
    plans = (("", choice.after, choice.cost), ("_in_8_bits", choice.before, choice.cost_before))
    everywhere = ("_in_16_bits", choice.everywhere, choice.cost_everywhere)
    unit = choice.cost.unit
    return {
        **{f"quality_db{name}": round(quality, 1) for name, quality, _ in (*plans, everywhere)},
        **{f"{unit}_estimate{name}": round(cost.time) for name, _, cost in (*plans, everywhere)},
        "judged_by": choice.judges,
        **(
            {"metric": choice.metrics[1].text, "metric_in_8_bits": choice.metrics[0].text}
            if choice.metrics
            else {}
        ),
        **known(bounds=[str(verdict) for verdict in choice.verdicts]),
        "chosen": [
            {
                "tensor": one.name,
                "gain_db": round(one.decibels, 1),
                unit: round(one.time),
                "ram_bytes": one.ram_bytes,
                "flash_bytes": one.flash_bytes,
            }
            for one in choice.tensors
        ],
    }


def _memory_use_facts(program: Program) -> Facts:
    """Returns the bytes in each memory of the chip, and the estimated waits for them, if the user named memories."""
    several = program.memory.several
    if several is None:
        return {}
    rows = [
        {
            "memory": one.memory.name,
            "used_bytes": one.bytes,
            "of": one.memory.bytes,
            "arena_bytes": one.arena_bytes,
            "state_bytes": one.state_bytes,
            "constant_bytes_copied_at_start": one.constant_bytes,
        }
        for one in several.used
    ]
    return {"memories": rows, "memory_wait_cycles_estimate": round(several.waits)}


def _buffer_rows(program: Program) -> list[Facts]:
    """Returns the memory of each buffer, with the ops between which it is live."""
    from pillion.ops import flatten_ops

    plan, names = program.memory, [op.name for op in flatten_ops(program.lowered.graph.ops)]
    memory_of = {one.area: one.memory.name for one in plan.several.used} if plan.several else {}
    return [
        {
            "buffer": one.name,
            "memory": memory_of[one.area],
            "offset": one.offset,
            "bytes": one.bytes,
            "first": names[one.first] if names else "",
            "last": names[one.last] if names else "",
        }
        for one in (plan.residents if plan.several else ())
    ]


def _npu_copy_facts(program: Program) -> Facts:
    """Returns the bytes copied to and from the NPU's memory per run, if that is part of the arena."""
    return {"npu_copied_bytes": program.lowered.copied_bytes} if program.lowered.workspaces else {}


def _stripe_facts(program: Program) -> Facts:
    """Returns the ops that run a few rows at a time, and the RAM saved."""
    from pillion.ops.region import rows_made
    from pillion.tiling.search import price

    if not program.stripes:
        return {}
    rows = []
    for stripe in program.stripes:
        ops = program.graph.ops[stripe.first : stripe.end]
        height = rows_made(ops[-1])
        rows.append(
            {
                **{"from": ops[0].name, "to": ops[-1].name, "ops": len(ops)},
                **{
                    "rows_in_a_step": stripe.rows,
                    "steps": -(-height // stripe.rows) * ops[-1].results[0].shape[0],
                },
                "ended_by": _stripe_end_reason(program, stripe.end),
            }
        )
    by_rows = [stripe.fed for stripe in program.stripes if stripe.fed]
    of_several = by_rows[0] if by_rows and len(program.graph.inputs) > 1 else "input"
    fed = {of_several: "row by row"} if by_rows else {}
    more = 100 * price(program.graph, program.unstriped, program.stripes)
    return {
        **fed,
        "arena_bytes_without_stripes": program.unstriped.memory.arena_bytes,
        "more_instructions": f"about {more:.1f} %",
        "stripes": rows,
    }


def _stripe_end_reason(program: Program, end: int) -> str:
    """Explains why a stripe ends: an op that cannot be tiled, the next stripe, or cost."""
    from pillion.ops.region import why_not_in_rows

    if end == len(program.graph.ops):
        return "the last op"
    last, op = program.graph.ops[end - 1 : end + 1]
    if last.folded_bytes:
        return f"{last.kind} {last.name}: it makes one of all rows"
    reason = why_not_in_rows(op)
    if any(stripe.first == end for stripe in program.stripes):
        return "the next stripe, with other rows in a step"
    return f"{op.kind} {op.name}: {reason}" if reason else "a longer stripe takes or costs more"


def _sram_bytes(program: Program, output: Path, form: Facts) -> int:
    """Returns the RAM bytes. In C the NPU may share the arena; in ExecuTorch it has memory of its own."""
    if output_suffix(output) != ".pte":
        return program.sram_bytes
    own = int(form["arena_bytes"]) + int(form.get("state_bytes", 0))
    npu = program.npu_memory.ram_bytes
    return own + (npu if not program.payloads.workspaces else program.payloads.scratch_bytes)


def _npu_facts(program: Program, sram_bytes: int) -> Facts:
    """Returns the ops of the NPU and their RAM."""
    on_npu = len(program.ledger.on_npu)
    return {
        "ops_on_npu": on_npu,
        "ops_on_cpu": len(program.ledger.entries) - on_npu,
        "npu": program.payloads.summary,
        **program.payloads.figures,
        f"npu_flash_bytes{_lower_bound_suffix(program.npu_memory.is_exact)}": program.npu_memory.flash_bytes,
        "npu_constant_bytes_copied_to_sram": program.npu_constant_bytes,
        **{f"sram_bytes_needed{_lower_bound_suffix(program.npu_memory.is_exact)}": sram_bytes},
        "sram_bytes_of_chip": program.ram_of_chip,
    }


def _lower_bound_suffix(is_exact: bool) -> str:
    return "" if is_exact else "_at_least"


def warn_of_memory(program: Program) -> None:
    """Warns if the program needs more RAM than the chip has."""
    there = program.ram_of_chip
    if there is not None and program.sram_bytes > there:
        warn(
            f"`{program.graph.name}` needs {program.sram_bytes:,} bytes of SRAM, {program.target.name} has {there:,}: "
            f"arena {program.memory.arena_bytes:,}, weights of the NPU {program.npu_constant_bytes:,}; smaller inputs "
            "make the arena smaller, --keep-on-cpu leaves weights in flash"
        )


def explain_columns(program: Program) -> dict[str, Sequence[str]]:
    """Returns the columns of `explained` that fit on a screen; `--json` has the rest."""
    if program.target.npu is None:
        return {"ops": ("op", "kind", "kernel", "cpu_cycles_estimate", "source", "why_this_kernel")}
    return {"ops": ("op", "kind", "unit", "kernel", "because", "flip", "crossing_bytes", "source")}


def _branch_facts(program: Program) -> Facts:
    from dataclasses import asdict

    from pillion.report.branches import branches_of

    return known(branches=[asdict(branch) for branch in branches_of(program)])


def explanation_facts(program: Program) -> Facts:
    """Returns where each op runs, and why."""
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
        **precision_facts(program),
        **_stream_facts(program),
        "ops_on_npu": len(ledger.on_npu),
        "ops_on_cpu": len(rows) - len(ledger.on_npu),
        "crossing_bytes": ledger.crossing_bytes,
        **_npu_copy_facts(program),
        **known(loops=[_loop_row(loop) for loop in ledger.copied]),
        "segments": [_segment_row(number, entries) for number, entries in ledger.segments.items()],
        **_branch_facts(program),
        **_stripe_facts(program),
        **_memory_use_facts(program),
        **known(buffers=_buffer_rows(program)),
        **_overlap_facts(program, timeline=True),
        "ops": rows,
    }


def _overlap_facts(program: Program, timeline: bool = False) -> Facts:
    """Returns the gains and costs of parallel work, and the time line of both units."""
    from pillion.overlap import overlap_of

    found = overlap_of(program)
    if found is None:
        return {}
    return {"overlap": found.summary, **({"timeline": found.rows} if timeline else {})}


def _loop_row(loop: LoopEntry) -> Facts:
    why = loop.deciding
    return {"loop": loop.name, "copies": loop.count, "rule": why.rule, "wanted": why.wanted, "got": why.got}


def _segment_row(number: int, entries: Sequence[LedgerEntry]) -> Facts:
    cost = entries[0].deciding
    return {
        "segment": number,
        "ops": len(entries),
        "macs": sum(entry.op.macs for entry in entries),
        "crossing_bytes": sum(entry.crossing_bytes for entry in entries),
        "cycles": f"{cost.got}, wanted {cost.wanted}",
    }
