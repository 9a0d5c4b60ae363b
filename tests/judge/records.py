# SPDX-License-Identifier: Apache-2.0
"""Answers of the real kernels, kept for machines without the judge: programs, where they ran, and a hash of what came out."""

from __future__ import annotations

import hashlib
import json
import lzma
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from judge.machine import Core
from pillion.emitters.pte import Runtime
from pillion.ir.types import Array

FILE = Path(__file__).with_name("records.json.xz")


@dataclass(frozen=True)
class Record:
    """One program and its answer. The inputs are those of `judge.inputs` for the graph that the program carries."""

    name: str
    core: Core
    runtime: Runtime
    program: bytes
    inputs: str
    """Hash of the inputs: whether they are still those that were asked."""
    outputs: str
    """Hash of all outputs of all samples, in order."""


def hash_of(samples: Sequence[Sequence[Array]]) -> str:
    """Of all arrays, with their shapes and types."""
    found = hashlib.sha256()
    for sample in samples:
        for array in sample:
            found.update(f"{array.dtype}{array.shape}".encode() + array.tobytes())
    return found.hexdigest()[:32]


def save(records: Sequence[Record], versions: dict[str, str]) -> None:
    """Writes all records, replacing those before."""
    rows = [asdict(record) | {"program": record.program.hex()} for record in records]
    text = json.dumps({"versions": versions, "records": rows}, indent=0)
    FILE.write_bytes(lzma.compress(text.encode(), preset=9 | lzma.PRESET_EXTREME))


def load() -> tuple[list[Record], dict[str, str]]:
    """The records, and the versions of what answered."""
    held: dict[str, Any] = json.loads(lzma.decompress(FILE.read_bytes()))
    rows = (row | {"program": bytes.fromhex(row["program"])} for row in held["records"])
    return [Record(**row) for row in rows], held["versions"]
