# SPDX-License-Identifier: Apache-2.0
"""A C project: the model's text, the kernels that it uses, a main program for boards, build files, a manifest."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from pillion.boards.board import BOARDS, HOST_FOLDER, Board, firmware_files
from pillion.devices.cortex_m import CORES, Isa
from pillion.emitters.c import text
from pillion.emitters.c.manifest import MANIFEST, Buffer, Manifest, Memory, OpFacts, StandIn, manifest_in
from pillion.emitters.c.npu import inner_program, npu_files, segment_steps
from pillion.emitters.c.program import CProgram, lower
from pillion.emitters.c.spelling import encodable
from pillion.emitters.c.structs import kernel_folder
from pillion.errors import PillionError
from pillion.ir.types import PerTensor, Value
from pillion.ops import Segment
from pillion.outside import folders
from pillion.outside.files import Content

_INCLUDE = re.compile(r'^\s*#\s*include "([^"/]+)"', re.MULTILINE)


def project_files(
    program: CProgram, target: str, more: Mapping[str, Content] = MappingProxyType({})
) -> dict[str, Content]:
    """Gives path → content of every file of the project; `more` are files that only Python makes of it."""
    isa = instruction_set(program)
    boards = [board.name for board in boards_for(isa)]
    files: dict[str, Content] = {**_program_files(program)}
    if isa is not Isa.PORTABLE:
        portable = _program_files(lower(program.graph))
        files.update({f"{HOST_FOLDER}/{path}": content for path, content in portable.items()})
        files["model.h"] = text.or_else(str(files["model.h"]), f"{HOST_FOLDER}/model.h")
    sources = sorted(path for path in files if path.endswith(".c"))
    files |= {**firmware_files(program.graph.name, boards, program.optimize, sources), **more}
    return {**files, MANIFEST: manifest(program, target).sealed(files).text()}


def instruction_set(program: CProgram) -> Isa:
    """Gives the instruction set that the kernels in use need."""
    folders = {routine.source.split("/")[0] for routine in program.routines}
    return next((isa for isa in (Isa.MVE, Isa.DSP) if isa.value in folders), Isa.PORTABLE)


def boards_for(isa: Isa) -> list[Board]:
    """Gives the boards whose cores run such kernels."""
    return [board for board in BOARDS.values() if CORES[board.core].runs(isa)]


def _program_files(program: CProgram) -> dict[str, Content]:
    """The model, the stand-ins of its NPU segments, and all kernels in use."""
    npu, inner = npu_files(program)
    return {**_model_files(program), **npu, **_kernel_files([program, *inner])}


def _model_files(program: CProgram) -> dict[str, Content]:
    return {
        "model.h": text.model_h(program),
        "model.c": text.model_c(program),
        "weights.h": text.weights_h(program),
        "weights.c": text.weights_c(program),
    }


def _kernel_files(programs: Sequence[CProgram]) -> dict[str, str]:
    """The sources of the kernels in use and all headers, flat as a build file likes it."""
    root = kernel_folder()
    routines = [routine for program in programs for routine in program.routines]
    sources = {source for routine in routines for source in (routine.source, *routine.also)}
    files: dict[str, str] = {}
    for source in sorted(sources):
        _add_with_headers(root / source, files)
    for header in sorted((root / "include" / "pillion").glob("*.h")):
        files[f"kernels/include/pillion/{header.name}"] = header.read_text("utf-8")
    return files


def _add_with_headers(source: Path, files: dict[str, str]) -> None:
    """A source and the private headers that lie beside it."""
    name = f"kernels/{source.name}"
    if name in files:
        return
    files[name] = source.read_text("utf-8")
    for header in _INCLUDE.findall(files[name]):
        if (source.parent / header).is_file():
            _add_with_headers(source.parent / header, files)


def manifest(program: CProgram, target: str) -> Manifest:
    """Gives what another program may want to know about the project, without its files."""
    memory = program.memory
    return Manifest(
        model=program.graph.name,
        target=target,
        arithmetic=program.graph.arithmetic,
        optimize=program.optimize,
        kernels=instruction_set(program),
        inputs=tuple(_buffer(program, value) for value in program.graph.inputs),
        outputs=tuple(_buffer(program, value) for value in program.graph.outputs),
        memory=Memory(
            arena_bytes=memory.arena_bytes,
            activation_bytes=memory.activation_bytes,
            floor_bytes=memory.floor_bytes,
            scratch_bytes=memory.scratch_bytes,
            constant_bytes=program.constant_bytes,
            params_bytes=program.params_bytes,
            npu_stand_in=_stand_in(program),
        ),
        macs=program.graph.macs,
        ops=tuple(_op(program, i) for i in range(len(program.steps))),
        files={},
    )


def _stand_in(program: CProgram) -> StandIn:
    """Nothing of this is on the chip."""
    inner = [inner_program(program, number, step) for number, step in segment_steps(program)]
    return StandIn(sum(p.constant_bytes for p in inner), sum(p.memory.arena_bytes for p in inner))


def _buffer(program: CProgram, value: Value) -> Buffer:
    quant = value.type.quant if isinstance(value.type.quant, PerTensor) else None
    return Buffer(
        name=encodable(value.name),
        dtype=value.dtype,
        shape=value.shape,
        offset=program.memory.offsets[value],
        bytes=value.type.size_bytes,
        scale=quant.scale if quant else None,
        zero_point=quant.zero_point if quant else None,
    )


def _op(program: CProgram, index: int) -> OpFacts:
    step = program.steps[index]
    op = step.choice.op
    return OpFacts(
        name=encodable(op.name),
        kind=op.kind,
        kernel=step.choice.kernel.name if step.calls or isinstance(op, Segment) else "none (alias)",
        why=step.choice.short_reason,
        passed_over=tuple(f"{name}: {verdict}" for name, verdict in step.choice.passed_over),
        source=encodable(op.source),
        macs=op.macs,
        scratch_bytes=step.choice.kernel.scratch_bytes(op),
    )


def write_project(files: Mapping[str, Content], folder: Path, force: bool = False) -> None:
    """Writes all files; an earlier project gives way to them, but no file of the user does, nor one that the user changed, but by
    `force`."""
    folders.write_project(folder, files, MANIFEST, _earlier, force)


def check_project(files: Mapping[str, Content], folder: Path, force: bool = False) -> None:
    """Raises where `write_project` would, and writes nothing."""
    folders.check_project(folder, files, MANIFEST, _earlier, force)


def _earlier(folder: Path) -> folders.Listing | None:
    try:
        return manifest_in(folder).listing
    except PillionError:
        return None
