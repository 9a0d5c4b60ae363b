# SPDX-License-Identifier: Apache-2.0
"""A C project: the model's text, the kernels that it uses, a main program for boards, build files, a manifest."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pillion.boards.board import BOARDS, Board, firmware_files
from pillion.devices.cortex_m import CORES, Isa
from pillion.emitters.c import text
from pillion.emitters.c.declared import kernel_folder
from pillion.emitters.c.npu import inner_program, npu_files, segment_steps
from pillion.emitters.c.program import CProgram, lower
from pillion.errors import PillionError
from pillion.files import write_folder
from pillion.ir.types import Value
from pillion.ops import Segment

HOST_FOLDER = "host"
"""Where model.c and weights.c for other processors lie, if the core's kernels are special to it."""


MANIFEST_KEYS = frozenset({"model", "target", "inputs", "outputs", "memory", "ops"})
"""What every manifest has."""

_INCLUDE = re.compile(r'^\s*#\s*include "([^"/]+)"', re.MULTILINE)


def project_files(program: CProgram, target: str) -> dict[str, str]:
    """Path → text of every file of the project."""
    isa = instruction_set(program)
    boards = [board.name for board in boards_for(isa)]
    files = {**_program_files(program), **firmware_files(program.graph.name, boards, program.optimize)}
    if isa is not Isa.PORTABLE:
        portable = _program_files(lower(program.graph))
        files.update({f"{HOST_FOLDER}/{path}": content for path, content in portable.items()})
        files["model.h"] = text.or_else(files["model.h"], f"{HOST_FOLDER}/model.h")
    files["manifest.json"] = json.dumps(manifest(program, target, sorted(files)), indent=2) + "\n"
    return files


def instruction_set(program: CProgram) -> Isa:
    """What the kernels in use need."""
    folders = {routine.source.split("/")[0] for routine in program.routines}
    return next((isa for isa in (Isa.MVE, Isa.DSP) if isa.value in folders), Isa.PORTABLE)


def boards_for(isa: Isa) -> list[Board]:
    """The boards whose cores run such kernels."""
    return [board for board in BOARDS.values() if CORES[board.core].runs(isa)]


def _program_files(program: CProgram) -> dict[str, str]:
    """The model, the stand-ins of its NPU segments, and all kernels in use."""
    npu, inner = npu_files(program)
    return {**_model_files(program), **npu, **_kernel_files([program, *inner])}


def _model_files(program: CProgram) -> dict[str, str]:
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


def manifest(program: CProgram, target: str, files: list[str]) -> dict[str, Any]:
    """What another program may want to know about the project."""
    memory = program.memory
    return {
        "model": program.graph.name,
        "target": target,
        "arithmetic": program.graph.arithmetic.value,
        "optimize": program.optimize,
        "kernels": instruction_set(program).value,
        "inputs": [_buffer(program, value) for value in program.graph.inputs],
        "outputs": [_buffer(program, value) for value in program.graph.outputs],
        "memory": {
            "arena_bytes": memory.arena_bytes,
            "activation_bytes": memory.activation_bytes,
            "floor_bytes": memory.floor_bytes,
            "scratch_bytes": memory.scratch_bytes,
            "constant_bytes": program.constant_bytes,
            "params_bytes": program.params_bytes,
            "npu_stand_in": _stand_in(program),
        },
        "macs": program.graph.macs,
        "ops": [_op(program, i) for i in range(len(program.steps))],
        "files": files,
    }


def _stand_in(program: CProgram) -> dict[str, int]:
    """What the segments' references take where there is no NPU: nothing of this is on the chip."""
    inner = [inner_program(program, number, step) for number, step in segment_steps(program)]
    return {
        "constant_bytes": sum(p.constant_bytes for p in inner),
        "arena_bytes": sum(p.memory.arena_bytes for p in inner),
    }


def _buffer(program: CProgram, value: Value) -> dict[str, Any]:
    quantization = {"scale": value.scale, "zero_point": value.zero_point} if value.is_quantized else {}
    return {
        "name": value.name,
        "dtype": value.dtype.value,
        "shape": list(value.shape),
        "offset": program.memory.offsets[value],
        "bytes": value.type.size_bytes,
        **quantization,
    }


def _op(program: CProgram, index: int) -> dict[str, Any]:
    step = program.steps[index]
    op = step.choice.op
    return {
        "name": op.name,
        "kind": op.kind,
        "kernel": step.choice.kernel.name if step.calls or isinstance(op, Segment) else "none (alias)",
        "why": step.choice.short_reason,
        "passed_over": [f"{name}: {verdict}" for name, verdict in step.choice.passed_over],
        "source": op.source,
        "macs": op.macs,
        "scratch_bytes": step.choice.kernel.scratch_bytes(op),
    }


def write_project(files: Mapping[str, str | bytes], folder: Path) -> None:
    """All files or none; an earlier project gives way to them."""
    write_folder(folder, files, is_project)


def is_project(path: Path) -> bool:
    """Whether a folder holds a project of ours; other programs have files of the name manifest.json, too."""
    try:
        read_manifest(path)
    except PillionError:
        return False
    return True


def read_manifest(folder: Path) -> dict[str, Any]:
    """The manifest of a project that was written earlier."""
    try:
        loaded = json.loads((folder / "manifest.json").read_text("utf-8"))
        missing = MANIFEST_KEYS - set(loaded) if isinstance(loaded, dict) else MANIFEST_KEYS
        if missing:
            raise ValueError(f"it lacks {', '.join(sorted(missing))}")
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise PillionError(
            f"{folder} is not a project of Pillion",
            rule="a folder that `pillion compile` wrote, whose manifest.json describes it",
            here=f"{folder / 'manifest.json'}: {reason}",
            help=f"pillion compile -m MODEL -t TARGET --quantize -o {folder}",
        ) from None
    return loaded
