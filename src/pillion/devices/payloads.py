# SPDX-License-Identifier: Apache-2.0
"""What goes to an NPU for each segment of a program, whichever NPU it is.

A device is asked with the segments as TFLite files. Where its vendor's converter is installed it answers with code for the
chip; everywhere else the files themselves go into the program, under Pillion's mark, and only Pillion's executors run them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from pillion.errors import PillionError
from pillion.ir.numerics import Arithmetic
from pillion.ir.workspace import Workspace
from pillion.schemas.ir_payload import ir_payload

Copied = frozenset[int]
"""Which operands and results of a segment, counted together, do not lie where its processor has them."""


@dataclass(frozen=True)
class SegmentFile:
    """A segment as a TFLite file, the names of what crosses its border in the order of the program's arguments, and the arithmetic of the
    processor that runs it."""

    name: str
    tflite: bytes
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    arithmetic: Arithmetic = Arithmetic.TFLITE


@dataclass(frozen=True)
class SegmentCost:
    """What a converter says that a segment takes."""

    cycles: int
    by: str
    """The converter, with its version."""


@dataclass(frozen=True)
class SegmentPayload:
    """A segment in both forms: as the NPU takes it, and as TFLite."""

    name: str
    tflite: bytes
    payload: bytes
    """What the delegate is given."""
    run: Callable[..., tuple[bytes, ...]] | None = None
    """What executes the NPU's own code on this computer, where that can be done: arrays in, the bytes of results out."""
    why_not: str = ""
    """Why nothing executes it."""


@dataclass(frozen=True)
class Executable:
    """An NPU's own code that this computer can execute."""

    npu: str
    """The NPU that it is for."""
    inputs: tuple[int, ...]
    """The bytes of each input."""
    outputs: tuple[int, ...]
    run: Callable[..., tuple[bytes, ...]]
    """Arrays in, the bytes of results out."""


@dataclass(frozen=True)
class Payloads:
    """The payloads of all segments of a program, in running order."""

    segments: tuple[SegmentPayload, ...]
    converter: str = ""
    """Who made them, with its version; empty where they are TFLite under Pillion's mark, which a chip refuses."""
    cycles_by: str = ""
    """Who says how many cycles segments take, with its version."""
    missing: str = ""
    """The converter that is not installed."""
    sources: Callable[[str, Sequence[Copied]], Mapping[str, str]] | None = None
    """C files that run the segments of a model of some name on the chip: name → text. For each segment it is told what must be copied."""
    scratch_bytes: int = 0
    """The memory that the largest segment works in: beside the program's arena, or in it (`workspaces`)."""
    workspaces: tuple[Workspace, ...] = ()
    """The memory that each segment works in, where the program's own memory has it: what it reads and makes may then lie there."""
    cycles: tuple[int, ...] = ()
    """What the converter estimates for each segment."""
    firmware_files: Mapping[str, str] = field(default_factory=dict)
    """What the NPU's firmware needs to know beside the payloads: name → text."""

    @property
    def figures(self) -> dict[str, int | str]:
        """What the converter says of its code: estimated cycles, and the memory that it works in (in a .pte the temp allocator's)."""
        cycles: dict[str, int | str] = (
            {"npu_cycles_estimate": sum(self.cycles), "npu_cycles_by": self.cycles_by} if self.cycles else {}
        )
        return {**cycles, **({"npu_scratch_bytes": self.scratch_bytes} if self.scratch_bytes else {})}

    @property
    def summary(self) -> str:
        """Says in one line which of both forms was written."""
        count = f"{len(self.segments)} segment{'' if len(self.segments) == 1 else 's'}"
        if self.converter:
            return f"{count}, converted by {self.converter}"
        why = (
            f"{self.missing} is not installed, and a device will refuse it"
            if self.missing
            else "there is no converter"
        )
        return f"{count}, as TFLite: {why}"


def in_file(payloads: Sequence[bytes], find: Callable[[bytes], Executable]) -> Payloads:
    """Gives the payloads that a program was read with; `find` gives what executes one, or raises."""
    return Payloads(tuple(_in_file(payload, find) for payload in payloads), converter="the file's own code")


def _in_file(payload: bytes, find: Callable[[bytes], Executable]) -> SegmentPayload:
    try:
        return SegmentPayload("", b"", payload, find(payload).run)
    except PillionError as error:
        return SegmentPayload("", b"", payload, why_not=f"{error.what} ({error.here})")


def marked(files: Sequence[SegmentFile], missing: str = "") -> Payloads:
    """Puts the TFLite files under Pillion's mark, for a runtime without the NPU's converter."""
    return Payloads(
        tuple(
            SegmentPayload(
                file.name,
                file.tflite,
                ir_payload(file.tflite, file.inputs, file.outputs, file.arithmetic.value),
            )
            for file in files
        ),
        missing=missing,
    )
