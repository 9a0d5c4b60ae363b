# SPDX-License-Identifier: Apache-2.0
"""The picture of the time line: a lane for each unit, a box per op, with frames around the critical path."""

from __future__ import annotations

from pillion.report.pictures.svg import empty_picture, escaped_markup, shorten_to_width, svg_element
from pillion.report.report_facts import OverlapFacts

WIDTH, LANE, LEFT = 1000.0, 40.0, 44.0
COLOURS = {"npu": "#7c3aed", "cpu": "#3f8fc4"}


def draw_timeline(overlap: OverlapFacts) -> str:
    """Draws both units over time."""
    end = max((row.end for row in overlap.timeline), default=0) or 1
    scale = (WIDTH - LEFT - 2) / end
    picture = empty_picture(WIDTH, 2 * LANE + 8, f"core and NPU over {end:,} cycles", font_size=11)
    for number, unit in enumerate(COLOURS):
        top = number * (LANE + 4)
        svg_element(picture, "text", unit.upper(), x=0, y=top + LANE / 2 + 4, fill="currentColor")
        for row in (row for row in overlap.timeline if row.unit == unit and row.end > row.begin):
            x, width = LEFT + row.begin * scale, (row.end - row.begin) * scale
            box = svg_element(picture, "g")
            svg_element(box, "title", f"{row.op}: {row.begin:,} to {row.end:,}")
            edge = {"stroke": "currentColor", "stroke_width": 2} if row.critical else {}
            place = {"x": x, "y": top + 1, "width": width, "height": LANE - 2}
            svg_element(box, "rect", fill=COLOURS[unit], **place, **edge)
            words = shorten_to_width(row.op, width - 8)
            svg_element(box, "text", words, x=x + 4, y=top + LANE / 2 + 4, fill="#fff")
    return escaped_markup(picture)
