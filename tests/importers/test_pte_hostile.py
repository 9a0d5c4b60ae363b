# SPDX-License-Identifier: Apache-2.0
"""Programs with bytes changed, cut or invented: a graph or one PillionError, quickly and in little memory."""

from __future__ import annotations

import random
import time
import tracemalloc
from collections.abc import Callable

import pytest
from damage import damaged
from pte_seeds import FOREIGN, segment_graph, small_files

from nightly import part_of, runs_all
from pillion.devices.cortex_m import CORES
from pillion.emitters.pte import emit
from pillion.emitters.segments import host_delegate_payloads
from pillion.errors import PillionError
from pillion.importers.pte import read
from pillion.importers.pte.container import Container
from pillion.importers.pte.embedded_graph import recorded_graph
from pillion.schemas.pte_record import MARK

pytestmark = pytest.mark.slow

MUTATIONS = 4000
BYTES_PER_FILE = 12_000_000
"""Far more than a small file needs, far less than its numbers can ask for."""
SECONDS_PER_FILE = 1.0
"""The slowest takes 0.03 on an idle machine."""

OURS = [
    *small_files(),
    emit(segment_graph(), CORES["cortex-m33"], payloads=host_delegate_payloads(segment_graph())),
]
THEIRS = [path.read_bytes() for path in FOREIGN]
PARTS = {"ours": OURS, "delegate": OURS[-1:], "foreign": THEIRS}


def mutated(rng: random.Random, seeds: list[bytes]) -> bytes:
    """One of the files, most of its damage in the tables, which lie in front."""
    raw = rng.choice(seeds)
    return damaged(rng, raw, int.from_bytes(raw[16:24], "little") if raw[8:12] == b"eh00" else len(raw))


def survives(action: Callable[[], object]) -> bool:
    """Whether it ended in an answer; else it ended in a PillionError. Time and memory are watched."""
    tracemalloc.reset_peak()
    before, begin = tracemalloc.get_traced_memory()[0], time.process_time()
    try:
        action()
        answered = True
    except PillionError:
        answered = False
    assert time.process_time() - begin < SECONDS_PER_FILE
    assert tracemalloc.get_traced_memory()[1] - before < BYTES_PER_FILE
    return answered


@pytest.mark.turns(3)
@pytest.mark.slow
@pytest.mark.parametrize("number", part_of(range(2), 2))
@pytest.mark.parametrize("part", PARTS)
def test_mutated_files_end_in_a_graph_or_one_error(part: str, number: int) -> None:
    rng = random.Random(f"{part}{number}")
    tracemalloc.start()
    answers = [survives(lambda: read(mutated(rng, PARTS[part]))) for _ in range(MUTATIONS // 6)]
    tracemalloc.stop()
    assert 0 < sum(answers) < len(answers)


def test_a_hundred_mutations() -> None:
    rng = random.Random(1)
    tracemalloc.start()
    answers = [survives(lambda: read(mutated(rng, OURS + THEIRS))) for _ in range(100)]
    tracemalloc.stop()
    assert not all(answers)


def test_mutated_records_end_in_a_graph_or_one_error() -> None:
    """As if somebody had computed the checksums anew."""
    rng = random.Random(3)
    words = [
        b"0",
        b"-1",
        b"1e99",
        b"null",
        b"[]",
        b"{}",
        b'"x"',
        b"true",
        b"99999999999",
        b"[[",
        b'"int8"',
        b"NaN",
    ]
    tracemalloc.start()
    refused = 0
    for _ in range(600 if runs_all() else 200):
        container = Container(rng.choice(OURS), "x")
        assert container.record
        raw = container.record.graph
        for _ in range(rng.choice((1, 1, 2, 4))):
            at = rng.randrange(len(raw))
            raw = raw[:at] + rng.choice(words) + raw[at + rng.randrange(4) :]
        refused += not survives(lambda held=container, raw=raw: recorded_graph(held, raw))
    tracemalloc.stop()
    assert refused > 100


def test_every_truncation_of_a_file_is_refused() -> None:
    for raw in (max(OURS, key=len), THEIRS[0]):
        for length in range(0, len(raw) - 16, 61):
            with pytest.raises(PillionError):
                read(raw[:length])


def test_noise_is_refused() -> None:
    rng = random.Random(5)
    for size in range(0, 400, 2):
        for head in (b"", (16).to_bytes(4, "little") + b"ET12", (64).to_bytes(4, "little") + b"ET12eh00"):
            with pytest.raises(PillionError):
                read(head + rng.randbytes(size))


def changed(raw: bytes, *changes: tuple[int, bytes]) -> bytes:
    """A file with bytes replaced: the recipes of regressions."""
    held = bytearray(raw)
    for at, new in changes:
        held[at : at + len(new)] = new
    return bytes(held)


def test_a_changed_file_is_read_by_its_calls() -> None:
    """A changed weight is a changed file: what is read is what the file computes, not what its record says."""
    raw = next(raw for raw in OURS if b"quantized_conv2d" in raw)
    base = int.from_bytes(raw[24:32], "little")
    assert read(raw).is_recorded
    program = read(changed(raw, (base, bytes([raw[base] ^ 1]))))
    assert not program.is_recorded
    assert program.core == "cortex-m55"


def test_a_damaged_record_is_refused() -> None:
    raw = OURS[0]
    at = raw.index(MARK) + 30
    with pytest.raises(PillionError, match="not a valid") as refusal:
        read(changed(raw, (at, bytes([raw[at] ^ 1]))))
    assert "record is damaged" in refusal.value.rule
