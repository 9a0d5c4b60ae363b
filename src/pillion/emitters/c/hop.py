# SPDX-License-Identifier: Apache-2.0
"""The function of a stream's C that is handed new frames: it brings them to their place, runs the model when there are enough, and says
whether there is an answer.

Behind the model's own state lie two counters and, where a run wants the frames of several calls, the frames that have come."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from pillion.emitters.c.spelling import C_TYPES, commented
from pillion.ir.graph import Graph
from pillion.ir.streaming import Fed, Streaming
from pillion.ir.types import Value
from pillion.memory import MemoryPlan
from pillion.memory.events import aligned

COUNTERS = 8
"""Bytes of two counters: the runs so far, as far as they matter, and the calls since the last run."""


@dataclass(frozen=True)
class HopFeed:
    """What is handed over, and where it waits among the states."""

    streaming: Streaming
    inputs: tuple[Value, ...]
    counters: int
    """The offset of the counters."""
    waiting: Mapping[Value, int]
    """The offsets of frames that have come, where a run wants those of several calls."""
    end: int
    """The bytes of all states."""

    def fed(self, value: Value) -> Fed | None:
        """Gives what is said of an input that is fed by frames; None for one that is handed over whole."""
        return next((fed for fed in self.streaming.inputs if fed.name == value.name), None)


def hop_feed(graph: Graph, memory: MemoryPlan) -> HopFeed | None:
    """Lays out what a stream keeps beside the model's states; None for a program that is no stream, or whose states are handed in."""
    if graph.streaming is None or not graph.states:
        return None
    counters = memory.state_bytes
    at, waiting = counters + aligned(COUNTERS), {}
    names = {fed.name for fed in graph.streaming.inputs}
    for value in graph.inputs if graph.streaming.calls > 1 else ():
        if value.name in names:
            waiting[value] = at
            at += aligned(value.type.size_bytes)
    return HopFeed(graph.streaming, graph.inputs, counters, waiting, at)


def signature(name: str, feed: HopFeed) -> str:
    """Gives the declaration of the function."""
    frames = ", ".join(f"const {C_TYPES[v.dtype.value]} *input_{i}" for i, v in enumerate(feed.inputs))
    return f"int {name}_hop(void *arena, void *state, {frames})"


def declaration(name: str, feed: HopFeed) -> str:
    """Gives what the header says."""
    lines = "\n".join(f" *   {commented(line)}" for line in feed.streaming.lines)
    return f"""/* A stream, which
{lines}
 * The new frames are copied from where they are; the outputs lie in their places when the answer is 1: all of them mean something then. It
 * is 0 while they do not, or while a run waits for more frames. */
{signature(name, feed)};
"""


def definition(name: str, feed: HopFeed, memory: MemoryPlan) -> str:
    """Gives the function."""
    body = "".join(f"    {line}\n" for line in _lines(name, feed, memory))
    return f"\n{signature(name, feed)} {{\n{body}}}\n"


def _lines(name: str, feed: HopFeed, memory: MemoryPlan) -> Iterator[str]:
    calls, first = feed.streaming.calls, feed.streaming.first
    yield "uint8_t *const base = arena;"
    yield "uint8_t *const kept = state;"
    yield "uint32_t counts[2]; /* runs since the reset, at most those until all is there; calls since the last run */"
    yield f"memcpy(counts, kept + {feed.counters}, sizeof counts);"
    for number, value in enumerate(feed.inputs):
        if value in feed.waiting:
            yield from _copied(feed, number, f"kept + {feed.waiting[value]}")
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


def _copied(feed: HopFeed, number: int, to: str) -> Iterator[str]:
    """The frames of a call go behind those that have come: along an axis that is not the first, in pieces."""
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


def reset_line(feed: HopFeed) -> str:
    """Gives what a reset does to the counters."""
    return f"memset(kept + {feed.counters}, 0, {COUNTERS});"
