# SPDX-License-Identifier: Apache-2.0
"""Clocks, bands and assumptions on memories: what is none is refused with one message."""

from __future__ import annotations

import pytest

from pillion.boards.board import BOARDS
from pillion.devices.clock import Clock, parse_clock
from pillion.devices.cortex_m import CORES
from pillion.devices.cortex_m.classes import InstructionClass, InstructionCounts, MemoryAccesses
from pillion.devices.cortex_m.cycles import CYCLES
from pillion.devices.cortex_m.memories import MEMORIES, default_memories, find_memories
from pillion.devices.cortex_m.op_cycles import counted_cycles
from pillion.devices.cycle_range import CycleRange, sum_of_ranges
from pillion.errors import PillionError
from pillion.run.time_estimate import STAND_IN_BOARDS, counted_core, format_milliseconds

NO_CLOCKS = [
    *("0", "0MHz", "-3", "-3MHz", "nan", "nanMHz", "inf", "infGHz", "1e400MHz", "1e2MHz", "160", "", " ", "MHz", "1 600 MHz"),
    *("٣MHz", "9" * 14 + "MHz", "11GHz", "0.5kHz", "160MHz\n160MHz", "0x10MHz", "1,5GHz", "160mhz2", "--", "160MHz; rm"),
]  # fmt: skip


@pytest.mark.parametrize("text", [*NO_CLOCKS, 0, -3, float("nan"), float("inf"), True, None, 10**400, [160]])
def test_invalid_clocks_are_refused(text: object) -> None:
    with pytest.raises(PillionError, match="is no clock") as raised:
        parse_clock(text)  # type: ignore[arg-type]  # that is the point
    assert "160MHz" in raised.value.help


@pytest.mark.parametrize(
    ("text", "hertz"),
    [
        ("160MHz", 160e6),
        ("1GHz", 1e9),
        (" 1.5 ghz ", 1.5e9),
        ("32768 Hz", 32768),
        ("48000kHz", 48e6),
        (1e6, 1e6),
        (Clock(2e6), 2e6),
    ],
)
def test_clocks_are_read(text: str | float | Clock, hertz: float) -> None:
    assert parse_clock(text) == Clock(hertz)


def test_a_name_that_is_no_assumption_is_refused() -> None:
    with pytest.raises(PillionError, match="no assumption `flsh`") as raised:
        find_memories("flsh")
    assert raised.value.help == "did you mean `flash`?"


@pytest.mark.parametrize("ends", [(2, 1), (-1, 1), (0, float("nan")), (1, float("inf"))])
def test_bands_have_two_ends_in_order(ends: tuple[float, float]) -> None:
    with pytest.raises(ValueError, match="no band"):
        CycleRange(*ends)


def test_bands_add_up() -> None:
    assert sum_of_ranges([CycleRange(1, 2), CycleRange(3, 5) * 2]) == CycleRange(7, 12)
    assert 7 in CycleRange(7, 12)
    assert 12.1 not in CycleRange(7, 12)


@pytest.mark.parametrize(
    ("band", "words"),
    [
        (CycleRange(1.2345, 2.5), "1.23-2.5 ms"),
        (CycleRange(0, 0.0000012), "0-0 ms"),
        (CycleRange(99.96, 1234.5), "100-1234 ms"),
        (CycleRange(0.0123456, 20), "0.0123-20 ms"),
    ],
)
def test_milliseconds_in_words(band: CycleRange, words: str) -> None:
    assert format_milliseconds(band) == words


def test_each_core_has_cycles_for_all_that_it_executes_and_a_board_with_its_kernels() -> None:
    for name, core in CORES.items():
        assert CORES[BOARDS[core.board or STAND_IN_BOARDS[name]].core].isa is core.isa
        needs = (
            set(InstructionClass)
            if CORES[name].isa.value == "mve"
            else {c for c in InstructionClass if not c.name.startswith("VECTOR")}
        )
        assert needs <= set(CYCLES[CORES[name].plain].cycles), name


def test_every_core_that_is_counted_has_cycles() -> None:
    """On its own board, on its stand-in, and on every other board that a user may name."""
    pairs = [(core, on) for core in CORES.values() for on in (None, *BOARDS)]
    counted = [counted_core(core, on) for core, on in pairs]
    assert {core.plain for core in counted} <= set(CYCLES)
    assert len(counted) > len(CORES) * len(BOARDS)


def test_cycle_estimates_follow_the_instruction_table() -> None:
    """By hand, on a Cortex-M4: 10 + 3 x (1 to 2) + 2 x 2 + 5 registers + 4 jumps of 1 to 3; and the waits for one line of
    flash and 4 jumps at 100 MHz."""
    counts = {InstructionClass.ALU: 10, InstructionClass.LOAD: 3, InstructionClass.MULTIPLE: 2}
    ran = InstructionCounts(counts, more_registers=5, taken=4, constants=MemoryAccesses(64, 1))
    assert counted_cycles(CORES["cortex-m4"], ran, MEMORIES["tcm"], 1e8) == CycleRange(26, 37)
    waited = MEMORIES["flash"].cycles(ran, 1e8)
    assert (waited.low, waited.high) == (
        pytest.approx(4 * 1),
        pytest.approx(8 * 4 + 4 * 4),
    )  # 10 and 40 ns for 8 bytes, 0 and 40 ns for a jump


def test_cached_constants_are_loaded_once() -> None:
    small = InstructionCounts({}, constants=MemoryAccesses(320_000, 500))
    large = InstructionCounts({}, constants=MemoryAccesses(320_000, 513))
    cached = MEMORIES["cached"]
    assert cached.cycles(small, 1e9).high == pytest.approx(500 * 100)
    assert cached.cycles(large, 1e9).high == pytest.approx(10_000 * 100)
    assert default_memories("cortex-m55") is cached
    assert default_memories("cortex-m33").name == "flash"


def test_the_arena_is_waited_for_and_written_back() -> None:
    waited = MEMORIES["cached"].cycles(InstructionCounts({}, arena=MemoryAccesses(9_600, 100)), 1e9)
    assert (waited.low, waited.high) == (pytest.approx(100 * 10), pytest.approx(2 * 100 * 50))
    assert MEMORIES["flash"].cycles(
        InstructionCounts({}, arena=MemoryAccesses(9_600, 100)), 1e9
    ) == CycleRange(0, 0)
