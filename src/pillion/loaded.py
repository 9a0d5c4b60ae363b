# SPDX-License-Identifier: Apache-2.0
"""A `.pte` file as something to run: on its graph's reference, as C on this computer or a board, in ExecuTorch's runtime."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING

import numpy as np

from pillion.boards.board import BOARDS, Board, another_core, find_board
from pillion.errors import PillionError
from pillion.executors import (
    EXECUTORCH,
    HOST,
    REFERENCE,
    TIMEOUT_SECONDS,
    RunResult,
    check_arrays,
    check_timeout,
    in_temporary_project,
    run_project,
)
from pillion.importers.pte import ReadProgram, read
from pillion.ir.types import Array
from pillion.program import Program
from pillion.targets import find_target

if TYPE_CHECKING:
    from pillion.emitters.c.manifest import OpFacts

ANY_CORE = "cortex-m3"
"""For programs that do not say what they were compiled for, where it makes no difference: portable C."""


@dataclass(frozen=True)
class Loaded:
    """The file, and the program that its graph is for some target."""

    file: ReadProgram
    program: Program

    def run(
        self,
        arrays: Sequence[Array],
        on: str,
        *,
        profile: bool = False,
        timeout: float = TIMEOUT_SECONDS,
        native: bool = False,
    ) -> tuple[tuple[OpFacts, ...], RunResult]:
        """What came out, and what there is to say of the ops. Arrays are as they lie in memory."""
        check_arrays(self.program.graph.inputs, arrays)
        check_timeout(timeout)
        if on == REFERENCE:
            return (), RunResult(self.program.graph.reference(*arrays))
        if on == EXECUTORCH:
            return (), RunResult(self.in_runtime(arrays, timeout))
        from pillion.emitters.c.manifest import read_manifest

        with in_temporary_project(self.program.files) as folder:
            result = run_project(Path(folder), arrays, on, profile=profile, timeout=timeout, native=native)
            return read_manifest(Path(folder)).ops, result

    def in_runtime(self, arrays: Sequence[Array], timeout: float = TIMEOUT_SECONDS) -> tuple[Array, ...]:
        """The file itself in ExecuTorch, whose tensors have logical axes in some order in memory."""
        from pillion.executorch_host import run_executorch

        logical = [x.transpose(np.argsort(o)) for x, o in zip(arrays, self.file.input_orders, strict=True)]
        outputs = run_executorch(self.file.raw, logical, timeout=timeout)
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
