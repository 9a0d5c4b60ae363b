# SPDX-License-Identifier: Apache-2.0
"""The key figures at the top of a report."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from pillion.report.pictures.arena_picture import format_size
from pillion.report.report_facts import Facts


@dataclass(frozen=True)
class FigureTile:
    """One figure: label, value and remark."""

    href: str
    what: str
    value: str
    note: str = ""
    parts: tuple[tuple[str, int], ...] = ()
    """Segments of a bar: CSS class and size."""
    grade: str = ""
    """`bad` or `well`: the colour of the value."""


GOOD_DB, BAD_DB = 30.0, 15.0
"""Signal-to-noise thresholds for colours, in dB. Eight bits over the whole range reach about 40 dB."""


def grade(ratio: float | None) -> str:
    """Returns the CSS class of a signal-to-noise ratio: bad, well or empty."""
    return "" if ratio is None else "bad" if ratio < BAD_DB else "well" if ratio > GOOD_DB else ""


def key_conclusions(facts: Facts) -> list[tuple[str, str]]:
    """Returns the most important conclusions, each with its CSS class."""
    return [
        *_memory_conclusions(facts),
        *_fits_flash(facts),
        *_quality_conclusions(facts),
        *_precision_conclusions(facts),
    ]


def _memory_conclusions(facts: Facts) -> Iterator[tuple[str, str]]:
    there = facts.sram_bytes_of_chip
    if there is None:
        return
    sizes = f"{_format_lower_bound(facts.sram_bytes, facts)} of {format_size(there)} RAM"
    yield (
        ("well", f"Fits {facts.target}: {sizes}.")
        if facts.fits
        else ("bad", f"Does not fit {facts.target}: {sizes}. --max-ram looks for a plan that needs less.")
    )


def _fits_flash(facts: Facts) -> Iterator[tuple[str, str]]:
    there = facts.flash_bytes_there
    if there is None:
        return
    what = "" if facts.is_flash_exact else ", without code whose size is not known here"
    sizes = f"{_flash_in_words(facts)} of {format_size(there)} flash{what}"
    yield (
        ("well", f"Fits {facts.target}: {sizes}.")
        if facts.flash_bytes <= there
        else ("bad", f"Does not fit {facts.target}: {sizes}. --optimize size makes code smaller.")
    )


def _flash_in_words(facts: Facts) -> str:
    return f"{'' if facts.is_flash_exact else '≥ '}{format_size(facts.flash_bytes)}"


def _quality_conclusions(facts: Facts) -> Iterator[tuple[str, str]]:
    ratio = facts.output_ratio
    if ratio is not None and grade(ratio) == "bad":
        words = "the answers are mostly noise" if ratio < BAD_DB / 2 else "much is lost"
        yield "bad", f"Bad quality: the output has {ratio:.1f} dB signal to noise, {words}."


def _precision_conclusions(facts: Facts) -> Iterator[tuple[str, str]]:
    for text in facts.precision:
        yield "", f"{text[0].upper()}{text[1:]}."


def summary_tiles(facts: Facts) -> Iterator[FigureTile]:
    """Yields the key figures of a program."""
    on_cpu = len(facts.ops) - facts.on_npu
    if facts.npu or facts.on_npu:
        split = (("npu", facts.on_npu), ("cpu", on_cpu))
        yield FigureTile("#placement", "On the NPU", f"{facts.on_npu} of {len(facts.ops)}", "ops", split)
    yield FigureTile("#work", "MACs", count_in_words(facts.macs), f"{facts.macs:,}")
    if facts.measured.instructions is not None:
        of = "of the core alone" if facts.on_npu else "of a run"
        note = f"{of}, counted on {facts.measured.board}"
        yield FigureTile("#work", "Instructions", count_in_words(facts.measured.instructions), note)
    if facts.time is not None:
        note = f"{facts.time.rate} at {facts.time.clock}, estimated"
        yield FigureTile("#work", "Time", facts.time.milliseconds, note)
    cycles = sum(op.estimated_cycles for op in facts.ops)
    hint = "" if facts.time else "; --clock gives ms"
    yield FigureTile(
        "#work", "Cycles", f"~{count_in_words(cycles)}", f"estimated by placement, not measured{hint}"
    )
    yield _ram_tile(facts)
    yield _flash_tile(facts)
    if facts.segments:
        yield FigureTile("#placement", "Across the border", format_size(facts.crossing_bytes), "in one run")
    ratios = [
        (q.signal_to_noise_db, q.tensor) for q in facts.quality.tensors if q.signal_to_noise_db is not None
    ]
    ratio = facts.output_ratio
    if ratio is not None:
        note = f"of the output; lowest of all tensors {min(ratios)[0]:.1f} dB"
        yield FigureTile("#quality", "Signal to noise", f"{ratio:.1f} dB", note, grade=grade(ratio))


def _ram_tile(facts: Facts) -> FigureTile:
    there = facts.sram_bytes_of_chip
    what = f"arena and {format_size(facts.state_bytes)} of state" if facts.states else "arena"
    if there is None:
        return FigureTile(
            "#arena", "RAM", _format_lower_bound(facts.sram_bytes, facts), f"{what}; the stack comes on top"
        )
    parts = (("used", min(facts.sram_bytes, there)), ("free", max(there - facts.sram_bytes, 0)))
    fits = "of" if facts.sram_bytes <= there else "does not fit:"
    colour = "" if facts.fits else "bad"
    return FigureTile(
        "#arena",
        "RAM",
        _format_lower_bound(facts.sram_bytes, facts),
        f"{fits} {format_size(there)}",
        parts,
        colour,
    )


def _flash_tile(facts: Facts) -> FigureTile:
    code = facts.flash_bytes - facts.constant_bytes - facts.params_bytes - facts.npu_flash_bytes
    what = f"constants and {format_size(code)} of code" if code else "constants, without code"
    there = facts.flash_bytes_there
    if there is None:
        return FigureTile("#flash", "Flash", _flash_in_words(facts), what)
    parts = (("used", min(facts.flash_bytes, there)), ("free", max(there - facts.flash_bytes, 0)))
    does_fit = facts.flash_bytes <= there
    note = f"{'of' if does_fit else 'does not fit:'} {format_size(there)}; {what}"
    return FigureTile("#flash", "Flash", _flash_in_words(facts), note, parts, "" if does_fit else "bad")


def _format_lower_bound(size: int, facts: Facts) -> str:
    """Formats a memory size, as a lower bound without the NPU's converter."""
    return f"{'' if facts.is_memory_exact else '≥ '}{format_size(size)}"


def count_in_words(count: int) -> str:
    """Formats a large number with a suitable unit."""
    for limit, unit in ((1_000_000_000, "G"), (1_000_000, "M"), (10_000, "k")):
        if count >= limit:
            return f"{count / {'G': 1e9, 'M': 1e6, 'k': 1e3}[unit]:.3g} {unit}"
    return f"{count:,}"
