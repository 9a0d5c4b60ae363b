# SPDX-License-Identifier: Apache-2.0
"""A hunt for programs that the real kernels compute otherwise: `cd tests && python -m judge.hunt --count 1000`.

Every program has a kind and a seed: a finding is repeated with `--only KIND --seed N --count 1`. Refusals are counted, not
judged: what is refused reaches no core."""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence

from fuzz.properties import require_same
from judge.cases import KINDS, case
from judge.inputs import samples
from judge.machine import CORES, RUNTIMES, VERSIONS, Core, judged, missing
from pillion.devices import cortex_m
from pillion.emitters.pte import Runtime, emit
from pillion.errors import PillionError
from pillion.ir.graph import Graph
from pillion.ir.text import to_text

MOST_TEXT = 1500
"""Characters of a program that are shown."""


def complaint(graph: Graph, core: Core, runtime: Runtime) -> str | None:
    """What is wrong with the emitted program's answer; empty if nothing is, None if the program is refused."""
    try:
        program = emit(graph, cortex_m.CORES[CORES[core]], runtime)
    except PillionError as refusal:
        return None if refusal.rule and refusal.here else f"refused without a reason: {refusal}"
    fed = samples(graph)
    answer = judged(program, graph.outputs, fed, core, runtime)
    if not answer.ok:
        return f"does not run: {answer.complaint}"
    try:
        for inputs, outputs in zip(fed, answer.outputs, strict=True):
            require_same(graph, graph.reference(*inputs), outputs, f"{core}, {runtime}")
    except AssertionError as difference:
        return str(difference)
    return ""


def places(cores: Sequence[Core], runtimes: Sequence[Runtime]) -> Iterator[tuple[Core, Runtime]]:
    yield from ((core, runtime) for core in cores for runtime in runtimes)


def main(arguments: Sequence[str] | None = None) -> int:
    """Asks about `count` programs, the kinds in turn; the number of wrong answers."""
    parser = argparse.ArgumentParser(prog="judge.hunt", description=__doc__)
    parser.add_argument("--count", type=int, default=100, help="programs of each kind")
    parser.add_argument("--seed", type=int, default=0, help="the first one")
    parser.add_argument("--seconds", type=float, default=float("inf"))
    parser.add_argument("--only", nargs="*", choices=KINDS, default=list(KINDS))
    parser.add_argument("--core", nargs="*", choices=CORES, default=list(CORES))
    parser.add_argument("--runtime", nargs="*", choices=RUNTIMES, default=list(RUNTIMES))
    wanted = parser.parse_args(arguments)
    if missing():
        sys.exit(missing())
    print(VERSIONS)
    end = time.monotonic() + wanted.seconds
    asked: Counter[str] = Counter()
    for seed in range(wanted.seed, wanted.seed + wanted.count):
        for kind in wanted.only:
            graph = case(kind, seed) if time.monotonic() < end else None
            if graph is not None:
                ask(graph, kind, seed, list(places(wanted.core, wanted.runtime)), asked)
    for name, count in sorted(asked.items()):
        print(f"{count:7,}  {name}")
    return sum(count for name, count in asked.items() if name.startswith("wrong"))


def ask(
    graph: Graph, kind: str, seed: int, where: Sequence[tuple[Core, Runtime]], asked: Counter[str]
) -> None:
    """Counts the answers about one program; prints what is wrong."""
    for core, runtime in where:
        found = complaint(graph, core, runtime)
        word = "refused" if found is None else "wrong" if found else "equal"
        asked[f"{word} {core} {runtime}"] += 1
        if word == "refused":
            asked[f"refused {kind}"] += 1
        if found:
            print(
                f"\n{kind} seed {seed}, {core}, {runtime}: {found}\n{to_text(graph)[:MOST_TEXT]}", flush=True
            )


if __name__ == "__main__":
    raise SystemExit(min(main(), 1))
