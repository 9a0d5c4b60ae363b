# SPDX-License-Identifier: Apache-2.0
"""A compiled model: to run, to look at, to write out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any, get_args

from pillion.boards.board import Optimize, find_board
from pillion.boards.layout import NPU_FOLDER
from pillion.choices import Runtime
from pillion.devices.clock import Clock, parse_clock
from pillion.devices.cortex_m.memories import find_memories
from pillion.devices.payloads import Copied, Payloads, in_file, marked
from pillion.emitters import pte, tflite
from pillion.emitters.c.program import CProgram, lower
from pillion.emitters.c.project import project_files, write_project
from pillion.emitters.c.selftest import SelfTest, self_test
from pillion.emitters.segments import segment_files
from pillion.errors import PillionError, one_of, warn
from pillion.importers.pte import ReadProgram
from pillion.ir.graph import Graph
from pillion.ir.numerics import Arithmetic
from pillion.ir.streaming import Streaming
from pillion.ir.text import to_text
from pillion.memory import MemoryPlan
from pillion.ops import Segment
from pillion.outside.files import Content, form_of, write_whole
from pillion.outside.progress import shown, stage
from pillion.passes import for_others, sum_hard_sigmoids
from pillion.place import Ledger, inline_segments
from pillion.report.collect import collect
from pillion.report.notebook import in_a_notebook
from pillion.report.page import want_template_engine, write_page
from pillion.report.subject import Asked, Progress
from pillion.run.change import ArithmeticChange, change
from pillion.run.executor import REFERENCE, TIMEOUT_SECONDS, Outputs, RunOptions, RunResult, want_runnable
from pillion.run.floats import FloatModel
from pillion.run.inputs import check_fit, fitted
from pillion.run.places import find_executor
from pillion.run.selftest import SelfTestSamples, no_selftest, samples_of
from pillion.run.steps import steps
from pillion.run.stream import Stream
from pillion.run.time import Conditions, TimeEstimate, estimate_program
from pillion.run.verify import SAMPLES, Verification, verify
from pillion.stripes.plan import Stripe
from pillion.stripes.rows_in import want_rows_in, with_rows_last
from pillion.stripes.search import Plan, find_stripes, plan_with
from pillion.stripes.wish import WHOLE, MemoryWish
from pillion.targets import Target, executable


@dataclass(frozen=True)
class Program:
    """A compiled model: a graph of integer ops and the chip that it is for. It runs, explains itself, and is written out."""

    graph: Graph
    target: Target
    ledger: Ledger = field(default_factory=lambda: Ledger(()))
    """Where each op runs and why."""
    optimize: Optimize = "speed"
    """What kernels are chosen and compiled for."""
    memory_wish: MemoryWish | tuple[Stripe, ...] = WHOLE
    """How much memory its C may take, or which ops it runs a few rows at a time for that."""
    file: ReadProgram | None = None
    """The .pte file that the program was read from: the ExecuTorch runtime is given that one, byte for byte."""
    source: bytes | None = field(default=None, repr=False)
    """The .tflite file that the model was read from, as it came: `verify` runs that, too."""
    own_arithmetic: Arithmetic | None = None
    """The arithmetic of the model itself, where it was compiled for another one."""
    floats: FloatModel | None = field(default=None, repr=False, compare=False)
    """The model that it was quantized from, where that is at hand: reports compare its tensors."""

    def __getstate__(self) -> dict[str, Any]:
        """What is not quickly made from the rest: pickles hold no kernels, and neither the float model nor the file that it came from."""
        own = {one.name: getattr(self, one.name) for one in fields(self)} | {"floats": None, "source": None}
        return own | {"_known": self.stripes} if "_plan" in self.__dict__ else own

    def within(self, wish: MemoryWish) -> Program:
        """Gives the program whose C takes less memory, as a wish wants it: parts of it run a few rows at a time. Its answers are the same."""
        graph = (
            with_rows_last(self.graph, want_rows_in(self.graph, wish.rows_in)) if wish.rows_in else self.graph
        )
        if graph is not self.graph:
            program = replace(self, graph=graph, memory_wish=wish, ledger=self.ledger.in_order_of(graph.ops))
        else:
            program = replace(self, memory_wish=wish)
            program.__dict__.update({name: held for name, held in self.__dict__.items() if name == "whole"})
        if wish.is_asked:
            program.stripes  # noqa: B018  # what cannot be is refused now
        return program

    @cached_property
    def _plan(self) -> Plan:
        """The stripes, and where everything lies with them."""
        wanted = self.__dict__.get("_known", self.memory_wish)
        if isinstance(wanted, MemoryWish):
            return find_stripes(self.graph, self.whole, wanted, self.npu_constant_bytes)
        return plan_with(self.graph, self.whole, wanted)

    @property
    def stripes(self) -> tuple[Stripe, ...]:
        """The ops that its C runs a few rows at a time; if one is fed, that input is handed over row by row."""
        return self._plan.stripes

    @property
    def streaming(self) -> Streaming | None:
        """How it is fed a few frames at a time, where it was compiled for that."""
        return self.graph.streaming

    def lower(self) -> CProgram:
        """Does the last stage of compilation now, so that what no kernel does is refused now. Stripes that nobody asked for are looked for
        when the C is wanted."""
        return self.whole

    @cached_property
    def whole(self) -> CProgram:
        """The form from which C would be written if all ops ran whole."""
        return lower(self.graph, self.target.isa, self.optimize, self.payloads.workspaces)

    @property
    def lowered(self) -> CProgram:
        """The form from which C is written: kernels, packed constants and memory for the target's core."""
        return self._plan.program

    @property
    def memory(self) -> MemoryPlan:
        """The memory plan: where activations lie, how large the arena is, and how small it could be."""
        return self.lowered.memory

    @property
    def npu_constant_bytes(self) -> int:
        """The bytes of the weights of the NPU's segments that are copied to SRAM before it runs; 0 where it reads them from flash."""
        npu = self.target.npu
        if npu is None or not npu.copies_weights:
            return 0
        bodies = [op.body for op in self.graph.ops if isinstance(op, Segment)]
        return sum(v.type.size_bytes for body in bodies for v in body.constants)

    @property
    def sram_bytes(self) -> int:
        """The bytes that the program holds in RAM while it runs: the arena, its states, the NPU's weights and what it works in. The
        stack comes on top."""
        own = self.memory.arena_bytes + self.memory.state_bytes
        beside = 0 if self.payloads.workspaces else self.payloads.scratch_bytes
        return own + self.npu_constant_bytes + beside

    @cached_property
    def payloads(self) -> Payloads:
        """The bytes that the NPU is handed for each segment. For a chip without one, segments stay in a form that runs on
        computers."""
        if self.file is not None and any(isinstance(op, Segment) and op.is_closed for op in self.graph.ops):
            return in_file(self.file.payloads, executable)
        files, npu = segment_files(self.graph), self.target.npu
        return npu.payloads(files, self.target.converter_name) if npu else marked(files)

    @cached_property
    def files(self) -> dict[str, Content]:
        """Gives path → content of the C project."""
        return self._files(None)

    def _copied(self) -> list[Copied]:
        """What is copied for each segment, in the program for the core or in that for this computer."""
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
        return project_files(self.lowered, self.target.name, more, test)

    @property
    def _in_files(self) -> Graph:
        """The graph for runtimes that are not ours: softmaxes have one scale, sums 8 bits, norms and magnitudes are made of other ops, and tables of embeddings have one scale."""
        return for_others(self.graph)

    def _for_others(self, form: str) -> Graph:
        """The graph for a runtime that is not ours, and a word on what is coarser there."""
        return for_others(self.graph, lambda words: warn(f"{form}: {words}"))

    def tflite(self) -> bytes:
        """Gives the whole graph as a TFLite file, which computes in LiteRT's arithmetic."""
        graph = sum_hard_sigmoids(inline_segments(self._for_others(".tflite")))
        return tflite.emit(graph.replace(arithmetic=Arithmetic.TFLITE))

    def pte(self, runtime: Runtime = "1.4") -> bytes:
        """Gives an ExecuTorch program: kernel calls for the CPU, delegate calls for the NPU's segments."""
        one_of("runtime", runtime, get_args(Runtime))
        payloads = [segment.payload for segment in self.payloads.segments]
        return pte.emit(self._for_others(".pte"), self.target.core, runtime, payloads, self.target.delegate)

    def bundled(self, samples: SelfTestSamples, runtime: Runtime = "1.4") -> bytes:
        """Gives an ExecuTorch program in a bundle with inputs and the outputs that a device shall answer: a `.bpte` file."""
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
        """Writes the program in the form that the name asks for: `.pte`, `.tflite`, or a folder for a C project (see `firmware`).

        Beside a `.pte` with code for the NPU goes what the NPU's firmware needs to know, and beside one with samples for a
        self-test a `.bpte`, which has it in a bundle with them."""
        path = Path(path)
        form = form_of(path)
        is_asked = not isinstance(self.memory_wish, MemoryWish) or self.memory_wish.is_asked
        if form in (".pte", ".tflite") and is_asked and self.stripes:
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
        """Writes the C project: all of it, or nothing. An earlier project in the folder gives way to it; files that are not Pillion's stay,
        and where one would be lost, or one of Pillion's that was changed, nothing is written but by `force`. With samples for a
        self-test (a file, or inputs of several runs), it has a function by which a device checks itself."""
        test = self.selftest(selftest) if selftest is not None else None
        write_project(self._files(test) if test else self.files, Path(folder), force)
        return Path(folder)

    def selftest(self, samples: SelfTestSamples) -> SelfTest:
        """Computes what a device shall answer, op by op, to samples: the inputs of several runs, or a file with them."""
        return self_test(self.lowered.graph, samples_of(self.graph, samples))

    def of(self, graph: Graph) -> Program:
        """Gives the program of another graph, for instance of a part of this one."""
        return replace(self, graph=graph, memory_wish=WHOLE, file=None, source=None)

    def run(self, *inputs: Any, on: str = REFERENCE) -> Outputs:
        """Runs one sample, from reset states, and gives its outputs as numpy arrays. `on` names an executor: `reference`, `host`, a
        board, `executorch`, `litert` or `npu`. `stream` runs one after another."""
        return self.measure(*inputs, on=on, profile=False).outputs

    def measure(
        self,
        *inputs: Any,
        on: str,
        profile: bool = True,
        timeout: float = TIMEOUT_SECONDS,
        native: bool = False,
    ) -> RunResult:
        """Runs the program like `run`, and gives what the board measured beside the outputs."""
        arrays, executor = fitted(self.graph, inputs), find_executor(on)
        check_fit(self.graph, arrays)
        options = RunOptions(timeout, profile, native)
        want_runnable(executor, self)
        with shown(), stage(f"{'measuring' if profile else 'running'} on {on}"):
            return executor.run(self, [arrays], options)[0]

    def stream(
        self, on: str = REFERENCE, *, timeout: float = TIMEOUT_SECONDS, native: bool = False
    ) -> Stream:
        """Gives the program as it runs over time. A program that was compiled with `stream` takes a few new frames in each step. `step` gives the outputs of one run, `run` those of many, each from what the last one
        has left in the states; `reset` begins anew. `on` names an executor, as for `run`."""
        return Stream(self, on, RunOptions(timeout, native=native))

    def time(
        self,
        clock: str | float | Clock,
        *inputs: Any,
        memories: str | None = None,
        npu_clock: str | float | Clock | None = None,
        on: str | None = None,
    ) -> TimeEstimate:
        """Estimates how long a run takes at a clock (`"160MHz"`, or hertz), from `milliseconds.low` to `milliseconds.high`.

        Instructions are counted in the emulator where there is one, on a random sample if no inputs are given; `basis` says what
        the estimate rests on. `memories` names where constants and arena lie, `on` another board than that of the target."""
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
        """Runs the program on all executors that are installed, and compares all bytes. Without `inputs`, on random samples: of a
        program with states, each is a stream of several steps."""
        return verify(self, samples, seed=seed, inputs=fitted(self.graph, inputs) if inputs else None)

    def change_of_arithmetic(self, inputs: int | None = None, *, seed: int = 0) -> ArithmeticChange | None:
        """Says in numbers what the arithmetic that was asked for changes, on random inputs: how many outputs differ from those of the model's own
        arithmetic, by how much, and in which ops that begins. None where it was compiled in its own."""
        if self.own_arithmetic is None:
            return None
        with shown():
            return change(self.graph, self.own_arithmetic, inputs, seed)

    def explain(self) -> str:
        """Gives the ledger as text: each op, who runs it, and why. Of a stream, also what it takes and what its answers mean."""
        over_time = self.streaming.lines if self.streaming else ()
        loops = (f"loop {one.name}: {one.because}" for one in self.ledger.copied)
        ops = (f"{e.op.kind} {e.op.name}: {e.unit.value}, {e.because}" for e in self.ledger)
        return "\n".join((*over_time, f"arithmetic: {self.arithmetic}", *loops, *ops))

    @property
    def arithmetic(self) -> str:
        """Whose bits it computes: one name, or one for the NPU and one for the core."""
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
        progress: Progress | None = None,
    ) -> Path:
        """Writes a page to look at: graph, memory, work, placement and, with `data` (samples, or their path), the quality of quantization.

        At most `samples` of the data are looked at. With `measure`, instructions are counted where cross compiler and emulator are
        there."""
        want_template_engine()
        facts = collect(self, Asked(data, samples, measure, progress=progress))
        write_page(facts, Path(path))
        return Path(path)

    def _repr_html_(self) -> str:
        """How a notebook shows the program: a summary, and the arena over time."""
        return in_a_notebook(self)

    def text(self) -> str:
        """Gives the graph in words, long constants left out."""
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
