# SPDX-License-Identifier: Apache-2.0
"""Who there is to run programs: the executors by name, and C projects on those that run C."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pillion.boards.board import BOARDS, find_board
from pillion.boards.toolchain import ARM_COMPILER, QEMU, host_compiler
from pillion.choices import EXECUTORS, HOST, NPU
from pillion.emitters.c.manifest import read_manifest
from pillion.errors import one_of
from pillion.ir.types import Array
from pillion.outside.progress import shown, stage
from pillion.run.board import EmulatedBoard, run_on_board
from pillion.run.executor import (
    TIMEOUT_SECONDS,
    USUAL,
    Executor,
    Runnable,
    RunOptions,
    RunResult,
    Samples,
)
from pillion.run.executorch import ExecuTorch
from pillion.run.host import Host, run_on_host
from pillion.run.inputs import check_arrays
from pillion.run.litert import LiteRt
from pillion.run.litert_file import LiteRtFile
from pillion.run.npu import NpuCode
from pillion.run.npu_project import run_on_npu
from pillion.run.reference import Reference

PLACES = (*EXECUTORS, *BOARDS)
"""All that `on` may name."""


def find_executor(on: str) -> Executor:
    """Gives the executor of this name; raises where there is none."""
    one_of("on", on, PLACES)
    known = (Reference(), Host(), ExecuTorch(), LiteRt(), LiteRtFile(), NpuCode())
    named: dict[str, Executor] = {executor.name: executor for executor in known}
    return named.get(on) or EmulatedBoard(on)


def executors_of(program: Runnable) -> list[Executor]:
    """Gives all executors that may run a program, the reference first; the file that it came from only where there was one."""
    file: list[Executor] = [LiteRtFile()] if program.source is not None else []
    usual: list[Executor] = [Reference(), Host(), EmulatedBoard(program.target.board), ExecuTorch(), LiteRt()]
    return [*usual, *file, NpuCode()]


def want_tools(on: str) -> None:
    """Raises where a program is missing that builds or runs C for a place."""
    if on in (HOST, NPU):
        host_compiler()
    else:
        ARM_COMPILER.path()
        QEMU.path()


def run_folder(
    folder: Path,
    samples: Samples,
    on: str = HOST,
    options: RunOptions = USUAL,
) -> list[RunResult]:
    """Runs a C project that lies in a folder, on this computer, on a board, or with the NPU's own code executed."""
    manifest = read_manifest(folder)
    for sample in samples:
        check_arrays(manifest.inputs, sample)
    with shown(), stage(f"{'measuring' if options.profile else 'running'} on {on}"):
        if on == HOST:
            return run_on_host(folder, manifest, samples, options)
        if on == NPU:
            return run_on_npu(folder, manifest, samples, options)
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
    """Runs a C project on one sample. `native` uses all that this processor has: the same bytes, sooner. A run that takes longer
    than `timeout` seconds is stopped."""
    return run_folder(folder, [inputs], on, RunOptions(timeout, profile, native))[0]
