# SPDX-License-Identifier: Apache-2.0
"""A compiled model: to run, to look at, to write out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import numpy as np

from pillion.boards.board import BOARDS, Optimize
from pillion.choices import one_of
from pillion.emitters.c.program import CProgram, lower
from pillion.emitters.c.project import project_files, write_project
from pillion.emitters.neutron.segments import Payloads, payloads
from pillion.emitters.pte import Runtime
from pillion.executors import (
    EXECUTORCH,
    HOST,
    REFERENCE,
    RunResult,
    check_arrays,
    check_timeout,
    in_temporary_project,
    run_project,
)
from pillion.files import Content, form_of, write_whole
from pillion.ir.graph import Graph, check_inputs
from pillion.ir.numerics import Arithmetic
from pillion.ir.text import to_text
from pillion.ir.types import Array
from pillion.memory import MemoryPlan
from pillion.ops import Segment
from pillion.passes import sum_hard_sigmoids
from pillion.place import Ledger, inline_segments
from pillion.targets import Target

if TYPE_CHECKING:
    from pillion.verifying import Verification


@dataclass(frozen=True)
class Program:
    """A graph of integer ops and the chip that it is for."""

    graph: Graph
    target: Target
    ledger: Ledger = field(default_factory=lambda: Ledger(()))
    """Where each op runs and why."""
    optimize: Optimize = "speed"
    """What kernels are chosen and compiled for."""

    def __getstate__(self) -> dict[str, Any]:
        """What is not made from the rest: pickles hold no kernels."""
        return {one.name: getattr(self, one.name) for one in fields(self)}

    @cached_property
    def lowered(self) -> CProgram:
        """Kernels, packed constants and memory for the target's core."""
        return lower(self.graph, self.target.isa, self.optimize)

    @property
    def memory(self) -> MemoryPlan:
        """Where activations lie, how large the arena is, and how small it could be."""
        return self.lowered.memory

    @property
    def npu_constant_bytes(self) -> int:
        """Weights of the NPU's segments. The NPU reads no flash: they are copied to SRAM before it runs."""
        bodies = [op.body for op in self.graph.ops if isinstance(op, Segment)]
        return sum(v.type.size_bytes for body in bodies for v in body.constants)

    @property
    def sram_bytes(self) -> int:
        """What the program holds in RAM while it runs: the arena and the NPU's weights. The stack comes on top."""
        return self.memory.arena_bytes + self.npu_constant_bytes

    @cached_property
    def payloads(self) -> Payloads:
        """What the NPU is given for each segment."""
        return payloads(self.graph, self.target.converter_name)

    @cached_property
    def files(self) -> dict[str, Content]:
        """Path → content of the C project."""
        more: dict[str, Content] = {}
        for number, segment in enumerate(self.payloads.segments):
            more[f"npu_segment_{number}.tflite"] = segment.tflite
            if self.payloads.sdk_version:
                more[f"npu_segment_{number}.bin"] = segment.payload
        if self.payloads.kernel_selection:
            more["neutron_kernel_selection.c.txt"] = self.payloads.kernel_selection
        return project_files(self.lowered, self.target.name, more)

    def tflite(self) -> bytes:
        """The whole graph as a TFLite file, which computes in LiteRT's arithmetic."""
        from pillion.emitters.tflite import emit

        return emit(sum_hard_sigmoids(inline_segments(self.graph)).replace(arithmetic=Arithmetic.TFLITE))

    def pte(self, runtime: Runtime = "1.4") -> bytes:
        """An ExecuTorch program: kernel calls for the CPU, delegate calls for the NPU's segments."""
        from pillion.emitters.pte import emit

        one_of("runtime", runtime, get_args(Runtime))
        return emit(self.graph, self.target.core, runtime, [s.payload for s in self.payloads.segments])

    def save(self, path: str | Path, runtime: Runtime = "1.4", *, force: bool = False) -> Path:
        """Writes the program in the form that the name asks for: `.pte`, `.tflite`, or a folder for a C project (see `firmware`).

        Beside a `.pte` with code for the NPU goes what the NPU's firmware needs to know: which of its kernels are used."""
        path = Path(path)
        form = form_of(path)
        one_of("runtime", runtime, get_args(Runtime))
        if form == ".pte":
            content = self.pte(runtime)
            if self.payloads.kernel_selection:
                beside = path.with_name(f"{path.stem}_neutron_kernel_selection.c")
                write_whole(beside, self.payloads.kernel_selection.encode())
            write_whole(path, content)
        elif form == ".tflite":
            write_whole(path, self.tflite())
        else:
            self.firmware(path, force=force)
        return path

    def firmware(self, folder: str | Path, *, force: bool = False) -> Path:
        """Writes the C project: all of it, or nothing. An earlier project in the folder gives way to it; files that are not Pillion's stay,
        and where one would be lost, or one of Pillion's that was changed, nothing is written but by `force`."""
        write_project(self.files, Path(folder), force)
        return Path(folder)

    def run(self, *inputs: Any, on: str = REFERENCE) -> tuple[Array, ...]:
        """The outputs for one sample, as numpy arrays. `on` is `reference`, `host`, `executorch` or a board."""
        return self.measure(*inputs, on=on, profile=False).outputs

    def measure(self, *inputs: Any, on: str, profile: bool = True, timeout: float = 60.0) -> RunResult:
        """As `run`, with what the board measured."""
        arrays = as_arrays(inputs)
        one_of("on", on, (REFERENCE, HOST, EXECUTORCH, *BOARDS))
        check_fit(self.graph, arrays)
        check_timeout(timeout)
        if on == REFERENCE:
            return RunResult(self.graph.reference(*arrays))
        if on == EXECUTORCH:
            from pillion.executorch_host import run_executorch

            return RunResult(run_executorch(self.pte(), arrays, timeout=timeout))
        with in_temporary_project(self.files) as folder:
            return run_project(Path(folder), arrays, on, profile=profile, timeout=timeout)

    def verify(
        self,
        samples: int = 3,
        *,
        seed: int = 0,
        inputs: Sequence[Any] | None = None,
        pte: bytes | None = None,
    ) -> Verification:
        """Runs the program on all executors that are installed, and compares all bytes. Without `inputs`, on random samples.

        `pte` is the file that the program was read from, if it was."""
        from pillion.verifying import verify

        return verify(self, samples, seed=seed, inputs=as_arrays(inputs) if inputs else None, pte=pte)

    def explain(self) -> str:
        """Each op, who runs it, and why: the ledger as text."""
        return "\n".join(f"{e.op.kind} {e.op.name}: {e.unit.value}, {e.because}" for e in self.ledger)

    def text(self) -> str:
        """The graph in words, long constants left out."""
        return to_text(self.graph, constants=False)


def as_arrays(inputs: Sequence[Any]) -> list[Array]:
    """numpy arrays of arrays or torch tensors."""
    return [np.asarray(x.detach().cpu().numpy() if hasattr(x, "detach") else x, order="C") for x in inputs]


def check_fit(graph: Graph, arrays: Sequence[Array]) -> None:
    """Raises where arrays are not the graph's inputs, with the same words whatever is to run it."""
    if len(arrays) != len(graph.inputs):
        check_inputs(graph, arrays)
    check_arrays(graph.inputs, arrays)
