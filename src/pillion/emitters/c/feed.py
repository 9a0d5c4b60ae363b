# SPDX-License-Identifier: Apache-2.0
"""The text of what a model has that is handed its input row by row: three functions in the place of one."""

from __future__ import annotations

from textwrap import indent

from pillion.emitters.c.body import NO_ONE, Body
from pillion.emitters.c.program import CProgram, RowFeed


def declarations(name: str, feed: RowFeed) -> str:
    """Gives what `model.h` says of the functions."""
    macro = name.upper()
    return f"""\
/* The input is not in the arena: its {feed.rows} rows are handed over one after another, as a camera gives them, each with all of its columns
 * and channels. */
#define {macro}_ROWS {feed.rows}
#define {macro}_ROW_BYTES {feed.row_bytes}

/* Begins an inference. The arena is aligned to 16 bytes, and is the model's until the end. `after_op` may be NULL; it is called with the
 * number of an op each time that it has made some rows. */
void {name}_begin(void *arena, void (*after_op)(uint32_t op));

/* Hands over the next rows, any number of them, from outside the arena; they are not needed any more afterwards. Gives how many are
 * missing still; what is handed over beyond the last one is not read. */
uint32_t {name}_rows(void *arena, const void *rows, uint32_t count);

/* Ends an inference: then the outputs are at their places. Gives 0 or, if rows are missing, how many, and does nothing. */
uint32_t {name}_end(void *arena);
"""


def functions(program: CProgram, feed: RowFeed) -> str:
    """Gives the functions, and the one that runs as far as the rows go."""
    name = program.graph.name
    body = Body(program, after_op=True)
    resumed, rest = body.resumed(), body.text()
    return f"""{NO_ONE}{body.functions}
static void run_rows(uint8_t *base, pillion_feed *feed, pillion_rows *given) {{
    void (*const done)(uint32_t op) = feed->after_op;
    uint32_t *const at = feed->at;
{indent(resumed, "    ")}}}

static pillion_feed *feed_in(void *arena) {{
    return (pillion_feed *)(void *)((uint8_t *)arena + {feed.state});
}}

void {name}_begin(void *arena, void (*after_op)(uint32_t op)) {{
    pillion_feed *const feed = feed_in(arena);
    feed->after_op = after_op != NULL ? after_op : no_one;
    feed->at[0] = 0;
    feed->taken = 0;
    feed->missing = {feed.rows};
}}

uint32_t {name}_rows(void *arena, const void *rows, uint32_t count) {{
    pillion_feed *const feed = feed_in(arena);
    pillion_rows given = {{rows, count}};
    if (feed->missing > 0) {{
        run_rows(arena, feed, &given);
    }}
    return feed->missing;
}}

uint32_t {name}_end(void *arena) {{
    uint8_t *const base = arena;
    const uint32_t missing = feed_in(arena)->missing;
    void (*const done)(uint32_t op) = feed_in(arena)->after_op;
    (void)base;
    (void)done;
    if (missing > 0) {{
        return missing;
    }}
{indent(rest, "    ")}    return 0;
}}
"""


def descriptor(name: str, feed: RowFeed) -> str:
    """Gives the C object through which a harness finds the functions."""
    return f"""
static const pillion_row_functions row_functions = {{
    .rows = {feed.rows},
    .row_bytes = {feed.row_bytes},
    .begin = {name}_begin,
    .hand_over = {name}_rows,
    .end = {name}_end,
}};
"""
