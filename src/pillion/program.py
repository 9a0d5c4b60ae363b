# SPDX-License-Identifier: Apache-2.0
"""`Program`, a compiled model: run it, inspect it, write it out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any, get_args

from pillion.boards.board import find_board
from pillion.boards.project_layout import NPU_FOLDER
from pillion.compile_options import Memory
from pillion.devices.clock import Clock, parse_clock
from pillion.devices.cortex_m.memories import find_memories
from pillion.devices.payloads import Copied, Payloads, marked, payloads_in_file
from pillion.emitters import pte, tflite
from pillion.emitters.c.lower import CProgram, lower
from pillion.emitters.c.manifest import NpuMemory
from pillion.emitters.c.project import project_files, write_project
from pillion.emitters.c.selftest_source import SelfTest, self_test
from pillion.emitters.segments import segment_files
from pillion.errors import PillionError, one_of, warn
from pillion.host_io.atomic_files import Content, form_of, write_whole
from pillion.host_io.progress import shown, stage
from pillion.importers.pte import ReadProgram
from pillion.ir.graph import Graph
from pillion.ir.numerics import Arithmetic
from pillion.ir.stream_io import Streaming
from pillion.ir.text import to_text
from pillion.memory import MemoryPlan
from pillion.memory.inside import bytes_inside
from pillion.ops import Segment, leaves
from pillion.option_values import Optimize, Runtime
from pillion.partition import Ledger, inline_segments
from pillion.passes import legalize_for_runtime, legalize_functions, sum_hard_sigmoids
from pillion.passes import run as run_passes
from pillion.report.collect import collect
from pillion.report.notebook import notebook_html
from pillion.report.page import require_template_engine, write_page
from pillion.report.subject import Progress, ReportOptions
from pillion.run.arithmetic_change import ArithmeticChange, change
from pillion.run.executor import REFERENCE, TIMEOUT_SECONDS, Outputs, RunOptions, RunResult, require_runnable
from pillion.run.executor_list import find_executor
from pillion.run.float_interface import FloatModel
from pillion.run.input_checks import check_fit, fitted
from pillion.run.selftest_samples import SelfTestSamples, no_selftest, samples_of
from pillion.run.stream import StreamSession
from pillion.run.stream_steps import steps
from pillion.run.time_estimate import Conditions, TimeEstimate, estimate_program
from pillion.run.verify import SAMPLES, Verification, verify
from pillion.targets import Target, executable
from pillion.tiling.rows_in import require_rows_in, with_rows_last
from pillion.tiling.search import TilingPlan, find_stripes, plan_with
from pillion.tiling.stripe import Stripe


@dataclass(frozen=True, repr=False)
class Program:
    """A compiled model: a graph of integer ops and the target that it is compiled for."""

    graph: Graph
    target: Target
    ledger: Ledger = field(default_factory=lambda: Ledger(()))
    """Where each op runs, and why."""
    optimize: Optimize = "speed"
    """Whether kernels are chosen and compiled for speed or size."""
    memory_budget: Memory | tuple[Stripe, ...] = ()
    """Memory limits for the C, or the stripes already chosen for them."""
    file: ReadProgram | None = None
    """The .pte file that the program was read from; the ExecuTorch runtime runs it unchanged."""
    source: bytes | None = None
    """The .tflite file that the model was read from, unchanged; `verify` runs it too."""
    own_arithmetic: Arithmetic | None = None
    """The model's own arithmetic, if the program was compiled for another."""
    floats: FloatModel | None = field(default=None, compare=False)
    """The float model before quantization, if available; reports compare its tensors."""

    def __getstate__(self) -> dict[str, Any]:
        """Leaves the float model, the source file and everything that is quick to recompute out of pickles."""
        own = {one.name: getattr(self, one.name) for one in fields(self)} | {"floats": None, "source": None}
        return own | {"_known": self.stripes} if "_plan" in self.__dict__ else own

    def within(self, wish: Memory | tuple[Stripe, ...]) -> Program:
        """Returns the program tiled to meet memory limits. Its outputs are the same."""
        graph, rows = self.graph, wish.by_rows if isinstance(wish, Memory) else False
        if rows:
            graph = with_rows_last(graph, require_rows_in(graph, rows))
        if graph is not self.graph:
            program = replace(
                self, graph=graph, memory_budget=wish, ledger=self.ledger.in_order_of(graph.ops)
            )
        else:
            program = replace(self, memory_budget=wish)
            program.__dict__.update({name: held for name, held in self.__dict__.items() if name == "whole"})
        if wish != Memory():
            program.stripes  # noqa: B018  # what cannot be is refused now
        return program

    @cached_property
    def _plan(self) -> TilingPlan:
        """The chosen stripes and the memory plan with them."""
        wanted = self.__dict__.get("_known", self.memory_budget)
        if isinstance(wanted, Memory):
            return find_stripes(self.graph, self.whole, wanted, self.npu_memory.ram_bytes)
        return plan_with(self.graph, self.whole, wanted)

    @property
    def stripes(self) -> tuple[Stripe, ...]:
        """Groups of ops that the C runs a few rows at a time. If a stripe is fed, its input is handed over row by
        row."""
        return self._plan.stripes

    @property
    def streaming(self) -> Streaming | None:
        """How the program takes frames over time, if it was compiled with `stream`."""
        return self.graph.streaming

    def lower(self) -> CProgram:
        """Runs the last stage of compilation, so that unsupported kernels are refused at once. The default search
        for stripes waits until the C is needed."""
        return self.whole

    @cached_property
    def whole(self) -> CProgram:
        """The C form without stripes: every op runs on whole tensors."""
        return lower(self.graph, self.target.isa, self.optimize, self.payloads.workspaces)

    @property
    def lowered(self) -> CProgram:
        """The C form: kernels, packed constants and memory plan for the target's core."""
        return self._plan.program

    @property
    def memory(self) -> MemoryPlan:
        """The memory plan: arena offsets of activations, arena size, and its lower bound."""
        return self.lowered.memory

    @property
    def npu_constant_bytes(self) -> int:
        """Bytes of NPU weights that are copied to SRAM before a run; 0 if the NPU reads them from flash."""
        npu = self.target.npu
        if npu is None or not npu.copies_weights:
            return 0
        bodies = [op.body for op in self.graph.ops if isinstance(op, Segment)]
        return sum(v.type.size_bytes for body in bodies for v in body.constants)

    @cached_property
    def npu_memory(self) -> NpuMemory:
        """Bytes that the NPU's segments need besides the arena and the core's constants, by memory."""
        made = self.payloads
        bodies = [op.body for op in self.graph.ops if isinstance(op, Segment) and not op.is_closed]
        converted = bool(made.converter)
        scratch = made.scratch_bytes if converted else max(map(bytes_inside, bodies), default=0)
        weights = sum(v.type.size_bytes for body in bodies for v in body.constants)
        return NpuMemory(
            ram_bytes=self.npu_constant_bytes + made.fast_bytes + (0 if made.workspaces else scratch),
            flash_bytes=made.flash_bytes or weights,
            is_exact=converted or not made.segments,
        )

    @property
    def constant_bytes(self) -> int:
        """Bytes of constants in flash: the core's, and the NPU's code and weights."""
        return self.lowered.constant_bytes + self.npu_memory.flash_bytes

    @property
    def sram_bytes(self) -> int:
        """Bytes of RAM during a run: arena, states, NPU weights and NPU scratch memory, without the stack. A lower
        bound if the NPU's converter is missing (`npu_memory.is_exact`)."""
        return self.memory.arena_bytes + self.memory.state_bytes + self.npu_memory.ram_bytes

    @cached_property
    def payloads(self) -> Payloads:
        """The NPU code of each segment. For a target without an NPU, segments keep a form that runs on computers."""
        if self.file is not None and any(isinstance(op, Segment) and op.is_closed for op in self.graph.ops):
            return payloads_in_file(self.file.payloads, executable)
        files, npu = segment_files(self.graph), self.target.npu
        return npu.payloads(files, self.target.converter_name) if npu else marked(files)

    @cached_property
    def files(self) -> dict[str, Content]:
        """Files of the C project: path to content."""
        return self._files(None)

    def _copied(self) -> list[Copied]:
        """Returns the tensors copied for each segment, in the target's program or in the host's."""
        host = lower(self.graph, workspaces=self.payloads.workspaces)
        return [one | other for one, other in zip(self.lowered.copied, host.copied, strict=True)]

    def _files(self, test: SelfTest | None) -> dict[str, Content]:
        more: dict[str, Content] = {}
        for number, segment in enumerate(self.payloads.segments):
            more[f"npu_segment_{number}.tflite"] = segment.tflite
            if self.payloads.converter:
                more[f"npu_segment_{number}.bin"] = segment.payload
        more |= {f"{name}.txt": text for name, text in self.payloads.firmware_files.items()}
        if self.payloads.sources:
            sources = self.payloads.sources(self.lowered.graph.name, self._copied())
            more |= {f"{NPU_FOLDER}/{name}": text for name, text in sources.items()}
        return project_files(self.lowered, self.target.name, more, test, self.npu_memory)

    @property
    def _in_files(self) -> Graph:
        """The graph for other runtimes: one scale per softmax and embedding table, 8-bit sums, norms decomposed."""
        return legalize_for_runtime(self.graph)

    def _for_others(self, form: str) -> Graph:
        """Returns the graph for other runtimes, and warns of lost precision."""
        return legalize_for_runtime(self.graph, lambda words: warn(f"{form}: {words}"))

    def tflite(self) -> bytes:
        """Returns the whole graph as a TFLite file, which computes in LiteRT's arithmetic."""
        graph = run_passes(inline_segments(self._for_others(".tflite")), (sum_hard_sigmoids,))
        usual = run_passes(graph, (legalize_functions,))
        if len(list(leaves(usual.ops))) > len(list(leaves(graph.ops))):
            warn(
                ".tflite: sigmoids and tanh have steps of 1/256 and 1/128 there, and finer ones in C (docs/guide/quantization.md)"
            )
        return tflite.emit(usual.replace(arithmetic=Arithmetic.TFLITE))

    def pte(self, runtime: Runtime = "1.4") -> bytes:
        """Returns an ExecuTorch program: kernel calls for the core, delegate calls for the NPU's segments."""
        one_of("runtime", runtime, get_args(Runtime))
        payloads = [segment.payload for segment in self.payloads.segments]
        return pte.emit(self._for_others(".pte"), self.target.core, runtime, payloads, self.target.delegate)

    def bundled(self, samples: SelfTestSamples, runtime: Runtime = "1.4") -> bytes:
        """Returns a .bpte: the ExecuTorch program bundled with sample inputs and expected outputs."""
        taken, graph = samples_of(self.graph, samples), self._in_files
        answers = list(steps(graph, taken, RunOptions(stream=True), graph.reference_step))
        return pte.in_bundle(self.pte(runtime), taken, answers)

    def save(
        self,
        path: str | Path,
        runtime: Runtime = "1.4",
        *,
        force: bool = False,
        selftest: SelfTestSamples | None = None,
    ) -> Path:
        """Writes the program in the form that the path's suffix selects: `.pte`, `.tflite`, or a C project folder
        (see `firmware`).

        A `.pte` with NPU code gets files for the NPU's firmware next to it; with `selftest`, also a `.bpte`
        that bundles the samples."""
        path = Path(path)
        form = form_of(path)
        if form in (".pte", ".tflite") and self.memory_budget != Memory() and self.stripes:
            raise _whole_tensors(self, form)
        one_of("runtime", runtime, get_args(Runtime))
        if form == ".tflite" and selftest is not None:
            raise no_selftest(path)
        if form == ".pte":
            content = self.pte(runtime)
            bundle = self.bundled(selftest, runtime) if selftest is not None else None
            for name, text in self.payloads.firmware_files.items():
                write_whole(path.with_name(f"{path.stem}_{name}"), text.encode())
            write_whole(path, content)
            if bundle is not None:
                write_whole(path.with_suffix(".bpte"), bundle)
        elif form == ".tflite":
            if self.own_arithmetic is not None and self.graph.arithmetic is not Arithmetic.TFLITE:
                raise _litert_rounds_by_itself(self)
            write_whole(path, self.tflite())
        else:
            self.firmware(path, force=force, selftest=selftest)
        return path

    def firmware(
        self, folder: str | Path, *, force: bool = False, selftest: SelfTestSamples | None = None
    ) -> Path:
        """Writes the C project completely or not at all. It replaces an earlier project in the folder and keeps
        other files. If a file would be lost, or a generated file was edited, it refuses without `force`.

        With `selftest` samples (a file, or inputs of several runs), the project gets a function by which a
        device checks itself."""
        test = self.selftest(selftest) if selftest is not None else None
        write_project(self._files(test) if test else self.files, Path(folder), force)
        return Path(folder)

    def selftest(self, samples: SelfTestSamples) -> SelfTest:
        """Computes the expected outputs of every op for sample inputs of several runs, or for a file of them."""
        return self_test(self.lowered.graph, samples_of(self.graph, samples))

    def of(self, graph: Graph) -> Program:
        """Returns a program for another graph, such as a part of this one, with the same target."""
        return replace(self, graph=graph, memory_budget=(), file=None, source=None)

    def run(self, *inputs: Any, on: str = REFERENCE) -> Outputs:
        """Runs one sample from reset states, and returns its outputs as numpy arrays. `on` names an executor:
        `reference`, `host`, a board, `executorch`, `litert` or `npu`. For several runs in sequence, use
        `stream`."""
        return self.measure(*inputs, on=on, profile=False).outputs

    def measure(
        self,
        *inputs: Any,
        on: str,
        profile: bool = True,
        timeout: float = TIMEOUT_SECONDS,
        native: bool = False,
    ) -> RunResult:
        """Runs the program like `run`, and returns the board's measurements with the outputs."""
        arrays, executor = fitted(self.graph, inputs), find_executor(on)
        check_fit(self.graph, arrays)
        options = RunOptions(timeout, profile, native)
        require_runnable(executor, self)
        with shown(), stage(f"{'measuring' if profile else 'running'} on {on}"):
            return executor.run(self, [arrays], options)[0]

    def stream(
        self, on: str = REFERENCE, *, timeout: float = TIMEOUT_SECONDS, native: bool = False
    ) -> StreamSession:
        """Returns a session that keeps states between runs: `step` runs once, `run` several times, `reset` starts
        again. A program compiled with `stream` takes a few new frames per step. `on` names an executor, as in
        `run`."""
        return StreamSession(self, on, RunOptions(timeout, native=native))

    def time(
        self,
        clock: str | float | Clock,
        *inputs: Any,
        memories: str | None = None,
        npu_clock: str | float | Clock | None = None,
        on: str | None = None,
    ) -> TimeEstimate:
        """Estimates the time of a run at a clock (`"160MHz"`, or hertz), from `milliseconds.low` to
        `milliseconds.high`.

        Instructions are counted in the emulator if there is one, on a random sample unless inputs are passed;
        `basis` says what the estimate rests on. `memories` says where constants and arena are, `on` names
        another board than the target's."""
        arrays = fitted(self.graph, inputs)
        if arrays:
            check_fit(self.graph, arrays)
        conditions = Conditions(
            parse_clock(clock, "clock"),
            find_memories(memories) if memories is not None else None,
            parse_clock(npu_clock, "npu_clock") if npu_clock is not None else None,
        )
        if on is not None:
            find_board(on)
        return estimate_program(self, conditions, on, arrays)

    def verify(
        self, samples: int = SAMPLES, *, seed: int = 0, inputs: Sequence[Any] | None = None
    ) -> Verification:
        """Runs the program on every installed executor and compares all bytes. Without `inputs`, samples are
        random; for a program with states, each is a sequence of several steps."""
        return verify(self, samples, seed=seed, inputs=fitted(self.graph, inputs) if inputs else None)

    def change_of_arithmetic(self, inputs: int | None = None, *, seed: int = 0) -> ArithmeticChange | None:
        """Compares the chosen arithmetic with the model's own on random inputs: how many outputs differ, by how
        much, and from which ops on. Returns None if both are the same."""
        if self.own_arithmetic is None:
            return None
        with shown():
            return change(self.graph, self.own_arithmetic, inputs, seed)

    def explain(self) -> str:
        """Returns the ledger as text: where each op runs, and why; for a stream, also its inputs and the meaning
        of its outputs."""
        over_time = self.streaming.lines if self.streaming else ()
        loops = (f"loop {one.name}: {one.because}" for one in self.ledger.copied)
        ops = (f"{e.op.kind} {e.op.name}: {e.unit.value}, {e.because}" for e in self.ledger)
        return "\n".join((*over_time, f"arithmetic: {self.arithmetic}", *loops, *ops))

    @property
    def arithmetic(self) -> str:
        """The arithmetic that the program computes in: one name, or one for the NPU and one for the core."""
        core, npu = self.graph.arithmetic.value, self.target.npu
        entries = self.ledger.entries
        on_npu = sum(entry.segment is not None for entry in entries)
        if npu is None or not on_npu or (npu.arithmetic.value == core):
            return core
        own = npu.arithmetic.value
        return own if on_npu == len(entries) else f"{own} on the NPU, {core} on the core"

    def report(
        self,
        path: str | Path,
        data: Any = None,
        *,
        samples: int = 16,
        measure: bool = True,
        clock: str | float | Clock | None = None,
        progress: Progress | None = None,
    ) -> Path:
        """Writes an HTML report: graph, memory, work, placement and, with `data` (samples, or their path),
        quantization quality.

        At most `samples` samples are used. With `measure`, instructions are counted if cross compiler and
        emulator are installed. With `clock` (`"160MHz"`, or hertz), the report estimates the time of a run."""
        require_template_engine()
        conditions = Conditions(parse_clock(clock, "clock")) if clock is not None else None
        facts = collect(self, ReportOptions(data, samples, measure, conditions=conditions, progress=progress))
        write_page(facts, Path(path))
        return Path(path)

    def __repr__(self) -> str:
        on_npu = f", {len(self.ledger.on_npu)} on the NPU" if self.target.npu else ""
        return f"Program({self.graph.name!r}, {self.target.name!r}, {len(self.graph.ops)} ops{on_npu})"

    def _repr_html_(self) -> str:
        """Returns the program for a notebook: a summary, and the arena over time."""
        return notebook_html(self)

    def text(self) -> str:
        """Returns the graph as text, without long constants."""
        return to_text(self.graph, constants=False)


def _litert_rounds_by_itself(program: Program) -> PillionError:
    return PillionError(
        f"a .tflite cannot compute `{program.graph.name}` in {program.graph.arithmetic.value} arithmetic",
        rule="LiteRT computes a .tflite in tflite arithmetic, whatever it was compiled for",
        here=f"--arithmetic {program.graph.arithmetic.value}",
        help="leave --arithmetic out, or write a .pte or a C project: -o folder/",
    )


def _whole_tensors(program: Program, form: str) -> PillionError:
    return PillionError(
        f"a {form} cannot run `{program.graph.name}` a few rows at a time",
        rule="stripes, which --max-ram, --extra and --rows-in ask for, are in C projects; runtimes of other programs hold whole tensors",
        here=f"{len(program.stripes)} stripes",
        help="-o FOLDER for a C project, or leave --max-ram, --extra and --rows-in out",
    )
