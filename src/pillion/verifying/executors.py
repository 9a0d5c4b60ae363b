# SPDX-License-Identifier: Apache-2.0
"""Who takes part in `pillion verify`. Each executor says what it lacks, or runs a program on samples."""

from __future__ import annotations

import functools
import importlib.util
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from pillion.boards.toolchain import ARM_COMPILER, QEMU, host_compiler
from pillion.emitters import tflite
from pillion.emitters.c.project import project_files
from pillion.emitters.pte import emit
from pillion.errors import PillionError
from pillion.executors import EXECUTORCH, HOST, REFERENCE, Outputs, in_temporary_project, run_samples
from pillion.importers.pte import read
from pillion.ir.graph import Graph
from pillion.ir.numerics import Arithmetic
from pillion.ir.op import Op
from pillion.ir.types import Array
from pillion.loaded import Loaded
from pillion.ops import Segment
from pillion.program import Program

Samples = Sequence[Sequence[Array]]
LITERT = "litert"
TIMEOUT_SECONDS = 600.0
"""For one sample: MobileNetV2 at 224 x 224 takes some seconds on a board."""


class Executor(Protocol):
    """Something that runs programs."""

    @property
    def name(self) -> str: ...

    def check(self, program: Program) -> None:
        """Raises where this executor cannot take part; the error's help says what would let it."""

    def run(self, program: Program, samples: Samples) -> list[Outputs]:
        """The outputs for each sample."""


class Reference:
    """The definition: every op's exact integers, in numpy."""

    name = REFERENCE

    def check(self, program: Program) -> None:
        """It needs nothing."""

    def run(self, program: Program, samples: Samples) -> list[Outputs]:
        return [program.graph.reference(*sample) for sample in samples]


def check_tools(on: str) -> None:
    """Raises where a program is missing that builds or runs C for a place."""
    if on == HOST:
        host_compiler()
    else:
        ARM_COMPILER.path()
        QEMU.path()


class Host:
    """The generated C, compiled for this computer."""

    name = HOST

    def check(self, program: Program) -> None:
        check_tools(HOST)

    def run(self, program: Program, samples: Samples) -> list[Outputs]:
        with _project(program) as folder:
            return run_samples(folder, samples, HOST, timeout=TIMEOUT_SECONDS)


@dataclass(frozen=True)
class EmulatedBoard:
    """The same C with the core's own kernels, on the board that has the target's core."""

    board: str | None

    @property
    def name(self) -> str:
        return self.board or "board"

    def check(self, program: Program) -> None:
        if self.board is None:
            raise PillionError(
                f"no emulated board has a {program.target.core.name}",
                rule="QEMU emulates the processor",
                here=f"--target {program.target.name}",
                help="a target whose row in `pillion targets` names a board",
            )
        check_tools(self.board)

    def run(self, program: Program, samples: Samples) -> list[Outputs]:
        with _project(program) as folder:
            return run_samples(folder, samples, self.name, timeout=TIMEOUT_SECONDS)


@contextmanager
def _project(program: Program) -> Iterator[Path]:
    with in_temporary_project(project_files(program.lowered, program.target.name)) as folder:
        yield Path(folder)


@dataclass
class ExecuTorch:
    """ExecuTorch's runtime with Pillion's kernels: of `graph`, the file that it was read from; of any other graph, the program that Pillion writes."""

    graph: Graph | None = None
    file: bytes | None = None
    name: str = field(default=EXECUTORCH, init=False)

    def check(self, program: Program) -> None:
        from pillion.executorch_host.wheel import CXX, find_wheel

        find_wheel()
        CXX.path()
        self._runner(program)

    def run(self, program: Program, samples: Samples) -> list[Outputs]:
        runner = self._runner(program)
        return [runner(sample) for sample in samples]

    def _runner(self, program: Program) -> Callable[[Sequence[Array]], Outputs]:
        """NPU segments are always TFLite here: code for the NPU itself runs nowhere else."""
        from pillion.executorch_host import run_executorch

        if self.file is not None and program.graph is self.graph:
            return functools.partial(Loaded(read(self.file), program).in_runtime, timeout=TIMEOUT_SECONDS)
        program_bytes = emit(program.graph, program.target.core)
        return functools.partial(run_executorch, program_bytes, timeout=TIMEOUT_SECONDS)


class LiteRt:
    """LiteRT's reference kernels: for all of a graph that computes as LiteRT does, and has no segments; of other graphs
    for the NPU's segments, with the reference for the rest."""

    name = LITERT

    def check(self, program: Program) -> None:
        if importlib.util.find_spec("ai_edge_litert") is None:
            raise PillionError(
                "LiteRT is not installed",
                rule="it runs the segments that go to the NPU",
                here="no package `ai_edge_litert` in this environment",
                help="pip install 'pillion[litert]'",
            )
        if not _segments(program.graph) and program.graph.arithmetic is not Arithmetic.TFLITE:
            raise PillionError(
                "no op runs on an NPU",
                rule="LiteRT runs the segments that go to the NPU, and models that come from a .tflite file",
                here=f"--target {program.target.name}",
                help="a target with an NPU, for instance --target imxrt700",
            )

    def run(self, program: Program, samples: Samples) -> list[Outputs]:
        segments = _segments(program.graph)
        if not segments and program.graph.arithmetic is Arithmetic.TFLITE:
            interpreter = _interpreter(program.graph)
            return [_in_litert(interpreter, program.graph, *sample) for sample in samples]
        instead: dict[Op, Callable[..., object]] = {
            op: functools.partial(_in_litert, _interpreter(op.body), op.body) for op in segments
        }
        outputs = []
        for sample in samples:
            values = program.graph.reference_values(*sample, instead=instead)
            outputs.append(tuple(values[v] for v in program.graph.outputs))
        return outputs


def _segments(graph: Graph) -> list[Segment]:
    return [op for op in graph.ops if isinstance(op, Segment)]


def _interpreter(body: Graph) -> Any:
    """With memory of its own for each tensor: where a tensor is reshaped and read again, LiteRT's sharing lets an addition write
    over it."""
    litert: Any = importlib.import_module("ai_edge_litert.interpreter")
    made: Any = litert.Interpreter(
        model_content=tflite.emit(body),
        experimental_op_resolver_type=litert.OpResolverType.BUILTIN_REF,
        num_threads=1,
        experimental_preserve_all_tensors=True,
    )
    made.allocate_tensors()
    return made


def _in_litert(interpreter: Any, body: Graph, *operands: Array) -> Outputs:
    details = (*interpreter.get_input_details(), *interpreter.get_output_details())
    places = {detail["name"]: detail["index"] for detail in details}
    for value, data in zip(body.inputs, operands, strict=True):
        interpreter.set_tensor(places[value.name], data)
    interpreter.invoke()
    return tuple(interpreter.get_tensor(places[value.name]) for value in body.outputs)


def executors_of(program: Program, pte: bytes | None = None) -> list[Executor]:
    """All of them, the reference first."""
    return [
        Reference(),
        Host(),
        EmulatedBoard(program.target.board),
        ExecuTorch(program.graph, pte),
        LiteRt(),
    ]
