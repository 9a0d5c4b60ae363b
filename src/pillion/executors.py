# SPDX-License-Identifier: Apache-2.0
"""Anything that runs a program: the reference, the C on this computer, the same C on emulated boards."""

from __future__ import annotations

import dataclasses
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import numpy as np

from pillion.boards.board import HOST_FOLDER
from pillion.child import MOST_SECONDS
from pillion.devices.cortex_m import Isa
from pillion.emitters.c.manifest import Buffer, Manifest, read_manifest
from pillion.errors import PillionError
from pillion.files import Content, put
from pillion.ir.types import Array, DType, Shape

if TYPE_CHECKING:
    from pillion.boards.board import Board
    from pillion.boards.elf import ElfSizes
    from pillion.boards.host import HostModel
    from pillion.boards.qemu import QemuResult

REFERENCE, HOST, EXECUTORCH = "reference", "host", "executorch"
TIMEOUT_SECONDS = 60.0
Outputs = tuple[Array, ...]


@dataclass(frozen=True)
class Region:
    """Bytes of one kind as the compiler predicted them and as they are in the linked firmware."""

    name: str
    predicted: int
    found: int


@dataclass(frozen=True)
class Profile:
    """What a board reports of one run. Instructions, not cycles."""

    instructions: int
    op_instructions: tuple[int, ...]
    stack_bytes: int
    code_bytes: int
    regions: tuple[Region, ...]


@dataclass(frozen=True)
class RunResult:
    """Outputs, and what was measured if that was asked for."""

    outputs: tuple[Array, ...]
    profile: Profile | None = None


def run_project(
    folder: Path,
    inputs: Sequence[Array],
    on: str = HOST,
    *,
    profile: bool = False,
    timeout: float = TIMEOUT_SECONDS,
    native: bool = False,
) -> RunResult:
    """Runs a C project on this computer or on a board. `native` uses all that this processor has: the same bytes, sooner.
    A run that takes longer than `timeout` seconds is stopped."""
    manifest = read_manifest(folder)
    check_timeout(timeout)
    check_arrays(manifest.inputs, inputs)
    if on == HOST:
        return RunResult(next(_run_host(folder, manifest, [inputs], timeout, native)))
    return _run_board(folder, manifest, inputs, on, profile, timeout)


def run_samples(
    folder: Path, samples: Sequence[Sequence[Array]], on: str, *, timeout: float = TIMEOUT_SECONDS
) -> list[Outputs]:
    """The outputs of a C project for many samples, each within `timeout` seconds. On this computer one process runs them all."""
    if on != HOST:
        return [run_project(folder, sample, on, timeout=timeout).outputs for sample in samples]
    manifest = read_manifest(folder)
    for sample in samples:
        check_arrays(manifest.inputs, sample)
    return list(_run_host(folder, manifest, samples, timeout, native=False))


def check_timeout(seconds: float) -> None:
    """Raises where a time limit is none."""
    if not 0 < seconds <= MOST_SECONDS:
        raise PillionError(
            f"{seconds:g} s is no time limit",
            rule=f"a number of seconds above 0, {MOST_SECONDS:,} at most",
            here=f"{seconds:g}",
            help="--timeout 60, timeout=60 in Python",
        )


class Tensor(Protocol):
    """Whatever says of an input what it is: a graph's value, or a buffer of a manifest."""

    @property
    def name(self) -> str: ...
    @property
    def dtype(self) -> DType: ...
    @property
    def shape(self) -> Shape: ...


def check_arrays(wanted: Sequence[Tensor], inputs: Sequence[Array]) -> None:
    """Raises where arrays do not fit a program's inputs."""
    if len(inputs) != len(wanted):
        names = ", ".join(w.name for w in wanted)
        raise PillionError(
            f"the model takes {len(wanted)} inputs",
            rule=f"--input once for each of {names}, in this order",
            here=f"{len(inputs)} arrays",
            help="leave --input out to run on random data",
        )
    for want, array in zip(wanted, inputs, strict=True):
        if array.dtype != want.dtype.numpy or array.shape != want.shape:
            raise PillionError(
                f"input `{want.name}` does not fit",
                rule=f"{want.dtype.value}{list(want.shape)}",
                here=f"{array.dtype}{list(array.shape)}",
                help=_way_to_fit(want, array),
            )


def _way_to_fit(want: Tensor, array: Array) -> str:
    if array.shape != want.shape:
        return f"the model was compiled for {list(want.shape)}: reshape the array, or compile the model for its size"
    return f"array.astype(numpy.{want.dtype.value})"


def _run_host(
    folder: Path,
    manifest: Manifest,
    samples: Sequence[Sequence[Array]],
    timeout: float,
    native: bool,
) -> Iterator[Outputs]:
    from pillion.boards.host import HostModel

    firmware, files = _for_host(folder, manifest)
    with HostModel(firmware, native=native, timeout=timeout, files=files) as model:
        _want_same_places(manifest, model)
        for sample in samples:
            raw = model.run([np.ascontiguousarray(x).tobytes() for x in sample])
            yield _arrays(manifest.outputs, raw)


def _for_host(folder: Path, manifest: Manifest) -> tuple[Path, list[str]]:
    """The variant of a project for other processors than its core, where it has one, and the files of that."""
    prefix = f"{HOST_FOLDER}/" if f"{HOST_FOLDER}/model.c" in manifest.files else ""
    return folder / prefix, [path.removeprefix(prefix) for path in manifest.files if path.startswith(prefix)]


def _want_same_places(manifest: Manifest, model: HostModel) -> None:
    """Raises where the C takes and gives other numbers of bytes than the manifest says."""
    says = [[b.bytes for b in buffers] for buffers in (manifest.inputs, manifest.outputs)]
    does = [[p.bytes for p in places] for places in (model.inputs, model.outputs)]
    if says != does:
        words = [f"bytes of inputs {b[0]}, of outputs {b[1]}" for b in (says, does)]
        raise _not_its_manifest(manifest, *words)


def _not_its_manifest(manifest: Manifest, wanted: str, found: str) -> PillionError:
    """The error of a project whose C does something else than its manifest says."""
    return PillionError(
        f"the C of `{manifest.model}` is not that of its manifest.json",
        rule=wanted,
        here=found,
        help="compile the model again",
    )


def host_folder(folder: Path) -> Path:
    """Where a project keeps the C for other processors than its core."""
    return folder / HOST_FOLDER if (folder / HOST_FOLDER / "model.c").is_file() else folder


def _arrays(outputs: Sequence[Buffer], raw: Sequence[bytes]) -> tuple[Array, ...]:
    return tuple(
        np.frombuffer(data, o.dtype.numpy).reshape(o.shape) for o, data in zip(outputs, raw, strict=True)
    )


def _run_board(
    folder: Path, manifest: Manifest, inputs: Sequence[Array], on: str, profile: bool, timeout: float
) -> RunResult:
    from pillion.boards import qemu
    from pillion.boards.board import find_board
    from pillion.boards.elf import read_elf

    board = dataclasses.replace(find_board(on), optimize=manifest.optimize)
    _check_board(manifest, board)
    sample = b"".join(np.ascontiguousarray(x).tobytes() for x in inputs)
    result = qemu.run(folder, board, sample, profile=profile, timeout=timeout, files=manifest.files)
    sizes = [o.bytes for o in manifest.outputs]
    if len(result.outputs) != sum(sizes):
        raise _not_its_manifest(manifest, f"{sum(sizes)} bytes of outputs", f"{len(result.outputs)} on {on}")
    ends = np.cumsum(sizes).tolist()
    outputs = _arrays(
        manifest.outputs, [result.outputs[end - size : end] for size, end in zip(sizes, ends, strict=True)]
    )
    return RunResult(
        outputs,
        _profile(manifest, result, read_elf(qemu.build(folder, board, manifest.files))) if profile else None,
    )


def _check_board(manifest: Manifest, board: Board) -> None:
    """Raises where the board's core cannot run the project's kernels."""
    from pillion.boards.board import another_core
    from pillion.emitters.c.project import boards_for

    isa = manifest.isa
    fitting = [one.name for one in boards_for(isa)]
    if board.name in fitting:
        return
    instructions = {Isa.MVE: "Helium", Isa.DSP: "the DSP extension and no Helium"}.get(isa, isa.value)
    raise another_core(
        f"`{manifest.model}`",
        manifest.target,
        board,
        rule=f"its kernels are for cores with {instructions}",
        here=f"on {board.name}",
        help=f"run it on {' or '.join(fitting)}, or compile it for {board.core}",
    )


def _profile(manifest: Manifest, result: QemuResult, sizes: ElfSizes) -> Profile:
    memory = manifest.memory
    constants = _constants(sizes, manifest.model)
    regions = [
        Region("arena", memory.arena_bytes, sizes.arena),
        Region("constants", memory.constant_bytes, constants.get(False, 0)),
    ]
    if memory.npu_stand_in.constant_bytes:
        regions.append(
            Region("NPU stand-in's constants", memory.npu_stand_in.constant_bytes, constants.get(True, 0))
        )
    ops = tuple(result.op_instructions or ())
    if len(ops) != len(manifest.ops):
        raise _not_its_manifest(manifest, f"{len(manifest.ops)} ops", f"{len(ops)} measured")
    return Profile(sum(ops), ops, result.stack_bytes or 0, sizes.code, tuple(regions))


def _constants(sizes: ElfSizes, model: str) -> dict[bool, int]:
    """Bytes of the model's arrays in the linked file: False → its own, True → those of the NPU's stand-in."""
    found: dict[bool, int] = {}
    for symbol in sizes.symbols.values():
        if symbol.name.startswith(f"{model}_") and not symbol.is_function:
            of_npu = symbol.name.startswith(f"{model}_npu_")
            found[of_npu] = found.get(of_npu, 0) + symbol.bytes
    return found


def in_temporary_project(files: Mapping[str, Content]) -> tempfile.TemporaryDirectory[str]:
    """The files of a project in a folder that goes away again."""
    folder = tempfile.TemporaryDirectory(prefix="pillion-")
    for path, content in files.items():
        put(Path(folder.name) / path, content)
    return folder
