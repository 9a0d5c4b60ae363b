# SPDX-License-Identifier: Apache-2.0
"""Outlining: call sequences that repeat at irregular intervals become C functions.

Loops cover repetitions at regular intervals (loop_rolling.py). Where tensors of several rates run together, the
same steps recur with other ops in between: an op followed by two strided ops runs four times for one row of the
last result. Locations that differ between the occurrences become parameters. The sequence that saves most code
is outlined first, until none saves any; subroutines may call each other."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from pillion.emitters.c import actions
from pillion.memory.op_memory import DEEPEST_PASSAGES

RUN_STEP_BYTES, MOVE_BYTES, TAKE_BYTES, LOOP_BYTES, CALL_BYTES = 22, 16, 36, 14, 10
"""The approximate code size of each kind of item without its locations."""
LOCATION_BYTES, MOVING_BYTES = 6, 8
"""The approximate code size of a location, and of one that advances in a loop."""
FUNCTION_BYTES = 16
"""The approximate code size of a function's prologue and epilogue."""


@dataclass(frozen=True)
class Subroutine:
    """A subroutine: a sequence that the program runs in several places."""

    items: tuple[actions.ProgramItem, ...]
    parameter_types: tuple[actions.LocationType, ...]
    """The types of its parameters."""


@dataclass
class _Node:
    """An item, or a loop of items."""

    what: actions.Action
    tracks: tuple[actions.MovingLocation, ...] = ()
    children: list[_Node] = field(default_factory=list)

    def leaves(self) -> Iterator[_Node]:
        """Yields the items, including those inside loops."""
        if not isinstance(self.what, actions.RolledLoop):
            yield self
        for child in self.children:
            yield from child.leaves()

    def key(self, depth: int) -> object:
        """Returns a key that is equal for nodes with the same effect inside `depth` loops, apart from their
        locations."""
        if isinstance(self.what, actions.RolledLoop):
            return (self.what.count, *(child.key(depth) for child in self.children))
        return (self.what, *(track.strides[depth:] for track in self.tracks))

    def bytes(self, depth: int = 0) -> int:
        """Returns the approximate code size if only the loops from `depth` on enclose it."""
        return sum(_bytes_of(leaf, depth) for leaf in self.leaves()) + _loop_nesting(self) * LOOP_BYTES


def _loop_nesting(node: _Node) -> int:
    return isinstance(node.what, actions.RolledLoop) + sum(map(_loop_nesting, node.children))


_BYTES: Mapping[type, int] = {
    actions.RunStep: RUN_STEP_BYTES,
    actions.RunVariant: RUN_STEP_BYTES,
    actions.AwaitSegment: RUN_STEP_BYTES,
    actions.MoveRows: MOVE_BYTES,
    actions.LoadConstant: MOVE_BYTES,
    actions.FetchConstants: MOVE_BYTES,
    actions.AwaitConstants: MOVE_BYTES,
    actions.TakeRows: TAKE_BYTES,
    actions.RunBranch: LOOP_BYTES,
    actions.CallSubroutine: CALL_BYTES,
}


def _bytes_of(leaf: _Node, depth: int = 0) -> int:
    moving = sum(MOVING_BYTES for track in leaf.tracks for stride in track.strides[depth:] if stride)
    return _BYTES[type(leaf.what)] + LOCATION_BYTES * len(leaf.tracks) + moving


@dataclass(frozen=True)
class _SequenceStart:
    """The beginning of a sequence: the index of a list, and the position in it."""

    nodes: int
    at: int


@dataclass(frozen=True)
class _RepeatedSequence:
    """A repeated sequence, with the arguments of each occurrence."""

    where: tuple[_SequenceStart, ...]
    length: int
    spots: tuple[actions.Location, ...]
    """The location of each leaf's operand inside the subroutine."""
    arguments: tuple[tuple[actions.MovingLocation, ...], ...]
    """The arguments, for each occurrence."""
    saved: int


Alike = Mapping[actions.RunStep, actions.RunStep]
"""A run of a variant → a run of the first variant with the same signature."""


def outline_repeated_calls(
    programs: Sequence[Sequence[actions.ProgramItem]], alike: Alike
) -> tuple[list[list[actions.ProgramItem]], list[Subroutine]]:
    """Returns the programs with repeated sequences replaced by calls, and the subroutines."""
    nodes = [[_build_outline_node(item, alike, 0) for item in items] for items in programs]
    return _OutlineSearch(nodes).done()


def _build_outline_node(item: actions.ProgramItem, alike: Alike, depth: int) -> _Node:
    what = item.what
    if isinstance(what, actions.RolledLoop):
        return _Node(what, children=[_build_outline_node(part, alike, depth + 1) for part in what.body])
    if isinstance(what, actions.RunStep) and what in alike:
        selector = actions.MovingLocation(actions.VariantSelector(what.variant, alike[what]), (0,) * depth)
        return _Node(actions.RunVariant(alike[what]), (selector, *item.places))
    return _Node(what, item.places)


class _OutlineSearch:
    """The search for repeated sequences in several programs."""

    def __init__(self, programs: list[list[_Node]]) -> None:
        self.programs = programs
        self.found: list[list[_Node]] = []
        self.parameter_types: list[tuple[actions.LocationType, ...]] = []
        self.depths: list[int] = []
        """For each subroutine, the nesting depth of subroutines in it that wait for rows; 0 if nothing in it
        waits."""

    def done(self) -> tuple[list[list[actions.ProgramItem]], list[Subroutine]]:
        """Outlines sequences until none saves code."""
        while (best := self._find_best_sequence()) is not None:
            self._replace_by_calls(best)
        bodies = [[_build_program_item(node) for node in body] for body in self.found]
        subroutines = [
            Subroutine(tuple(body), types) for body, types in zip(bodies, self.parameter_types, strict=True)
        ]
        return [[_build_program_item(node) for node in program] for program in self.programs], subroutines

    def _find_best_sequence(self) -> _RepeatedSequence | None:
        """Returns the sequence that saves most code."""
        self.lists = list(_node_sequences([*self.programs, *self.found], 0))
        numbers: dict[object, int] = {}
        keys = [
            [numbers.setdefault(self._outlining_key(node, depth), len(numbers)) for node in nodes]
            for nodes, depth in self.lists
        ]
        now = [[node.bytes() for node in nodes] for nodes, _ in self.lists]
        then = [[node.bytes(depth) for node in nodes] for nodes, depth in self.lists]
        candidates = sorted(_find_repeated_sequences(keys, now, then), key=lambda candidate: -candidate[0])
        best: _RepeatedSequence | None = None
        for most, length, where in candidates:
            if most <= (best.saved if best else 0):
                break
            shared = self._make_subroutine(length, where, most)
            if shared.saved > (best.saved if best else 0):
                best = shared
        return best

    def _outlining_key(self, node: _Node, depth: int) -> object:
        """Returns a key that is equal for nodes that may be outlined together. A node that waits for rows too deep
        inside subroutines equals no other."""
        depths = [self._subroutine_depth(leaf) for leaf in node.leaves()]
        return id(node) if max(depths, default=0) >= DEEPEST_PASSAGES else node.key(depth)

    def _subroutine_depth(self, leaf: _Node) -> int:
        return self.depths[leaf.what.subroutine] if isinstance(leaf.what, actions.CallSubroutine) else 0

    def _make_subroutine(self, length: int, where: Sequence[_SequenceStart], most: int) -> _RepeatedSequence:
        """Makes a subroutine of a sequence. Locations that are equal in all occurrences stay. Each group of other
        locations at fixed distances becomes one parameter."""
        times = [self._relative_locations(start, length) for start in where]
        spots: list[actions.Location] = []
        groups: dict[object, int] = {}
        firsts: list[int] = []
        for number, tracks in enumerate(zip(*times, strict=True)):
            if _is_constant_location(tracks):
                spots.append(tracks[0].start)
                continue
            first = tracks[0].start
            group = groups.setdefault(_distance_key(tracks), len(groups))
            if group == len(firsts):
                firsts.append(number)
            spots.append(
                actions.ParameterLocation(
                    group, first.offset - times[0][firsts[group]].start.offset, actions.type_of(first)
                )
            )
        arguments = tuple(tuple(tracks[number] for number in firsts) for tracks in times)
        argument_bytes = sum(
            _bytes_of(_Node(actions.CallSubroutine(0), tracks)) - CALL_BYTES for tracks in arguments
        )
        saved = most - argument_bytes
        return _RepeatedSequence(tuple(where), length, tuple(spots), arguments, saved)

    def _relative_locations(self, start: _SequenceStart, length: int) -> list[actions.MovingLocation]:
        """Returns the locations of a sequence relative to the loops inside it."""
        nodes, depth = self.lists[start.nodes]
        leaves = [leaf for node in nodes[start.at : start.at + length] for leaf in node.leaves()]
        return [actions.MovingLocation(t.start, t.strides[:depth]) for leaf in leaves for t in leaf.tracks]

    def _replace_by_calls(self, shared: _RepeatedSequence) -> None:
        """Outlines a sequence and replaces every occurrence by a call."""
        first = shared.where[0]
        nodes, depth = self.lists[first.nodes]
        body, number = nodes[first.at : first.at + shared.length], len(self.found)
        leaves = [leaf for node in body for leaf in node.leaves()]
        waiting = any(actions.waits(leaf.what) for leaf in leaves)
        inside = max(map(self._subroutine_depth, leaves), default=0)
        run = actions.CallSubroutine(number, waiting)
        for start, tracks in sorted(
            zip(shared.where, shared.arguments, strict=True), key=lambda occurrence: -occurrence[0].at
        ):
            self.lists[start.nodes][0][start.at : start.at + shared.length] = [_Node(run, tracks)]
        spots = iter(shared.spots)
        for leaf in leaves:
            leaf.tracks = tuple(actions.MovingLocation(next(spots), t.strides[depth:]) for t in leaf.tracks)
        self.found.append(body)
        self.parameter_types.append(tuple(actions.type_of(track.start) for track in shared.arguments[0]))
        self.depths.append(inside + 1 if waiting else 0)


def _node_sequences(programs: Iterable[list[_Node]], depth: int) -> Iterator[tuple[list[_Node], int]]:
    """Yields all sequences, including those in loops, each with the number of enclosing loops."""
    for nodes in programs:
        yield nodes, depth
        yield from _node_sequences((node.children for node in nodes if node.children), depth + 1)


def _find_repeated_sequences(
    keys: Sequence[Sequence[int]], now: Sequence[Sequence[int]], then: Sequence[Sequence[int]]
) -> Iterator[tuple[int, int, list[_SequenceStart]]]:
    """Yields repeated sequences: the bytes that each saves before its arguments count, its length, and its
    occurrences. `now` has the sizes of nodes in place, `then` their sizes in a subroutine."""
    grams = [[_SequenceStart(n, at) for n, node_keys in enumerate(keys) for at in range(len(node_keys))]]
    length = 0
    while grams:
        length += 1
        longer: dict[tuple[int, int], list[_SequenceStart]] = {}
        for gram, where in enumerate(grams):
            for start in where:
                end = start.at + length
                if end <= len(keys[start.nodes]):
                    longer.setdefault((gram, keys[start.nodes][end - 1]), []).append(start)
        grams = [where for where in longer.values() if len(where) > 1]
        for where in grams:
            apart = list(_non_overlapping(where, length))
            here = sum(sum(now[start.nodes][start.at : start.at + length]) for start in apart)
            there = sum(then[where[0].nodes][where[0].at : where[0].at + length])
            most = here - there - len(apart) * CALL_BYTES - FUNCTION_BYTES
            if most > 0 and len(apart) > 1:
                yield most, length, apart


def _non_overlapping(where: Iterable[_SequenceStart], length: int) -> Iterator[_SequenceStart]:
    """Yields the occurrences that do not overlap."""
    free: dict[int, int] = {}
    for start in where:
        if start.at >= free.get(start.nodes, 0):
            free[start.nodes] = start.at + length
            yield start


def _is_constant_location(tracks: Sequence[actions.MovingLocation]) -> bool:
    """Whether a location is equal in all occurrences and does not advance."""
    first = tracks[0]
    return (
        not isinstance(first.start, actions.ParameterLocation)
        and not any(first.strides)
        and all(track.start == first.start and not any(track.strides) for track in tracks)
    )


def _distance_key(tracks: Sequence[actions.MovingLocation]) -> object:
    """Returns a key that is equal for locations at a fixed distance in all occurrences."""
    first = tracks[0].start.offset
    return tuple((_location_base_key(t.start), t.strides, t.start.offset - first) for t in tracks)


def _location_base_key(spot: actions.Location) -> object:
    """Returns the base of a location; a variant is its own base."""
    return spot if isinstance(spot, actions.VariantSelector) else actions.base_of(spot)


def _build_program_item(node: _Node) -> actions.ProgramItem:
    if isinstance(node.what, actions.RolledLoop):
        return actions.ProgramItem(
            actions.RolledLoop(node.what.count, tuple(map(_build_program_item, node.children)))
        )
    return actions.ProgramItem(node.what, node.tracks)
