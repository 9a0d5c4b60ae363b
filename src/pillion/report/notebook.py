# SPDX-License-Identifier: Apache-2.0
"""The notebook view of a program: a summary and the arena over time, without extra packages."""

from __future__ import annotations

from pillion.compiled_program import CompiledProgram
from pillion.report.arena import arena_facts
from pillion.report.op_facts import op_facts
from pillion.report.pictures.arena_picture import draw_arena, format_size
from pillion.report.pictures.svg import escaped_markup, svg_element


def notebook_html(subject: CompiledProgram) -> str:
    """Returns a summary of a program as HTML."""
    ops = op_facts(subject, None)
    arena = arena_facts(subject, ops, plans=False)
    box = svg_element(None, "div", style="max-width:1000px;overflow-x:auto")
    heading = svg_element(box, "p", style="margin:0 0 4px")
    svg_element(heading, "strong", subject.graph.name)
    on_npu = sum(op.unit == "npu" for op in ops)
    lowered = subject.lowered
    rows = [
        ("target", f"{subject.target.name}: {subject.target.summary}"),
        ("ops", f"{len(ops)}, {on_npu} on the NPU" if on_npu else f"{len(ops)}, all on the core"),
        ("MACs", f"{subject.graph.macs:,}"),
        ("RAM", _ram_text(subject, arena.arena_bytes)),
        (
            "constants",
            format_size(lowered.constant_bytes + lowered.params_bytes + subject.npu_memory.flash_bytes),
        ),
        ("inputs", ", ".join(map(repr, subject.graph.inputs))),
        ("outputs", ", ".join(map(repr, subject.graph.outputs))),
    ]
    table = svg_element(box, "table")
    for what, value in rows:
        row = svg_element(table, "tr")
        svg_element(row, "th", what, style="text-align:left")
        svg_element(row, "td", value, style="text-align:left")
    picture = draw_arena(arena, links=False)
    words = escaped_markup(box)
    return words.removesuffix("</div>") + picture + "</div>"


def _ram_text(subject: CompiledProgram, arena_bytes: int) -> str:
    words = f"arena {format_size(arena_bytes)}"
    if subject.graph.states:
        words += f", state {format_size(subject.lowered.memory.state_bytes)}"
    if subject.npu_constant_bytes:
        words += f", the NPU's weights {format_size(subject.npu_constant_bytes)}"
    there = subject.ram_of_chip
    return f"{words}, of {format_size(there)}" if there else words
