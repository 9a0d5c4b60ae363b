# SPDX-License-Identifier: Apache-2.0
"""Asks the judge again and keeps its answers: `cd tests && python -m judge.record [KIND …]`, where the judge is.

To be run when the emitter writes other calls. What differs from the reference is not recorded but reported."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterator, Sequence

from judge.beyond import BOTH, PROGRAMS
from judge.cases import KINDS, case
from judge.inputs import samples
from judge.machine import CORES, RUNTIMES, VERSIONS, Core, judged, missing
from judge.records import Record, hash_of, load, save
from pillion.devices import cortex_m
from pillion.emitters.pte import Runtime, emit
from pillion.errors import PillionError
from pillion.importers.pte import read
from pillion.ir.graph import Graph

EACH = 6
"""Programs of every kind."""
FIRST_SEED = 7000
SMALLISH = 400
"""Elements of a value, about: the programs are kept."""


def graphs(kinds: Sequence[str]) -> Iterator[tuple[str, Graph]]:
    """Small programs of some kinds, and, where that is all of them, those that get another form because of a limit."""
    for kind in kinds:
        seeds = ((seed, case(kind, FIRST_SEED + seed, SMALLISH)) for seed in range(10 * EACH))
        fitting = ((f"{kind} {seed}", graph) for seed, graph in seeds if graph and is_written(graph))
        yield from itertools.islice(fitting, EACH)
    for name, make in PROGRAMS.items() if len(kinds) == len(KINDS) else ():
        yield name, make().graph


def is_written(graph: Graph) -> bool:
    """Whether it is refused for no core of the newer runtime."""
    try:
        return all(emit(graph, cortex_m.CORES[core], "1.5") for core in CORES.values())
    except PillionError:
        return False


def places(number: int) -> tuple[tuple[Core, Runtime], ...]:
    """Both cores and both runtimes, in turn."""
    return tuple(zip(BOTH, RUNTIMES if number % 2 else RUNTIMES[::-1], strict=True))


def recorded(name: str, graph: Graph, core: Core, runtime: Runtime) -> Record | None:
    """The judge's answer; None if there is no program."""
    try:
        program = emit(graph, cortex_m.CORES[CORES[core]], runtime)
    except PillionError:
        return None
    graph = read(program).graph
    fed = samples(graph)
    answer = judged(program, graph.outputs, fed, core, runtime)
    wanted = hash_of([graph.reference(*inputs) for inputs in fed])
    if not answer.ok or hash_of(answer.outputs) != wanted:
        raise SystemExit(f"{name} on {core} with {runtime} is wrong: {answer.complaint or 'other bytes'}")
    return Record(name, core, runtime, program, hash_of(fed), hash_of(answer.outputs))


def main(kinds: Sequence[str]) -> None:
    """Records all, or some kinds beside what is known of others."""
    if missing():
        sys.exit(missing())
    held = [record for record in load()[0] if record.name.split()[0] not in kinds] if kinds else []
    found = held + [
        record
        for number, (name, graph) in enumerate(graphs(kinds or list(KINDS)))
        for place in places(number)
        if (record := recorded(name, graph, *place))
    ]
    save(found, VERSIONS)
    print(f"{len(found)} answers of {len({record.name for record in found})} programs")


if __name__ == "__main__":
    main(sys.argv[1:])
