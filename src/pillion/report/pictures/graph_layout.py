# SPDX-License-Identifier: Apache-2.0
"""Graph layout after Sugiyama: layers by longest path, invisible nodes on long edges, few crossings, short edges.

Layers run from top to bottom and continue in further columns, to give a deep network about the shape of a screen."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

WIDTH, HEIGHT = 150.0, 40.0
GAP, PITCH = 22.0, 64.0
LANE = 7.0
"""Distance between parallel edges from one column to the next."""
PASSING = 8.0
"""Width of an edge that passes a layer."""
SWEEPS = 6
ASPECT = 1.7
MOST_PASSING = 20_000
"""Most invisible nodes; edges that need more are straight."""

Point = tuple[float, float]


@dataclass(frozen=True)
class GraphLayout:
    """Positions of nodes (middle of the top side) and points of edges."""

    width: float
    height: float
    nodes: Mapping[int, Point]
    routes: Mapping[tuple[int, int], tuple[tuple[Point, ...], ...]]
    """Pieces of an edge: a curve within a column, corners to the next column."""


@dataclass
class _Graph:
    """Nodes in layers; nodes from `count` on are invisible."""

    count: int
    layer: list[int]
    links: list[tuple[int, int]] = field(default_factory=list)
    chains: dict[tuple[int, int], list[int]] = field(default_factory=dict)
    rows: list[list[int]] = field(default_factory=list)

    def width(self, node: int) -> float:
        return WIDTH if node < self.count else PASSING


def place_nodes(count: int, edges: Iterable[tuple[int, int]]) -> GraphLayout:
    """Places nodes 0 to count-1 of an acyclic graph."""
    pairs = list(dict.fromkeys(edges))
    graph = _Graph(count, _assign_layers(count, pairs))
    _add_invisible_nodes(graph, pairs)
    _order_rows(graph)
    x = _x_positions(graph)
    breaks = _column_breaks(graph, x)
    return _arrange_columns(graph, x, breaks)


def _assign_layers(count: int, edges: Sequence[tuple[int, int]]) -> list[int]:
    """Returns each node's longest path from a source; sources move to just above their readers."""
    after: list[list[int]] = [[] for _ in range(count)]
    waits = [0] * count
    for a, b in edges:
        after[a].append(b)
        waits[b] += 1
    layer, ready = [0] * count, [n for n in range(count) if not waits[n]]
    sources = list(ready)
    while ready:
        node = ready.pop()
        for successor in after[node]:
            layer[successor] = max(layer[successor], layer[node] + 1)
            waits[successor] -= 1
            if not waits[successor]:
                ready.append(successor)
    for node in sources:
        layer[node] = max(min((layer[o] for o in after[node]), default=1) - 1, 0)
    return layer


def _add_invisible_nodes(graph: _Graph, edges: Sequence[tuple[int, int]]) -> None:
    """Adds invisible nodes where edges pass layers, and sorts all nodes into rows."""
    passing = 0
    for a, b in edges:
        between = range(graph.layer[a] + 1, graph.layer[b])
        chain = [a]
        if passing + len(between) <= MOST_PASSING:
            passing += len(between)
            for layer in between:
                chain.append(len(graph.layer))
                graph.layer.append(layer)
        chain.append(b)
        graph.chains[a, b] = chain
        graph.links += pairwise(chain)
    graph.rows = [[] for _ in range(max(graph.layer, default=0) + 1)]
    for node, layer in enumerate(graph.layer):
        graph.rows[layer].append(node)


def _upper_and_lower_neighbours(graph: _Graph) -> tuple[list[list[int]], list[list[int]]]:
    above: list[list[int]] = [[] for _ in graph.layer]
    below: list[list[int]] = [[] for _ in graph.layer]
    for a, b in graph.links:
        above[b].append(a)
        below[a].append(b)
    return above, below


def _order_rows(graph: _Graph) -> None:
    """Orders each row by the mean position of its neighbours, alternately downwards and upwards."""
    above, below = _upper_and_lower_neighbours(graph)
    position = {node: float(i) for row in graph.rows for i, node in enumerate(row)}
    for sweep in range(SWEEPS):
        near, rows = (above, graph.rows) if sweep % 2 == 0 else (below, graph.rows[::-1])
        for row in rows:
            ideal = {n: _mean([position[o] for o in near[n]], position[n]) for n in row}
            row.sort(key=ideal.__getitem__)
            position.update((node, float(i)) for i, node in enumerate(row))


def _mean(numbers: Sequence[float], otherwise: float) -> float:
    return sum(numbers) / len(numbers) if numbers else otherwise


def _x_positions(graph: _Graph) -> list[float]:
    """Returns x positions: near the neighbours, in row order, without overlap."""
    above, below = _upper_and_lower_neighbours(graph)
    x = [0.0] * len(graph.layer)
    for row in graph.rows:
        _spread_row(graph, row, x, {n: 0.0 for n in row})
    for sweep in range(2 * SWEEPS):
        near, rows = (above, graph.rows) if sweep % 2 == 0 else (below, graph.rows[::-1])
        for row in rows:
            _spread_row(graph, row, x, {n: _mean([x[o] for o in near[n]], x[n]) for n in row})
    return x


def _spread_row(graph: _Graph, row: Sequence[int], x: list[float], ideal: Mapping[int, float]) -> None:
    """Moves each node of a row to its ideal position or the nearest free one. Colliding nodes move together, to the
    mean of their ideal positions."""
    blocks: list[tuple[float, float, list[tuple[int, float]]]] = []
    for node in row:
        total, weight, members = ideal[node], 1.0, [(node, 0.0)]
        while blocks and _overlaps_block(graph, blocks[-1], total / weight, members):
            before_total, before_weight, before = blocks.pop()
            shift = before[-1][1] + _center_distance(graph, before[-1][0], members[0][0])
            total = before_total + total - weight * shift
            weight += before_weight
            members = [*before, *((n, at + shift) for n, at in members)]
        blocks.append((total, weight, members))
    for total, weight, members in blocks:
        for node, at in members:
            x[node] = total / weight + at


def _overlaps_block(
    graph: _Graph,
    block: tuple[float, float, list[tuple[int, float]]],
    begin: float,
    members: Sequence[tuple[int, float]],
) -> bool:
    total, weight, before = block
    last, at = before[-1]
    return total / weight + at + _center_distance(graph, last, members[0][0]) > begin


def _center_distance(graph: _Graph, a: int, b: int) -> float:
    return (graph.width(a) + graph.width(b)) / 2 + GAP


def _column_breaks(graph: _Graph, x: Sequence[float]) -> list[int]:
    """Returns the layers at which columns begin, for about the shape of a screen."""
    layers = len(graph.rows)
    widest = max((x[r[-1]] - x[r[0]] for r in graph.rows if r), default=0.0) + WIDTH + 3 * GAP
    columns = max(1, round(math.sqrt(ASPECT * layers * PITCH / widest)))
    crossing = [0] * (layers + 1)
    for a, b in graph.links:
        for layer in range(graph.layer[a] + 1, graph.layer[b] + 1):
            crossing[layer] += 1
    begins = [0]
    for column in range(1, columns):
        ideal = round(column * layers / columns)
        near = [n for n in range(ideal - 2, ideal + 3) if begins[-1] + 1 < n < layers]
        if near:
            begins.append(min(near, key=lambda n: (crossing[n], abs(n - ideal))))
    return begins


def _arrange_columns(graph: _Graph, x: list[float], begins: Sequence[int]) -> GraphLayout:
    """Moves the layers of each column to its position."""
    column_of = [sum(b <= layer for b in begins) - 1 for layer in range(len(graph.rows))]
    lanes = [0] * (len(begins) + 1)
    for a, b in graph.links:
        for column in range(column_of[graph.layer[a]], column_of[graph.layer[b]]):
            lanes[column] += 1
    top = GAP + LANE * max(lanes)
    left, offsets, gutters = GAP, [], []
    for column in range(len(begins)):
        rows = [row for layer, row in enumerate(graph.rows) if column_of[layer] == column and row]
        low = min(min(x[n] - graph.width(n) / 2 for n in row) for row in rows)
        high = max(max(x[n] + graph.width(n) / 2 for n in row) for row in rows)
        offsets.append(left - low)
        gutters.append(left + high - low + GAP)
        left += high - low + 2 * GAP + LANE * lanes[column]
    height = max(column_of.count(c) for c in range(len(begins))) * PITCH
    positions = [
        (x[n] + offsets[column_of[layer]], top + (layer - begins[column_of[layer]]) * PITCH)
        for n, layer in enumerate(graph.layer)
    ]
    router = _Router(graph, positions, column_of, gutters, top)
    routes = {pair: router.route(chain) for pair, chain in graph.chains.items()}
    bottom = top + height + LANE * max(lanes)
    return GraphLayout(left, bottom, {n: positions[n] for n in range(graph.count)}, routes)


@dataclass
class _Router:
    """Routes edges along their invisible nodes, and between columns in separate lanes."""

    graph: _Graph
    place: Sequence[Point]
    column_of: Sequence[int]
    gutters: Sequence[float]
    top: float
    used: dict[int, int] = field(default_factory=dict)

    def route(self, chain: Sequence[int]) -> tuple[tuple[Point, ...], ...]:
        pieces: list[tuple[Point, ...]] = [()]
        for a, b in pairwise(chain):
            begin, end = self._edge_end_point(a, 1), self._edge_end_point(b, 0)
            columns = self.column_of[self.graph.layer[a]], self.column_of[self.graph.layer[b]]
            if columns[0] == columns[1]:
                pieces[-1] = (*pieces[-1], begin, end) if not pieces[-1] else (*pieces[-1], end)
            else:
                pieces += [self._route_through_gutter(begin, end, columns[1] - 1), ()]
        return tuple(piece for piece in pieces if len(piece) > 1)

    def _edge_end_point(self, node: int, side: int) -> Point:
        x, y = self.place[node]
        return x, y + side * (HEIGHT if node < self.graph.count else 0.0)

    def _route_through_gutter(self, begin: Point, end: Point, gutter: int) -> tuple[Point, ...]:
        lane = self.used.get(gutter, 0)
        self.used[gutter] = lane + 1
        across = self.gutters[gutter] + LANE * lane
        layers = [self.column_of.count(c) for c in range(len(self.gutters))]
        low = self.top + max(layers[gutter : gutter + 1]) * PITCH - (PITCH - HEIGHT) / 2 + LANE * lane
        high = self.top - GAP / 2 - LANE * lane
        return (begin, (begin[0], low), (across, low), (across, high), (end[0], high), end)
