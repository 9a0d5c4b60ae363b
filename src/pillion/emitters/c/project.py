# SPDX-License-Identifier: Apache-2.0
"""A C project: the model's sources, the kernels it uses, a main program for boards, build files and a manifest."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from pillion.boards.board import BOARDS, Board, firmware_files
from pillion.boards.project_layout import (
    HOST_FOLDER,
    KERNEL_FOLDER,
    KERNEL_HEADERS,
    MODEL_FOLDER,
    SELFTEST_FOLDER,
    STAND_IN_FOLDER,
)
from pillion.devices.cortex_m import CORES, Isa
from pillion.emitters.c import model_source
from pillion.emitters.c.divided_program import divide_alike
from pillion.emitters.c.escaping import replace_surrogates
from pillion.emitters.c.kernel_library import HOST
from pillion.emitters.c.lower import CProgram, lower
from pillion.emitters.c.manifest import (
    MANIFEST,
    Manifest,
    ManifestBuffer,
    ManifestMemory,
    ManifestOp,
    ManifestUse,
    NpuMemory,
    NpuReferenceMemory,
    manifest_in,
)
from pillion.emitters.c.npu_segments import (
    lower_segment_reference,
    npu_header,
    segment_reference_files,
    segment_steps,
)
from pillion.emitters.c.params_structs import kernel_file, public_headers
from pillion.emitters.c.readme import project_readme
from pillion.emitters.c.selftest_source import SelfTest, selftest_files
from pillion.emitters.c.text_templates import fill_template
from pillion.errors import PillionError
from pillion.host_io.atomic_files import Content, resolve_links
from pillion.host_io.project_folders import Listing, ProjectWrite
from pillion.ir.graph import Graph
from pillion.ir.types import PerTensor, Value
from pillion.memory import MemoryPlan
from pillion.ops import Segment

_INCLUDE = re.compile(r'^\s*#\s*include "([^"/]+)"', re.MULTILINE)


def project_files(
    program: CProgram,
    target: str,
    more: Mapping[str, Content] = MappingProxyType({}),
    test: SelfTest | None = None,
    npu: NpuMemory | None = None,
) -> dict[str, Content]:
    """Returns path → content of a project that runs a model on this computer with its vector kernels. Results equal
    the program's for `target`."""
    isa = instruction_set(program)
    boards = [board.name for board in boards_for(isa)]
    is_portable = isa is Isa.PORTABLE
    host = (
        None
        if is_portable
        else lower(program.graph, workspaces=program.workspaces, npu_calls=program.npu_calls)
    )
    host = divide_alike(host, program) if host is not None else None
    files = _files_in_folders(program, host is not None)
    if host is not None:
        files |= _prefix_paths(HOST_FOLDER, _files_in_one_folder(host))
    sources = sorted(path for path in files if path.endswith(".c"))
    tests = _prefix_paths(SELFTEST_FOLDER, selftest_files(program, host, test)) if test else {}
    of_test = sorted(path for path in tests if path.endswith(".c"))
    files |= {
        **firmware_files(program.graph.name, boards, program.optimize, sources, of_test),
        **more,
        **tests,
    }
    description = manifest(program, target, npu)
    files["README.md"] = project_readme(program, target, boards, files, description.memory)
    return {**files, MANIFEST: description.sealed(files).text()}


def native_files(graph: Graph, target: str) -> dict[str, Content]:
    """Returns path → content of a project that runs a model on this computer with its vector kernels. The results
    are those of the program for `target`."""
    program = lower(graph, Isa.HOST)
    files = {**_files_in_one_folder(program), **_header_of_host()}
    return {**files, MANIFEST: manifest(program, target).sealed(files).text()}


def instruction_set(program: CProgram) -> Isa:
    """Returns the instruction set that the kernels in use need."""
    folders = {routine.source.split("/")[0] for routine in program.routines}
    return next(
        (isa for isa in (Isa.HOST, Isa.MVE, Isa.DSP, Isa.SCALAR) if isa.value in folders), Isa.PORTABLE
    )


def boards_for(isa: Isa) -> list[Board]:
    """Returns the boards whose cores run an instruction set."""
    return [board for board in BOARDS.values() if CORES[board.core].runs(isa)]


def _files_in_folders(program: CProgram, has_host: bool) -> dict[str, Content]:
    """Returns the model's files, and separately the references of NPU segments with the kernels that only they
    need."""
    reference, inner = segment_reference_files(program)
    model: dict[str, Content] = {**_model_files(program, has_host), **npu_header(program)}
    model |= {**_kernel_files([program]), **_kernel_headers(program)}
    stand_in = {**reference, **_kernel_files(inner, elsewhere=model)}
    return _prefix_paths(MODEL_FOLDER, model) | _prefix_paths(STAND_IN_FOLDER, stand_in)


def _files_in_one_folder(program: CProgram) -> dict[str, Content]:
    """Returns all files that compute the model on a processor without an NPU."""
    reference, inner = segment_reference_files(program)
    kernels = {**_kernel_files([program, *inner]), **_kernel_headers(program)}
    return {**_model_files(program), **npu_header(program), **reference, **kernels}


def _prefix_paths(folder: str, files: Mapping[str, Content]) -> dict[str, Content]:
    return {f"{folder}/{path}": content for path, content in files.items()}


def _model_files(program: CProgram, has_host: bool = False) -> dict[str, Content]:
    return {
        "model.h": model_source.model_h(program, has_host),
        "model.c": model_source.model_c(program),
        "weights.h": model_source.weights_h(program),
        "weights.c": model_source.weights_c(program),
    }


def _kernel_files(programs: Sequence[CProgram], elsewhere: Collection[str] = ()) -> dict[str, str]:
    """Returns the sources of the used kernels in one flat folder, except those that `elsewhere` contains."""
    routines = [routine for program in programs for routine in program.routines]
    sources = {source for routine in routines for source in (routine.source, *routine.also)}
    files: dict[str, str] = {}
    for source in sorted(sources):
        if f"{KERNEL_FOLDER}/{Path(source).name}" not in elsewhere:
            _add_with_headers(kernel_file(source), files)
    return files


def _kernel_headers(program: CProgram) -> dict[str, str]:
    """Returns the headers that every kernel may include, and the one of programs that run in steps."""
    task = {f"{KERNEL_HEADERS}/pillion/task.h": fill_template("task.h", {})} if program.in_steps else {}
    return task | {
        f"{KERNEL_HEADERS}/pillion/{header.name}": header.read_text("utf-8")
        for header in public_headers()
        if header.name != HOST.header
    }


def _header_of_host() -> dict[str, str]:
    """Returns the header of the host kernels, which no product contains."""
    path = f"pillion/{HOST.header}"
    return {f"{KERNEL_HEADERS}/{path}": kernel_file(f"include/{path}").read_text("utf-8")}


def _add_with_headers(source: Path, files: dict[str, str]) -> None:
    """Adds a source and the private headers next to it."""
    name = f"{KERNEL_FOLDER}/{source.name}"
    if name in files:
        return
    files[name] = source.read_text("utf-8")
    for header in _INCLUDE.findall(files[name]):
        if (source.parent / header).is_file():
            _add_with_headers(source.parent / header, files)


def manifest(program: CProgram, target: str, npu: NpuMemory | None = None) -> Manifest:
    """Returns the manifest of a program, without its files."""
    memory = program.memory
    return Manifest(
        model=program.graph.name,
        target=target,
        arithmetic=program.graph.arithmetic,
        optimize=program.optimize,
        kernels=instruction_set(program),
        inputs=tuple(_manifest_buffer(program, value) for value in program.graph.inputs),
        outputs=tuple(_manifest_buffer(program, value) for value in program.graph.outputs),
        memory=ManifestMemory(
            arena_bytes=memory.arena_bytes,
            activation_bytes=memory.activation_bytes,
            floor_bytes=memory.floor_bytes,
            scratch_bytes=memory.scratch_bytes,
            constant_bytes=program.constant_bytes,
            params_bytes=program.params_bytes,
            npu_stand_in=_npu_reference_memory(program),
            state_bytes=memory.state_bytes,
            npu_copied_bytes=program.copied_bytes,
            npu=npu,
            **_memory_uses(memory),
        ),
        states=tuple(_manifest_buffer(program, state.before) for state in program.graph.states),
        stream=program.graph.streaming,
        macs=program.graph.macs,
        ops=tuple(_manifest_op(program, i) for i in range(len(program.steps))),
        files={},
    )


def _memory_uses(memory: MemoryPlan) -> dict[str, Any]:
    """Returns the manifest's entries about the memories of the chip, if the user named them."""
    several = memory.several
    if several is None:
        return {}
    uses = tuple(
        ManifestUse(
            one.memory.name,
            one.memory.bytes,
            one.arena_bytes,
            one.state_bytes,
            one.constant_bytes,
            one.memory.read,
            one.memory.write,
            one.memory.cache,
        )
        for one in several.used
    )
    return {"memories": uses, "constants_read": several.flash.read, "constants_cache": several.flash.cache}


def _npu_reference_memory(program: CProgram) -> NpuReferenceMemory:
    """Returns the memory of the segments' references, which are not on the chip."""
    inner = [lower_segment_reference(program, number, step) for number, step in segment_steps(program)]
    return NpuReferenceMemory(sum(p.constant_bytes for p in inner), sum(p.memory.arena_bytes for p in inner))


def _manifest_buffer(program: CProgram, value: Value) -> ManifestBuffer:
    quant = value.type.quant if isinstance(value.type.quant, PerTensor) else None
    is_fed = program.feed is not None and value is program.feed.value
    return ManifestBuffer(
        name=replace_surrogates(value.name),
        dtype=value.dtype,
        shape=value.shape,
        offset=None if is_fed else program.memory.location(value).offset,
        bytes=value.type.size_bytes,
        scale=quant.scale if quant else None,
        zero_point=quant.zero_point if quant else None,
    )


def _manifest_op(program: CProgram, index: int) -> ManifestOp:
    step = program.steps[index]
    op = step.choice.op
    return ManifestOp(
        name=replace_surrogates(op.name),
        kind=op.kind,
        kernel=step.choice.kernel.name if step.calls or isinstance(op, Segment) else "none (alias)",
        why=step.choice.short_reason,
        passed_over=tuple(f"{name}: {verdict}" for name, verdict in step.choice.passed_over),
        source=replace_surrogates(op.source),
        macs=op.macs,
        scratch_bytes=step.scratch_bytes,
    )


def write_project(files: Mapping[str, Content], folder: Path, force: bool = False) -> None:
    """Writes all files. Replaces the files of an earlier project, but no file of the user and none that the user
    changed, except with `force`."""
    ProjectWrite(resolve_links(folder), files, MANIFEST, _earlier_project, force).write()


def check_project(files: Mapping[str, Content], folder: Path, force: bool = False) -> None:
    """Raises if `write_project` would; writes nothing."""
    ProjectWrite(resolve_links(folder), files, MANIFEST, _earlier_project, force).check()


def _earlier_project(folder: Path) -> Listing | None:
    try:
        return manifest_in(folder).listing
    except PillionError:
        return None
