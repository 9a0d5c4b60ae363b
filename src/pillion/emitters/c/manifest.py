# SPDX-License-Identifier: Apache-2.0
"""`manifest.json` of a C project: what it may hold stands here once, for those who write it and for those who read it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path

import numpy as np

from pillion.boards.board import Optimize
from pillion.devices.cortex_m import Isa
from pillion.errors import PillionError
from pillion.ir.numerics import Arithmetic
from pillion.ir.streaming import Streaming
from pillion.ir.types import DType, PerTensor, Shape, TensorType
from pillion.outside.declared import build, parse, plain
from pillion.outside.files import Content, read_text
from pillion.outside.folders import Listing, check_paths, finish_stopped, sha256

MANIFEST = "manifest.json"
MOST_BYTES = 1 << 26
"""The largest manifest that is read: a hundred times that of a network of two thousand ops."""
MOST_AXES = 32
"""That every numpy can handle."""
LARGEST_FLOAT = float(np.finfo(np.float32).max)
ARENA_BYTES = 2**32
"""The descriptor of a model says where a buffer lies in 32 bits."""


def _check_counts(made: object) -> None:
    """Raises where a number that counts something is below zero."""
    for field in fields(made):  # type: ignore[arg-type]  # of dataclasses only
        value = getattr(made, field.name)
        if type(value) is int and value < 0 and field.name != "zero_point":
            raise ValueError(f"{field.name} is {value}, less than nothing")


@dataclass(frozen=True, kw_only=True)
class Buffer:
    """An input or an output: what it is, and where it lies in the arena; or a state, and where it lies among the states. An input that is
    handed over row by row has no offset."""

    name: str
    dtype: DType
    shape: Shape
    offset: int | None = None
    bytes: int
    scale: float | None = None
    zero_point: int | None = None

    def __post_init__(self) -> None:
        _check_counts(self)
        if len(self.shape) > MOST_AXES:
            raise ValueError(f"{len(self.shape)} axes, and {MOST_AXES} are the most")
        if (self.scale is None) != (self.zero_point is None):
            raise ValueError("a scale goes with a zero point")
        if self.scale is not None and not 0 < self.scale <= LARGEST_FLOAT:
            raise ValueError(f"scale {self.scale} is no positive float32")
        quant = None if self.scale is None else PerTensor(self.scale, self.zero_point or 0)
        wanted = TensorType(self.shape, self.dtype, quant).size_bytes
        if self.bytes != wanted:
            raise ValueError(f"{self.bytes} bytes, and {self.dtype.value}{list(self.shape)} has {wanted}")


@dataclass(frozen=True)
class StandIn:
    """The memory and constants that the references of NPU segments take where there is no NPU."""

    constant_bytes: int
    arena_bytes: int

    def __post_init__(self) -> None:
        _check_counts(self)


@dataclass(frozen=True)
class Memory:
    """The bytes of a program, by what they are for."""

    arena_bytes: int
    activation_bytes: int
    floor_bytes: int
    scratch_bytes: int
    constant_bytes: int
    params_bytes: int
    npu_stand_in: StandIn
    state_bytes: int = 0
    npu_copied_bytes: int = 0
    """What is copied in each run because it does not lie where the NPU has it."""

    def __post_init__(self) -> None:
        _check_counts(self)
        if self.arena_bytes >= ARENA_BYTES:
            raise ValueError(f"an arena of {self.arena_bytes:,} bytes has no 32-bit addresses")


@dataclass(frozen=True)
class OpFacts:
    """An op, the kernel that computes it, and why that one."""

    name: str
    kind: str
    kernel: str
    why: str
    passed_over: tuple[str, ...]
    source: str
    macs: int
    scratch_bytes: int

    def __post_init__(self) -> None:
        _check_counts(self)


def _want_within(buffers: Iterable[Buffer], what: str, size: int) -> None:
    for buffer in buffers:
        end = (buffer.offset or 0) + buffer.bytes
        if buffer.offset is not None and end > size:
            raise ValueError(f"`{buffer.name}` ends at byte {end} of {what}")


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """What another program may want to know about a project.

    `files` has the SHA-256 of every other file as it was written, and `checksum` that of the rest of the manifest: by them a file that
    the user changed is told from one that may be replaced."""

    model: str
    target: str
    arithmetic: Arithmetic
    optimize: Optimize = "speed"
    kernels: Isa | None = None
    inputs: tuple[Buffer, ...]
    outputs: tuple[Buffer, ...]
    memory: Memory
    macs: int
    ops: tuple[OpFacts, ...]
    files: Mapping[str, str]
    checksum: str = ""
    states: tuple[Buffer, ...] = ()
    """What lives between runs."""
    stream: Streaming | None = None
    """What it takes and answers, where it is fed a few frames at a time."""

    def __post_init__(self) -> None:
        _check_counts(self)
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", self.model):
            raise ValueError("model is no identifier")
        check_paths(self.files)
        by_rows = [buffer.name for buffer in self.inputs if buffer.offset is None]
        if len(by_rows) > 1 or any(buffer.offset is None for buffer in (*self.outputs, *self.states)):
            raise ValueError("one input at most is handed over row by row")
        arena, state = self.memory.arena_bytes, self.memory.state_bytes
        _want_within((*self.inputs, *self.outputs), f"an arena of {arena}", arena)
        _want_within(self.states, f"a state of {state}", state)

    @property
    def isa(self) -> Isa:
        """The instruction set that the kernels need, as far as it is known: earlier manifests did not say."""
        return self.kernels or Isa.PORTABLE

    @property
    def listing(self) -> Listing:
        """The project's files, and whether it can be told which of them were changed."""
        return Listing(self.files, is_sealed=all(self.files.values()) and self.checksum == self._sum())

    def sealed(self, files: Mapping[str, Content]) -> Manifest:
        """Gives the manifest with the hashes of all files, and of itself."""
        hashes = {path: sha256(content) for path, content in sorted(files.items())}
        listed = replace(self, files=hashes)
        return replace(listed, checksum=listed._sum())

    def _sum(self) -> str:
        return sha256(json.dumps({**plain(self), "checksum": ""}, sort_keys=True))

    def text(self) -> str:
        """Gives the text of `manifest.json`."""
        return json.dumps(plain(self), indent=2) + "\n"


def read_manifest(folder: Path) -> Manifest:
    """Reads the manifest of a project that was written earlier; if its writing was stopped half-way, that is finished first."""
    finish_stopped(folder)
    return manifest_in(folder)


def manifest_in(folder: Path) -> Manifest:
    """Reads the manifest that lies in a folder."""
    file = folder / MANIFEST
    try:
        return manifest_of(read_text(file, "project's manifest.json", MOST_BYTES))
    except ValueError as error:
        raise not_a_project(folder, f"{file}: {error}") from None
    except PillionError as error:
        raise not_a_project(folder, f"{file}: {error.here}") from None


def manifest_of(text: str) -> Manifest:
    """Reads the manifest in a file's text; ValueErrors say what is wrong with it."""
    data = parse(text)
    if isinstance(data, dict) and isinstance(data.get("files"), list):
        data["files"] = _without_hashes(data["files"])
    return build(Manifest, data)


def _without_hashes(paths: Iterable[object]) -> dict[str, str]:
    """The files of an earlier version's manifest, which listed names only."""
    listed = [build(str, path, f"files[{number}]") for number, path in enumerate(paths)]
    return {path: "" for path in listed if path != MANIFEST}


def not_a_project(folder: Path, reason: str) -> PillionError:
    """Makes the error for a folder that is none of ours."""
    return PillionError(
        f"{folder} is not a project of Pillion",
        rule="a folder that `pillion compile` wrote, whose manifest.json describes it",
        here=reason,
        help="pillion compile -m MODEL -t TARGET --quantize -o FOLDER writes one",
    )
