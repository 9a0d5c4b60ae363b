# SPDX-License-Identifier: Apache-2.0
"""The payload of each segment of a program, for any NPU. A device converts the segments' TFLite files to its
own code if its vendor's converter is installed; otherwise the payload is the marked TFLite file, which only
Pillion's executors run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from pillion.errors import PillionError
from pillion.ir.numerics import Arithmetic
from pillion.ir.workspace import Workspace
from pillion.schemas.ir_payload import ir_payload

Copied = frozenset[int]
"""Indices of the operands and results of a segment (counted together) that are not in the NPU's workspace and
must be copied."""


class ConverterError(PillionError):
    """A converter that is installed does not run: no op is at fault, so none is kept on the core for it."""


@dataclass(frozen=True)
class SegmentFile:
    """A segment as a TFLite file, with the names of its inputs and outputs in the order of the program's
    arguments, and the arithmetic of its processor."""

    name: str
    tflite: bytes
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    arithmetic: Arithmetic = Arithmetic.TFLITE


@dataclass(frozen=True)
class SegmentCost:
    """A converter's estimate for a segment."""

    cycles: int
    by: str
    """The converter and its version."""


@dataclass(frozen=True)
class SegmentPayload:
    """A segment as the NPU's payload and as TFLite."""

    name: str
    tflite: bytes
    payload: bytes
    """The bytes for the delegate."""
    run: Callable[..., tuple[bytes, ...]] | None = None
    """Executes the NPU's code on this computer if that is possible: arrays in, bytes of the results out."""
    why_not: str = ""
    """The reason why nothing executes the code; empty if `run` does."""
    flash_bytes: int = 0
    """The size of the NPU's code and weights in flash, in bytes; 0 without a converter."""


@dataclass(frozen=True)
class PayloadMemory:
    """The RAM that a payload asks for, in bytes."""

    scratch_bytes: int = 0
    ram_constant_bytes: int = 0
    """The weights that must lie in RAM."""


@dataclass(frozen=True)
class Executable:
    """NPU code that this computer can execute."""

    npu: str
    """The name of the NPU."""
    inputs: tuple[int, ...]
    """The size of each input in bytes."""
    outputs: tuple[int, ...]
    run: Callable[..., tuple[bytes, ...]]
    """Runs the code: arrays in, bytes of the results out."""


@dataclass(frozen=True)
class Payloads:
    """The payloads of all segments of a program, in execution order."""

    segments: tuple[SegmentPayload, ...]
    converter: str = ""
    """The converter and its version; empty for marked TFLite, which a chip refuses."""
    cycles_by: str = ""
    """The source of the cycle estimates, with its version."""
    missing: str = ""
    """The converter that is not installed."""
    sources: Callable[[str, Sequence[Copied], bool], Mapping[str, str]] | None = None
    """Returns the C files (name → text) that run the segments of a named model on the chip, given the copied
    operands and results of each segment, and whether segments are started and awaited by two functions."""
    scratch_bytes: int = 0
    """The working memory of the largest segment in bytes: outside the program's arena, or inside it if
    `workspaces` are given."""
    fast_bytes: int = 0
    """The size of the NPU's own buffer in RAM outside the arena, shared by all segments."""
    ram_constant_bytes: int = 0
    """The size of the constants that lie in flash and are copied to RAM at start."""
    workspaces: tuple[Workspace, ...] = ()
    """The working memory of each segment inside the program's arena; inputs and outputs may lie in it without
    a copy."""
    cycles: tuple[int, ...] = ()
    """The converter's estimate for each segment."""
    firmware_files: Mapping[str, str] = field(default_factory=dict)
    """Files that the NPU's firmware needs in addition to the payloads: name → text."""

    @property
    def flash_bytes(self) -> int:
        """The size of the NPU's code and weights of all segments in flash, in bytes; 0 without a
        converter."""
        return sum(segment.flash_bytes for segment in self.segments)

    @property
    def figures(self) -> dict[str, int | str]:
        """The converter's figures: estimated cycles and working memory (in a .pte, the temp allocator's)."""
        cycles: dict[str, int | str] = (
            {"npu_cycles_estimate": sum(self.cycles), "npu_cycles_by": self.cycles_by} if self.cycles else {}
        )
        return {**cycles, **({"npu_scratch_bytes": self.scratch_bytes} if self.scratch_bytes else {})}

    @property
    def summary(self) -> str:
        """One line that names the form of the payloads and their converter."""
        if not self.segments:
            return "no segment"
        count = f"{len(self.segments)} segment{'' if len(self.segments) == 1 else 's'}"
        if self.converter:
            return f"{count}, converted by {self.converter}"
        why = (
            f"{self.missing} is not installed, and a device will refuse it"
            if self.missing
            else "there is no converter"
        )
        return f"{count}, as TFLite: {why}"


def payloads_in_file(
    payloads: Sequence[bytes], find: Callable[[bytes], Executable], memory: Callable[[bytes], PayloadMemory]
) -> Payloads:
    """Returns the payloads that a program file contains; `find` returns the executable of a payload, or
    raises, and `memory` the RAM that it asks for."""
    needs = [memory(payload) for payload in payloads]
    return Payloads(
        tuple(_in_file(payload, find) for payload in payloads),
        converter="the file's own code",
        scratch_bytes=max((need.scratch_bytes for need in needs), default=0),
        ram_constant_bytes=sum(need.ram_constant_bytes for need in needs),
    )


def _in_file(payload: bytes, find: Callable[[bytes], Executable]) -> SegmentPayload:
    try:
        run, why_not = find(payload).run, ""
    except PillionError as error:
        run, why_not = None, f"{error.what} ({error.here})"
    return SegmentPayload("", b"", payload, run, why_not, flash_bytes=len(payload))


def marked_tflite_payloads(files: Sequence[SegmentFile], missing: str = "") -> Payloads:
    """Returns the TFLite files under Pillion's mark, for a runtime without the NPU's converter."""
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
