# SPDX-License-Identifier: Apache-2.0
"""Firmwares on every emulated board: outputs, counts, and an error in bounded time whatever goes wrong."""

from __future__ import annotations

import random
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
from small_firmware import COUNT, ORDINARY_OPS, WriteFirmware, expected_outputs, needs_board

from pillion.boards.board import BOARDS, Board
from pillion.boards.elf import read_elf
from pillion.boards.qemu import build_firmware, run_samples
from pillion.errors import PillionError

pytestmark = [needs_board, pytest.mark.slow]
every_board = pytest.mark.parametrize("board", BOARDS.values(), ids=list(BOARDS))
M33, M55 = BOARDS["mps2-an505"], BOARDS["mps3-an547"]
M0 = BOARDS["microbit"]
"""Its core has one name for all faults; the emulator answers there at every address."""


def _samples(count: int) -> list[bytes]:
    return [bytes([128, 127, 255]) + random.Random(i).randbytes(COUNT - 3) for i in range(count)]


@every_board
@pytest.mark.parametrize("count", [1, 5])
def test_outputs_of_every_sample(write_firmware: WriteFirmware, board: Board, count: int) -> None:
    samples = _samples(count)
    result = run_samples(write_firmware(ORDINARY_OPS), board, b"".join(samples))
    assert result.outputs == b"".join(b"".join(expected_outputs(sample)) for sample in samples)
    assert (result.instructions, result.op_instructions) == (None, None)


@pytest.mark.turns(5)
@every_board
def test_size_builds_give_the_same_outputs(write_firmware: WriteFirmware, board: Board) -> None:
    (sample,) = _samples(1)
    result = run_samples(write_firmware(ORDINARY_OPS), replace(board, optimize="size"), sample)
    assert result.outputs == b"".join(expected_outputs(sample))


@pytest.mark.turns(4)
@every_board
def test_counts_are_exact(write_firmware: WriteFirmware, board: Board) -> None:
    """A loop of two instructions, from one turn to enough for the 24-bit clock to wrap three times."""
    turns = [1, 2, 3, 1001, 1003, 10_000_003]
    ops = {f"spin{n}": f"test_spin({n}u);" for n in (*turns, 1)}
    firmware = write_firmware(ops)
    first = run_samples(firmware, board, bytes(COUNT), profile=True)
    assert first.op_instructions is not None
    # What the call itself takes depends on how the compiler loads the number; it must be the same for near
    # numbers.
    around = [got - 2 * n for got, n in zip(first.op_instructions, turns, strict=False)]
    assert around[1] == around[2]
    assert around[3] == around[4]
    assert all(0 <= rest <= 12 for rest in around)
    assert first.instructions == sum(first.op_instructions)
    assert run_samples(firmware, board, bytes(COUNT), profile=True) == first


def test_a_count_is_of_the_first_sample_only(write_firmware: WriteFirmware) -> None:
    firmware = write_firmware({"spin": "test_spin(500u);", **ORDINARY_OPS})
    samples = _samples(3)
    one, three = (run_samples(firmware, M33, b"".join(samples[:n]), profile=True) for n in (1, 3))
    assert one.op_instructions == three.op_instructions
    assert three.outputs == b"".join(b"".join(expected_outputs(sample)) for sample in samples)


@pytest.mark.turns(3)
@every_board
def test_stack_size_is_measured_by_the_touched_bytes(write_firmware: WriteFirmware, board: Board) -> None:
    """At least the bytes asked for, in frames of 256; at most those with generous registers around each."""
    for wanted in (256, 2560, 10240):
        result = run_samples(
            write_firmware({"touch": f"(void)test_touch_stack({wanted});"}), board, bytes(COUNT)
        )
        assert result.stack_bytes is not None
        assert wanted <= result.stack_bytes <= wanted + wanted // 256 * 48 + 64


def test_measuring_time_does_not_change_the_stack(write_firmware: WriteFirmware) -> None:
    firmware = write_firmware({"touch": "(void)test_touch_stack(1024);", "spin": "test_spin(20000000u);"})
    assert (
        run_samples(firmware, M33, bytes(COUNT), profile=True).stack_bytes
        == run_samples(firmware, M33, bytes(COUNT)).stack_bytes
    )


@pytest.mark.turns(3)
@every_board
@pytest.mark.parametrize("length", [0, 1, COUNT - 1, COUNT + 1, 3 * COUNT - 1])
def test_a_broken_sample_is_an_error(write_firmware: WriteFirmware, board: Board, length: int) -> None:
    with pytest.raises(PillionError, match="not a whole number of samples") as error:
        run_samples(write_firmware(ORDINARY_OPS), board, bytes(length))
    assert f"sample_bytes = {COUNT}, input_bytes = {length}" in error.value.here


@every_board
def test_an_undefined_instruction_is_an_error(write_firmware: WriteFirmware, board: Board) -> None:
    fault = "HardFault" if board is M0 else "UsageFault"
    with pytest.raises(PillionError, match=f"{fault} on {board.name}") as error:
        run_samples(write_firmware({"bad": "test_undefined_instruction();"}), board, bytes(COUNT), timeout=10)
    assert board is M0 or error.value.rule == "undefined instruction"
    assert "in test_undefined_instruction+0" in error.value.here


@pytest.mark.parametrize("board", [b for b in BOARDS.values() if b is not M0], ids=lambda board: board.name)
def test_a_read_of_no_memory_is_an_error(write_firmware: WriteFirmware, board: Board) -> None:
    with pytest.raises(PillionError, match=f"BusFault on {board.name}") as error:
        run_samples(write_firmware({"bad": "(void)test_read_nowhere();"}), board, bytes(COUNT), timeout=10)
    assert "address 0xf8000000" in error.value.here
    assert "in test_read_nowhere" in error.value.here


@every_board
def test_a_stack_overflow_is_an_error(write_firmware: WriteFirmware, board: Board) -> None:
    with pytest.raises(PillionError) as error:
        run_samples(
            write_firmware({"deep": "(void)test_touch_stack(40000);"}), board, bytes(COUNT), timeout=10
        )
    assert "stack overflow" in error.value.rule
    assert "PILLION_STACK_BYTES" in error.value.help


def test_a_model_that_does_not_end_is_an_error(write_firmware: WriteFirmware) -> None:
    start = time.monotonic()
    with pytest.raises(PillionError, match="did not finish on mps2-an505") as error:
        run_samples(write_firmware({"endless": "test_endless();"}), M33, bytes(COUNT), timeout=1)
    assert time.monotonic() - start < 10
    assert error.value.rule == "a run ends within 1 s"


@pytest.mark.turns(5)
@every_board
def test_a_model_as_large_as_a_mobilenet_v2_runs(write_firmware: WriteFirmware, board: Board) -> None:
    """3.5 MB of constants and 1.5 MB of arena: their last bytes are where the first ones say."""
    firmware = write_firmware(
        {"last": "test_add_constant(test_constant + 3499987, a + 1499987, a + 16, 13);"}
    )
    model, header, weights = (firmware / "model" / name for name in ("model.c", "model.h", "weights.c"))
    model.write_text(
        model.read_text()
        .replace("test_constant[13]", "test_constant[3500000]")
        .replace('"x", 0', '"x", 1499987')
    )
    header.write_text(header.read_text().replace("ARENA_BYTES 48", "ARENA_BYTES 1500000"))
    weights.write_text(
        "#include <stdint.h>\nextern const int8_t test_constant[3500000];\n"
        "const int8_t test_constant[3500000] = {[3499999] = 5};\n"
    )
    assert run_samples(firmware, board, bytes(range(COUNT))).outputs[:COUNT] == bytes(
        [*range(COUNT - 1), COUNT - 1 + 5]
    )
    sizes = read_elf(build_firmware(firmware, board))
    assert (sizes.arena, sizes.symbols["test_constant"].bytes) == (1_500_000, 3_500_000)


def test_a_model_too_large_for_the_board_is_an_error(write_firmware: WriteFirmware) -> None:
    firmware = write_firmware(ORDINARY_OPS)
    header = (firmware / "model/model.h").read_text()
    (firmware / "model/model.h").write_text(header.replace("ARENA_BYTES 48", "ARENA_BYTES 5000000"))
    with pytest.raises(PillionError, match="linking") as error:
        run_samples(firmware, M33, bytes(COUNT))
    assert "too large" in error.value.help


def test_code_that_does_not_compile_is_an_error(write_firmware: WriteFirmware) -> None:
    with pytest.raises(PillionError, match=r"compiling model\.c") as error:
        run_samples(write_firmware({"typo": "test_spn(1);"}), M33, bytes(COUNT))
    assert "test_spn" in error.value.here


def test_the_same_firmware_may_be_built_many_times_at_once(write_firmware: WriteFirmware) -> None:
    firmware = write_firmware({"own": "test_spin(77u);", **ORDINARY_OPS})
    with ThreadPoolExecutor(6) as pool:
        results = list(pool.map(lambda _: run_samples(firmware, M55, bytes(COUNT)), range(6)))
    assert {result.outputs for result in results} == {b"".join(expected_outputs(bytes(COUNT)))}
