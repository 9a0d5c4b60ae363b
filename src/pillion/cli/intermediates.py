# SPDX-License-Identifier: Apache-2.0
"""Files of `--intermediates DIR`: the graph after each pass, NPU segments, ledger and memory plan."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pillion.emitters.segments import segment_files
from pillion.host_io.atomic_files import errors_naming_path, write_whole
from pillion.ir.graph import Graph
from pillion.ir.text import to_text
from pillion.program import Program


class Intermediates:
    """A folder of numbered files, written while a compilation proceeds."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.count = 0
        with errors_naming_path(folder):
            folder.mkdir(parents=True, exist_ok=True)

    def watch(self, name: str, graph: Graph) -> None:
        """Writes the graph's text after a pass."""
        self._write_file(f"{self.count:02d}_{name}.txt", to_text(graph, constants=False))
        self.count += 1
        for number, segment in enumerate(segment_files(graph)):
            self._write_file(f"npu_segment_{number}.tflite", segment.tflite)

    def keep(self, program: Program) -> None:
        """Writes the results of the finished program."""
        self._write_json("ledger.json", [entry.as_row() for entry in program.ledger])
        self._write_json("memory.json", memory_facts(program))

    def _write_json(self, name: str, facts: object) -> None:
        self._write_file(name, json.dumps(facts, indent=1) + "\n")

    def _write_file(self, name: str, content: str | bytes) -> None:
        write_whole(self.folder / name, content.encode() if isinstance(content, str) else content)


def memory_facts(program: Program) -> dict[str, Any]:
    """Returns the memory plan as plain data: offsets of values, and live bytes per op."""
    plan = program.memory
    return {
        "arena_bytes": plan.arena_bytes,
        "activation_bytes": plan.activation_bytes,
        "floor_bytes": plan.floor_bytes,
        "values": [
            {"name": v.name, "offset": offset, "bytes": v.type.size_bytes}
            for v, offset in plan.offsets.items()
        ],
        "scratch": [
            {"op": op.name, "offset": offset, "bytes": step.choice.kernel.scratch_bytes(op)}
            for step in program.lowered.steps
            for op, offset in plan.scratch_offsets.items()
            if step.choice.op is op
        ],
        "live_bytes": list(plan.live_bytes),
    }
