# SPDX-License-Identifier: Apache-2.0
"""A conversation with the serial harness of a board: requests with answers, each in limited time."""

from __future__ import annotations

import struct
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from pillion.boards.serial_frames import ANSWER, FLAG, Frame, FrameReader, FrameType
from pillion.boards.serial_transport import Transport, open_transport
from pillion.errors import PillionError

VERSION = 1
ATTEMPTS = 4
ANSWER_SECONDS = 2.0
"""The limit for an answer to anything but a run, in addition to the time on the line."""
_DRAIN_SECONDS, _SILENT_SECONDS = 0.5, 0.05
RESET_STATE, COUNT_OPS, MEASURE_STACK = 1, 2, 4
DAMAGED, UNKNOWN, MISFIT, NO_INPUTS, NO_SELFTEST = range(1, 6)
STACK_UNKNOWN = 2**32 - 1
_HELLO = struct.Struct("<BBH16sIIIII")
_RUN = struct.Struct("<QI")
_SELFTEST = struct.Struct("<5I")


@dataclass(frozen=True)
class BoardHello:
    """A board's description of itself and of its program."""

    is_emulated: bool
    """Whether the board counts instructions, not cycles."""
    frame_bytes: int
    program_hash: str
    clock_hz: int
    counter_hz: int
    input_bytes: int
    output_bytes: int
    ops: int
    chip: str
    compiler: str
    flags: str

    def cycles(self, ticks: int) -> int:
        """Returns the cycles of the core in ticks of the board's counter."""
        return round(ticks * self.clock_hz / self.counter_hz)


@dataclass(frozen=True)
class BoardRun:
    """A board's measurements of a run: the cycles of each op if requested, and the stack if known."""

    cycles: int
    stack_bytes: int | None


class BoardLink:
    """An open line to a board."""

    def __init__(self, transport: Transport, place: str) -> None:
        self.transport, self.place = transport, place
        self._reader = FrameReader()
        self._number = 0
        self._greeted = self._saw_damage = False
        self.hello = self._greet()

    def run(self, sample: bytes, requested: int, timeout: float) -> BoardRun:
        """Runs the program on the bytes of all inputs."""
        size = self.hello.frame_bytes - 4
        for at in range(0, len(sample), size):
            self.request(FrameType.INPUT, struct.pack("<I", at) + sample[at : at + size], 0)
        ticks, stack = _RUN.unpack(self.request(FrameType.RUN, bytes((requested,)), 12, timeout))
        return BoardRun(self.hello.cycles(ticks), None if stack == STACK_UNKNOWN else stack)

    def outputs(self) -> bytes:
        """Returns the bytes of all outputs of the last run."""
        size, total = self.hello.frame_bytes, self.hello.output_bytes
        parts = []
        for at in range(0, total, size):
            count = min(size, total - at)
            parts.append(self.request(FrameType.OUTPUT, struct.pack("<II", at, count), count))
        return b"".join(parts)

    def op_cycles(self) -> tuple[int, ...]:
        """Returns the cycles of each op of the last run, which was asked to count them."""
        ticks: list[int] = []
        while len(ticks) < self.hello.ops:
            raw = self.request(FrameType.PROFILE, struct.pack("<I", len(ticks)))
            if not raw or len(raw) % 8:
                raise self._malformed(f"{len(raw)} bytes of counts")
            ticks += struct.unpack(f"<{len(raw) // 8}Q", raw)
        return tuple(self.hello.cycles(one) for one in ticks[: self.hello.ops])

    def selftest(self, timeout: float) -> tuple[int, int, int, int, int]:
        """Returns the wrong op plus 1, or 0; then the sample, op, result and element of the difference."""
        wrong, sample, op, result, element = _SELFTEST.unpack(
            self.request(FrameType.SELFTEST, b"", 20, timeout)
        )
        return wrong, sample, op, result, element

    def request(
        self, type: FrameType, contents: bytes = b"", size: int | None = None, timeout: float | None = None
    ) -> bytes:
        """Returns the contents of the answer to a request, which is sent again if it or its answer is damaged. Raises unless the
        answer has so many bytes."""
        self._number = self._number % 255 + 1
        frame = Frame(type, self._number, contents)
        limit = (ANSWER_SECONDS if timeout is None else timeout) + self.transport.seconds_per_byte * 2 * (
            len(contents) + (size or 4096) + 16
        )
        for attempt in range(ATTEMPTS):
            if attempt and not self._may_repeat(type):
                break
            answer = self._answer(frame, limit)
            if answer is not None:
                if size is not None and len(answer) != size:
                    raise self._malformed(f"{len(answer)} bytes for {type.name}, which has {size}")
                return answer
        raise self._silence_error(type, limit)

    def _may_repeat(self, type: FrameType) -> bool:
        """Whether a request without an answer is sent again: a run is only if a damaged answer shows that it has ended."""
        return type not in (FrameType.RUN, FrameType.SELFTEST) or self._saw_damage

    def _answer(self, frame: Frame, limit: float) -> bytes | None:
        """Sends a frame and returns its answer; None if it is missing or damaged."""
        self._saw_damage = False
        self.transport.write(frame.encode())
        now = time.monotonic()
        deadline, reminder = now + limit, now + ANSWER_SECONDS
        while (left := deadline - time.monotonic()) > 0:
            if (
                time.monotonic() > reminder
            ):  # ends a frame whose last flag was lost; otherwise it has no effect
                self.transport.write(bytes((FLAG,)))
                reminder += ANSWER_SECONDS
            for got in self._reader.feed(self.transport.read(min(left, 0.1))):
                if got is None or (got.type == FrameType.ERROR and got.contents == bytes((DAMAGED,))):
                    self._saw_damage = True
                elif got.type == FrameType.STARTED:
                    self._require_not_greeted()
                elif got.number == frame.number and got.type == FrameType.ERROR:
                    raise self._refusal(frame, got.contents)
                elif got.number == frame.number and got.type == frame.type | ANSWER:
                    return got.contents
            if self._saw_damage:
                self._drain()
                return None
        return None

    def _drain(self) -> None:
        """Reads until the line is silent, which noise without an end never is."""
        deadline = time.monotonic() + _DRAIN_SECONDS
        while time.monotonic() < deadline and (data := self.transport.read(_SILENT_SECONDS)):
            for frame in self._reader.feed(data):
                if frame is not None and frame.type == FrameType.STARTED:
                    self._require_not_greeted()

    def _greet(self) -> BoardHello:
        raw = self.request(FrameType.HELLO)
        self._greeted = True
        if raw[:1] != bytes((VERSION,)):
            raise PillionError(
                f"the board at {self.place} speaks another version of the protocol",
                rule=f"version {VERSION}, that of this Pillion",
                here=f"version {raw[0]}" if raw else "no version",
                help="compile the model again with --serial, build it and flash it",
            )
        try:
            _, emulated, frame_bytes, digest, *_ = numbers = _HELLO.unpack_from(raw)
            texts = raw[_HELLO.size :].decode("ascii").split("\0")[:3]
            chip, compiler, flags = (text for text in texts if text.isprintable())
        except (struct.error, UnicodeDecodeError, ValueError) as error:
            raise self._malformed(f"{type(error).__name__} in {len(raw)} bytes of HELLO") from None
        clock, counter, inputs, outputs, ops = numbers[4:]
        hello = BoardHello(
            bool(emulated),
            frame_bytes,
            digest.hex(),
            clock,
            counter,
            inputs,
            outputs,
            ops,
            chip,
            compiler,
            flags,
        )
        if hello.frame_bytes < 16 or not hello.clock_hz or not hello.counter_hz:
            raise self._malformed(f"{hello}")
        return hello

    def _require_not_greeted(self) -> None:
        if self._greeted:
            raise PillionError(
                f"the board at {self.place} restarted in the middle of the work",
                rule="it runs from the first sample to the last",
                here="it said that it started",
                help="a watchdog, a fault, a reset button or the power supply: run again, with one sample first",
            )

    def _refusal(self, frame: Frame, contents: bytes) -> PillionError:
        """Returns the error for a request that the board refuses."""
        code = contents[0] if len(contents) == 1 else 0
        name = FrameType(frame.type).name
        if code == NO_SELFTEST:
            return PillionError(
                "the program on the board has no self-test",
                rule="it was compiled with --selftest",
                here=self.place,
                help="pillion compile … --selftest samples.npz --serial CHIP -o FOLDER/, build it and flash it",
            )
        if code == NO_INPUTS:
            return PillionError(
                f"the board at {self.place} has lost its inputs",
                rule="it keeps what it receives until the run",
                here=f"refused {name}",
                help="it restarted, or another program writes to the port: run again",
            )
        return self._malformed(f"refused {name} with {code}")

    def _malformed(self, here: str) -> PillionError:
        return PillionError(
            f"the answer of the board at {self.place} makes no sense",
            rule="it runs serial/main.c of a project, unchanged",
            here=here,
            help="compile the model again with --serial, build it and flash it",
        )

    def _silence_error(self, type: FrameType, limit: float) -> PillionError:
        """Returns the error for a board that gives no answer; it shows the received bytes."""
        reader = self._reader
        if not self._greeted and reader.bytes_received:
            return PillionError(
                f"what comes from {self.place} is not the answer of a board with Pillion's serial harness",
                rule="frames with a flag, a type and a CRC-32",
                here=f"{reader.bytes_received} bytes, {reader.frames_damaged} damaged frames",
                help="another program runs on the board, or another speed: serial:PORT@BAUD",
            )
        if not self._greeted:
            return PillionError(
                f"no board answers at {self.place}",
                rule=f"a board with Pillion's serial harness answers within {limit:.3g} s",
                here="nothing was received",
                help="is it flashed with a project compiled with --serial, and is this its port and speed?",
            )
        return PillionError(
            f"the board at {self.place} gives no answer to {type.name}",
            rule=f"an answer without damage comes within {limit:.3g} s",
            here=f"{reader.frames_damaged} damaged frames since the beginning",
            help="--timeout SECONDS gives a run more time; a slower speed or a shorter cable loses less; a fault stops a board",
        )


@contextmanager
def open_board(place: str) -> Iterator[BoardLink]:
    """Opens the line to a board for a block."""
    transport = open_transport(place)
    try:
        yield BoardLink(transport, place)
    finally:
        transport.close()
