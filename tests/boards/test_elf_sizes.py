# SPDX-License-Identifier: Apache-2.0
"""What the linked file says of a firmware's sizes."""

from __future__ import annotations

from pathlib import Path

import pytest
from small_firmware import ARENA_BYTES, COUNT, ORDINARY_OPS, WriteFirmware, needs_arm_compiler

from pillion.boards.board import BOARDS, Board
from pillion.boards.elf import read_elf
from pillion.boards.qemu import build_firmware
from pillion.errors import PillionError

every_board = pytest.mark.parametrize("board", BOARDS.values(), ids=list(BOARDS))


@needs_arm_compiler
@every_board
def test_sizes_and_places(write_firmware: WriteFirmware, board: Board) -> None:
    sizes = read_elf(build_firmware(write_firmware(ORDINARY_OPS), board))
    assert (sizes.arena, sizes.stack_reserved) == (ARENA_BYTES, 16 * 1024)
    symbols = sizes.symbols
    assert symbols["test_constant"].bytes == COUNT
    assert symbols["test_constant"].section == ".constants"
    assert symbols["pillion_arena"].bytes == ARENA_BYTES
    assert symbols["pillion_arena"].section == ".pillion_arena"
    assert symbols["test_add_constant"].is_function
    assert symbols["main"].section == ".startup"
    for name, region in (
        ("test_constant", "CONSTANTS"),
        ("pillion_arena", "ARENA"),
        ("test_add_constant", "CODE"),
    ):
        where = board.regions[region]
        assert where.origin <= symbols[name].address < where.origin + where.bytes


@needs_arm_compiler
@every_board
def test_code_and_constants_grow_apart(write_firmware: WriteFirmware, board: Board) -> None:
    """More weights change only the constants; one more kernel hardly changes them but adds to the code."""
    small = write_firmware(ORDINARY_OPS)
    heavy = write_firmware(ORDINARY_OPS)
    with (heavy / "model/weights.c").open("a") as weights:
        weights.write("extern const int8_t more[1024];\nconst int8_t more[1024] = {1};\n")
    model = (heavy / "model/model.c").read_text()
    declared = "extern const int8_t more[1024];\nextern const int8_t *volatile keep;\n"
    use = declared + "const int8_t *volatile keep = more;\n"
    (heavy / "model/model.c").write_text(model.replace("static void run", use + "static void run"))
    busy = write_firmware({**ORDINARY_OPS, "touch": "(void)test_touch_stack(1);"})
    a, b, c = (read_elf(build_firmware(firmware, board)) for firmware in (small, heavy, busy))
    assert (b.code, b.harness) == (a.code, a.harness)
    kept = read_elf(build_firmware(heavy, board)).symbols
    assert ("more" in kept) == (b.constants >= a.constants + 1024)
    assert c.code > a.code
    assert c.constants - a.constants < 32


@needs_arm_compiler
def test_a_kernel_that_is_not_called_is_not_linked(write_firmware: WriteFirmware) -> None:
    sizes = read_elf(build_firmware(write_firmware(ORDINARY_OPS), BOARDS["mps2-an505"]))
    assert "test_endless" not in sizes.symbols


@pytest.mark.parametrize("content", [b"", b"\x7fELF", b"\x7fELF\x01\x01\x01" + bytes(40), b"MZ" + bytes(100)])
def test_a_file_that_is_no_firmware_is_an_error(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "file").write_bytes(content)
    with pytest.raises(PillionError, match="cannot be read as a linked firmware"):
        read_elf(tmp_path / "file")


def test_a_missing_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(PillionError, match="cannot be read as a linked firmware"):
        read_elf(tmp_path / "none")


@needs_arm_compiler
def test_a_cut_off_file_is_an_error(write_firmware: WriteFirmware, tmp_path: Path) -> None:
    whole = build_firmware(write_firmware(ORDINARY_OPS), BOARDS["mps2-an505"]).read_bytes()
    for length in (51, 52, 1000, len(whole) // 2, len(whole) - 60):
        (tmp_path / "cut").write_bytes(whole[:length])
        with pytest.raises(PillionError, match="cannot be read as a linked firmware"):
            read_elf(tmp_path / "cut")
