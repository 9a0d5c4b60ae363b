# SPDX-License-Identifier: Apache-2.0
"""The text of `model.h`, `model.c`, `weights.h` and `weights.c`. Knows C syntax, but no ops."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from textwrap import indent

import numpy as np

from pillion.emitters.c import row_input, stream_source
from pillion.emitters.c.actions import Action, LoadConstant, MoveRows, RolledLoop, RunBranch
from pillion.emitters.c.arena_parameter import (
    arena_argument,
    arena_parameter,
    memory_number,
    pointer_lines,
    public_address,
)
from pillion.emitters.c.body import NO_CALLBACK, StatementWriter, params_name
from pillion.emitters.c.escaping import C_TYPES, comment_text, string_literal
from pillion.emitters.c.families.sliding_sums import RunningSums
from pillion.emitters.c.kernel import Call, Param
from pillion.emitters.c.literals import c_literal, lines
from pillion.emitters.c.lower import Constant, CProgram, CStep
from pillion.emitters.c.text_templates import fill_template
from pillion.host_io.atomic_files import LazyContent
from pillion.ir.state import State
from pillion.ir.types import UnknownScale, Value
from pillion.memory import ARENA
from pillion.ops import Segment


def model_h(program: CProgram, has_host: bool = False) -> str:
    """Returns the text of `model.h`: the arena's size, the entry points, the inputs and outputs. With `has_host`, it
    defers to the header of the host variant if `PILLION_HOST` is defined."""
    graph, feed, stream = program.graph, program.feed, program.stream
    values = {
        **_template_values(program),
        "states": "\n".join(f" *   {describe_value(state.before)}" for state in graph.states),
        "rows": row_input.row_input_declarations(program, feed).rstrip("\n") if feed is not None else "",
        **{"alignment": program.memory.alignment, "run": run_signature(program)},
        **_memory_values(program),
        "hop": stream_source.entry_declaration(program, stream).rstrip("\n") if stream is not None else "",
        "state_parameter": "void *state, " * bool(graph.states),
        "arena_parameter": arena_parameter(program),
        "accessors": _accessor_macros(program),
    }
    return fill_template("model.h", values, _template_parts(program) | ({"host"} if has_host else set()))


def _template_values(program: CProgram) -> dict[str, object]:
    """Returns the values that header and source share."""
    memory, name = program.memory, program.graph.name
    sizes = {"arena_bytes": memory.arena_bytes, "state_bytes": memory.state_bytes}
    return {"model": name, "MODEL": name.upper(), **sizes}


def _memory_values(program: CProgram) -> dict[str, object]:
    """Returns the values about the arena, or about the memories that hold it."""
    name, arenas = program.graph.name, program.memory.arenas
    macro = name.upper()
    return {
        "the_arena": "All memories" if arenas else "The arena",
        "sizes": "\n".join(
            f"#define {macro}_{one.memory.name.upper()}_BYTES {one.arena_bytes}" for one in arenas
        ),
        "each": " ".join(
            f"X({number}, {one.memory.name}, {macro}_{one.memory.name.upper()}_BYTES)"
            for number, one in enumerate(arenas)
        ),
        "pointers": "\n".join(f"    void *{one.memory.name};" for one in arenas),
        "memories": ",\n".join(f'    {{"{one.memory.name}", {one.arena_bytes}}}' for one in arenas),
        **{"memory_count": len(arenas), "run_function": f"{name}_run_in" if arenas else f"{name}_run"},
        "wrapper": _descriptor_function(program),
    }


def _descriptor_function(program: CProgram) -> str:
    """Returns the function by which the descriptor runs a model in several memories."""
    state, passed = ("void *state, ", "state, ") if program.graph.states else ("", "")
    return (
        f"static void {program.graph.name}_run_in(void *arena, {state}void (*after_op)(uint32_t op)) {{\n"
        f"    {program.graph.name}_run(arena, {passed}after_op);\n}}\n"
        if program.feed is None
        else ""
    )


def _template_parts(program: CProgram) -> set[str]:
    """Returns the optional parts of header and source."""
    has_npu = any(isinstance(step.choice.op, Segment) for step in program.steps)
    kinds = {"state": program.graph.states, "hop": program.stream, "npu": has_npu}
    kinds |= {"steps": program.in_steps}
    entry = "run" if program.feed is None else "rows"
    form = "several" if program.memory.arenas else "one"
    several = program.memory.several
    kinds["fetch"] = bool(several and several.streamed)
    return {entry, form, *(name for name, there in kinds.items() if there)}


def run_signature(program: CProgram) -> str:
    """Returns the declaration of the function that runs the model."""
    state = "void *state, " if program.graph.states else ""
    return f"void {program.graph.name}_run({arena_parameter(program)}, {state}void (*after_op)(uint32_t op))"


def _accessor_macros(program: CProgram) -> str:
    """Returns macros with the typed addresses of inputs and outputs."""
    lines = []
    fed = program.feed.value if program.feed is not None else None
    for role, values in (("INPUT", program.graph.inputs), ("OUTPUT", program.graph.outputs)):
        for i, value in enumerate(values):
            if value is fed:
                continue
            macro = f"{program.graph.name.upper()}_{role}_{i}"
            lines.append(f"/* {describe_value(value)} */")
            lines.append(
                f"#define {macro}(arena) (({C_TYPES[value.dtype.value]} *)(void *)({public_address(program, value)}))"
            )
    return "\n".join(lines)


def describe_value(value: Value) -> str:
    """Describes a value for a comment: `x: int8[1, 5, 3, 8], real = 0.05 * (q + 3)`."""
    if not value.is_quantized:
        return comment_text(repr(value))
    if isinstance(value.type.quant, UnknownScale):
        return f"{comment_text(repr(value))}, zero point {value.zero_point}, unknown scale"
    sign = "-" if value.zero_point >= 0 else "+"
    return f"{comment_text(repr(value))}, real = {value.scale:.9g} * (q {sign} {abs(value.zero_point)})"


def weights_h(program: CProgram) -> str:
    """Returns the text of `weights.h`, which declares all constants."""
    declarations = "".join(f"extern const {_array_declaration(c)};\n" for c in program.constants)
    guard = f"PILLION_{program.graph.name.upper()}_WEIGHTS_H"
    placed = _IN_MEMORY if any(c.memory for c in program.constants) else ""
    return f"/* Generated by Pillion. Do not edit. */\n#ifndef {guard}\n#define {guard}\n\n#include <stdint.h>\n{placed}\n{declarations}\n#endif\n"


_IN_MEMORY = """
/* Places constants in a memory of the chip. Linker scripts place sections that begin with `.data` in RAM, and the startup code copies
 * them from flash; a product may define this macro otherwise. */
#ifndef PILLION_IN
#ifdef __ELF__
#define PILLION_IN(number, memory) __attribute__((section(".data.pillion_" #number "." #memory)))
#else
#define PILLION_IN(number, memory)
#endif
#endif
"""


def weights_c(program: CProgram, header: str = "weights.h") -> LazyContent:
    """Returns the definitions of all arrays, generated lazily while the file is written."""
    return LazyContent(partial(_constant_definitions, program.constants, header))


def _constant_definitions(constants: Sequence[Constant], header: str) -> Iterator[bytes]:
    yield f'/* Generated by Pillion. Do not edit. */\n#include "{header}"\n'.encode()
    for constant in constants:
        yield f"\nconst {_array_declaration(constant)} = {{\n".encode()
        yield from lines(constant.data)
        yield b"\n};\n"


def _array_declaration(constant: Constant) -> str:
    section = " PILLION_IN({}, {})".format(*constant.memory) if constant.memory else ""
    return f"{C_TYPES[constant.data.dtype.name]} {constant.name}[{constant.elements}]{section}"


def model_c(program: CProgram) -> str:
    """Returns the text of `model.c`: the params of all calls, the entry points, and the descriptor."""
    graph = program.graph
    op_names = [
        f"    {string_literal(f'{step.choice.op.kind} {step.choice.op.name}')}" for step in program.steps
    ]
    values = {
        **_template_values(program),
        "includes": "\n".join(f'#include "pillion/{header}"' for header in kernel_headers(program)),
        "functions": params_structs(program) + _reset_function(program) + _function_definitions(program),
        **{"inputs": _buffer_table(program, graph.inputs), "outputs": _buffer_table(program, graph.outputs)},
        "op_names": ",\n".join(op_names) or "    NULL",
        **_memory_values(program),
        **{"input_count": len(graph.inputs), "output_count": len(graph.outputs)},
        **{"op_count": len(program.steps), "run_field": "step" if graph.states else "run"},
    }
    return fill_template("model.c", values, _template_parts(program))


def _function_definitions(program: CProgram) -> str:
    if program.feed is not None:
        return row_input.row_input_definitions(program, program.feed)
    run = step_functions(program) if program.in_steps else run_function(program, run_signature(program))
    return run + (stream_source.entry_definition(program, program.stream) if program.stream else "")


def kernel_headers(program: CProgram) -> list[str]:
    """Returns the headers that declare the called functions, sorted."""
    moves = {"rows.h"} if any(_moves_rows(item.what) for item in program.items) else set()
    moves |= {"feed.h"} if program.feed is not None else set()
    moves |= {"task.h"} if program.in_steps else set()
    return sorted(
        moves | {call.routine.header for step in program.steps for call in step.calls} | {"kernels.h"}
    )


def _moves_rows(what: Action) -> bool:
    """Whether the item copies rows."""
    return isinstance(what, (MoveRows, LoadConstant)) or (
        isinstance(what, (RolledLoop, RunBranch)) and any(_moves_rows(part.what) for part in what.body)
    )


def params_structs(program: CProgram) -> str:
    """Returns the params structs of all calls."""
    return "\n".join(
        _params_struct(step, n, call) for step in program.steps for n, call in enumerate(step.calls)
    )


def _params_struct(step: CStep, number: int, call: Call) -> str:
    fields = "".join(
        f"    .{key} = {_field_initializer(value, step.pointers[number].get(key))},\n"
        for key, value in call.params.items()
    )
    return f"static const {call.routine.params_type} {params_name(step, number)} = {{\n{fields}}};\n"


def _field_initializer(value: Param, pointer: str | None) -> str:
    return pointer if pointer is not None else c_literal(value)  # type: ignore[arg-type]  # arrays have a pointer


def run_function(program: CProgram, signature: str, after_op: bool = True) -> str:
    """Returns the function that runs all items of the program."""
    body = StatementWriter(program, after_op)
    base = _base_pointers(program) if after_op else "    (void)base;\n"
    told = NO_CALLBACK if after_op else ""
    return f"{told}{body.functions}\n{signature} {{\n{base}{indent(body.text(), '    ')}}}\n"


def _base_pointers(program: CProgram, record: str = "") -> str:
    """Returns the declarations of the pointers to the memories and of the callback, from the function's parameters or
    the fields of a `record`."""
    callback = f"{record}after_op"
    lines = [
        *pointer_lines(program, record),
        f"void (*const done)(uint32_t op) = {callback} != NULL ? {callback} : no_one;",
        "(void)done;",
    ]
    base = "".join(f"    {line}\n" for line in lines)
    if program.graph.states:
        base += f"    uint8_t *const kept = {record}state;\n    (void)kept;\n"
    return base


def step_functions(program: CProgram) -> str:
    """Returns the functions of a program that overlaps core and NPU: start, step and done, and the one that runs all
    steps."""
    body = StatementWriter(program, after_op=True)
    values = {
        "model": program.graph.name,
        "state_parameter": "void *state, " * bool(program.graph.states),
        "state_argument": "state, " * bool(program.graph.states),
        "state": "state" if program.graph.states else "NULL",
        "arena_parameter": arena_parameter(program),
        "arena": arena_argument(program),
        "run": run_signature(program),
        "functions": NO_CALLBACK + body.functions,
        "pointers": _base_pointers(program, "task->"),
        "statements": indent(body.statements_in_steps(), "    "),
    }
    return fill_template("steps.c", values)


def _reset_function(program: CProgram) -> str:
    """Returns the function that initializes the state; empty without states."""
    if not program.graph.states:
        return ""
    lines = [_reset_state_code(program, state) for state in program.graph.states]
    lines += [_reset_sums_code(program, op_sums) for op_sums in program.sums]
    lines += [stream_source.reset_line(program.stream)] if program.stream is not None else []
    body = "".join(f"    {line}\n" for line in lines)
    return f"\nvoid {program.graph.name}_reset(void *state) {{\n    uint8_t *const kept = state;\n{body}}}\n"


def _reset_state_code(program: CProgram, state: State) -> str:
    at = f"kept + {program.memory.state_offsets[state.before]}"
    if state.name in program.initial_states:
        return f"memcpy({at}, {program.initial_states[state.name]}, {state.bytes});"
    return f"memset({at}, {np.ascontiguousarray(state.initial).tobytes()[0]}, {state.bytes});"


def _reset_sums_code(program: CProgram, sums: RunningSums) -> str:
    at = f"kept + {program.memory.kept_scratch[sums.op]}"
    if sums.op in program.initial_sums:
        return f"memcpy({at}, {program.initial_sums[sums.op]}, {sums.stored.nbytes});"
    filled = f"((int32_t *)({at}))[i] = {c_literal(int(sums.stored[0]))};"
    return f"for (uint32_t i = 0; i < {sums.stored.size}; i++) {{ {filled} }}"


def _buffer_table(program: CProgram, values: Iterable[Value]) -> str:
    return ",\n".join(
        f"    {{{string_literal(v.name)}, {_buffer_offset(program, v)}, {v.type.size_bytes}, {_buffer_memory(program, v)}}}"
        for v in values
    )


def _buffer_memory(program: CProgram, value: Value) -> int:
    """Returns the number of a buffer's memory; 0 if the arena is in one."""
    return memory_number(program, program.memory.areas.get(value, ARENA))


def _buffer_offset(program: CProgram, value: Value) -> str:
    """Returns the arena offset of a buffer, or `PILLION_NOWHERE` for one outside the arena."""
    is_fed = program.feed is not None and value is program.feed.value
    return "PILLION_NOWHERE" if is_fed else str(program.memory.offsets[value])
