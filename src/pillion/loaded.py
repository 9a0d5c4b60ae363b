# SPDX-License-Identifier: Apache-2.0
"""A `.pte` file as something to run: on its graph's reference, as C on this computer or a board, in the real runtime."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from shlex import quote
from typing import Any

import numpy as np

from pillion.boards.board import BOARDS, Board, another_core, find_board
from pillion.errors import PillionError
from pillion.executors import (
    EXECUTORCH,
    HOST,
    REFERENCE,
    RunResult,
    check_arrays,
    in_temporary_project,
    run_project,
)
from pillion.importers.pte import ReadProgram, read
from pillion.ir.types import Array
from pillion.program import Program
from pillion.targets import find_target

ANY_CORE = "cortex-m3"
"""For programs that do not say what they were compiled for, where it makes no difference: portable C."""


@dataclass(frozen=True)
class Loaded:
    """The file, and the program that its graph is for some target."""

    file: ReadProgram
    program: Program

    @property
    def manifest(self) -> Mapping[str, Any]:
        """What it takes, as a C project's manifest says it."""
        inputs = [
            {"name": v.name, "dtype": v.dtype.value, "shape": list(v.shape)}
            for v in self.program.graph.inputs
        ]
        return {"model": self.program.graph.name, "inputs": inputs, "ops": []}

    def run(
        self,
        arrays: Sequence[Array],
        on: str,
        *,
        profile: bool = False,
        timeout: float = 60.0,
        native: bool = False,
    ) -> tuple[Mapping[str, Any], RunResult]:
        """The manifest, and what came out. Arrays are as they lie in memory."""
        check_arrays(self.manifest["inputs"], arrays)
        if on == REFERENCE:
            return self.manifest, RunResult(self.program.graph.reference(*arrays))
        if on == EXECUTORCH:
            return self.manifest, RunResult(self.in_runtime(arrays))
        from pillion.emitters.c.project import read_manifest

        with in_temporary_project(self.program.files) as folder:
            result = run_project(Path(folder), arrays, on, profile=profile, timeout=timeout, native=native)
            return read_manifest(Path(folder)), result

    def in_runtime(self, arrays: Sequence[Array]) -> tuple[Array, ...]:
        """The file itself in ExecuTorch, whose tensors have logical axes in some order in memory."""
        from pillion.executorch_host import run_executorch

        logical = [x.transpose(np.argsort(o)) for x, o in zip(arrays, self.file.input_orders, strict=True)]
        outputs = run_executorch(self.file.raw, logical)
        return tuple(
            np.ascontiguousarray(y.transpose(o)).reshape([y.shape[axis] for axis in o])
            for y, o in zip(outputs, self.file.output_orders, strict=True)
        )


def load(path: Path, on: str = HOST) -> Loaded:
    """The program in a file, for the place where it shall run."""
    file = read(path)
    core = file.core or ANY_CORE
    if on not in (REFERENCE, HOST, EXECUTORCH):
        board = find_board(on)
        if file.core is not None and board.core != file.core:
            raise _for_another_core(path, file.core, board)
        core = board.core
    return Loaded(file, Program(file.graph, find_target(core)))


def _for_another_core(path: Path, core: str, board: Board) -> PillionError:
    """The error of a file that was compiled for another core than a board has."""
    fitting = [name for name, one in BOARDS.items() if one.core == core]
    return another_core(
        str(path),
        core,
        board,
        rule="a program runs on a board with its core",
        here=f"--on {board.name}",
        help=f"--on {fitting[0]}"
        if fitting
        else f"pillion compile -m {quote(str(path))} -t {board.core} -o FOLDER",
    )
