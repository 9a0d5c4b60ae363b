# SPDX-License-Identifier: Apache-2.0
"""A board at a pseudo-terminal that speaks the protocol, and makes the mistakes that a test asks for."""

from __future__ import annotations

import os
import struct
import threading
import tty
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from pillion.boards.serial_frames import ANSWER, Frame, FrameReader, FrameType

HASH = bytes(range(16))
INPUT_BYTES, OUTPUT_BYTES, OPS = 150, 70, 3


def outputs_of(inputs: bytes) -> bytes:
    """What the simulated program computes."""
    return bytes((7 * byte + 3) % 256 for byte in inputs[:OUTPUT_BYTES])


@dataclass
class SimulatedBoard:
    """The protocol as serial/main.c answers it. `spoil` changes the bytes of an answer, which it gets with its count."""

    spoil: Callable[[int, bytes], bytes] = lambda number, data: data
    refuses: dict[int, int] = field(default_factory=dict)
    """The code with which the answer of a count is refused."""
    hello: bytes = b""
    hash: bytes = HASH
    runs: int = 0
    answers: int = 0
    inputs: bytearray = field(default_factory=bytearray)
    last_run: int = -1

    def contents(self, frame: Frame) -> bytes:
        if frame.type == FrameType.HELLO:
            numbers = (1, 0, 64, self.hash, 16_000_000, 1_000_000, INPUT_BYTES, OUTPUT_BYTES, OPS)
            return self.hello or struct.pack("<BBH16sIIIII", *numbers) + b"a chip\0gcc 12\0-O\0"
        if frame.type == FrameType.INPUT:
            at = struct.unpack_from("<I", frame.contents)[0]
            self.inputs[at:] = frame.contents[4:]
            return b""
        if frame.type == FrameType.RUN:
            self.runs += frame.number != self.last_run
            self.last_run = frame.number
            return struct.pack("<QI", 100, 2**32 - 1)
        if frame.type == FrameType.OUTPUT:
            at, count = struct.unpack("<II", frame.contents)
            return outputs_of(bytes(self.inputs))[at : at + count]
        if frame.type == FrameType.PROFILE:
            return struct.pack("<3Q", 10, 20, 30)
        return struct.pack("<5I", 2, 1, 1, 0, 5)

    def answer(self, frame: Frame | None) -> bytes:
        self.answers += 1
        if frame is None:
            made = Frame(FrameType.ERROR, 0, b"\x01")
        elif self.answers in self.refuses:
            made = Frame(FrameType.ERROR, frame.number, bytes((self.refuses[self.answers],)))
        else:
            made = Frame(frame.type | ANSWER, frame.number, self.contents(frame))
        return self.spoil(self.answers, made.encode())

    @contextmanager
    def port(self, hears: Callable[[int, bytes], bytes] = lambda number, data: data) -> Iterator[str]:
        """Answers at a pseudo-terminal for a block, and yields its name. `hears` changes what the board receives."""
        ours, theirs = os.openpty()
        tty.setraw(theirs)
        thread = threading.Thread(target=self._serve, args=(ours, hears), daemon=True)
        thread.start()
        try:
            yield os.ttyname(theirs)
        finally:
            os.close(theirs)
            thread.join(5)
            os.close(ours)

    def _serve(self, line: int, hears: Callable[[int, bytes], bytes]) -> None:
        reader, heard = FrameReader(), 0
        try:
            while data := os.read(line, 4096):
                heard += 1
                for frame in reader.feed(hears(heard, data)):
                    os.write(line, self.answer(frame))
        except OSError:
            return
