# SPDX-License-Identifier: Apache-2.0
"""docs/reference/time.md: what estimates of time are made of, and how far they are from published measurements."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pillion.devices.cortex_m import CORES
from pillion.devices.cortex_m.classes import InstructionClass, InstructionCounts, MemoryAccesses
from pillion.devices.cortex_m.cycles import CYCLES, CoreCycles
from pillion.devices.cortex_m.memories import MEMORIES
from pillion.devices.cortex_m.op_cycles import counted_cycles
from pillion.devices.cycle_range import CycleRange

BENCHMARKS = Path(__file__).resolve().parents[1] / "benchmarks"
PUBLISHED, ESTIMATED = BENCHMARKS / "published.json", BENCHMARKS / "kernel_costs.json"
SILICON = BENCHMARKS / "silicon.json"
Table = Callable[[list[str], list[list[str]]], str]


ESTIMATES = """Placement, tiling and times of programs that are not run rest on the estimated instructions of each kernel: sizes of
the op (rows, vectors, taps), each times a coefficient that `benchmarks/kernel_costs.py` has fitted to counts in the emulator. For 500 other
random ops on each core, of 16 to 100,000 elements: estimated over counted instructions (the median), and how many estimates are within 25 %."""


MLPERF_TINY = """Medians of MLPerf Tiny's closed division, and the estimated band of Pillion's own programs for the same networks on the same chip
(`benchmarks/silicon.py`). Kernels differ, and some engines leave out channels of the visual network that are always zero: whether a time lies
within says how fast Pillion's kernels are, and little about the estimate. Clocks are those of the submissions, memories are assumed."""
NETS = {"ic": "images", "kws": "keywords", "vww": "visual wake words", "ad": "anomalies"}


def _counts(row: Mapping[str, Any]) -> InstructionCounts:
    """The counts of a record, as both files have them."""
    counts = {InstructionClass[name]: count for name, count in row["counts"].items()}
    touched = (MemoryAccesses(*row["constants"]), MemoryAccesses(*row["arena"]))
    return InstructionCounts(counts, row["more_registers"], row["taken"], *touched)


@dataclass(frozen=True)
class Published:
    """A measurement on silicon that others published, and what was counted of the same kernels."""

    row: Mapping[str, Any]

    @property
    def executed(self) -> InstructionCounts:
        return _counts(self.row)

    @property
    def estimated(self) -> CycleRange:
        memories = MEMORIES[self.row["memories"]]
        return counted_cycles(CORES[self.row["core"]], self.executed, memories, self.row["clock_hz"])

    @property
    def off(self) -> float:
        """How far the middle of the band is from the measurement, as a part of that."""
        return math.sqrt(self.estimated.low * self.estimated.high) / self.row["cycles"] - 1


def published() -> list[Published]:
    return [Published(row) for row in json.loads(PUBLISHED.read_text("utf-8"))["rows"]]


def _cell(band: CycleRange | None) -> str:
    if band is None:
        return "–"
    return f"{band.low:g}" if band.low == band.high else f"{band.low:g} to {band.high:g}"


def _cycles(table: Table) -> str:
    cores = [name for name in CYCLES if name != "cortex-m35p"]
    rows = [[one.value, *(_cell(CYCLES[core].cycles.get(one)) for core in cores)] for one in InstructionClass]
    rows.append(["each further register", *(_cell(CYCLES[core].per_register) for core in cores)])
    rows.append(["a jump, on top", *(_cell(CYCLES[core].taken) for core in cores)])
    return table(["", *(core.removeprefix("cortex-").upper() for core in cores)], rows)


def _sources() -> str:
    named: dict[int, tuple[CoreCycles, list[str]]] = {}
    for name, row in CYCLES.items():
        named.setdefault(id(row), (row, []))[1].append(name)
    return "\n".join(f"- {', '.join(names)}: {row.source}." for row, names in named.values())


def _comparison(table: Table) -> str:
    rows = [
        [
            one.row["what"],
            f"{one.row['chip']} ({one.row['core'].removeprefix('cortex-').upper()}, {one.row['clock_hz'] / 1e6:g} MHz)",
            one.row["kernels"],
            f"{one.executed.instructions:,}",
            f"{one.row['cycles']:,}",
            f"{one.estimated.low:,.0f} to {one.estimated.high:,.0f}",
            "yes" if one.row["cycles"] in one.estimated else "**no**",
            f"{100 * one.off:+.0f} %",
        ]
        for one in published()
    ]
    return table(
        ["what", "chip", "kernels", "instructions", "measured cycles", "estimated", "within", "middle off"],
        rows,
    )


def _short(number: float) -> str:
    return f"{number:.0f}" if number >= 100 else f"{number:.3g}"


def own_milliseconds(row: Mapping[str, Any], counted: Mapping[str, Any], net: str) -> CycleRange:
    """The estimated band of Pillion's program for a network on the chip of a published result."""
    core, memories = row["core"], MEMORIES[row["memories"]]
    return counted_cycles(CORES[core], _counts(counted[core][net]), memories, row["clock_hz"]) * (
        1e3 / row["clock_hz"]
    )


def _beside_others(table: Table) -> str:
    """Published times, each with the band of Pillion's own program."""
    record = json.loads(SILICON.read_text("utf-8"))
    rows = []
    for row in record["published"]:
        chip = f"{row['chip']} ({row['core'].removeprefix('cortex-').upper()}, {row['clock_hz'] / 1e6:g} MHz)"
        cells = []
        for net in NETS:
            own, ms = own_milliseconds(row, record["counted"], net), row["ms"][net]
            side = "within" if ms in own else "slower than" if ms > own.high else "faster than"
            cells.append(f"{_short(ms)}: {side} {_short(own.low)}-{_short(own.high)}")
        rows.append([chip, row["memories"], row["engine"], row["results"], *cells])
    return table(["chip", "memories", "engine", "results", *(f"{name}, ms" for name in NETS.values())], rows)


def _estimates(table: Table) -> str:
    """The figures of estimated instructions: all ops, then each kind."""
    cores = json.loads(ESTIMATED.read_text("utf-8"))
    kinds = ["all", *sorted({kind for figures in cores.values() for kind in figures} - {"all"})]
    rows = []
    for kind in kinds:
        cells = [figures[kind] for figures in cores.values()]
        rows.append([kind, *(f"{one['median']:.2f}, {100 * one['close']:.0f} %" for one in cells)])
    return table(["", *(core.removeprefix("cortex-").upper() for core in cores)], rows)


def time_page(table: Table) -> str:
    """The text of the page."""
    sources = dict.fromkeys(one.row["source"] for one in published())
    memories = table(["", "what is assumed"], [[f"`{one.name}`", one.summary] for one in MEMORIES.values()])
    return "\n".join(
        [
            "# Time\n",
            "What `--clock` makes of instructions; how to use it is in [the guide](../guide/time.md).\n",
            "## Cycles by class\n",
            "The least and the most, in memory without wait states.\n",
            _cycles(table),
            f"{_sources()}\n",
            "## Memories\n",
            memories,
            "## Estimated instructions\n",
            f"{ESTIMATES}\n",
            _estimates(table),
            "## Against measurements\n",
            f"{json.loads(PUBLISHED.read_text('utf-8'))['how']}\n",
            _comparison(table),
            "Middle: the geometric one. Measurements by:\n",
            "\n".join(f"- {source}" for source in sources) + "\n",
            "## MLPerf Tiny, others' programs and Pillion's\n",
            f"{MLPERF_TINY}\n",
            _beside_others(table),
        ]
    )
