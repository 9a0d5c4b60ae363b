# SPDX-License-Identifier: Apache-2.0
"""The entry point of a stream's C: copies new frames into place, runs the model when enough have arrived, and
returns whether the outputs are valid. Its counters, and frames that wait for a run, lie behind the model's
state."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from pillion.emitters.c.escaping import C_TYPES, comment_text
from pillion.ir.graph import Graph
from pillion.ir.stream_io import FedInput, Streaming
from pillion.ir.types import Value
from pillion.memory import MemoryPlan
from pillion.memory.events import align_up

COUNTERS = 8
"""The size of two counters: runs since the reset, saturated, and calls since the last run."""


@dataclass(frozen=True)
class StreamEntry:
    """The frames that a stream takes, and where they wait among the states."""

    streaming: Streaming
    inputs: tuple[Value, ...]
    counters: int
    """The offset of the counters."""
    waiting: Mapping[Value, int]
    """The offsets of frames that wait, for a run that needs those of several calls."""
    end: int
    """The size of all states."""

    def fed(self, value: Value) -> FedInput | None:
        """Returns the specification of an input that arrives in frames; None for one that is passed completely."""
        return next((fed for fed in self.streaming.inputs if fed.name == value.name), None)


def stream_entry(graph: Graph, memory: MemoryPlan) -> StreamEntry | None:
    """Lays out the stream's counters and waiting frames; None for a program that is no stream, or whose states are
    passed in."""
    if graph.streaming is None or not graph.states:
        return None
    counters = memory.state_bytes
    at, waiting = counters + align_up(COUNTERS), {}
    names = {fed.name for fed in graph.streaming.inputs}
    for value in graph.inputs if graph.streaming.calls > 1 else ():
        if value.name in names:
            waiting[value] = at
            at += align_up(value.type.size_bytes)
    return StreamEntry(graph.streaming, graph.inputs, counters, waiting, at)


def entry_signature(name: str, feed: StreamEntry) -> str:
    """Returns the declaration of the entry point without a semicolon."""
    frames = ", ".join(f"const {C_TYPES[v.dtype.value]} *input_{i}" for i, v in enumerate(feed.inputs))
    return f"int {name}_hop(void *arena, void *state, {frames})"


def entry_declaration(name: str, feed: StreamEntry) -> str:
    """Returns the declaration for the header, with its comment."""
    lines = "\n".join(f" *   {comment_text(line)}" for line in feed.streaming.lines)
    return f"""/* Runs one step of a stream, which
{lines}
 * Copies the new frames. Returns 1 if all outputs are valid; 0 if no window is full yet, or a run waits for more frames. */
{entry_signature(name, feed)};
"""


def entry_definition(name: str, feed: StreamEntry, memory: MemoryPlan) -> str:
    """Returns the definition of the entry point."""
    body = "".join(f"    {line}\n" for line in _stream_function_lines(name, feed, memory))
    return f"\n{entry_signature(name, feed)} {{\n{body}}}\n"


def _stream_function_lines(name: str, feed: StreamEntry, memory: MemoryPlan) -> Iterator[str]:
    calls, first = feed.streaming.calls, feed.streaming.first
    yield "uint8_t *const base = arena;"
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
        to, size = f"base + {memory.offsets[value]}", value.type.size_bytes
        source = f"kept + {feed.waiting[value]}" if value in feed.waiting else f"input_{number}"
        yield f"memcpy({to}, {source}, {size});"
    yield f"{name}_run(arena, state, NULL);"
    yield f"counts[0] += counts[0] < {first} ? 1 : 0;"
    yield f"memcpy(kept + {feed.counters}, counts, sizeof counts);"
    yield f"return counts[0] >= {first};"


def _copy_frames_loop(feed: StreamEntry, number: int, to: str) -> Iterator[str]:
    """Yields the loop that copies the frames of a call behind those that wait, in pieces along an inner axis."""
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
