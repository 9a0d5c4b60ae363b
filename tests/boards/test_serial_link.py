# SPDX-License-Identifier: Apache-2.0
"""The protocol over a real pseudo-terminal with a board that makes mistakes: right bytes or one message, and nothing hangs."""

from __future__ import annotations

import os
import random
import sys
import threading
import time
import types
from collections.abc import Callable
from typing import Any

import pytest
from simulated_board import HASH, INPUT_BYTES, SimulatedBoard, outputs_of

from pillion.boards import serial_link
from pillion.boards.serial_frames import MOST_BYTES, Frame, FrameReader, FrameType
from pillion.boards.serial_link import COUNT_OPS, RESET_STATE, open_board
from pillion.boards.serial_transport import open_transport
from pillion.errors import PillionError

SAMPLE = bytes(random.Random(3).randrange(256) for _ in range(INPUT_BYTES))
STARTED = Frame(FrameType.STARTED, 0).encode()


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serial_link, "ANSWER_SECONDS", 0.3)


def run_once(board: SimulatedBoard, **hears: Any) -> bytes:
    with board.port(**hears) as port, open_board(f"serial:{port}@1000000") as link:
        link.run(SAMPLE, RESET_STATE, 0.6)
        return link.outputs()


def fails(board: SimulatedBoard, *words: str, **hears: Any) -> None:
    begin = time.monotonic()
    with pytest.raises(PillionError) as caught:
        run_once(board, **hears)
    text = str(caught.value)
    assert all(word in text for word in words), text
    assert time.monotonic() - begin < 15


def at(count: int, change: Callable[[bytes], bytes]) -> Callable[[int, bytes], bytes]:
    """Changes the bytes of one count."""
    return lambda number, data: change(data) if number == count else data


def test_frames_survive_every_byte_and_noise_around_them() -> None:
    frames = [Frame(2, number, bytes(range(number, 256)) + b"\x7e\x7d" * number) for number in range(9)]
    noise = random.Random(0)
    line = b"".join(noise.randbytes(number) + b"\x7e" + frame.encode() for number, frame in enumerate(frames))
    for step in (1, 3, 64, len(line)):
        reader = FrameReader()
        found = [frame for i in range(0, len(line), step) for frame in reader.feed(line[i : i + step])]
        assert [frame for frame in found if frame is not None] == frames


def test_no_byte_of_a_frame_can_change_unseen() -> None:
    line = Frame(2, 1, b"\x7e abc").encode()
    for place in range(len(line)):
        for changed in (line[:place] + line[place + 1 :], line[:place] + b"\x55" + line[place + 1 :]):
            found = [frame for frame in FrameReader().feed(b"\x7e" + changed + b"\x7e") if frame is not None]
            assert found in ([], [Frame(2, 1, b"\x7e abc")])
    reader = FrameReader()
    assert list(reader.feed(bytes(MOST_BYTES + 9))) == []
    assert list(reader.feed(b"\x7e" + line)) == [Frame(2, 1, b"\x7e abc")]


def test_a_run_its_profile_and_its_selftest() -> None:
    board = SimulatedBoard()
    with board.port() as port, open_board(f"serial:{port}@9600") as link:
        hello = link.hello
        assert (hello.program_hash, hello.chip, hello.compiler) == (HASH.hex(), "a chip", "gcc 12")
        run = link.run(SAMPLE, COUNT_OPS, 1)
        assert (run.cycles, run.stack_bytes) == (1600, None)
        assert link.outputs() == outputs_of(SAMPLE)
        assert link.op_cycles() == (160, 320, 480)
        assert link.selftest(1) == (2, 1, 1, 0, 5)


@pytest.mark.parametrize("count", range(1, 9))
@pytest.mark.parametrize(
    "change",
    [
        lambda data: b"booting... \x00\xff~~" + data,
        lambda data: data[:4] + b"\x99" + data[4:],
        lambda data: data[:-3] + data[-2:],
        lambda data: data[1:],
    ],
    ids=["noise before", "noise within", "lost", "first lost"],
)
def test_damaged_frames_are_sent_again(count: int, change: Callable[[bytes], bytes]) -> None:
    for board, hears in (
        (SimulatedBoard(spoil=at(count, change)), {}),
        (SimulatedBoard(), {"hears": at(count, change)}),
    ):
        assert run_once(board, **hears) == outputs_of(SAMPLE)
        assert board.runs == 1


def test_a_run_whose_last_byte_is_lost_is_reminded() -> None:
    run = 1 + 3 + 1  # HELLO, three INPUTs, RUN
    board = SimulatedBoard()
    assert run_once(board, hears=at(run, lambda data: data[:-1])) == outputs_of(SAMPLE)
    assert board.runs == 1


def test_each_failure_has_its_message() -> None:
    fails(SimulatedBoard(spoil=lambda number, data: b""), "no board answers", "nothing was received")
    fails(SimulatedBoard(spoil=lambda number, data: b"Hello, world!\r\n"), "is not the answer", "@BAUD")
    fails(SimulatedBoard(spoil=at(3, lambda data: STARTED)), "restarted in the middle")
    fails(SimulatedBoard(refuses={5: 4}), "has lost its inputs")
    fails(SimulatedBoard(refuses={5: 9}), "makes no sense", "refused RUN with 9")
    fails(
        SimulatedBoard(spoil=lambda number, data: data if number < 5 else b""),
        "no answer to RUN",
        "--timeout",
    )
    fails(SimulatedBoard(spoil=lambda number, data: data if number < 3 else data[:-3]), "no answer to INPUT")
    fails(SimulatedBoard(hello=bytes(40)), "another version", "version 0")
    fails(SimulatedBoard(hello=b"\x01"), "makes no sense")
    fails(SimulatedBoard(hello=b"\x01" + bytes(39) + b"a\0b\0c\0"), "makes no sense")
    for text in (b"\xff\0\0\0", b"\x1b[2J\0b\0c\0", b"a\0b"):
        hello = b"\x01\0\x40\0" + bytes(16) + b"\x01\0\0\0" * 5 + text
        fails(SimulatedBoard(hello=hello), "makes no sense", "of HELLO")


def test_a_board_that_starts_while_it_is_greeted_is_no_failure() -> None:
    assert run_once(SimulatedBoard(spoil=at(1, lambda data: STARTED + data))) == outputs_of(SAMPLE)


@pytest.mark.parametrize("seed", range(3))
def test_garbage_without_an_end(seed: int) -> None:
    ours, theirs = os.openpty()
    ended = threading.Event()
    os.set_blocking(ours, False)

    def talk() -> None:
        noise = random.Random(seed)
        while not ended.is_set():
            try:
                os.write(ours, noise.randbytes(200) if seed else b"~" * 64)
            except OSError:
                time.sleep(0.01)

    thread = threading.Thread(target=talk, daemon=True)
    thread.start()
    begin = time.monotonic()
    try:
        with (
            pytest.raises(PillionError, match=r"is not the answer"),
            open_board(f"serial:{os.ttyname(theirs)}"),
        ):
            pass
    finally:
        ended.set()
        thread.join(5)
        os.close(ours)
        os.close(theirs)
    assert time.monotonic() - begin < 15


def test_invalid_places_are_refused(tmp_path: Any) -> None:
    for place, word in {
        "serial:": "names no board",
        "serial:/dev/ttyACM0@fast": "digits",
        "rtt:host": "names no board",
        f"serial:{tmp_path}/tty": "cannot be opened",
        "rtt:localhost:1": "cannot be opened",
    }.items():
        with pytest.raises(PillionError, match=word):
            open_transport(place)


def test_a_port_that_another_program_has() -> None:
    in_use = pytest.raises(PillionError, match="in use by another program")
    with SimulatedBoard().port() as port, open_board(f"serial:{port}"), in_use:
        open_transport(f"serial:{port}")


def test_a_port_that_goes_away() -> None:
    ours, theirs = os.openpty()
    line = open_transport(f"serial:{os.ttyname(theirs)}")
    os.close(ours)
    os.close(theirs)
    with pytest.raises(PillionError, match="broke off"):
        line.read(0.05)


@pytest.mark.parametrize("place", ["serial:/dev/null", "pyocd:stm32f407vg"])
def test_the_extra_is_named_where_it_is_missing(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("serial", "pyocd", "pyocd.core", "pyocd.core.helpers"):
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(PillionError, match=r"pip install 'pillion\[board\]'"):
        open_transport(place)


class _FakeSession:
    def __init__(self, board: SimulatedBoard) -> None:
        self.target, self.board, self.closed = self, board, False

    def open(self) -> None:
        return

    def close(self) -> None:
        self.closed = True


class _FakeControl:
    """Channels of RTT as pyOCD offers them, which take a few bytes at a time."""

    def __init__(self, board: SimulatedBoard) -> None:
        self.board, self.reader, self.pending = board, FrameReader(), b""
        self.up_channels = self.down_channels = [self]

    def start(self) -> None:
        return

    def write(self, data: bytes) -> int:
        taken = data[:16]
        for frame in self.reader.feed(taken):
            self.pending += self.board.answer(frame)
        return len(taken)

    def read(self) -> bytes:
        given, self.pending = self.pending[:16], self.pending[16:]
        return given


def test_rtt_by_a_probe(monkeypatch: pytest.MonkeyPatch) -> None:
    session = _FakeSession(SimulatedBoard())
    helpers, rtt = types.ModuleType("pyocd.core.helpers"), types.ModuleType("pyocd.debug.rtt")
    asked: dict[str, Any] = {}

    def choose(**options: Any) -> _FakeSession | None:
        asked.update(options)
        return session

    helpers.ConnectHelper = types.SimpleNamespace(session_with_chosen_probe=choose)  # type: ignore[attr-defined]
    rtt.RTTControlBlock = types.SimpleNamespace(  # type: ignore[attr-defined]
        from_target=lambda target: _FakeControl(target.board)
    )
    monkeypatch.setitem(sys.modules, "pyocd.core.helpers", helpers)
    monkeypatch.setitem(sys.modules, "pyocd.debug.rtt", rtt)
    with open_board("pyocd:stm32f407vg") as link:
        link.run(SAMPLE, RESET_STATE, 1)
        assert link.outputs() == outputs_of(SAMPLE)
    assert (session.closed, asked["options"]) == (True, {"target_override": "stm32f407vg"})
    helpers.ConnectHelper.session_with_chosen_probe = lambda **options: None
    with pytest.raises(PillionError, match="no debug probe"):
        open_transport("pyocd:stm32f407vg")
