# SPDX-License-Identifier: Apache-2.0
"""Nets as people write them on the real kernels: `cd tests && python -m judge.nets` prints a line for each.

What has no form for ExecuTorch is refused, and the reason is printed; all else is equal to the reference of the graph that the file
holds: where the program's own graph has an operator that ExecuTorch lacks, that is the graph of the operators it is composed of."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import pillion
from judge.machine import CORES, RUNTIMES, missing
from judge.zoo import Row, row
from nets_as_written import NETS
from pillion.errors import PillionError
from pillion.program import Program


def written(program: Program) -> Program:
    """The program as its `.pte` holds it."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "net.pte"
        program.save(file)
        return pillion.load(file)


def answers(name: str) -> Iterator[Row | PillionError]:
    """One net on both cores and runtimes, with its own inputs as calibration."""
    module, inputs = NETS[name].built(), NETS[name].inputs()
    for core, target in CORES.items():
        try:
            program = written(pillion.compile(module, inputs, target=target, progress=False))
        except PillionError as refusal:
            yield refusal
            continue
        for runtime in RUNTIMES:
            yield row(program, name, core, runtime)


def main(names: Sequence[str]) -> int:
    """Prints the answers of some nets, or of all; how many are wrong."""
    if missing():
        sys.exit(missing())
    wrong = 0
    for name in names or NETS:
        for one in answers(name):
            is_refusal = isinstance(one, PillionError)
            print(f"{name}: refused: {one.what}; {one.rule}; {one.here}" if is_refusal else one, flush=True)
            wrong += isinstance(one, Row) and bool(one.complaint)
    return wrong


if __name__ == "__main__":
    raise SystemExit(min(main(sys.argv[1:]), 1))
