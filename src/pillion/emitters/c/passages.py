# SPDX-License-Identifier: Apache-2.0
"""What a program does in several places stands once: sequences that are alike, but for where some of their places are, become functions.

Loops take up what repeats at once. Where tensors of several rates run together, the same steps come back at irregular times: an op two
strides up runs four times for one row of the last result, with other ops between. What is the same each time becomes a passage; places
that are not the same are handed over. The sequence that saves most goes first, until none saves anything; passages may run others."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from pillion.emitters.c.loops import (
    Fire,
    FireAny,
    Form,
    Given,
    Item,
    Kind,
    Load,
    Loop,
    MoveRows,
    Part,
    Run,
    TakeRows,
    What,
    Where,
    kind_of,
    root,
    waits,
)
from pillion.memory.needs import DEEPEST_PASSAGES

FIRE_BYTES, MOVE_BYTES, TAKE_BYTES, LOOP_BYTES, RUN_BYTES = 22, 16, 36, 14, 10
"""About the code of each thing that is done, beside its places."""
PLACE_BYTES, MOVING_BYTES = 6, 8
"""About the code of a place, and of one that moves on in a loop."""
PASSAGE_BYTES = 16
"""About the code of a function around what is done in it."""


@dataclass(frozen=True)
class Track:
    """A place, and by how much it moves on each time that a loop around it comes round, the outermost first."""

    spot: Where
    strides: tuple[int, ...] = ()


@dataclass(frozen=True)
class Passage:
    """What is done in several places of a program."""

    items: tuple[Item, ...]
    handed: tuple[Kind, ...]
    """What each place that is handed over is."""


@dataclass
class _Node:
    """Something that is done, or a loop of such things."""

    what: What
    tracks: tuple[Track, ...] = ()
    children: list[_Node] = field(default_factory=list)

    def leaves(self) -> Iterator[_Node]:
        """What is done, loops unfolded into what is in them."""
        if not isinstance(self.what, Loop):
            yield self
        for child in self.children:
            yield from child.leaves()

    def key(self, depth: int) -> object:
        """What is equal for things that do the same inside of so many loops, wherever they do it."""
        if isinstance(self.what, Loop):
            return (self.what.count, *(child.key(depth) for child in self.children))
        return (self.what, *(track.strides[depth:] for track in self.tracks))

    def bytes(self, depth: int = 0) -> int:
        """About the code that it takes, if only loops from some depth on are around it."""
        return sum(_bytes_of(leaf, depth) for leaf in self.leaves()) + _loops(self) * LOOP_BYTES


def _loops(node: _Node) -> int:
    return isinstance(node.what, Loop) + sum(map(_loops, node.children))


_BYTES: Mapping[type, int] = {
    Fire: FIRE_BYTES,
    FireAny: FIRE_BYTES,
    MoveRows: MOVE_BYTES,
    Load: MOVE_BYTES,
    TakeRows: TAKE_BYTES,
    Run: RUN_BYTES,
}


def _bytes_of(leaf: _Node, depth: int = 0) -> int:
    moving = sum(MOVING_BYTES for track in leaf.tracks for stride in track.strides[depth:] if stride)
    return _BYTES[type(leaf.what)] + PLACE_BYTES * len(leaf.tracks) + moving


@dataclass(frozen=True)
class _Place:
    """Where a sequence begins: in which list, at which number."""

    nodes: int
    at: int


@dataclass(frozen=True)
class _Shared:
    """A sequence that comes several times, and what is handed over each time."""

    where: tuple[_Place, ...]
    length: int
    spots: tuple[Where, ...]
    """The place of each leaf's place inside the passage."""
    handed: tuple[tuple[Track, ...], ...]
    """For each time."""
    saved: int


Alike = Mapping[Fire, Fire]
"""A run of a variant → one of the first variant that takes the same."""


def passages(programs: Sequence[Sequence[Item]], alike: Alike) -> tuple[list[list[Item]], list[Passage]]:
    """Gives the programs with what they have in common, or do several times, as passages, and these."""
    nodes = [[_node(item.what, [Track(s) for s in item.places], alike, 0) for item in p] for p in programs]
    return _Sharing(nodes).done()


def _node(what: What, tracks: Sequence[Track], alike: Alike, depth: int) -> _Node:
    if isinstance(what, Fire) and what in alike:
        form = Track(Form(what.variant, alike[what]), (0,) * depth)
        return _Node(FireAny(alike[what]), (form, *tracks))
    if not isinstance(what, Loop):
        return _Node(what, tuple(tracks))
    moving = [Track(t.spot, (*t.strides, s)) for t, s in zip(tracks, what.strides, strict=True)]
    children, at = [], 0
    for part in what.body:
        children.append(_node(part.what, moving[at : at + part.places], alike, depth + 1))
        at += part.places
    return _Node(what, children=children)


class _Sharing:
    """The search for what programs have in common."""

    def __init__(self, programs: list[list[_Node]]) -> None:
        self.programs = programs
        self.found: list[list[_Node]] = []
        self.handed: list[tuple[Kind, ...]] = []
        self.depths: list[int] = []
        """For each passage how many passages in which is waited are inside of one another there; 0 if nothing waits in it."""

    def done(self) -> tuple[list[list[Item]], list[Passage]]:
        """Finds passages until none saves anything."""
        while (best := self._best()) is not None:
            self._take(best)
        bodies = [[_item(node) for node in body] for body in self.found]
        made = [Passage(tuple(body), handed) for body, handed in zip(bodies, self.handed, strict=True)]
        return [[_item(node) for node in program] for program in self.programs], made

    def _best(self) -> _Shared | None:
        """The sequence that saves most."""
        self.lists = list(_lists([*self.programs, *self.found], 0))
        numbers: dict[object, int] = {}
        keys = [
            [numbers.setdefault(self._key(node, depth), len(numbers)) for node in nodes]
            for nodes, depth in self.lists
        ]
        now = [[node.bytes() for node in nodes] for nodes, _ in self.lists]
        then = [[node.bytes(depth) for node in nodes] for nodes, depth in self.lists]
        candidates = sorted(_repeated(keys, now, then), key=lambda found: -found[0])
        best: _Shared | None = None
        for most, length, where in candidates:
            if most <= (best.saved if best else 0):
                break
            shared = self._shared(length, where, most)
            if shared.saved > (best.saved if best else 0):
                best = shared
        return best

    def _key(self, node: _Node, depth: int) -> object:
        """What is equal for nodes that may be shared. What waits too deep inside of passages, and what runs a passage alone, is like
        nothing else."""
        depths = [self._depth(leaf) for leaf in node.leaves()]
        return id(node) if max(depths, default=0) >= DEEPEST_PASSAGES else node.key(depth)

    def _depth(self, leaf: _Node) -> int:
        return self.depths[leaf.what.passage] if isinstance(leaf.what, Run) else 0

    def _shared(self, length: int, where: Sequence[_Place], most: int) -> _Shared:
        """A sequence as a passage: places that are the same each time stay, the others are handed over; those that lie a fixed distance apart
        together."""
        times = [self._tracks(place, length) for place in where]
        spots: list[Where] = []
        groups: dict[object, int] = {}
        firsts: list[int] = []
        for number, tracks in enumerate(zip(*times, strict=True)):
            if _is_same(tracks):
                spots.append(tracks[0].spot)
                continue
            first = tracks[0].spot
            group = groups.setdefault(_group(tracks), len(groups))
            if group == len(firsts):
                firsts.append(number)
            spots.append(Given(group, first.offset - times[0][firsts[group]].spot.offset, kind_of(first)))
        handed = tuple(tuple(tracks[number] for number in firsts) for tracks in times)
        places = sum(_bytes_of(_Node(Run(0), tracks)) - RUN_BYTES for tracks in handed)
        saved = most - places
        return _Shared(tuple(where), length, tuple(spots), handed, saved)

    def _tracks(self, place: _Place, length: int) -> list[Track]:
        """The places of a sequence, seen from where it stands."""
        nodes, depth = self.lists[place.nodes]
        leaves = [leaf for node in nodes[place.at : place.at + length] for leaf in node.leaves()]
        return [Track(t.spot, t.strides[:depth]) for leaf in leaves for t in leaf.tracks]

    def _take(self, shared: _Shared) -> None:
        """Makes a passage of a sequence, and has it run wherever that was."""
        first = shared.where[0]
        nodes, depth = self.lists[first.nodes]
        body, number = nodes[first.at : first.at + shared.length], len(self.found)
        leaves = [leaf for node in body for leaf in node.leaves()]
        waiting = any(waits(leaf.what) for leaf in leaves)
        inside = max(map(self._depth, leaves), default=0)
        run = Run(number, waiting)
        for place, tracks in sorted(
            zip(shared.where, shared.handed, strict=True), key=lambda one: -one[0].at
        ):
            self.lists[place.nodes][0][place.at : place.at + shared.length] = [_Node(run, tracks)]
        spots = iter(shared.spots)
        for leaf in leaves:
            leaf.tracks = tuple(Track(next(spots), t.strides[depth:]) for t in leaf.tracks)
        self.found.append(body)
        self.handed.append(tuple(kind_of(track.spot) for track in shared.handed[0]))
        self.depths.append(inside + 1 if waiting else 0)


def _lists(programs: Iterable[list[_Node]], depth: int) -> Iterator[tuple[list[_Node], int]]:
    """All sequences, those in loops included, each with the number of loops around it."""
    for nodes in programs:
        yield nodes, depth
        yield from _lists((node.children for node in nodes if node.children), depth + 1)


def _repeated(
    keys: Sequence[Sequence[int]], now: Sequence[Sequence[int]], then: Sequence[Sequence[int]]
) -> Iterator[tuple[int, int, list[_Place]]]:
    """Gives the sequences that come more than once: what each saves but for the places that are handed over, how long it is, and where it
    is. `now` are the bytes of each thing where it stands, `then` those in a passage."""
    grams = [[_Place(n, at) for n, one in enumerate(keys) for at in range(len(one))]]
    length = 0
    while grams:
        length += 1
        longer: dict[tuple[int, int], list[_Place]] = {}
        for gram, where in enumerate(grams):
            for place in where:
                end = place.at + length
                if end <= len(keys[place.nodes]):
                    longer.setdefault((gram, keys[place.nodes][end - 1]), []).append(place)
        grams = [where for where in longer.values() if len(where) > 1]
        for where in grams:
            apart = list(_apart(where, length))
            here = sum(sum(now[place.nodes][place.at : place.at + length]) for place in apart)
            there = sum(then[where[0].nodes][where[0].at : where[0].at + length])
            most = here - there - len(apart) * RUN_BYTES - PASSAGE_BYTES
            if most > 0 and len(apart) > 1:
                yield most, length, apart


def _apart(where: Iterable[_Place], length: int) -> Iterator[_Place]:
    """Those of some places at which sequences begin that do not reach into one another."""
    free: dict[int, int] = {}
    for place in where:
        if place.at >= free.get(place.nodes, 0):
            free[place.nodes] = place.at + length
            yield place


def _is_same(tracks: Sequence[Track]) -> bool:
    """Whether a place is the same each time, and does not move on."""
    first = tracks[0]
    return (
        not isinstance(first.spot, Given)
        and not any(first.strides)
        and all(track.spot == first.spot and not any(track.strides) for track in tracks)
    )


def _group(tracks: Sequence[Track]) -> object:
    """What is equal for places that lie a fixed distance apart each time."""
    first = tracks[0].spot.offset
    return tuple((_kind(t.spot), t.strides, t.spot.offset - first) for t in tracks)


def _kind(spot: Where) -> object:
    """What a place is counted from; variants are counted from themselves."""
    return spot if isinstance(spot, Form) else root(spot)


def _item(node: _Node) -> Item:
    what, tracks = _folded(node, 0)
    return Item(what, tuple(track.spot for track in tracks))


def _folded(node: _Node, depth: int) -> tuple[What, list[Track]]:
    """A node as something that is done inside of so many loops, with its places."""
    if not isinstance(node.what, Loop):
        return node.what, list(node.tracks)
    parts, tracks = [], []
    for child in node.children:
        what, own = _folded(child, depth + 1)
        parts.append(Part(what, len(own)))
        tracks += own
    strides = tuple(track.strides[depth] for track in tracks)
    outside = [Track(track.spot, track.strides[:depth]) for track in tracks]
    return Loop(node.what.count, tuple(parts), strides), outside
