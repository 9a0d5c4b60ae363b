# SPDX-License-Identifier: Apache-2.0
"""`manifest.json` of a C project: its schema, with the checks for writing and reading it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path

import numpy as np

from pillion.chip_memory import ChipMemory
from pillion.devices.cortex_m import Isa
from pillion.devices.cortex_m.memories import PlacedMemories, placed_memories
from pillion.errors import PillionError
from pillion.host_io.atomic_files import Content, read_text
from pillion.host_io.json_dataclasses import as_plain_data, object_from_json, parse_strict_json
from pillion.host_io.project_folders import Listing, check_paths, finish_write_before_reading, sha256
from pillion.ir.numerics import Arithmetic
from pillion.ir.stream_io import Streaming
from pillion.ir.types import DType, PerTensor, Shape, TensorType
from pillion.option_values import Optimize

MANIFEST = "manifest.json"
MOST_BYTES = 1 << 26
"""The largest manifest to read: 100 times the manifest of a network with 2000 ops."""
MOST_AXES = 32
"""The largest rank that every version of numpy supports."""
LARGEST_FLOAT = float(np.finfo(np.float32).max)
ARENA_BYTES = 2**32
"""The bound of arena offsets, which have 32 bits in a model's descriptor."""


class _Counts:
    """A dataclass whose integers count something, zero points excepted."""

    def __post_init__(self) -> None:
        for field in fields(self):  # type: ignore[arg-type]  # of dataclasses only
            value = getattr(self, field.name)
            if type(value) is int and value < 0 and field.name != "zero_point":
                raise ValueError(f"{field.name} is {value}, less than nothing")


@dataclass(frozen=True, kw_only=True)
class ManifestBuffer(_Counts):
    """An input, output or state, with its offset in the arena or among the states. An input that is passed row by
    row has no offset."""

    name: str
    dtype: DType
    shape: Shape
    offset: int | None = None
    bytes: int
    scale: float | None = None
    zero_point: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.shape) > MOST_AXES:
            raise ValueError(f"{len(self.shape)} axes, and {MOST_AXES} are the most")
        if (self.scale is None) != (self.zero_point is None):
            raise ValueError("a scale goes with a zero point")
        if self.scale is not None and not 0 < self.scale <= LARGEST_FLOAT:
            raise ValueError(f"scale {self.scale} is no positive float32")
        quant = None if self.scale is None else PerTensor(self.scale, self.zero_point or 0)
        expected = TensorType(self.shape, self.dtype, quant).size_bytes
        if self.bytes != expected:
            raise ValueError(f"{self.bytes} bytes, and {self.dtype.value}{list(self.shape)} has {expected}")


@dataclass(frozen=True)
class NpuReferenceMemory(_Counts):
    """The memory and constants of the CPU references of NPU segments, used where there is no NPU."""

    constant_bytes: int
    arena_bytes: int


@dataclass(frozen=True)
class NpuMemory(_Counts):
    """The bytes that NPU segments need on the chip in addition to the arena and the core's constants."""

    ram_bytes: int = 0
    """Weights that are copied to RAM, scratch memory outside the arena, and the NPU's own buffer."""
    flash_bytes: int = 0
    """Code and weights."""
    is_exact: bool = True
    """Whether the NPU's converter compiled the segments; if not, both figures are lower bounds."""


@dataclass(frozen=True)
class ManifestUse(_Counts):
    """A memory of the chip, and the bytes of the program in it."""

    name: str
    capacity: int
    arena_bytes: int
    state_bytes: int
    constant_bytes: int
    """Constants that are copied to it at start."""
    read: float = 0.0
    write: float = 0.0
    cache: int = 0

    @property
    def chip_memory(self) -> ChipMemory:
        """The memory itself."""
        return ChipMemory(self.name, self.capacity, self.read, self.write, cache=self.cache)


@dataclass(frozen=True)
class ManifestMemory(_Counts):
    """The bytes of a program, by purpose."""

    arena_bytes: int
    activation_bytes: int
    floor_bytes: int
    scratch_bytes: int
    constant_bytes: int
    params_bytes: int
    npu_stand_in: NpuReferenceMemory
    state_bytes: int = 0
    npu_copied_bytes: int = 0
    """The bytes that each inference copies into and out of the NPU's workspaces."""
    npu: NpuMemory | None = None
    """None in projects of earlier versions."""
    memories: tuple[ManifestUse, ...] = ()
    """The memories of the chip among which the program is divided."""
    constants_read: float = 0.0
    """Cycles that the core waits to read 32 bytes of other constants, if the memories are known."""
    constants_cache: int = 0

    @property
    def placed(self) -> PlacedMemories | None:
        """The memories of the chip as the program lies in them; None if the user named none."""
        flash = ChipMemory("flash", 0, self.constants_read, cache=self.constants_cache, is_constant=True)
        return (
            placed_memories(tuple(one.chip_memory for one in self.memories), flash) if self.memories else None
        )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.arena_bytes >= ARENA_BYTES:
            raise ValueError(f"an arena of {self.arena_bytes:,} bytes has no 32-bit addresses")

    @property
    def _npu(self) -> NpuMemory:
        """The NPU's memory; for earlier versions, an estimate from the constants of the CPU references."""
        return self.npu or NpuMemory(
            self.npu_stand_in.constant_bytes, self.npu_stand_in.constant_bytes, False
        )

    @property
    def ram_bytes(self) -> int:
        """The RAM of the running program, without the stack."""
        copied = sum(one.constant_bytes for one in self.memories)
        return self.arena_bytes + self.state_bytes + copied + self._npu.ram_bytes

    @property
    def flash_constant_bytes(self) -> int:
        """The constants in flash: the core's, and the NPU's code and weights."""
        return self.constant_bytes + self._npu.flash_bytes


@dataclass(frozen=True)
class ManifestOp(_Counts):
    """An op, its kernel, and the reason for that kernel."""

    name: str
    kind: str
    kernel: str
    why: str
    passed_over: tuple[str, ...]
    source: str
    macs: int
    scratch_bytes: int


def _require_within(buffers: Iterable[ManifestBuffer], what: str, size: int) -> None:
    for buffer in buffers:
        end = (buffer.offset or 0) + buffer.bytes
        if buffer.offset is not None and end > size:
            raise ValueError(f"`{buffer.name}` ends at byte {end} of {what}")


@dataclass(frozen=True, kw_only=True)
class Manifest(_Counts):
    """The machine-readable description of a project. `files` has the SHA-256 of every other file as written,
    `checksum` that of the manifest itself. They tell files that the user changed from files that may be replaced."""

    model: str
    target: str
    arithmetic: Arithmetic
    optimize: Optimize = "speed"
    kernels: Isa | None = None
    inputs: tuple[ManifestBuffer, ...]
    outputs: tuple[ManifestBuffer, ...]
    memory: ManifestMemory
    macs: int
    ops: tuple[ManifestOp, ...]
    files: Mapping[str, str]
    checksum: str = ""
    states: tuple[ManifestBuffer, ...] = ()
    """The persistent states."""
    stream: Streaming | None = None
    """The frames that a stream takes and returns."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", self.model):
            raise ValueError("model is no identifier")
        check_paths(self.files)
        by_rows = [buffer.name for buffer in self.inputs if buffer.offset is None]
        if len(by_rows) > 1 or any(buffer.offset is None for buffer in (*self.outputs, *self.states)):
            raise ValueError("one input at most is handed over row by row")
        arena, state = self.memory.arena_bytes, self.memory.state_bytes
        _require_within((*self.inputs, *self.outputs), f"an arena of {arena}", arena)
        _require_within(self.states, f"a state of {state}", state)

    @property
    def isa(self) -> Isa:
        """The instruction set of the kernels; portable for earlier manifests, which did not record it."""
        return self.kernels or Isa.PORTABLE

    @property
    def listing(self) -> Listing:
        """The project's files, and whether changes to them can be detected."""
        return Listing(self.files, is_sealed=all(self.files.values()) and self.checksum == self._checksum())

    def sealed(self, files: Mapping[str, Content]) -> Manifest:
        """Returns the manifest with the hashes of all files and its own checksum."""
        hashes = {path: sha256(content) for path, content in sorted(files.items())}
        listed = replace(self, files=hashes)
        return replace(listed, checksum=listed._checksum())

    def _checksum(self) -> str:
        return sha256(json.dumps({**as_plain_data(self), "checksum": ""}, sort_keys=True))

    def text(self) -> str:
        """Returns the text of `manifest.json`."""
        return json.dumps(as_plain_data(self), indent=2) + "\n"


def read_manifest(folder: Path) -> Manifest:
    """Reads the manifest of a project, after finishing an interrupted write of it."""
    finish_write_before_reading(folder)
    return manifest_in(folder)


def manifest_in(folder: Path) -> Manifest:
    """Reads the manifest in a folder."""
    file = folder / MANIFEST
    try:
        return manifest_of(read_text(file, "project's manifest.json", MOST_BYTES))
    except ValueError as error:
        raise not_a_project_error(folder, f"{file}: {error}") from None
    except PillionError as error:
        raise not_a_project_error(folder, f"{file}: {error.here}") from None


def manifest_of(text: str) -> Manifest:
    """Parses the text of a manifest; ValueErrors name the invalid field."""
    data = parse_strict_json(text)
    if isinstance(data, dict) and isinstance(data.get("files"), list):
        data["files"] = _without_hashes(data["files"])
    return object_from_json(Manifest, data)


def _without_hashes(paths: Iterable[object]) -> dict[str, str]:
    """Returns the files of an earlier version's manifest, which listed names only."""
    listed = [object_from_json(str, path, f"files[{number}]") for number, path in enumerate(paths)]
    return {path: "" for path in listed if path != MANIFEST}


def not_a_project_error(folder: Path, reason: str) -> PillionError:
    """Returns the error for a folder without a valid manifest."""
    return PillionError(
        f"{folder} is not a project of Pillion",
        rule="a folder that `pillion compile` wrote, whose manifest.json describes it",
        here=reason,
        help="pillion compile MODEL -t TARGET --quantize -o FOLDER writes one",
    )
