# SPDX-License-Identifier: Apache-2.0
"""The executors by name, and runs of C projects."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pillion.boards.board import BOARDS, find_board
from pillion.boards.serial_transport import is_board_place, require_board_extra
from pillion.boards.toolchain import ARM_COMPILER, QEMU, host_compiler
from pillion.emitters.c.manifest import read_manifest
from pillion.errors import PillionError, require_one_of
from pillion.host_io.progress import show_progress, stage
from pillion.ir.types import Array
from pillion.option_values import EXECUTORS, HOST, LITERT_FILE, NPU
from pillion.registry import REGISTRY
from pillion.run.emulated_board import EmulatedBoard, run_on_board
from pillion.run.executor import DEFAULTS, TIMEOUT_SECONDS, Executor, Runnable, RunOptions, RunResult, Samples
from pillion.run.executorch import ExecuTorchExecutor
from pillion.run.host_executor import HostExecutor, run_on_host
from pillion.run.input_checks import check_arrays
from pillion.run.litert import LiteRtExecutor
from pillion.run.litert_file import LiteRtFileExecutor
from pillion.run.npu_executor import NpuCodeExecutor
from pillion.run.npu_project import run_on_npu
from pillion.run.reference import ReferenceExecutor
from pillion.run.serial_executor import SerialBoard, run_on_line

for _executor in (
    ReferenceExecutor(),
    HostExecutor(),
    ExecuTorchExecutor(),
    LiteRtExecutor(),
    LiteRtFileExecutor(),
    NpuCodeExecutor(),
):
    REGISTRY.add_executor(_executor)


def require_place(on: str, option: str = "on") -> None:
    """Raises if nothing runs programs under this name: no executor, board or line to a board."""
    if not is_board_place(on):
        require_one_of(option, on, (*REGISTRY.executors, *BOARDS, "serial:PORT"))


def find_executor(on: str) -> Executor:
    """Returns the executor of this name; raises if it does not exist."""
    require_place(on)
    if is_board_place(on):
        return SerialBoard(on)
    return REGISTRY.executors.get(on) or EmulatedBoard(on)


def executors_of(program: Runnable) -> list[Executor]:
    """Returns all executors for a program, the reference first; the executor of its file only if it has one."""
    left_out = LITERT_FILE if program.source is None else ""
    names = [name for name in dict.fromkeys((*EXECUTORS, *REGISTRY.executors)) if name != left_out]
    reference, host, *others = (REGISTRY.executors[name] for name in names)
    return [reference, host, EmulatedBoard(program.target.board), *others]


def require_tools(on: str) -> None:
    """Raises if a program that builds or runs C for an executor is missing."""
    if is_board_place(on):
        require_board_extra("serial")
    elif on in (HOST, NPU):
        host_compiler()
    else:
        ARM_COMPILER.path()
        QEMU.path()


def run_folder(
    folder: Path, samples: Samples, on: str = HOST, options: RunOptions = DEFAULTS
) -> list[RunResult]:
    """Runs a C project in a folder: on this computer, on a board, or with the NPU's own code executed."""
    manifest = read_manifest(folder)
    for sample in samples:
        check_arrays(manifest.inputs, sample)
    with show_progress(), stage(f"{'measuring' if options.profile else 'running'} on {on}"):
        if on == HOST:
            return run_on_host(folder, manifest, samples, options)
        if is_board_place(on):
            return run_on_line(manifest, on, samples, options)
        if on == NPU:
            return run_on_npu(folder, manifest, samples, options)
        if on in EXECUTORS:
            raise PillionError(
                f"a C project does not run on {on}",
                rule="its folder holds C, which runs on this computer and on emulated boards; the graph is not in it",
                here=f"{folder} --on {on}",
                help="--on host, which gives the bytes of the reference; or name the model itself, with --target",
            )
        return run_on_board(folder, manifest, find_board(on), samples, options)


def run_project(
    folder: Path,
    inputs: Sequence[Array],
    on: str = HOST,
    *,
    profile: bool = False,
    timeout: float = TIMEOUT_SECONDS,
    native: bool = False,
) -> RunResult:
    """Runs a C project on one sample. `native` uses all instructions of this processor: the same bytes,
    faster. A run is stopped after `timeout` seconds."""
    return run_folder(folder, [inputs], on, RunOptions(timeout, profile, native))[0]
