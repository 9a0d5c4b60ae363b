# SPDX-License-Identifier: Apache-2.0
"""Graphs have places: no box over another, every edge from its one end to its other, deep ones in columns."""

from __future__ import annotations

import random
import time
from itertools import pairwise

import pytest

from pillion.report.pictures.graph_layout import ASPECT, HEIGHT, WIDTH, GraphLayout, place_nodes

Edges = list[tuple[int, int]]


def chain(count: int) -> Edges:
    return [(n, n + 1) for n in range(count - 1)]


def with_shortcuts(count: int, seed: int) -> Edges:
    rng = random.Random(seed)
    more = [(n, rng.randrange(n + 1, min(n + 9, count))) for n in range(count - 1) if rng.random() < 0.5]
    return chain(count) + more


def scattered(count: int, seed: int) -> Edges:
    rng = random.Random(seed)
    pairs = (
        (a, rng.randrange(a + 1, count)) for a in range(count - 1) for _ in range(2) if rng.random() < 0.6
    )
    return list(pairs)


GRAPHS: dict[str, tuple[int, Edges]] = {
    "one": (1, []),
    "two apart": (2, []),
    "pair": (2, [(0, 1), (0, 1)]),
    "chain": (67, chain(67)),
    "star": (12, [(0, n) for n in range(1, 12)]),
    "funnel": (12, [(n, 11) for n in range(11)]),
    "two chains": (20, [*chain(10), *((a + 10, b + 10) for a, b in chain(10))]),
    "numbers that do not follow the depth": (4, [(3, 0), (0, 2), (2, 1), (3, 1)]),
    **{f"shortcuts {seed}": (40 + seed, with_shortcuts(40 + seed, seed)) for seed in range(6)},
    **{f"scattered {seed}": (30, scattered(30, seed)) for seed in range(6)},
}


def check(count: int, edges: Edges, placed: GraphLayout) -> None:
    assert set(placed.nodes) == set(range(count))
    boxes = sorted(placed.nodes.values())
    for i, (x, y) in enumerate(boxes):
        assert 0 <= x - WIDTH / 2 <= x + WIDTH / 2 <= placed.width
        assert 0 <= y <= y + HEIGHT <= placed.height
        for other_x, other_y in boxes[i + 1 :]:
            assert abs(x - other_x) >= WIDTH - 1e-6 or abs(y - other_y) >= HEIGHT
    assert set(placed.routes) == set(edges)
    for (a, b), pieces in placed.routes.items():
        points = [point for piece in pieces for point in piece]
        assert points[0] == pytest.approx((placed.nodes[a][0], placed.nodes[a][1] + HEIGHT))
        assert points[-1] == pytest.approx(placed.nodes[b])
        assert all(0 <= x <= placed.width and 0 <= y <= placed.height for x, y in points)
        for piece, following in pairwise(pieces):
            assert piece[-1] == pytest.approx(following[0])


@pytest.mark.parametrize("name", GRAPHS)
def test_every_node_has_its_place(name: str) -> None:
    count, edges = GRAPHS[name]
    check(count, edges, place_nodes(count, edges))


def test_no_two_edges_share_a_lane_between_columns() -> None:
    count, edges = GRAPHS["shortcuts 3"]
    placed = place_nodes(count, edges)
    turns = [piece[2][0] for pieces in placed.routes.values() for piece in pieces if len(piece) == 6]
    assert len(turns) == len(set(turns)) > 1


def test_a_deep_network_has_the_shape_of_a_screen() -> None:
    placed = place_nodes(67, chain(67))
    assert ASPECT / 2 < placed.width / placed.height < ASPECT * 2


def test_a_straight_line_stays_straight() -> None:
    placed = place_nodes(4, chain(4))
    assert len({x for x, _ in placed.nodes.values()}) == 1


def test_two_thousand_ops_take_no_time() -> None:
    begin = time.process_time()
    edges = [*chain(2000), *((n, n + 40) for n in range(1960))]
    placed = place_nodes(2000, edges)
    assert time.process_time() - begin < 10
    assert len(placed.nodes) == 2000
