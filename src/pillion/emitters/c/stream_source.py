# SPDX-License-Identifier: Apache-2.0
"""The entry point of a stream's C: copies new frames into place, runs the model when enough have arrived, and
returns whether the outputs are valid."""

from __future__ import annotations

import math
from collections.abc import Iterator

from pillion.emitters.c.arena_parameter import address_in, arena_argument, arena_parameter, pointer_lines
from pillion.emitters.c.escaping import C_TYPES, comment_text
from pillion.emitters.c.lower import CProgram
from pillion.emitters.c.stream_entry import COUNTERS, StreamEntry


def entry_signature(program: CProgram, feed: StreamEntry) -> str:
    """Returns the declaration of the entry point without a semicolon."""
    frames = ", ".join(f"const {C_TYPES[v.dtype.value]} *input_{i}" for i, v in enumerate(feed.inputs))
    return f"int {program.graph.name}_hop({arena_parameter(program)}, void *state, {frames})"


def _start_signature(program: CProgram, feed: StreamEntry) -> str:
    """Returns the declaration of the entry point that only starts a run."""
    name = program.graph.name
    return entry_signature(program, feed).replace(f"{name}_hop(", f"{name}_hop_start(pillion_task *task, ")


def entry_declaration(program: CProgram, feed: StreamEntry) -> str:
    """Returns the declaration for the header, with its comment; for programs in steps also the declaration of the
    entry point that starts a run."""
    lines = "\n".join(f" *   {comment_text(line)}" for line in feed.streaming.lines)
    start = f"""
/* The same in steps: copies the new frames, and starts a run if there are enough. Returns 0 if it waits for more frames; 1 if a run
 * was started whose outputs are not valid, as no window is full yet; 2 if all outputs will be valid. */
{_start_signature(program, feed)};
"""
    return f"""/* Runs one step of a stream, which
{lines}
 * Copies the new frames. Returns 1 if all outputs are valid; 0 if no window is full yet, or a run waits for more frames. */
{entry_signature(program, feed)};
{start * program.in_steps}"""


def entry_definition(program: CProgram, feed: StreamEntry) -> str:
    """Returns the definition of the entry point; for programs in steps also of the one that starts a run."""
    name, arena = program.graph.name, arena_argument(program)
    body = "".join(f"    {line}\n" for line in _stream_function_lines(program, feed))
    if not program.in_steps:
        return f"\n{entry_signature(program, feed)} {{\n{body}}}\n"
    frames = ", ".join(f"input_{i}" for i in range(len(feed.inputs)))
    return f"""
{_start_signature(program, feed)} {{
{body}}}

{entry_signature(program, feed)} {{
    pillion_task task;
    const int started = {name}_hop_start(&task, {arena}, state, {frames});
    while (started != 0 && !{name}_step(&task)) {{
        pillion_npu_sleep();
    }}
    return started == 2;
}}
"""


def _stream_function_lines(program: CProgram, feed: StreamEntry) -> Iterator[str]:
    calls, first = feed.streaming.calls, feed.streaming.first
    yield from pointer_lines(program)
    yield "uint8_t *const kept = state;"
    yield "uint32_t counts[2]; /* runs since the reset, up to the first valid output; calls since the last run */"
    yield f"memcpy(counts, kept + {feed.counters}, sizeof counts);"
    for number, value in enumerate(feed.inputs):
        if value in feed.waiting:
            yield from _copy_frames_loop(feed, number, f"kept + {feed.waiting[value]}")
    if calls > 1:
        yield f"if (++counts[1] < {calls}) {{"
        yield f"    memcpy(kept + {feed.counters}, counts, sizeof counts);"
        yield "    return 0;"
        yield "}"
        yield "counts[1] = 0;"
    for number, value in enumerate(feed.inputs):
        to, size = address_in(program, program.memory.location(value)), value.type.size_bytes
        source = f"kept + {feed.waiting[value]}" if value in feed.waiting else f"input_{number}"
        yield f"memcpy({to}, {source}, {size});"
    arena, name = arena_argument(program), program.graph.name
    yield (
        f"{name}_start(task, {arena}, state, NULL);"
        if program.in_steps
        else f"{name}_run({arena}, state, NULL);"
    )
    yield f"counts[0] += counts[0] < {first} ? 1 : 0;"
    yield f"memcpy(kept + {feed.counters}, counts, sizeof counts);"
    yield f"return 1 + (counts[0] >= {first});" if program.in_steps else f"return counts[0] >= {first};"


def _copy_frames_loop(feed: StreamEntry, number: int, to: str) -> Iterator[str]:
    """Yields the loop that copies a call's frames behind the waiting ones, in pieces along an inner axis."""
    value = feed.inputs[number]
    fed = feed.fed(value)
    assert fed is not None
    outer = math.prod(value.shape[: fed.axis])
    row = math.prod(value.shape[fed.axis + 1 :]) * value.dtype.size_bytes
    few, all_of_them = feed.streaming.hop(fed) * row, fed.frames * row
    source = f"(const uint8_t *)input_{number}"
    yield f"for (uint32_t i = 0; i < {outer}; i++) {{"
    yield f"    memcpy({to} + i * {all_of_them} + counts[1] * {few}, {source} + i * {few}, {few});"
    yield "}"


def reset_line(feed: StreamEntry) -> str:
    """Returns the statement that resets the counters."""
    return f"memset(kept + {feed.counters}, 0, {COUNTERS});"
