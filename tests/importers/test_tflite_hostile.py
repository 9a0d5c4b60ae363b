# SPDX-License-Identifier: Apache-2.0
"""Files with bytes changed, cut or invented: a graph or one PillionError, quickly and in little memory."""

from __future__ import annotations

import random
import tracemalloc

import pytest
from damage import damaged

from nightly import part_of
from pillion.emitters.tflite import emit
from pillion.errors import PillionError
from pillion.importers.tflite import read
from pillion.ir.graph import Graph
from pillion.ir.op import Op
from pillion.ops import ALL_OPS
from stateful_graphs import KINDS_OF_ENDS, QUEUE, graph_of

pytestmark = pytest.mark.slow

MUTATIONS = 6000
BYTES_PER_FILE = 2_000_000
"""Far more than a small file needs, far less than its numbers can ask for."""


def small_file(op: Op) -> bytes:
    try:
        return emit(Graph("g", op.activations, (op,), op.results))
    except PillionError:
        return b""


VARIABLES = [emit(graph_of(text)) for text in (QUEUE, KINDS_OF_ENDS)]
SEEDS = [raw for cls in ALL_OPS for op in list(cls.examples())[:4] if 0 < len(raw := small_file(op)) < 8000]
SEEDS += len(SEEDS) // 10 * VARIABLES


def mutated(rng: random.Random) -> bytes:
    return damaged(rng, rng.choice(SEEDS))


@pytest.mark.turns(4)
@pytest.mark.parametrize("part", part_of(range(4), 4))
def test_mutated_files_end_in_a_graph_or_one_error(part: int) -> None:
    rng = random.Random(part)
    tracemalloc.start()
    refused = 0
    for _ in range(MUTATIONS // 4):
        raw = mutated(rng)
        tracemalloc.reset_peak()
        before = tracemalloc.get_traced_memory()[0]
        try:
            read(raw)
        except PillionError:
            refused += 1
        assert tracemalloc.get_traced_memory()[1] - before < BYTES_PER_FILE
    tracemalloc.stop()
    assert refused > MUTATIONS // 8


def test_every_truncation_of_a_file_is_refused() -> None:
    raw = max(SEEDS, key=len)
    for length in range(0, len(raw) - 16, 3):
        try:
            read(raw[:length])
        except PillionError:
            continue
        pytest.fail(f"{length} of {len(raw)} bytes were taken for the whole")


def test_noise_is_refused() -> None:
    rng = random.Random(5)
    for size in range(0, 400, 2):
        for head in (b"", (16).to_bytes(4, "little") + b"TFL3"):
            with pytest.raises(PillionError):
                read(head + rng.randbytes(size))
