# SPDX-License-Identifier: Apache-2.0
"""The facts of a report about a program image, which knows calls, bytes and tensors, but no graph."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Any

from pillion.emitters.c.manifest import ManifestBuffer
from pillion.emitters.image.reader import ImageCall, ProgramImage
from pillion.errors import PillionError
from pillion.report.arena import occupied_bytes, peak_facts
from pillion.report.board_measurement import SECONDS, unknown_counts
from pillion.report.provenance import package_versions
from pillion.report.report_facts import ArenaFacts, MeasuredFacts, OriginFacts, ResidentFacts, TensorFacts
from pillion.run.image_board import board_of, image_firmware, runnable_image
from pillion.run.random_inputs import samples_of_manifest


@dataclass(frozen=True)
class ImageReport:
    """All facts of the page."""

    model: str
    core: str
    inputs: tuple[TensorFacts, ...]
    outputs: tuple[TensorFacts, ...]
    file_bytes: int
    constant_bytes: int
    params_bytes: int
    schedule_bytes: int
    state_bytes: int
    calls: tuple[ImageCall, ...]
    instructions: tuple[int, ...]
    """Of each op, counted in the emulator; empty if nothing was measured."""
    arena: ArenaFacts
    measured: MeasuredFacts
    origin: OriginFacts

    @cached_property
    def ops(self) -> int:
        """The number of ops."""
        return len({call.op for call in self.calls})

    @cached_property
    def kernels(self) -> dict[str, int]:
        """Each kernel, with the calls of it in a run."""
        found: dict[str, int] = {}
        for call in self.calls:
            found[call.what] = found.get(call.what, 0) + call.runs
        return dict(sorted(found.items(), key=lambda item: -item[1]))

    def as_data(self) -> dict[str, Any]:
        """Returns all facts as plain data."""
        return asdict(self)


def collect_image(file: Path, command: str = "", measure: bool = True) -> ImageReport:
    """Returns the facts about the image of a .plm or .pte file; with `measure`, its instructions on an emulated board."""
    image = runnable_image(file)
    calls = image.calls or (ImageCall("nothing", -1, 1, ()),)
    measured, instructions = (
        _measure(image) if measure else (unknown_counts("not asked for (--no-measure)"), ())
    )
    return ImageReport(
        image.name,
        image.core,
        inputs=tuple(map(_tensor_facts, image.inputs)),
        outputs=tuple(map(_tensor_facts, image.outputs)),
        file_bytes=len(image.content),
        constant_bytes=image.constant_bytes,
        params_bytes=image.params_bytes,
        schedule_bytes=image.schedule_bytes,
        state_bytes=image.state_bytes,
        calls=calls,
        instructions=instructions,
        arena=_arena_facts(image, calls),
        measured=measured,
        origin=OriginFacts(command, package_versions(), {"the image": sha256(image.content).hexdigest()}),
    )


def _tensor_facts(buffer: ManifestBuffer) -> TensorFacts:
    quantization = f"scale {buffer.scale:.9g}, zero point {buffer.zero_point}" if buffer.scale else ""
    return TensorFacts(buffer.name, buffer.dtype.value, tuple(buffer.shape), buffer.bytes, quantization)


def _measure(image: ProgramImage) -> tuple[MeasuredFacts, tuple[int, ...]]:
    """Runs an image on a random sample. Returns the reason if that is impossible."""
    try:
        board = board_of(image)
        with tempfile.TemporaryDirectory(prefix="pillion-") as folder:
            firmware = image_firmware(Path(folder), image.kernels, board)
            sample = samples_of_manifest(image.inputs, 1, 0)
            ran = firmware.run(image.content, sample, profile=True, timeout=SECONDS)
    except PillionError as error:
        return unknown_counts(f"{error.what}: {error.here}"), ()
    facts = MeasuredFacts(board.name, ran.instructions, ran.stack_bytes, None, "")
    return facts, tuple(ran.op_instructions or ())


def _arena_facts(image: ProgramImage, calls: Sequence[ImageCall]) -> ArenaFacts:
    """Returns the arena over the calls: bytes live from the call that writes them to the last one that reads just them."""
    residents = _residents(image, calls)
    in_use = [occupied_bytes(r for r in residents if r.first <= n <= r.last) for n in range(len(calls))]
    names, numbers = tuple(call.what for call in calls), tuple(range(len(calls)))
    peak = peak_facts(max(numbers, key=in_use.__getitem__), in_use, names, numbers, residents)
    activations = [r for r in residents if r.what != "scratch"]
    most = max(occupied_bytes(r for r in activations if r.first <= n <= r.last) for n in numbers)
    return ArenaFacts(
        *(image.arena_bytes, most, most, image.arena_bytes - most, names, numbers),
        *(tuple(in_use), residents, peak),
        next_peak=None,
        advice=(),
    )


def _residents(image: ProgramImage, calls: Sequence[ImageCall]) -> tuple[ResidentFacts, ...]:
    last = len(calls) - 1
    ends = {(one.offset, one.bytes): one.name for one in image.outputs}
    live: dict[tuple[int, int], ResidentFacts] = {
        (one.offset, one.bytes): ResidentFacts(one.name, "input", one.offset, one.bytes, 0, 0, -1)
        for one in image.inputs
        if one.offset is not None
    }
    done = []
    for number, call in enumerate(calls):
        for operand in call.operands:
            if operand.area != "arena":
                continue
            place = operand.offset, operand.bytes
            if operand.role == "read" and place in live:
                live[place] = replace(live[place], last=number)
                continue
            done += [live.pop(place)] if place in live else []
            what = "scratch" if operand.role == "scratch" else "activation"
            live[place] = ResidentFacts(call.what, what, *place, number, number, number)
    done += [
        replace(one, name=ends[place], what="output", last=last)
        if place in ends and one.what != "input"
        else one
        for place, one in live.items()
    ]
    return tuple(sorted(done, key=lambda r: (r.first, r.offset)))
