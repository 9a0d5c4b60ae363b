# SPDX-License-Identifier: Apache-2.0
"""Recorded answers of the real kernels: the reference and Pillion's kernels in the runtime give the same, on every machine."""

from __future__ import annotations

from collections import defaultdict
from functools import cache

import pytest

from installed_executorch import INSTALLED
from judge.cases import KINDS
from judge.inputs import samples
from judge.machine import CORES, RUNTIMES, VERSIONS
from judge.records import FILE, Record, hash_of, load
from pillion.importers.pte import read

LARGEST_FILE = 500_000
AGAIN = "the answers are of other inputs: cd tests && python -m judge.record"
GROUPS = sorted({*KINDS, "beyond"})


@cache
def by_kind() -> dict[str, list[Record]]:
    found: dict[str, list[Record]] = defaultdict(list)
    for record in load()[0]:
        kind = record.name.split()[0]
        found[kind if kind in KINDS and record.name.split()[1].isdigit() else "beyond"].append(record)
    return found


def test_the_records_are_of_all_kinds_cores_and_runtimes() -> None:
    records, versions = load()
    assert len(records) >= 300
    assert {(r.core, r.runtime) for r in records} == {(c, r) for c in CORES for r in RUNTIMES}
    assert all(len(by_kind()[kind]) >= 6 for kind in KINDS)
    assert versions == VERSIONS
    assert FILE.stat().st_size < LARGEST_FILE


@pytest.mark.parametrize("kind", GROUPS)
def test_the_reference_gives_what_the_real_kernels_gave(kind: str) -> None:
    for record in by_kind()[kind]:
        graph = read(record.program).graph
        fed = samples(graph)
        assert hash_of(fed) == record.inputs, AGAIN
        assert hash_of([graph.reference(*inputs) for inputs in fed]) == record.outputs, record.name


@pytest.mark.turns(5)
@pytest.mark.parametrize("kind", GROUPS)
def test_our_kernels_in_the_runtime_give_what_the_real_ones_gave(kind: str) -> None:
    pytest.importorskip("executorch", reason="pip install 'pillion[executorch]'")
    from pillion.run.executorch import run_executorch

    for record in by_kind()[kind]:
        differs = any(name in record.program for name in (b"quantized_avg_pool2d", b"quantized_div"))
        if differs and record.runtime != INSTALLED:
            continue
        fed = samples(read(record.program).graph)
        assert hash_of([run_executorch(record.program, inputs) for inputs in fed]) == record.outputs, (
            record.name
        )
