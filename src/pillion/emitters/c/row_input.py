# SPDX-License-Identifier: Apache-2.0
"""The entry points of a model that takes its input row by row: begin, rows and end instead of run."""

from __future__ import annotations

from textwrap import indent

from pillion.emitters.c.arena_parameter import arena_argument, arena_parameter, arena_pointers, pointer_lines
from pillion.emitters.c.body import NO_CALLBACK, StatementWriter
from pillion.emitters.c.escaping import comment_text
from pillion.emitters.c.lower import CProgram, RowFeed
from pillion.emitters.c.text_templates import fill_template


def row_input_declarations(program: CProgram, feed: RowFeed) -> str:
    """Returns the declarations for `model.h`."""
    is_alone = len(program.graph.inputs) == 1
    other_inputs = "" if is_alone else " Write the other inputs to their addresses first."
    is_bound = "arena and state are" if feed.has_state else "the arena is"
    notes = {"other_inputs": other_inputs, "is_bound": is_bound}
    return fill_template("row_input.h", {**_template_values(program, feed), **notes})


def row_input_definitions(program: CProgram, feed: RowFeed) -> str:
    """Returns the definitions, with the resumable function that runs as far as the rows allow, and the C object by
    which a test harness finds them."""
    body = StatementWriter(program, after_op=True)
    resumed, rest, begun = body.resumable_statements(), body.text(), body.statements_before_rows()
    several = bool(program.memory.arenas)
    values = {
        **_template_values(program, feed),
        **{"subroutines": NO_CALLBACK + body.functions, "progress": feed.progress, "place": feed.place},
        **_arena_values(program),
        **{"resumed": indent(resumed, "    "), "begun": indent(begun, "    "), "rest": indent(rest, "    ")},
        "kept_parameter": "uint8_t *kept, " * feed.has_state,
        "kept_argument": f"kept_in({arena_argument(program)}), " * feed.has_state,
        "begin_field": "begin_step" if feed.has_state else "begin",
        "state_parameter": "void *state, " * feed.has_state,
        "state_argument": "state, " * feed.has_state,
        **{
            f"{part}_function": f"{part}_in" if several else f"{program.graph.name}_{part}"
            for part in ("begin", "rows", "end")
        },
    }
    parts = ["state"] * feed.has_state + ["begun"] * bool(begun)
    parts += ["begun_with_state"] * (len(parts) == 2)
    return fill_template("row_input.c", values, [*parts, *["several"] * several])


def _arena_values(program: CProgram) -> dict[str, str]:
    """Returns the values about the pointers to the arena, or to several."""
    pointers = arena_pointers(program)
    return {
        "pointer_parameters": "".join(f"uint8_t *{name}, " for name in pointers),
        "pointer_arguments": "".join(f"{value}, " for value in pointers.values()),
        "pointers": "\n".join(f"    {line}" for line in pointer_lines(program)),
        "unused": "\n".join(f"    (void){name};" for name in pointers),
        "first_arena": pointers["base"],
        "arena": arena_argument(program),
    }


def _template_values(program: CProgram, feed: RowFeed) -> dict[str, object]:
    name, state = program.graph.name, "void *state, " * feed.has_state
    return {
        **{"model": name, "MODEL": name.upper(), "input": comment_text(feed.value.name)},
        **{"rows": feed.rows, "row_bytes": feed.row_bytes},
        "arena_parameter": arena_parameter(program),
        "the_arena": "All memories" if program.memory.arenas else "The arena",
        "begin": f"void {name}_begin({arena_parameter(program)}, {state}void (*after_op)(uint32_t op))",
    }
