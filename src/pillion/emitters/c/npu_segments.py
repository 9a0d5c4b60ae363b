# SPDX-License-Identifier: Apache-2.0
"""NPU segments in C: the model calls `<model>_npu_segment_<n>`, which the NPU's driver defines on the chip. In the
emulator and on the host, a generated reference program in the NPU's arithmetic defines it."""

from __future__ import annotations

from pillion.devices.cortex_m import Isa
from pillion.emitters.c import model_source
from pillion.emitters.c.body import SegmentPart, segment_function, segment_signature
from pillion.emitters.c.lower import CProgram, CStep, lower
from pillion.emitters.c.text_templates import fill_template
from pillion.host_io.atomic_files import Content
from pillion.ops import Segment


def segment_steps(program: CProgram) -> list[tuple[int, CStep]]:
    """Returns the segments of a program with their numbers, in execution order."""
    return list(enumerate(step for step in program.steps if isinstance(step.choice.op, Segment)))


def lower_segment_reference(program: CProgram, number: int, step: CStep) -> CProgram:
    """Lowers a segment to its reference program: for the host in a host program, otherwise portable."""
    op = step.choice.op
    assert isinstance(op, Segment)
    op.require_open()
    isa = program.isa if program.isa is Isa.HOST else Isa.PORTABLE
    return lower(op.body.replace(name=f"{program.graph.name}_npu_{number}"), isa)


def npu_header(program: CProgram) -> dict[str, Content]:
    """Returns the header that declares all segments; empty without segments."""
    return {"npu.h": _npu_header(program)} if segment_steps(program) else {}


def segment_reference_files(program: CProgram) -> tuple[dict[str, Content], list[CProgram]]:
    """Returns the files of all segments' references, and the lowered references."""
    files: dict[str, Content] = {}
    inner: list[CProgram] = []
    for number, step in segment_steps(program):
        reference = lower_segment_reference(program, number, step)
        inner.append(reference)
        stem = f"npu_segment_{number}"
        files[f"{stem}_weights.h"] = model_source.weights_h(reference)
        files[f"{stem}_weights.c"] = model_source.weights_c(reference, f"{stem}_weights.h")
        files[f"{stem}_reference.c"] = _reference_segment_definition(program, reference, number, stem)
    return files, inner


def _npu_header(program: CProgram) -> str:
    declarations = []
    for number, step in segment_steps(program):
        op = step.choice.op
        operands = [f"inputs[{i}]   {model_source.describe_value(v)}" for i, v in enumerate(op.activations)]
        results = [f"outputs[{i}]  {model_source.describe_value(v)}" for i, v in enumerate(op.results)]
        lines = "\n".join(f" *   {line}" for line in (*operands, *results))
        parts: tuple[SegmentPart, ...] = ("_start", "_end") if program.in_steps else ("",)
        signatures = "\n".join(f"{segment_signature(program, number, part)};" for part in parts)
        declarations.append(f"/* Segment {number}:\n{lines} */\n{signatures}")
    values = {"MODEL": program.graph.name.upper(), "declarations": "\n\n".join(declarations)}
    return fill_template("npu.h", values, _template_parts(program))


def _template_parts(program: CProgram) -> list[str]:
    """Returns the optional parts of the templates."""
    place = "workspace" if program.workspaces else "no_workspace"
    return [place, *(["steps", f"steps_{place}"] if program.in_steps else [])]


def _reference_segment_definition(program: CProgram, reference: CProgram, number: int, stem: str) -> str:
    """Returns the definition of a segment by its reference program."""
    graph, offsets = reference.graph, reference.memory.offsets
    signature = f"static void run_{number}(uint8_t *base)"
    inputs = [
        f"    memcpy(arena + {offsets[v]}, inputs[{i}], {v.type.size_bytes});"
        for i, v in enumerate(graph.inputs)
    ]
    outputs = [
        f"    memcpy(outputs[{i}], arena + {offsets[v]}, {v.type.size_bytes});"
        for i, v in enumerate(graph.outputs)
    ]
    values = {
        **{"number": number, "stem": stem, "arena_bytes": reference.memory.arena_bytes},
        "includes": "\n".join(f'#include "pillion/{h}"' for h in model_source.kernel_headers(reference)),
        "functions": model_source.params_structs(reference)
        + model_source.run_function(reference, signature, after_op=False),
        "signature": segment_signature(program, number),
        "start": segment_signature(program, number, "_start"),
        "end": segment_signature(program, number, "_end"),
        "call": f"{segment_function(program, number)}(inputs, outputs{', workspace' * bool(program.workspaces)})",
        **{"inputs": "\n".join(inputs), "outputs": "\n".join(outputs)},
    }
    return fill_template("npu_reference.c", values, _template_parts(program))
