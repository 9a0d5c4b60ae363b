# SPDX-License-Identifier: Apache-2.0
"""Bars of cost shares, as in a flame graph: total, unit, kind of op, op."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from xml.etree.ElementTree import Element

from pillion.report.pictures import svg
from pillion.report.report_facts import Facts, OpFacts

WIDTH, ROW = 1000.0, 26.0
LEAST = 0.6
"""Narrowest bar drawn; the table has all."""


@dataclass(frozen=True)
class ShareMeasure:
    """A cost of ops: its name, its unit, and whether it was counted or estimated."""

    key: str
    name: str
    unit: str
    note: str
    of: Callable[[OpFacts], int]


def known_costs(facts: Facts) -> list[ShareMeasure]:
    """Returns the costs known for a program, most meaningful first."""
    guess = "estimates that placement works with, of each op on its unit; never measured"
    known = [ShareMeasure("cycles", "Cycles (estimated)", "cycles", guess, lambda op: op.estimated_cycles)]
    if facts.measured.instructions is not None:
        none = "; ops of the NPU have none" if facts.on_npu else ""
        counted = f"counted in the emulator, on {facts.measured.board}{none}"
        measure = ShareMeasure(
            "instructions", "Instructions", "instructions", counted, lambda op: op.instructions or 0
        )
        known.insert(len(known) if facts.on_npu else 0, measure)
    return [
        *known,
        ShareMeasure("macs", "MACs", "MACs", "multiply-accumulates, exact", lambda op: op.macs),
        ShareMeasure(
            "bytes", "Bytes moved", "bytes", "read and written, constants included, exact", _moved_bytes
        ),
    ]


def _moved_bytes(op: OpFacts) -> int:
    return op.moved_bytes


def cost_shares_picture(facts: Facts, measure: ShareMeasure) -> str:
    """Draws the share of each op in a cost."""
    total = sum(map(measure.of, facts.ops))
    picture = svg.empty_picture(
        WIDTH, 4 * ROW, f"{measure.name} by unit, kind and op", class_="shares", font_size=12
    )
    words = f"{total:,} {measure.unit}"
    _draw_bar(picture, (0.0, WIDTH), 0, (words, f"{facts.model}: {words}"), svg.PLAIN, "all")
    left = 0.0
    for unit, of_unit in _group_by_cost(facts.ops, measure, lambda op: op.unit):
        left = _draw_unit_shares(picture, unit, of_unit, measure, left, total)
    return svg.escaped_markup(picture)


def _group_by_cost(
    ops: Sequence[OpFacts], measure: ShareMeasure, key: Callable[[OpFacts], str]
) -> list[tuple[str, list[OpFacts]]]:
    """Returns ops grouped by a key, largest cost first, without ops that cost nothing."""
    groups: dict[str, list[OpFacts]] = {}
    for op in ops:
        if measure.of(op):
            groups.setdefault(key(op), []).append(op)
    return sorted(groups.items(), key=lambda item: -sum(map(measure.of, item[1])))


def _draw_unit_shares(
    picture: Element, unit: str, ops: Sequence[OpFacts], measure: ShareMeasure, left: float, total: int
) -> float:
    colour = svg.UNIT_COLOURS[unit]
    span = left, WIDTH * sum(map(measure.of, ops)) / total
    _draw_bar(picture, span, 1, _share_texts(unit.upper(), ops, measure, total), colour, unit)
    for kind, of_kind in _group_by_cost(ops, measure, lambda op: op.kind):
        width = WIDTH * sum(map(measure.of, of_kind)) / total
        _draw_bar(picture, (left, width), 2, _share_texts(kind, of_kind, measure, total), colour, unit)
        for op in sorted(of_kind, key=measure.of, reverse=True):
            own = WIDTH * measure.of(op) / total
            words = op.label, _share_texts(f"{op.kind} {op.label}", [op], measure, total)[1]
            _draw_bar(picture, (left, own), 3, words, colour, unit, op.number)
            left += own
    return span[0] + span[1]


def _share_texts(name: str, ops: Sequence[OpFacts], measure: ShareMeasure, total: int) -> tuple[str, str]:
    own = sum(map(measure.of, ops))
    return f"{name} {own / total:.0%}", f"{name}: {own:,} {measure.unit}, {own / total:.1%}"


def _draw_bar(
    picture: Element,
    span: tuple[float, float],
    row: int,
    words: tuple[str, str],
    colour: str,
    class_: str,
    number: int = -1,
) -> None:
    left, width = span
    if width < LEAST:
        return
    group = svg.op_link(picture, number, words[1], f"bar {class_} row{row}")
    svg.svg_element(
        group, "rect", x=left, y=row * ROW, width=max(width - 1, 0.5), height=ROW - 2, rx=3,
        fill=colour, fill_opacity=(0.25, 0.6, 0.42, 0.28)[row],
    )  # fmt: skip
    shown = svg.shorten_to_width(words[0], width - 10, 12) if width > 30 else ""
    if shown:
        svg.svg_element(group, "text", shown, x=left + 6, y=row * ROW + 16, fill="currentColor")
