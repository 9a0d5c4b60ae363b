# SPDX-License-Identifier: Apache-2.0
"""The entry points of a model that takes its input row by row: begin, rows and end instead of run."""

from __future__ import annotations

from textwrap import indent

from pillion.emitters.c.body import NO_CALLBACK, StatementWriter
from pillion.emitters.c.escaping import commented
from pillion.emitters.c.lower import CProgram, RowFeed


def declarations(program: CProgram, feed: RowFeed) -> str:
    """Returns the declarations for `model.h`."""
    name, macro = program.graph.name, program.graph.name.upper()
    other_inputs_note = (
        " Write the other inputs to their addresses first." if len(program.graph.inputs) > 1 else ""
    )
    is_bound = "arena and state are" if feed.has_state else "the arena is"
    return f"""\
/* `{commented(feed.value.name)}` is not in the arena: its {feed.rows} rows are passed in order, as a camera delivers them, each with all of its
 * columns and channels. */
#define {macro}_ROWS {feed.rows}
#define {macro}_ROW_BYTES {feed.row_bytes}

/* Begins an inference.{other_inputs_note} The arena must be aligned to 16 bytes; {is_bound} in use until the end. `after_op`
 * may be NULL; it is called with the index of an op each time that it has computed some rows. */
{_begin_signature(name, feed)};

/* Passes the next rows, any number of them, from outside the arena; the caller may reuse their memory afterwards. Returns the
 * number of rows that are still missing; rows beyond the last one are not read. */
uint32_t {name}_rows(void *arena, const void *rows, uint32_t count);

/* Ends an inference and returns 0; then the outputs are valid. If rows are missing, returns their number and does nothing. */
uint32_t {name}_end(void *arena);
"""


def _begin_signature(name: str, feed: RowFeed) -> str:
    state = "void *state, " if feed.has_state else ""
    return f"void {name}_begin(void *arena, {state}void (*after_op)(uint32_t op))"


def functions(program: CProgram, feed: RowFeed) -> str:
    """Returns the definitions, with the resumable function that runs as far as the rows allow."""
    name = program.graph.name
    body = StatementWriter(program, after_op=True)
    resumed, rest, begun = body.resumable_statements(), body.text(), body.statements_before_rows()
    kept_here, kept_given = ("uint8_t *kept, ", "kept_in(arena), ") if feed.has_state else ("", "")
    unused = "    (void)kept;\n" if feed.has_state else ""
    return f"""{NO_CALLBACK}{body.functions}
static void run_rows(uint8_t *base, {kept_here}pillion_feed *feed, pillion_rows *given) {{
    void (*const done)(uint32_t op) = feed->after_op;
    uint32_t *const at = feed->at;
{unused}{indent(resumed, "    ")}}}

static pillion_feed *feed_in(void *arena) {{
    return (pillion_feed *)(void *)((uint8_t *)arena + {feed.progress});
}}
{_state_functions(feed)}
{_begin_signature(name, feed)} {{
    pillion_feed *const feed = feed_in(arena);
    feed->after_op = after_op != NULL ? after_op : no_one;
    feed->at[0] = 0;
    feed->taken = 0;
    feed->missing = {feed.rows};
{indent(_code_before_rows(begun, feed), "    ")}}}

uint32_t {name}_rows(void *arena, const void *rows, uint32_t count) {{
    pillion_feed *const feed = feed_in(arena);
    pillion_rows given = {{rows, count}};
    if (feed->missing > 0) {{
        run_rows(arena, {kept_given}feed, &given);
    }}
    return feed->missing;
}}

uint32_t {name}_end(void *arena) {{
    const uint32_t missing = feed_in(arena)->missing;
    if (missing > 0) {{
        return missing;
    }}
{indent(_local_variables("feed_in(arena)->after_op", "kept_in(arena)", feed), "    ")}{indent(rest, "    ")}    return 0;
}}
"""


def _code_before_rows(begun: str, feed: RowFeed) -> str:
    """Returns the code that runs before the first row."""
    keep_call = "keep_in(arena, state);\n" if feed.has_state else ""
    return keep_call + (_local_variables("feed->after_op", "state", feed) + begun if begun else "")


def _local_variables(after_op: str, state_name: str, feed: RowFeed) -> str:
    """Returns the local variables that the items refer to."""
    state = f"uint8_t *const kept = {state_name};\n(void)kept;\n" if feed.has_state else ""
    return (
        f"uint8_t *const base = arena;\nvoid (*const done)(uint32_t op) = {after_op};\n{state}"
        "(void)base;\n(void)done;\n"
    )


def _state_functions(feed: RowFeed) -> str:
    """Returns the functions that store and load the pointer to the state between begin and end."""
    if not feed.has_state:
        return ""
    return f"""
static void keep_in(void *arena, void *state) {{
    memcpy((uint8_t *)arena + {feed.place}, &state, sizeof state);
}}

static uint8_t *kept_in(const void *arena) {{
    uint8_t *kept;
    memcpy(&kept, (const uint8_t *)arena + {feed.place}, sizeof kept);
    return kept;
}}
"""


def descriptor(name: str, feed: RowFeed) -> str:
    """Returns the C object by which a test harness finds the entry points."""
    return f"""
static const pillion_row_functions row_functions = {{
    .rows = {feed.rows},
    .row_bytes = {feed.row_bytes},
    .{"begin_step" if feed.has_state else "begin"} = {name}_begin,
    .hand_over = {name}_rows,
    .end = {name}_end,
}};
"""
