# SPDX-License-Identifier: Apache-2.0
"""Constants and code in flash, by part."""

from __future__ import annotations

from collections.abc import Sequence

from pillion.boards.elf import ElfSizes
from pillion.compiled_program import CompiledProgram
from pillion.ops import Segment
from pillion.report.op_facts import OUTSIDE
from pillion.report.report_facts import OpFacts, PartFacts

PARAMS = "parameters of kernels"
NPU_WEIGHTS = "weights of the NPU (copied to SRAM)"
NPU_CODE = "code and weights of the NPU"
OF_COMPILER = ("__", "mem", "ldiv", "idiv")
"""Name prefixes of functions in the compiler's runtime library."""


def constant_parts(subject: CompiledProgram, ops: Sequence[OpFacts]) -> tuple[PartFacts, ...]:
    """Returns the constants of the C project by purpose; shared constants count for the first op."""
    lowered = subject.lowered
    bytes_of = {c.name: c.elements * c.data.itemsize for c in lowered.constants}
    number_of = {op.step: op.number for op in reversed(ops)}
    parts: list[PartFacts] = []
    for step in lowered.steps:
        op = step.choice.op
        named = [(field, name) for pointers in step.pointers for field, name in pointers.items()]
        named += [
            ("operands", lowered.operands[v])
            for call in step.calls
            for v in call.inputs
            if v in lowered.operands
        ]
        for field, name in named:
            if name in bytes_of:  # the first that has it
                number = number_of.get(step.index, OUTSIDE)  # copies of states are ops of the C alone
                parts.append(PartFacts(field.replace("_", " "), op.name, bytes_of.pop(name), number))
    for state, name in lowered.initial_states.items():
        if name in bytes_of:
            parts.append(PartFacts("state at first", state, bytes_of.pop(name)))
    if lowered.params_bytes:
        parts.append(PartFacts(PARAMS, f"{len(lowered.steps)} ops", lowered.params_bytes))
    return tuple(sorted((*parts, *_npu_weights(subject, ops)), key=lambda part: -part.bytes))


def _npu_weights(subject: CompiledProgram, ops: Sequence[OpFacts]) -> list[PartFacts]:
    if subject.payloads.flash_bytes:
        compiled = subject.payloads.segments
        return [
            PartFacts(NPU_CODE, f"segment {n}", compiled_segment.flash_bytes)
            for n, compiled_segment in enumerate(compiled)
        ]
    number_of = {(op.segment, op.name): op.number for op in ops if op.segment is not None}
    parts = []
    for number, segment in enumerate(op for op in subject.graph.ops if isinstance(op, Segment)):
        seen = set()
        for op in segment.body.ops:
            own = [v for v in dict.fromkeys(op.operands) if v.is_constant and v not in seen]
            seen.update(own)
            if own:
                size = sum(v.type.size_bytes for v in own)
                parts.append(PartFacts(NPU_WEIGHTS, op.name, size, number_of[number, op.name]))
    return parts


def code_parts(subject: CompiledProgram, elf: ElfSizes) -> tuple[PartFacts, ...]:
    """Returns the functions of a linked firmware, except the measuring ones."""
    model, kernels = subject.lowered.graph.name, {r.name for r in subject.lowered.routines}
    has_npu = any(isinstance(op, Segment) for op in subject.graph.ops)
    named = [s for s in elf.symbols.values() if s.is_function and s.section == ".text" and s.bytes]
    functions = {s.address: s for s in named}.values()  # one may have several names
    parts = [PartFacts(_function_group(s.name, model, kernels, has_npu), s.name, s.bytes) for s in functions]
    rest = elf.code - sum(p.bytes for p in parts)
    parts.sort(key=lambda p: -p.bytes)
    if rest > 0:
        parts.append(PartFacts("the rest", "literals, alignment, functions without a size", rest))
    if elf.tables:
        parts.append(PartFacts("tables", "constants of kernels", elf.tables))
    return tuple(parts)


def _function_group(name: str, model: str, kernels: set[str], has_npu: bool) -> str:
    if name.startswith(f"{model}_npu"):
        return "stand-in for the NPU"
    if name.startswith(model):
        return "the model"
    if name in kernels:
        return "kernels"
    if name.startswith(OF_COMPILER):
        return "the compiler's library"
    return "the NPU's stand-in, and what kernels share" if has_npu else "what kernels share"
