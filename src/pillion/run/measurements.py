# SPDX-License-Identifier: Apache-2.0
"""Measurements of boards in files, and the correction of time estimates by them."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pillion.devices.cycle_range import CycleRange
from pillion.emitters.c.manifest import Manifest
from pillion.errors import PillionError
from pillion.host_io.atomic_files import read_text, write_whole
from pillion.host_io.json_dataclasses import as_plain_data, object_from_json, parse_strict_json
from pillion.run.executor import BoardProfile

MOST_BYTES = 1 << 26
SMALLEST_SHARE = 0.01
"""Ops with a smaller share of a run's cycles correct nothing: their measurement is mostly overhead."""


@dataclass(frozen=True, kw_only=True)
class MeasuredOp:
    """The measured cycles of an op, and the estimated ones if they were counted."""

    name: str
    kind: str
    kernel: str
    cycles: int
    estimated_low: float | None = None
    estimated_high: float | None = None

    @property
    def estimated(self) -> CycleRange | None:
        """The estimate that the measurement is compared with."""
        if self.estimated_low is None or self.estimated_high is None:
            return None
        return CycleRange(self.estimated_low, self.estimated_high)


@dataclass(frozen=True, kw_only=True)
class Measurement:
    """A run on a board."""

    version: int = 1
    model: str
    target: str
    core: str
    chip: str
    clock_hz: int
    compiler: str
    flags: str
    program_hash: str
    is_emulated: bool
    """Whether instructions of an emulator were counted, which correct nothing."""
    memories: str | None = None
    """The assumption of the estimate about where constants and arena are."""
    stack_bytes: int | None = None
    ops: tuple[MeasuredOp, ...]

    def __post_init__(self) -> None:
        if self.version != 1:
            raise ValueError(f"version {self.version} is unknown")
        for op in self.ops:
            if op.cycles < 0:
                raise ValueError(f"{op.cycles} cycles")
            _ = op.estimated

    @property
    def cycles(self) -> int:
        """The cycles of all ops."""
        return sum(op.cycles for op in self.ops)


def measurement_of(
    manifest: Manifest,
    core: str,
    profile: BoardProfile,
    estimated: Sequence[CycleRange | None],
    memories: str | None,
) -> Measurement:
    """Returns the measurement of a project. `estimated` has the estimate of each op, or None."""
    ops = tuple(
        MeasuredOp(
            name=op.name,
            kind=op.kind,
            kernel=op.kernel,
            cycles=cycles,
            estimated_low=band.low if band else None,
            estimated_high=band.high if band else None,
        )
        for op, cycles, band in zip(manifest.ops, profile.op_cycles, estimated, strict=True)
    )
    return Measurement(
        model=manifest.model,
        target=manifest.target,
        core=core,
        chip=profile.chip,
        clock_hz=profile.clock_hz,
        compiler=profile.compiler,
        flags=profile.flags,
        program_hash=profile.program_hash,
        is_emulated=profile.is_emulated,
        memories=memories,
        stack_bytes=profile.stack_bytes,
        ops=ops,
    )


def write_measurement(folder: Path, measurement: Measurement) -> Path:
    """Writes a measurement to a folder. One file holds the newest of a program on a chip at a clock."""
    words = (measurement.model, measurement.chip, f"{measurement.clock_hz}hz", measurement.program_hash[:8])
    path = folder / (re.sub(r"[^a-z0-9]+", "-", " ".join(words).lower()).strip("-") + ".json")
    write_whole(path, (json.dumps(as_plain_data(measurement), indent=2) + "\n").encode())
    return path


def read_measurements(folder: Path) -> tuple[Measurement, ...]:
    """Returns the measurements in a folder; raises if there are none."""
    paths = sorted(folder.glob("*.json")) if folder.is_dir() else []
    if not paths:
        raise PillionError(
            f"{folder} holds no measurements",
            rule="a folder with .json files that `pillion run --measurements` wrote",
            here="no .json file" if folder.is_dir() else "no folder",
            help="pillion run FOLDER --on serial:PORT --profile --measurements DIR",
        )
    return tuple(map(_read_measurement, paths))


def _read_measurement(path: Path) -> Measurement:
    try:
        return object_from_json(Measurement, parse_strict_json(read_text(path, "measurement", MOST_BYTES)))
    except ValueError as error:
        raise PillionError(
            f"{path} is no measurement",
            rule="a file that `pillion run --measurements` wrote",
            here=str(error),
            help="move it elsewhere, or measure again",
        ) from None


@dataclass(frozen=True)
class Calibration:
    """The ratio of measured cycles to the middle of estimates, on chips with one core and the same memories."""

    ratio: CycleRange
    is_within: bool
    """Whether all measurements were within their estimates."""
    ops: int
    chips: tuple[str, ...]

    def corrected(self, estimate: CycleRange) -> CycleRange:
        """Returns the range of an op's cycles by the measurements: a part of the estimate if all were within theirs."""
        middle = (estimate.low + estimate.high) / 2
        band = self.ratio * middle
        if not self.is_within:
            return band
        low, high = max(band.low, estimate.low), min(band.high, estimate.high)
        return CycleRange(low, high) if low <= high else estimate

    def __str__(self) -> str:
        return f"corrected by {self.ops} ops measured on {', '.join(self.chips)}"


def calibration_of(measurements: Sequence[Measurement], core: str, memories: str) -> Calibration:
    """Returns the calibration for a core and an assumption about memories; raises if none was measured."""
    fitting = [
        one for one in measurements if not one.is_emulated and (one.core, one.memories) == (core, memories)
    ]
    pairs = [
        (op.cycles, band)
        for one in fitting
        for op in one.ops
        if (band := op.estimated) and band.low > 0 and op.cycles >= SMALLEST_SHARE * one.cycles > 0
    ]
    if not pairs:
        known = sorted({f"{m.core} with {m.memories}" + " (emulated)" * m.is_emulated for m in measurements})
        raise PillionError(
            f"nothing was measured on a {core} with the memories `{memories}`",
            rule="measurements correct estimates of the same core and memories, and only those of chips",
            here=", ".join(known),
            help="measure on such a chip, name its --memories, or leave --measured out",
        )
    ratios = [cycles / ((band.low + band.high) / 2) for cycles, band in pairs]
    return Calibration(
        CycleRange(min(ratios), max(ratios)),
        all(cycles in band for cycles, band in pairs),
        len(pairs),
        tuple(sorted({one.chip for one in fitting})),
    )
