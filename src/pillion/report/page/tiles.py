# SPDX-License-Identifier: Apache-2.0
"""The figures at the head of a report: a program in one look."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from pillion.report.facts import Facts
from pillion.report.pictures.memory import size_in_words


@dataclass(frozen=True)
class Tile:
    """One figure: what it is, how much, and a remark."""

    href: str
    what: str
    value: str
    note: str = ""
    parts: tuple[tuple[str, int], ...] = ()
    """Shares of a bar: the class of each, and how much."""


def tiles(facts: Facts) -> list[Tile]:
    """Gives the figures of a program."""
    return list(_tiles(facts))


def _tiles(facts: Facts) -> Iterator[Tile]:
    on_cpu = len(facts.ops) - facts.on_npu
    if facts.npu or facts.on_npu:
        split = (("npu", facts.on_npu), ("cpu", on_cpu))
        yield Tile("#placement", "On the NPU", f"{facts.on_npu} of {len(facts.ops)}", "ops", split)
    yield Tile("#work", "MACs", count_in_words(facts.macs), f"{facts.macs:,}")
    if facts.measured.instructions is not None:
        of = "of the core alone" if facts.on_npu else "of a run"
        note = f"{of}, counted on {facts.measured.board}"
        yield Tile("#work", "Instructions", count_in_words(facts.measured.instructions), note)
    cycles = sum(op.estimated_cycles for op in facts.ops)
    yield Tile("#work", "Cycles", f"~{count_in_words(cycles)}", "estimated by placement, not measured")
    yield _ram(facts)
    code = f", code {size_in_words(facts.measured.code_bytes)}" if facts.measured.code_bytes else ""
    flash = facts.constant_bytes + facts.params_bytes + facts.npu_constant_bytes
    yield Tile("#flash", "Flash", size_in_words(flash), f"constants{code}")
    if facts.segments:
        yield Tile("#placement", "Across the border", size_in_words(facts.crossing_bytes), "in one run")
    ratios = [
        (q.signal_to_noise_db, q.tensor) for q in facts.quality.tensors if q.signal_to_noise_db is not None
    ]
    if ratios:
        last = ratios[-1][0]
        yield Tile(
            "#quality",
            "Signal to noise",
            f"{last:.1f} dB",
            f"of the last tensor; lowest {min(ratios)[0]:.1f} dB",
        )


def _ram(facts: Facts) -> Tile:
    there = facts.sram_bytes_of_chip
    what = f"arena and {size_in_words(facts.state_bytes)} of state" if facts.states else "arena"
    if there is None:
        return Tile("#arena", "RAM", size_in_words(facts.sram_bytes), f"{what}; the stack comes on top")
    parts = (("used", min(facts.sram_bytes, there)), ("free", max(there - facts.sram_bytes, 0)))
    fits = "of" if facts.sram_bytes <= there else "does not fit:"
    return Tile("#arena", "RAM", size_in_words(facts.sram_bytes), f"{fits} {size_in_words(there)}", parts)


def count_in_words(count: int) -> str:
    """Gives a large number in the unit that suits it."""
    for limit, unit in ((1_000_000_000, "G"), (1_000_000, "M"), (10_000, "k")):
        if count >= limit:
            return f"{count / {'G': 1e9, 'M': 1e6, 'k': 1e3}[unit]:.3g} {unit}"
    return f"{count:,}"
