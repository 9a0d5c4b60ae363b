# SPDX-License-Identifier: Apache-2.0
"""Every model of the zoo on the real kernels: `cd tests && python -m judge.zoo` prints a table of instructions.

With `--update`, those of the released runtime are recorded in benchmarks/results.json, for docs/guide/executorch.md.

Float inputs and outputs, layouts as PyTorch has them: the default of `pillion compile`, as in the README."""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pillion
from fuzz.properties import require_same
from judge.machine import CORES, RUNTIMES, Core, judged, missing
from pillion import zoo
from pillion.emitters.pte import Runtime
from pillion.program import Program
from pillion.run.verify import random_samples
from pillion.targets import find_target

SAMPLES = 2
RESULTS = Path(__file__).parents[2] / "benchmarks" / "results.json"


def recorded() -> dict[str, dict[str, int]]:
    """Returns the recorded instructions of each model on each core."""
    found: dict[str, dict[str, int]] = json.loads(RESULTS.read_text("utf-8"))["pte"]
    return found


def record(found: Sequence[Row]) -> None:
    """Records the instructions in the released runtime, beside those of other models."""
    results = json.loads(RESULTS.read_text("utf-8"))
    for one in found:
        if one.runtime == RUNTIMES[0]:
            results["pte"].setdefault(one.model, {})[CORES[one.core]] = one.instructions
    RESULTS.write_text(json.dumps(results, indent=1) + "\n", "utf-8")


@dataclass(frozen=True)
class Row:
    """One model on one core and runtime."""

    model: str
    core: Core
    runtime: Runtime
    complaint: str
    instructions: int
    """Of the first sample."""

    def __str__(self) -> str:
        answer = self.complaint or "equal"
        return f"{self.model:20} {self.core} {self.runtime:5} {self.instructions:15,}  {answer}"


def rows(names: Sequence[str], size: int | None = None) -> Iterator[Row]:
    """Quantized once for all cores: they differ in kernels, not in the graph."""
    for name in names:
        module, example = zoo.build(name, size)
        first = pillion.compile(module, example, target=CORES["m33"], name=name)
        for core, target in CORES.items():
            program = dataclasses.replace(first, target=find_target(target))
            for runtime in RUNTIMES:
                yield row(program, name, core, runtime)


def row(program: Program, name: str, core: Core, runtime: Runtime, samples: int = SAMPLES) -> Row:
    """Random inputs, in one run."""
    fed = random_samples(program.graph, samples, seed=3)
    answer = judged(program.pte(runtime), program.graph.outputs, fed, core, runtime)
    complaint = answer.complaint
    try:
        for inputs, outputs in zip(fed, answer.outputs, strict=answer.ok):
            require_same(program.graph, program.run(*inputs), outputs, name)
    except AssertionError as difference:
        complaint = str(difference)
    return Row(name, core, runtime, complaint, answer.instructions[0] if answer.instructions else 0)


def main(args: Sequence[str]) -> int:
    """Prints the rows of some models, or of all; how many are wrong."""
    if missing():
        sys.exit(missing())
    names = [name for name in args if name != "--update"]
    found: list[Row] = []
    for one in rows(names or list(zoo.MODELS)):
        print(one, flush=True)
        found.append(one)
    wrong = sum(bool(one.complaint) for one in found)
    if "--update" in args and not wrong:
        record(found)
    return wrong


if __name__ == "__main__":
    raise SystemExit(min(main(sys.argv[1:]), 1))
