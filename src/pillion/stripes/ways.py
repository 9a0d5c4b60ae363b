# SPDX-License-Identifier: Apache-2.0
"""The ways to run parts of a graph, whole or as stripes: what each takes of the memory, and what it adds to the work; and the cheapest ones
that together run all of it in so many bytes, as a shortest path over the places where regions may begin and end."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from pillion.devices.cortex_m import Isa
from pillion.emitters.c.choose import Choice
from pillion.emitters.c.cuts import memory_of
from pillion.errors import PillionError
from pillion.ir.cut import cut
from pillion.ir.graph import Graph
from pillion.ir.rows import ROWS, Span
from pillion.ir.types import Value
from pillion.memory.schedule import ALIGNMENT, Preview, aligned, preview
from pillion.ops import Region, as_region
from pillion.ops.region import why_not_in_rows
from pillion.stripes.plan import Stripe

INSTRUCTIONS_PER_MOVED_BYTE = {Isa.MVE: 0.2, Isa.DSP: 0.75, Isa.SCALAR: 1.0, Isa.PORTABLE: 1.0}
"""Measured in the emulator, loops included."""
ROWS_TRIED = (1, 2, 4, 8, 16)
"""Rows of the last result that a step may make."""
LONGEST_REGION = 40
"""Ops in one region."""


@dataclass(frozen=True)
class Way:
    """A way to run some ops, whole or as a stripe: its bytes that are live at once and the instructions that it adds."""

    bytes: int
    cost: float
    stripe: Stripe | None = None
    saved: int = 0
    """Bytes that it takes less because a result lies over an operand. An operand that lies over something itself saves nothing more."""


NO_WAY = Way(1 << 60, 0.0)
"""The way of an op that cannot run whole: its operand never lies in the arena as a whole."""

Path = tuple[float, tuple[Stripe, ...]]
"""A way to run the first ops of a graph: what it adds, and the stripes in it."""


@dataclass
class Ways:
    """All ways to run parts of one graph."""

    graph: Graph
    choices: Sequence[Choice]
    isa: Isa
    fed: Value | None = None
    """The input that is handed over row by row."""
    _found: dict[tuple[int, int, int], Way | None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        ops = self.graph.ops
        self.needs = [memory_of(choice) for choice in self.choices]
        self.born = {v: -1 for v in self.graph.sources} | {
            v: i for i, op in enumerate(ops) for v in op.results
        }
        self.last = {v: i for i, op in enumerate(ops) for v in op.activations}
        self.last |= {v: len(ops) for v in self.graph.ends}
        self.why = [why_not_in_rows(op) for op in ops]
        self.live = [
            sum(self._bytes(v) for v, born in self.born.items() if born < i < self.last.get(v, -1))
            for i in range(len(ops))
        ]
        self.whole = [self._whole(i) for i in range(len(ops))]
        self._scratch: dict[tuple[int, int], int] = {}
        self._beside: dict[tuple[int, int], int] = {}

    @property
    def most(self) -> int:
        """The bytes that are live at once where all ops run whole, but what has to run otherwise."""
        whole = max((way.bytes for way in self.whole if way is not NO_WAY), default=0)
        forced = self.cheapest(NO_WAY.bytes - 1) if self.fed is not None else ()
        ways = [self.region(s.first, s.end, s.rows) for s in forced or ()]
        return max([whole, *(way.bytes for way in ways if way)])

    def _bytes(self, value: Value) -> int:
        return 0 if value is self.fed else aligned(value.type.size_bytes)

    def _whole(self, i: int) -> Way:
        """The way of an op that runs whole: what is live beside it, its operands, its result unless that lies over one, its scratch."""
        op, need = self.graph.ops[i], self.needs[i]
        if self.fed in op.activations:
            return NO_WAY
        dying = [v for v in need.in_place if self.last.get(v) == i]
        over = bool(dying) and self._bytes(op.results[0]) <= max(map(self._bytes, dying))
        operands = sum(self._bytes(v) for v in dict.fromkeys(op.activations) if self.last[v] == i)
        results = 0 if over or op.kind == "reshape" else sum(map(self._bytes, op.results))
        return Way(self.live[i] + operands + results + aligned(need.scratch_bytes), 0.0)

    def spans(self, above: int) -> Iterator[tuple[int, int]]:
        """Gives the parts that may run as a region and have an op that takes more bytes than that when it runs whole."""
        hot = [way.bytes > above for way in self.whole]
        for first in range(len(hot)):
            is_hot = False
            least = 2
            if self.fed is not None and first <= self.last[self.fed]:
                least = self.last[self.fed] + 1 if first == 0 else LONGEST_REGION + 1
            for end in range(first + 1, min(first + LONGEST_REGION, len(hot)) + 1):
                if self.why[end - 1]:
                    break
                is_hot |= hot[end - 1]
                if is_hot and end - first >= least and self._has_rows(end - 1):
                    yield first, end

    def _has_rows(self, i: int) -> bool:
        y = self.graph.ops[i].results[0]
        return y.shape[ROWS] > 1 and self.graph.ops[i].kind != "reshape"

    def region(self, first: int, end: int, rows: int) -> Way | None:
        """Gives the way of a part as a region with so many rows in a step; None if there is none."""
        key = (first, end, rows)
        if key not in self._found:
            self._found[key] = self._region(first, end, rows)
        return self._found[key]

    def _region(self, first: int, end: int, rows: int) -> Way | None:
        region = as_region(self.graph, first, end, rows, fed=self.is_fed(first))
        if rows >= region.body.ops[-1].results[0].shape[ROWS]:
            return None
        try:
            region.check()
        except PillionError:
            return None
        beside = self.beside(first, end)
        seen = preview(region, lambda op, made: self._scratch_bytes(first + op, made))
        saved = seen.saved_bytes if self.last[region.xs[0]] < end else 0
        return Way(
            beside + seen.held_bytes,
            self._cost(region, first, seen),
            Stripe(first, end, rows, fed=self.is_fed(first)),
            saved // ALIGNMENT * ALIGNMENT,
        )

    def is_fed(self, first: int) -> bool:
        """Whether a region that begins there gets its rows from outside."""
        return self.fed is not None and first == 0

    def beside(self, first: int, end: int) -> int:
        """Gives the bytes that lie in the arena while some ops run as a region, beside what is inside it."""
        if (first, end) not in self._beside:
            self._beside[first, end] = sum(
                self._bytes(v)
                for v, born in self.born.items()
                if born < end and self.last.get(v, -1) >= (first if born < first else end)
            )
        return self._beside[first, end]

    def least(self, first: int, end: int) -> int:
        """Gives the bytes below which no region of these ops can be, if a result lies over an operand as far as it can."""
        largest = max(self._bytes(v) for i in range(first, end) for v in self.graph.ops[i].results)
        return self.beside(first, end) - largest

    def _scratch_bytes(self, i: int, rows: int) -> int:
        if (i, rows) not in self._scratch:
            form = cut(
                self.graph.ops[i], Span(self.graph.ops[i].results[0].shape[ROWS] // 2 // rows * rows, rows)
            ).op
            self._scratch[i, rows] = aligned(self.choices[i].kernel.scratch_bytes(form))
        return self._scratch[i, rows]

    def _cost(self, region: Region, first: int, seen: Preview) -> float:
        """The instructions that a region adds: all calls but one of each op, and moves."""
        images = region.ys[0].shape[0]
        calls = sum(
            max(fired - 1, 0.0) * self.choices[first + i].kernel.each_call.of(self.graph.ops[first + i], rows)
            for i, (fired, rows) in enumerate(zip(seen.firings, seen.firing_rows, strict=True))
        )
        return images * (calls + seen.moved_bytes * INSTRUCTIONS_PER_MOVED_BYTE[self.isa])

    def cheapest(self, bound: int) -> tuple[Stripe, ...] | None:
        """Gives the stripes of the cheapest way to run everything in so many bytes; None if there is no way.

        It is the shortest path from the first op to the end over ways that fit. Of each place on it two paths are known: the best one, and
        the best after which the result lies over an operand, where the next stripe cannot lay its own over that."""
        by_end: dict[int, list[tuple[int, Way]]] = {}
        for first, end in self.spans(bound):
            for way in self._cheapest_fits(first, end, bound):
                by_end.setdefault(end, []).append((first, way))
        free: list[Path | None] = [(0.0, ())]
        laid: list[Path | None] = [None]
        for end in range(1, len(self.whole) + 1):
            steps = [*by_end.get(end, ()), (end - 1, self.whole[end - 1])]
            saving = [
                _longer(free[a], way) for a, way in steps if way.saved and way.bytes - way.saved <= bound
            ]
            plain = [_longer(free[a], way) for a, way in steps if not way.saved and way.bytes <= bound]
            plain += [_longer(laid[a], way) for a, way in steps if way.bytes <= bound]
            free.append(_best(plain))
            laid.append(_best(saving))
        found = _best([free[-1], laid[-1]])
        return found[1] if found else None

    def _cheapest_fits(self, first: int, end: int, bound: int) -> list[Way]:
        """The cheapest ways of a part that fit, with what lying over the operand saves and without."""
        fits: list[Way] = []
        if self.least(first, end) > bound:
            return fits
        for rows in ROWS_TRIED:
            way = self.region(first, end, rows)
            if way is None or way.bytes - way.saved > bound:
                break
            fits.append(way)
        alone = [way for way in fits if way.bytes <= bound]
        return list(
            {id(w): w for ws in (fits, alone) if ws for w in [min(ws, key=lambda w: w.cost)]}.values()
        )

    def cost(self, stripes: Sequence[Stripe]) -> float:
        """Estimates the instructions that stripes add."""
        ways = (self.region(s.first, s.end, s.rows) for s in stripes)
        return sum(way.cost for way in ways if way)


def _longer(path: Path | None, way: Way) -> Path | None:
    """A path with a way behind it."""
    if path is None:
        return None
    return path[0] + way.cost, (*path[1], way.stripe) if way.stripe else path[1]


def _best(paths: Sequence[Path | None]) -> Path | None:
    return min((path for path in paths if path is not None), key=lambda path: path[0], default=None)
