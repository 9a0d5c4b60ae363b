# SPDX-License-Identifier: Apache-2.0
"""The search for the cheapest candidates: it finds what a look at all of them finds, and looks at few."""

from __future__ import annotations

import math
from functools import cache

import pytest

import pillion
from nightly import part_of
from pillion import zoo
from pillion.compile_options import Memory
from pillion.program import Program
from pillion.tiling.candidates import Candidate, Candidates
from pillion.tiling.search import find_stripes, tiling_candidates
from pillion.tiling.shortest_path import TilingPathSearch


@cache
def program(name: str, target: str) -> Program:
    module, example = zoo.build(name)
    return pillion.compile(
        module, example, target=target, io_dtype="int8", io_layout="nhwc", extra=0, progress=False
    )


def cheapest_of_all(candidates: Candidates, bound: int) -> float:
    """What the cheapest way to run everything costs, from all ways of all parts."""
    paths = TilingPathSearch(candidates)
    best = [0.0] + [math.inf] * len(candidates.whole_ops)
    parts: dict[int, list[tuple[int, Candidate]]] = {}
    for first, end in candidates.spans(bound):
        way = paths._cheapest_fit((first, end), bound, math.inf)
        parts.setdefault(end, []).extend([(first, way)] if way else [])
    for end, whole in enumerate(candidates.whole_ops, 1):
        known = [*parts.get(end, []), *[(end - 1, whole)] * (whole.bytes <= bound)]
        best[end] = min((best[first] + way.cost for first, way in known), default=math.inf)
    return best[-1]


@pytest.mark.turns(4)
@pytest.mark.parametrize(("target", "fed"), part_of([("cortex-m33", False), ("cortex-m55", True)], 2))
def test_no_path_is_cheaper(target: str, fed: bool) -> None:
    whole = program("mobilenet_v1_025", target)
    value = whole.graph.inputs[0] if fed else None
    candidates = tiling_candidates(whole.graph, whole.unstriped, value)
    most = TilingPathSearch(candidates).unstriped_bytes
    for share in (0.8, 0.55, 0.1):
        bound = int(share * most)
        found = TilingPathSearch(tiling_candidates(whole.graph, whole.unstriped, value)).cheapest_stripes(
            bound
        )
        least = cheapest_of_all(candidates, bound)
        assert (found is None) == (least == math.inf)
        assert found is None or candidates.cost(found) == pytest.approx(least)


def test_any_path_within_the_budget_will_do_where_a_bound_is_looked_for() -> None:
    whole = program("mobilenet_v1_025", "cortex-m33")
    candidates = tiling_candidates(whole.graph, whole.unstriped, None)
    paths = TilingPathSearch(candidates)
    bound = int(0.6 * paths.unstriped_bytes)
    least = paths.cheapest_stripes(bound)
    assert least is not None
    cost = candidates.cost(least)
    some = TilingPathSearch(candidates).cheapest_stripes(bound, 2 * cost, any_will_do=True)
    assert some is not None
    assert cost <= candidates.cost(some) <= 2 * cost
    assert all(
        way.bytes <= bound
        for way in (candidates.region(s.first, s.end, s.rows, s.grain) for s in some)
        if way
    )
    assert TilingPathSearch(candidates).cheapest_stripes(bound, 0.9 * cost, any_will_do=True) is None


@pytest.mark.turns(3)
@pytest.mark.parametrize(
    ("wish", "most"),
    part_of(
        [
            ({"extra": "1%"}, 330),
            ({"extra": "5%"}, 440),
            ({"max_ram": "36K"}, 410),
            ({"rows_in": True, "extra": "5%"}, 380),
        ],
        3,
    ),
)
def test_few_ways_are_looked_at(wish: dict[str, object], most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """To look at one is nearly all of the work: many more there are that may fit."""
    whole = program("mobilenet_v1_025", "cortex-m33")
    looked_at: list[object] = []
    look = Candidates._make_region_candidate

    def counted(candidates: Candidates, *part: int) -> Candidate | None:
        looked_at.append(part)
        return look(candidates, *part)

    monkeypatch.setattr(Candidates, "_make_region_candidate", counted)
    assert find_stripes(whole.graph, whole.unstriped, Memory(**wish)).stripes  # type: ignore[arg-type]  # wishes as they are typed
    assert len(looked_at) <= most
