# SPDX-License-Identifier: Apache-2.0
"""The picture of the network: ops as boxes in their unit's colour, tensors as edges, CPU↔NPU traffic highlighted."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from xml.etree.ElementTree import Element

from pillion.report.pictures import svg
from pillion.report.pictures.graph_layout import HEIGHT, PITCH, WIDTH, GraphLayout, Point, place_nodes
from pillion.report.report_facts import EdgeFacts, Facts, OpFacts, TensorFacts, shorten_name

CORNER = 6.0
LEAST_SHARE = 0.005
"""Shortest work bar drawn, as a fraction of the heaviest op."""


def draw_network(facts: Facts) -> str:
    """Draws the graph of a program."""
    sources = [*((t, "input") for t in facts.inputs), *((s.before, "state") for s in facts.states)]
    shown = {t.name for t in facts.outputs}
    next_states = {s.after.name: s.after for s in facts.states if s.after.name not in shown}
    boundary = [
        *sources,
        *((t, "output") for t in facts.outputs),
        *((t, "next state") for t in next_states.values()),
    ]
    node_of = {(n < len(sources), t.name): len(facts.ops) + n for n, (t, _) in enumerate(boundary)}
    pairs = [(edge, *_edge_nodes(edge, node_of)) for edge in facts.edges]
    placed = place_nodes(len(facts.ops) + len(boundary), [(a, b) for _, a, b in pairs])
    label = f"{len(facts.ops)} ops, {facts.on_npu} on the NPU"
    picture = svg.empty_picture(placed.width, placed.height, label, class_="network", id="network")
    lines = svg.svg_element(picture, "g", class_="edges", fill="none", stroke=svg.PLAIN, stroke_width=1.4)
    for edge, a, b in pairs:
        _draw_edge(lines, edge, placed.routes[a, b])
    boxes = svg.svg_element(picture, "g", class_="nodes", font_size=12)
    heaviest = max((op.estimated_cycles for op in facts.ops), default=0) or 1
    for op in facts.ops:
        box = _draw_op(boxes, op, placed, op.estimated_cycles / heaviest)
        if len(facts.segments) > 1 and op.segment is not None:
            _draw_segment_number(box, op.segment, placed.nodes[op.number])
    for number, (tensor, what) in enumerate(boundary):
        _draw_input_or_output(boxes, tensor, what, placed.nodes[len(facts.ops) + number])
    return svg.escaped_markup(picture)


def _edge_nodes(edge: EdgeFacts, node_of: dict[tuple[bool, str], int]) -> tuple[int, int]:
    """Returns the nodes of an edge; inputs and outputs of the model have nodes of their own."""
    a = edge.maker if edge.maker >= 0 else node_of[True, edge.tensor]
    return a, edge.reader if edge.reader >= 0 else node_of[False, edge.tensor]


def _draw_edge(parent: Element, edge: EdgeFacts, pieces: Sequence[Sequence[Point]]) -> None:
    border = " border" if edge.is_border else ""
    path = svg.svg_element(parent, "path", d=" ".join(map(_svg_path, pieces)), class_=f"edge{border}")
    path.attrib.update({"data-from": str(edge.maker), "data-to": str(edge.reader)})
    crossing = ", crosses between CPU and NPU" if edge.is_border else ""
    svg.svg_element(path, "title", f"{edge.tensor}: {edge.bytes:,} bytes{crossing}")


def _svg_path(points: Sequence[Point]) -> str:
    has_corners = len(points) == 6 and points[1][0] == points[0][0]
    return _cornered_path(points) if has_corners else _curved_path(points)


def _curved_path(points: Sequence[Point]) -> str:
    words = [f"M{points[0][0]:.0f} {points[0][1]:.0f}"]
    for (x, y), (to_x, to_y) in pairwise(points):
        middle = (y + to_y) / 2 if to_y - y < PITCH else to_y - (PITCH - HEIGHT) / 2
        words.append(
            f"V{to_y:.0f}"
            if x == to_x
            else f"C{x:.0f} {middle:.0f} {to_x:.0f} {middle:.0f} {to_x:.0f} {to_y:.0f}"
        )
    return "".join(words)


def _cornered_path(points: Sequence[Point]) -> str:
    words = [f"M{points[0][0]:.0f} {points[0][1]:.0f}"]
    for before, at, after in zip(points, points[1:], points[2:], strict=False):
        near, far = _point_towards(at, before), _point_towards(at, after)
        words.append(f"L{near[0]:.0f} {near[1]:.0f}Q{at[0]:.0f} {at[1]:.0f} {far[0]:.0f} {far[1]:.0f}")
    return "".join(words) + f"L{points[-1][0]:.0f} {points[-1][1]:.0f}"


def _point_towards(at: Point, target: Point) -> Point:
    length = max(abs(target[0] - at[0]) + abs(target[1] - at[1]), 1e-9)
    part = min(CORNER, length / 2) / length
    return at[0] + (target[0] - at[0]) * part, at[1] + (target[1] - at[1]) * part


def _draw_segment_number(box: Element, segment: int, at: Point) -> None:
    """Writes the segment number of an op if there are several segments."""
    words = {"text_anchor": "end", "font_size": 10, "class_": "dim", "fill": "currentColor"}
    svg.svg_element(box, "text", f"segment {segment}", x=at[0] + WIDTH / 2 - 7, y=at[1] + 32, **words)


def _draw_op(parent: Element, op: OpFacts, placed: GraphLayout, share: float) -> Element:
    x, y = placed.nodes[op.number][0] - WIDTH / 2, placed.nodes[op.number][1]
    title = f"{op.kind} {op.label}, on the {op.unit.upper()}: {op.because}"
    group = svg.op_link(parent, op.number, title, f"op {op.unit}")
    bounds = {"x": x, "y": y, "width": WIDTH, "height": HEIGHT}
    colour = {"fill": svg.UNIT_COLOURS[op.unit]}
    svg.svg_element(group, "rect", rx=7, class_="box", fill_opacity=0.14, **bounds, **colour)
    svg.svg_element(group, "rect", x=x, y=y + 6, width=4, height=HEIGHT - 12, rx=2, class_="mark", **colour)
    shape = "×".join(map(str, op.makes[0].shape)) if op.makes else ""
    words = {"x": x + 12, "fill": "currentColor"}
    below = f"{op.kind} {shape}" if op.module else shape
    svg.svg_element(
        group,
        "text",
        svg.shorten_to_width(op.module or op.kind, WIDTH - 20, 12),
        y=y + 17,
        font_weight=600,
        **words,
    )
    svg.svg_element(
        group, "text", svg.shorten_to_width(below, WIDTH - 20), y=y + 32, font_size=11, class_="dim", **words
    )
    if share > LEAST_SHARE:
        size = {"width": (WIDTH - 16) * share, "height": 2.5}
        svg.svg_element(group, "rect", x=x + 8, y=y + HEIGHT - 4, rx=1, class_="mark", **size, **colour)
    return group


def _draw_input_or_output(parent: Element, tensor: TensorFacts, what: str, at: Point) -> None:
    group = svg.svg_element(parent, "g", class_="end")
    svg.svg_element(group, "title", f"{what} {tensor.name}: {tensor.dtype}{list(tensor.shape)}")
    x, y = at[0] - WIDTH / 2, at[1]
    svg.svg_element(
        group,
        "rect",
        x=x,
        y=y,
        width=WIDTH,
        height=HEIGHT,
        rx=HEIGHT / 2,
        fill=svg.PLAIN,
        fill_opacity=0.14,
        class_="box",
    )
    name = svg.shorten_to_width(f"{what} {shorten_name(tensor.name)}", WIDTH - 20, 12)
    svg.svg_element(
        group, "text", name, x=at[0], y=y + 17, text_anchor="middle", font_weight=600, fill="currentColor"
    )
    words = f"{tensor.dtype} {'×'.join(map(str, tensor.shape))}"
    svg.svg_element(
        group,
        *("text", svg.shorten_to_width(words, WIDTH - 20)),
        **{
            "x": at[0],
            "y": y + 32,
            "text_anchor": "middle",
            "font_size": 11,
            "class_": "dim",
            "fill": "currentColor",
        },
    )
