# SPDX-License-Identifier: Apache-2.0
"""`CompiledProgram`, the record of a compilation: graph, target, placement, stripes, memory, NPU code."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any

from typing_extensions import Self

from pillion.boards.project_layout import NPU_FOLDER
from pillion.compile_options import Memory
from pillion.devices.payloads import Copied, Payloads, marked_tflite_payloads, payloads_in_file
from pillion.emitters.c.divided_program import divide_alike
from pillion.emitters.c.kernel_choice import BYTE_PRICE
from pillion.emitters.c.kernel_costs import kernel_instructions
from pillion.emitters.c.lower import CProgram, lower
from pillion.emitters.c.manifest import NpuMemory
from pillion.emitters.c.project import project_files
from pillion.emitters.c.selftest_source import SelfTest
from pillion.emitters.segments import segment_files
from pillion.host_io.atomic_files import Content
from pillion.importers.pte import ReadProgram
from pillion.ir.flash_choice import FlashChoice, FlashSize
from pillion.ir.graph import Graph
from pillion.ir.numerics import Arithmetic
from pillion.ir.precision_choice import PlanCost, PrecisionChoice
from pillion.ir.quantized_model import FloatModel
from pillion.ir.stream_io import Streaming
from pillion.memory import MemoryPlan
from pillion.memory.npu_calls import NpuCalls
from pillion.memory.segment_peak import segment_peak_bytes
from pillion.ops import Segment, op_run_counts
from pillion.option_values import Optimize
from pillion.partition import Ledger
from pillion.run.flash_size import linked_size
from pillion.targets import Target, npu_interpreter, npu_memory
from pillion.tiling.rows_in import find_rows_input, with_rows_last
from pillion.tiling.search import TilingPlan, find_stripes, plan_stripes, price
from pillion.tiling.several_memories import divide_among_memories
from pillion.tiling.stripe import Stripe


@dataclass(frozen=True, repr=False)
class CompiledProgram:
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
    cycles: int = 0
    """The estimated cycles of the program by its placement on NPU and core; 0 without an NPU."""
    own_arithmetic: Arithmetic | None = None
    """The model's own arithmetic, if the program was compiled for another."""
    precision: PrecisionChoice | None = None
    """The 16-bit tensors, chosen for a quality goal."""
    four_bits: FlashChoice | None = None
    """The layers with 4-bit weights, chosen for a flash limit."""
    fitted_layers: int = 0
    """Layers whose weights were rounded for calibration samples."""
    npu_calls: NpuCalls = NpuCalls.BLOCKING
    """How the C calls the NPU."""
    byte_price: float = BYTE_PRICE
    """The instructions that a kernel must save for a further byte of flash: more, if flash is short."""
    floats: FloatModel | None = field(default=None, compare=False)
    """The float model before quantization, if available; reports compare its tensors."""

    def __getstate__(self) -> dict[str, Any]:
        """Leaves the float model, the source file and everything that is quick to recompute out of pickles."""
        own = {attribute.name: getattr(self, attribute.name) for attribute in fields(self)} | {
            "floats": None,
            "source": None,
        }
        return own | {"_known": self.stripes} if "_plan" in self.__dict__ else own

    def within(self, spec: Memory | tuple[Stripe, ...]) -> Self:
        """Returns the program tiled to meet memory limits. Its outputs are the same."""
        graph, rows = self.graph, spec.by_rows if isinstance(spec, Memory) else False
        if rows:
            graph = with_rows_last(graph, find_rows_input(graph, rows))
        if graph is not self.graph:
            program = replace(
                self, graph=graph, memory_budget=spec, ledger=self.ledger.in_order_of(graph.ops)
            )
        else:
            program = replace(self, memory_budget=spec)
            program.__dict__.update(
                {name: value for name, value in self.__dict__.items() if name == "unstriped"}
            )
        if spec != Memory():
            program.stripes  # noqa: B018  # raises now if the budget is impossible
        return program

    @cached_property
    def _plan(self) -> TilingPlan:
        """The chosen stripes and the memory plan with them."""
        spec = self.__dict__.get("_known", self.memory_budget)
        if isinstance(spec, Memory) and spec.chips:
            memories = self.target.named_memories(spec.chips)
            return divide_among_memories(
                self.graph, self.unstriped, spec, memories, self.npu_memory.ram_bytes
            )
        if isinstance(spec, Memory):
            return find_stripes(self.graph, self.unstriped, spec, self.npu_memory.ram_bytes)
        return plan_stripes(self.graph, self.unstriped, spec)

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
        """Runs the last stage of compilation: unsupported kernels are refused at once. The default search for stripes
        waits until the C is needed."""
        return self.unstriped

    @cached_property
    def unstriped(self) -> CProgram:
        """The C form without stripes: every op runs on whole tensors."""
        return lower(
            self.graph,
            self.target.isa,
            self.optimize,
            self.payloads.workspaces,
            self.npu_calls,
            self.byte_price,
        )

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
        """Bytes of NPU weights that are copied to SRAM, before a run or at start; 0 if the NPU reads them from flash."""
        npu = self.target.npu
        if npu is None or not npu.copies_weights:
            return self.payloads.ram_constant_bytes
        bodies = [op.body for op in self.graph.ops if isinstance(op, Segment)]
        copied = sum(v.type.size_bytes for body in bodies for v in body.constants)
        return copied + self.payloads.ram_constant_bytes

    @cached_property
    def npu_memory(self) -> NpuMemory:
        """Bytes that the NPU's segments need besides the arena and the core's constants, by memory."""
        payloads = self.payloads
        bodies = [op.body for op in self.graph.ops if isinstance(op, Segment) and not op.is_closed]
        converted = bool(payloads.converter)
        scratch = payloads.scratch_bytes if converted else max(map(segment_peak_bytes, bodies), default=0)
        weights = sum(v.type.size_bytes for body in bodies for v in body.constants)
        return NpuMemory(
            ram_bytes=self.npu_constant_bytes + payloads.fast_bytes + (0 if payloads.workspaces else scratch),
            flash_bytes=payloads.flash_bytes or weights,
            is_exact=converted or not payloads.segments,
        )

    @property
    def constant_bytes(self) -> int:
        """Bytes of constants in flash: the core's, and the NPU's code and weights."""
        return self.lowered.constant_bytes + self.npu_memory.flash_bytes

    @cached_property
    def flash(self) -> FlashSize:
        """Code and constants, linked for the core if that can be done here."""
        linked = None if self.payloads.segments else linked_size(self.files)
        return linked or FlashSize(self.constant_bytes + self.lowered.params_bytes, None)

    @property
    def sram_bytes(self) -> int:
        """Bytes of RAM during a run: arena, states, NPU weights and NPU scratch memory, without the stack. A lower
        bound if the NPU's converter is missing (`npu_memory.is_exact`)."""
        several = self.memory.several
        copied = sum(one.constant_bytes for one in several.used) if several else 0
        return self.memory.arena_bytes + self.memory.state_bytes + copied + self.npu_memory.ram_bytes

    @property
    def ram_of_chip(self) -> int | None:
        """Bytes of RAM of the memories that the user named, otherwise of the chip; None if that is not known."""
        several = self.memory.several
        return sum(one.memory.bytes for one in several.used) if several else self.target.sram_bytes

    @cached_property
    def payloads(self) -> Payloads:
        """The NPU code of each segment. For a target without an NPU, segments keep a form that runs on computers."""
        if self.file is not None and any(isinstance(op, Segment) and op.is_closed for op in self.graph.ops):
            return payloads_in_file(self.file.payloads, npu_interpreter, npu_memory)
        files, npu = segment_files(self.graph), self.target.npu
        return npu.payloads(files, self.target.converter_name) if npu else marked_tflite_payloads(files)

    @cached_property
    def files(self) -> dict[str, Content]:
        """Files of the C project: path to content."""
        return self.project(None)

    def _copied_tensors(self) -> list[Copied]:
        """Returns the tensors copied for each segment, in the target's program or in the host's."""
        host = lower(self.graph, workspaces=self.payloads.workspaces, npu_calls=self.npu_calls)
        host = divide_alike(host, self.lowered)
        return [
            target_copies | host_copies
            for target_copies, host_copies in zip(self.lowered.copied, host.copied, strict=True)
        ]

    def project(self, test: SelfTest | None) -> dict[str, Content]:
        """Returns the files of the C project, with a self-test if there is one."""
        more: dict[str, Content] = {}
        for number, segment in enumerate(self.payloads.segments):
            more[f"npu_segment_{number}.tflite"] = segment.tflite
            if self.payloads.converter:
                more[f"npu_segment_{number}.bin"] = segment.payload
        more |= {f"{name}.txt": text for name, text in self.payloads.firmware_files.items()}
        if self.payloads.sources:
            sources = self.payloads.sources(
                self.lowered.graph.name, self._copied_tensors(), self.lowered.in_steps
            )
            more |= {f"{NPU_FOLDER}/{name}": text for name, text in sources.items()}
        return project_files(self.lowered, self.target.name, more, test, self.npu_memory)

    @property
    def precision_texts(self) -> tuple[str, ...]:
        """The 16-bit tensors and 4-bit layers that the compiler chose, with their gains and costs, and the layers
        whose weights were rounded for samples."""
        layers = "1 layer" if self.fitted_layers == 1 else f"{self.fitted_layers} layers"
        fitted = (f"weights of {layers} rounded for the calibration samples",)
        chosen = tuple(choice.text for choice in (self.precision, self.four_bits) if choice)
        return chosen + (fitted if self.fitted_layers else ())

    @property
    def cost(self) -> PlanCost:
        """The estimated time of a run, and the memory."""
        if self.target.npu is not None:
            by_op = {e.op.name: e.cycles for e in self.ledger}
            time, unit = float(self.cycles), "cycles"
        else:
            kernels = {step.choice.op: step.choice.kernel for step in self.unstriped.steps}
            by_op = {
                run.op.results[0].name: run.times
                * kernel_instructions(run.op, kernels[run.op], self.target.isa)
                for run in op_run_counts(self.graph.ops)
                if run.op in kernels
            }
            stripes = price(self.graph, self.unstriped, self.stripes) if self.stripes else 0.0
            time, unit = sum(by_op.values()) * (1 + stripes), "instructions"
        return PlanCost(time, self.sram_bytes, self.constant_bytes, unit, by_op)

    def for_graph(self, graph: Graph) -> Self:
        """Returns a program for another graph, such as a part of this one, with the same target."""
        return replace(self, graph=graph, memory_budget=(), file=None, source=None)

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

    def __repr__(self) -> str:
        on_npu = f", {len(self.ledger.on_npu)} on the NPU" if self.target.npu else ""
        return f"{type(self).__name__}({self.graph.name!r}, {self.target.name!r}, {len(self.graph.ops)} ops{on_npu})"
