# SPDX-License-Identifier: Apache-2.0
"""The picture of the arena: time to the right, addresses upwards, a box per resident."""

from __future__ import annotations

import math
from collections.abc import Callable
from xml.etree.ElementTree import Element

from pillion.report.pictures import svg
from pillion.report.report_facts import ArenaFacts, MemoryFacts, ResidentFacts, shorten_name

WIDTH, HEIGHT = 1000.0, 300.0
LEFT, TOP, BOTTOM, RIGHT = 74.0, 34.0, 30.0, 8.0
COLOURS = {"input": "#2563eb", "output": "#7c3aed", "activation": "#3f8fc4", "scratch": "#b45309"}
LINES = 4
CHARACTER, LINE = 6.6, 13.0
"""Width of a character and line spacing, in pixels."""


def draw_arena(arena: ArenaFacts, shown: Callable[[str], str] = shorten_name, *, links: bool = True) -> str:
    """Draws the residents of the arena over time. `shown` shortens names. With `links`, boxes link to the page's
    ops."""
    steps, top = max(len(arena.step_names), 1), max(arena.arena_bytes, 1)
    label = f"an arena of {arena.arena_bytes:,} bytes over {steps} steps; the peak is at {arena.peak.op_name}"
    picture = svg.empty_picture(WIDTH, HEIGHT, label, class_="arena", font_size=11)
    _draw_scale(picture, top)
    for memory in arena.memories if len(arena.memories) > 1 else ():
        _draw_memory(picture, memory, top)
    labels = _LabelPlacer(shown)
    for resident in arena.residents:
        _draw_resident(picture, resident, steps, top, links, labels)
    _draw_peak(picture, arena, steps, links, shown)
    words = f"{steps} steps in running order"
    svg.svg_element(picture, "text", words, x=LEFT, y=HEIGHT - 10, class_="dim", fill="currentColor")
    return svg.escaped_markup(picture)


class _LabelPlacer:
    """Finds places for box labels that do not overlap, although boxes may."""

    def __init__(self, shown: Callable[[str], str]) -> None:
        self.shown = shown
        self._taken: list[tuple[float, float, float]] = []

    def place(self, words: str, x: float, top: float, height: float) -> float | None:
        """Returns the baseline at which a label fits into its box, preferably in the middle; None if it does not
        fit."""
        end = x + len(words) * CHARACTER
        middle = top + height / 2 + 4
        for y in (middle, middle - LINE, middle + LINE):
            is_inside = top + LINE - 4 <= y <= top + height - 2
            if is_inside and all(abs(y - at) >= LINE or end < a or b < x for at, a, b in self._taken):
                self._taken.append((y, x, end))
                return y
        return None


def _x_of_step(step: float, steps: int) -> float:
    return LEFT + (WIDTH - LEFT - RIGHT) * step / steps


def _y_of_address(address: float, top: int) -> float:
    return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * address / top


def _draw_memory(picture: Element, memory: MemoryFacts, top: int) -> None:
    """Draws the lower bound of a memory, with its name."""
    y = _y_of_address(memory.start, top)
    line = f"M{LEFT:.0f} {y:.1f}H{WIDTH - RIGHT:.0f}"
    svg.svg_element(picture, "path", d=line, class_="line", stroke="currentColor", stroke_width=1.5)
    if memory.arena_bytes:
        words = f"{memory.name}: {format_size(memory.arena_bytes)}"
        attributes = {"x": WIDTH - RIGHT - 4, "y": y - 4, "text_anchor": "end", "class_": "dim"}
        svg.svg_element(picture, "text", words, **attributes, fill="currentColor")


def _draw_scale(picture: Element, top: int) -> None:
    for size in tick_sizes(top):
        y = _y_of_address(size, top)
        line = f"M{LEFT:.0f} {y:.1f}H{WIDTH - RIGHT:.0f}"
        svg.svg_element(picture, "path", d=line, class_="line", stroke=svg.PLAIN, stroke_opacity=0.35)
        attributes = {
            "x": LEFT - 8,
            "y": y + 4,
            "text_anchor": "end",
            "class_": "dim",
            "fill": "currentColor",
        }
        svg.svg_element(picture, "text", format_size(size), **attributes)


def tick_sizes(top: int) -> list[int]:
    """Returns three to ten round sizes from 0 to at most `top`."""
    unit = next(unit for unit in (1024**2, 1024, 1) if top >= 10 * unit or unit == 1)
    ideal = max(top / unit / LINES, 1)
    power = 10 ** math.floor(math.log10(ideal))
    step = max(n * power for n in (1, 2, 5) if n * power <= ideal) * unit
    return list(range(0, top + 1, step))


def _draw_resident(
    picture: Element, resident: ResidentFacts, steps: int, top: int, links: bool, labels: _LabelPlacer
) -> None:
    x, width = (
        _x_of_step(resident.first, steps),
        _x_of_step(resident.last + 1, steps) - _x_of_step(resident.first, steps),
    )
    y, height = (
        _y_of_address(resident.offset + resident.bytes, top),
        _y_of_address(resident.offset, top) - _y_of_address(resident.offset + resident.bytes, top),
    )
    lives = (
        f"steps {resident.first + 1} to {resident.last + 1}"
        if resident.last > resident.first
        else f"step {resident.first + 1}"
    )
    title = (
        f"{resident.name}: {resident.what}, {resident.bytes:,} bytes from byte {resident.offset:,}, {lives}"
    )
    group = svg.op_link(picture, resident.made_by if links else -1, title, f"resident {resident.what}")
    colour = COLOURS[resident.what]
    svg.svg_element(
        group, "rect",
        x=x + 0.5, y=y, width=max(width - 1, 0.8), height=max(height - 0.6, 0.6), rx=2,
        fill=colour, fill_opacity=0.55, stroke=colour, stroke_width=0.6,
    )  # fmt: skip
    words = svg.shorten_to_width(labels.shown(resident.name), width - 8) if height > 14 and width > 34 else ""
    line = labels.place(words, x + 5, y, height) if words else None
    if line is not None:
        svg.svg_element(group, "text", words, x=x + 5, y=line, fill="currentColor")


def _draw_peak(
    picture: Element, arena: ArenaFacts, steps: int, links: bool, shown: Callable[[str], str]
) -> None:
    peak = arena.peak
    x, wide = _x_of_step(peak.step, steps), _x_of_step(peak.step + 1, steps) - _x_of_step(peak.step, steps)
    title = f"the peak: {peak.op_name}, {peak.bytes:,} bytes in use"
    group = svg.op_link(picture, peak.op if links else -1, title, "peak")
    svg.svg_element(
        group, "rect",
        x=x, y=TOP - 6, width=wide, height=HEIGHT - TOP - BOTTOM + 6, fill="none", stroke="#dc2626",
        stroke_width=1.5, stroke_dasharray="4 3",
    )  # fmt: skip
    middle, is_right = x + wide / 2, x > WIDTH * 0.6
    words = f"peak: {peak.bytes:,} bytes at {svg.shorten_to_width(shown(peak.op_name), 330, 12)}"
    svg.svg_element(
        group,
        *("text", words),
        **{"x": middle, "y": TOP - 14, "text_anchor": "end" if is_right else "start", "fill": "#dc2626"},
        **{"font_size": 12, "font_weight": 600},
    )


def format_size(count: int) -> str:
    """Formats bytes with a suitable unit; a KiB is 1024 bytes."""
    if count < 10_240:
        return f"{count:,} B"
    return f"{count / 1024:,.0f} KiB" if count < 10_240 * 1024 else f"{count / 1024**2:,.1f} MiB"
