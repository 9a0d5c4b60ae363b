# SPDX-License-Identifier: Apache-2.0
"""One graph, one file: in every process, in whatever order Python keeps its sets, and at any time."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from example_graphs import side_by_side
from partition.graphs import EAGER, ON_M33
from pillion.devices.cortex_m import CORES, Isa
from pillion.emitters import pte, tflite
from pillion.emitters.c.lower import lower
from pillion.emitters.c.project import project_files
from pillion.emitters.pte.table import TABLE as PTE_ROWS
from pillion.emitters.tflite.table import ROWS as TFLITE_ROWS
from pillion.host_io.atomic_files import content_chunks
from pillion.ir.graph import Graph
from pillion.ir.numerics import Arithmetic
from pillion.ir.op import Op
from pillion.ops import ALL_OPS
from pillion.partition import partition
from pillion.passes import PIPELINE, run

LEFT_OUT = ("div", "resize_nearest")
"""Without a form in `.pte` for ExecuTorch 1.4, or in TFLite for the first example."""


def graph(
    rows: Mapping[type[Op], object] | None = None, arithmetic: Arithmetic = Arithmetic.CMSIS_NN
) -> Graph:
    """The first example of each op that has a row."""
    kinds = [c for c in ALL_OPS if rows is None or (rows.get(c) and c.kind not in LEFT_OUT)]
    return side_by_side([next(iter(c.examples())) for c in kinds], "all", arithmetic)


def c_project() -> bytes:
    files = project_files(lower(graph(), Isa.MVE), "cortex-m55")
    return repr(
        [(path, b"".join(content_chunks(content))) for path, content in sorted(files.items())]
    ).encode()


def placed() -> bytes:
    made = partition(run(graph(), PIPELINE), EAGER, ON_M33)
    return repr([entry.as_row() for entry in made.ledger]).encode() + str(made.graph).encode()


FORMS: dict[str, Callable[[], bytes]] = {
    "c": c_project,
    "pte": lambda: pte.emit(graph(PTE_ROWS), CORES["cortex-m55"]),
    "tflite": lambda: tflite.emit(graph(TFLITE_ROWS, Arithmetic.TFLITE)),
    "placement": placed,
}


def digest(form: str) -> str:
    return hashlib.sha256(FORMS[form]()).hexdigest()


@pytest.mark.turns(4)
@pytest.mark.parametrize("form", FORMS)
def test_other_processes_give_the_same_bytes(form: str) -> None:
    tests = [str(Path(__file__).parent), str(Path(__file__).parents[1])]
    code = (
        f"import sys; sys.path[:0] = {tests}; import test_reproducible_files as t; print(t.digest({form!r}))"
    )
    found = {digest(form)}
    for seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        done = subprocess.run(
            [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
        )
        found.add(done.stdout.strip())
    assert len(found) == 1
