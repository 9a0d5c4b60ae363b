# SPDX-License-Identifier: Apache-2.0
"""Reads any program of known kernel calls: the graph computes what each call does to the bytes in memory.
Programs have memory offsets, multipliers and zero points, but no names and few scales: names are generated,
multipliers kept, and tensors have a scale only if a call gives it."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Sequence

from pillion.errors import PillionError
from pillion.importers.pte.container import Container
from pillion.importers.pte.delegate import read_payload
from pillion.importers.pte.instructions import ReadCall
from pillion.importers.pte.program_state import ProgramState
from pillion.importers.pte.steps import Delegated, GraphCollector
from pillion.importers.pte.table import TABLE
from pillion.importers.pte.tensor import ReadTensor, SharedQuantParams
from pillion.ir.graph import Graph, model_name
from pillion.ir.verify import verify_graph
from pillion.schemas import pte
from pillion.schemas.flatbuffer import MalformedError, Table
from pillion.schemas.ir_payload import is_ir


def graph_of(container: Container) -> Graph:
    """Returns the graph of a program's kernel calls."""
    refuse_unknown(container)
    try:
        return _read_foreign_graph(container)
    except MalformedError:
        raise
    except (ValueError, LookupError, ArithmeticError) as error:
        raise MalformedError(f"its calls make no sense together: {error}") from None


def _read_foreign_graph(container: Container) -> Graph:
    reader = PteReader(container)
    inputs = [reader.input(number, i) for i, number in enumerate(container.plan.inputs)]
    for number, instruction in enumerate(container.plan.chains[0].instructions):
        reader.run(number, instruction.instr_args)
    outputs = [reader.output(number, i) for i, number in enumerate(container.plan.outputs)]
    return reader.graph(inputs, outputs)


def refuse_unknown(container: Container) -> None:
    """Raises one error with all unsupported calls of a program."""
    plan = container.plan
    unknown: Counter[str] = Counter()
    for instruction in plan.chains[0].instructions:
        match instruction.instr_args:
            case pte.KernelCall(op_index=index):
                name = operator_name(container, index)
                unknown[name] += name not in TABLE
            case pte.DelegateCall(delegate_index=index):
                delegate = container.delegate(index)
                found_code = not is_ir(container.payload(delegate))
                unknown[f"delegate {delegate.id}, with code for the NPU itself"] += found_code
            case other:
                unknown[type(other).__name__ if other else "an instruction of no known kind"] += 1
    kinds = [f"{name[:100]}, {count} times" for name, count in unknown.items() if count]
    if kinds:
        more = f"\nand {len(kinds) - 40} more" if len(kinds) > 40 else ""
        raise PillionError(
            f"`{container.name}` has {len(kinds)} kind{'s' * (len(kinds) > 1)} of instruction that cannot be read",
            rule="int8 kernels of the cortex_m library, copies of ATen's and segments under Pillion's mark, one after the other",
            here="\n".join(kinds[:40]) + more,
            help="compile the model with Pillion, from PyTorch or .tflite; it says what keeps an op in float",
        )


def operator_name(container: Container, index: int) -> str:
    """Returns the full name of an operator by its index, such as `cortex_m::quantized_add.out`."""
    operators = container.plan.operators
    if not 0 <= index < len(operators):
        raise MalformedError(f"operator {index} of {len(operators)}")
    return f"{operators[index].name}.{operators[index].overload}"


class PteReader(ProgramState):
    """Interprets the instructions and records their steps."""

    def run(self, number: int, instruction: Table | None) -> None:
        """Reads one instruction, a kernel call or a delegate call."""
        if isinstance(instruction, pte.DelegateCall):
            self.delegate(f"instruction {number}, delegate", instruction)
        elif isinstance(instruction, pte.KernelCall):
            name = operator_name(self.container, instruction.op_index)
            call = ReadCall(self, name, f"instruction {number}, {name}", instruction.args)
            TABLE[name](call)

    def delegate(self, source: str, call: pte.DelegateCall) -> None:
        """Reads the call of an NPU segment: inputs, then outputs, all contiguous."""
        delegate = self.container.delegate(call.delegate_index)
        body = with_unique_names(read_payload(self.container.payload(delegate)), source)
        declared = (*body.inputs, *body.outputs)
        arguments = [self.boundary_tensor(number) for number in call.args]
        if [(a.nbytes, a.dtype) for a in arguments] != [(v.type.size_bytes, v.dtype) for v in declared]:
            raise MalformedError(f"{source}: it is handed {len(arguments)} tensors, not those of the segment")
        count = len(body.inputs)
        xs = [
            self.shaped(self.read(argument, source), value.shape, source)
            for argument, value in zip(arguments[:count], body.inputs, strict=True)
        ]
        ys = [
            ReadTensor(f"t{a.number}", v.shape, v.dtype, SharedQuantParams())
            for a, v in zip(arguments[count:], body.outputs, strict=True)
        ]
        for tensor, value in zip((*xs, *ys), declared, strict=True):
            if value.is_quantized:
                tensor.label.add_known_params(value.zero_point, value.scale)
        for argument, tensor in zip(arguments[count:], ys, strict=True):
            self.write(argument, tensor)
        self.add(Delegated(source, tuple(xs), tuple(ys), body, delegate.id))

    # The graph

    def graph(self, inputs: Sequence[ReadTensor], outputs: Sequence[ReadTensor]) -> Graph:
        """Returns the graph of all steps."""
        out = GraphCollector()
        taken = tuple(map(out.result, inputs))
        for step in self.steps:
            step.emit(out)
        collected = Graph(
            model_name(self.container.name), taken, tuple(out.ops), tuple(out.values[y] for y in outputs)
        )
        return verify_graph(collected.without_dead_ops())


def with_unique_names(body: Graph, source: str) -> Graph:
    """Returns a segment's graph with unique names."""
    prefix = source.split(",")[0].replace(" ", "")
    values = {v: dataclasses.replace(v, name=f"{prefix}/{v.name}") for v in body.values.values()}
    return body.substitute(values).replace(name=f"{body.name}_{prefix}")


__all__ = ["graph_of"]
