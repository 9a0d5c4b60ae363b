# SPDX-License-Identifier: Apache-2.0
"""The same firmwares on this computer."""

from __future__ import annotations

import os
import random
import re
import subprocess
import sys
from pathlib import Path
from statistics import median

import pytest
from small_firmware import ARENA_BYTES, COUNT, ORDINARY_OPS, WriteFirmware, expected_outputs, needs_host

from pillion.boards.host import HostModel
from pillion.errors import PillionError

pytestmark = needs_host


@pytest.mark.parametrize("native", [False, True])
def test_outputs(write_firmware: WriteFirmware, native: bool) -> None:
    model = HostModel(write_firmware(ORDINARY_OPS), native=native)
    for seed in range(20):
        x = random.Random(seed).randbytes(COUNT)
        assert model.run([x]) == expected_outputs(x)


def test_the_model_describes_itself(write_firmware: WriteFirmware) -> None:
    model = HostModel(write_firmware(ORDINARY_OPS))
    assert (model.name, model.arena_bytes, model.op_names) == ("tiny", ARENA_BYTES, list(ORDINARY_OPS))
    assert [(place.name, place.bytes) for place in model.inputs] == [("x", COUNT)]
    assert [(place.name, place.bytes) for place in model.outputs] == [("sum", COUNT), ("scaled", COUNT)]


def test_nanoseconds(write_firmware: WriteFirmware) -> None:
    short, long = (HostModel(write_firmware({"spin": f"test_spin({n}u);"})) for n in (1000, 100_000))
    assert 0 < 10 * median(short.nanoseconds(5)) < median(long.nanoseconds(5))


@pytest.mark.parametrize("inputs", [[], [bytes(COUNT - 1)], [bytes(COUNT + 1)], [bytes(COUNT), b""]])
def test_inputs_that_do_not_fit_are_an_error(write_firmware: WriteFirmware, inputs: list[bytes]) -> None:
    with pytest.raises(PillionError, match="the inputs do not fit tiny"):
        HostModel(write_firmware(ORDINARY_OPS)).run(inputs)


@pytest.mark.parametrize(
    ("offset", "message"),
    [
        (-1, "1 bytes before the arena were changed, the nearest 1 from it"),
        (-4096, "1 bytes before the arena were changed, the nearest 4096 from it"),
        (ARENA_BYTES, "1 bytes after the arena were changed, the nearest 1 from it"),
        (ARENA_BYTES + 7, "1 bytes after the arena were changed, the nearest 8 from it"),
    ],
)
def test_a_write_outside_the_arena_is_an_error(
    write_firmware: WriteFirmware, offset: int, message: str
) -> None:
    model = HostModel(write_firmware({"wild": f"test_write_at(a, {offset});"}))
    with pytest.raises(PillionError, match="wrote outside its arena") as error:
        model.run([bytes(COUNT)])
    assert error.value.here == message


@pytest.mark.parametrize("offset", [0, ARENA_BYTES - 1])
def test_a_write_at_the_edge_of_the_arena_is_fine(write_firmware: WriteFirmware, offset: int) -> None:
    model = HostModel(write_firmware({"edge": f"test_write_at(a, {offset});"}))
    assert [len(answer) for answer in model.run([bytes(COUNT)])] == [place.bytes for place in model.outputs]


def test_a_changed_source_is_compiled_again(write_firmware: WriteFirmware) -> None:
    firmware = write_firmware(ORDINARY_OPS)
    before = HostModel(firmware).run([bytes(COUNT)])[0]
    weights = (firmware / "model/weights.c").read_text()
    (firmware / "model/weights.c").write_text(re.sub(r"\{-?\d+", "{77", weights))
    assert before[0] != 77
    assert HostModel(firmware).run([bytes(COUNT)])[0] == bytes([77]) + before[1:]


def test_a_changed_header_is_compiled_again(write_firmware: WriteFirmware) -> None:
    firmware = write_firmware(ORDINARY_OPS)
    assert HostModel(firmware).arena_bytes == ARENA_BYTES
    header = (firmware / "model/model.h").read_text()
    (firmware / "model/model.h").write_text(header.replace(f"ARENA_BYTES {ARENA_BYTES}", "ARENA_BYTES 64"))
    assert HostModel(firmware).arena_bytes == 64


def test_processes_may_build_the_same_model_at_once(write_firmware: WriteFirmware) -> None:
    firmware = write_firmware({"own": "test_spin(78u);", **ORDINARY_OPS})
    program = (
        "import sys, pathlib; from pillion.boards.host import HostModel;"
        f"print(HostModel(pathlib.Path(sys.argv[1])).run([bytes({COUNT})]))"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", program, str(firmware)]
    running = [
        subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) for _ in range(4)
    ]
    printed = {process.communicate(timeout=60)[0] for process in running}
    assert printed == {f"{expected_outputs(bytes(COUNT))}\n"}


def test_a_folder_that_is_no_firmware_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(PillionError, match="is not a firmware folder") as error:
        HostModel(tmp_path)
    assert error.value.here == "missing: model/model.c, model/model.h, model/weights.c, model/kernels"


def test_a_cache_that_cannot_be_written_is_an_error(
    write_firmware: WriteFirmware, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("PILLION_CACHE", str(tmp_path / "file"))
    with pytest.raises(PillionError, match="no place to keep compiled files"):
        HostModel(write_firmware(ORDINARY_OPS))
