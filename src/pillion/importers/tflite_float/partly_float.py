# SPDX-License-Identifier: Apache-2.0
"""Reads int8 files whose operators compute in float in some places. The int8 operators keep their integers; the
float ones are quantized, with the values that reach them."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import groupby

import torch
from torch import Tensor
from torch.export import ExportedProgram

from pillion.importers.tflite import OpenedTflite
from pillion.importers.tflite.float_files import is_float_operator
from pillion.importers.tflite.model import TfliteReader
from pillion.importers.tflite.table import ops_of
from pillion.importers.tflite.uint8 import Uint8Boundary
from pillion.importers.tflite.while_loops import all_ops
from pillion.importers.tflite_float.elementwise import TORCH
from pillion.importers.tflite_float.float_module import FloatModule, check_shapes, random_inputs
from pillion.importers.tflite_float.reader import FloatReader
from pillion.importers.tflite_float.readings import as_tensor
from pillion.importers.torch.file_operators import export_file_module
from pillion.importers.torch.quantize.ptq import all_samples, no_calibration_data
from pillion.importers.torch.user_inputs import Batches
from pillion.ir.graph import Graph, model_name
from pillion.ir.numerics import Arithmetic
from pillion.ir.op import Op
from pillion.ir.types import Array, Value
from pillion.ir.verify import verify_graph
from pillion.schemas import tflite

Quantize = Callable[[ExportedProgram, tuple[Tensor, ...], list[tuple[Tensor, ...]]], Graph]
"""Returns the graph of a program that is quantized with example inputs and samples."""


@dataclass
class _PartlyFloat:
    """A file under conversion, one run of operators with the same arithmetic after the other."""

    opened: OpenedTflite
    quantize: Quantize
    reader: TfliteReader
    seen: list[dict[int, Array]] = field(default_factory=list)
    """The computed tensors of each sample, by number."""
    ops: list[Op] = field(default_factory=list)

    def run(self, first: int, operators: list[tflite.Operator], is_float: bool) -> None:
        """Converts some operators and computes their results on all samples."""
        computed = {n for operator in operators for n in operator.outputs}
        read = dict.fromkeys(n for operator in operators for n in operator.inputs)
        known = [n for n in read if n in self.seen[0] and n not in computed]
        outputs = [n for n in computed if n in self._read_after(first + len(operators))]
        part = tflite.SubGraph(
            tensors=self.reader.subgraph.tensors, inputs=known, outputs=outputs, operators=operators
        )
        (self._float if is_float else self._int8)(first, part)

    def _read_after(self, first: int) -> set[int]:
        graph = self.reader.subgraph
        return {*graph.outputs, *(n for operator in graph.operators[first:] for n in operator.inputs)}

    def _int8(self, first: int, part: tflite.SubGraph) -> None:
        reader = copy.copy(self.reader)  # shares its values
        reader.subgraph, reader.first = part, first
        inputs = tuple(map(reader.value, part.inputs))
        ops = tuple(all_ops(reader, ops_of))
        outputs = tuple(map(reader.value, part.outputs))
        graph = Graph("part", inputs, ops, outputs, Arithmetic.TFLITE)
        for values in self.seen:
            results = graph.reference(*(values[n] for n in part.inputs))
            values.update(zip(part.outputs, results, strict=True))
        self.ops += ops

    def _float(self, first: int, part: tflite.SubGraph) -> None:
        fixed = self._constant_operators(first)
        part.operators = [*fixed, *part.operators]
        reader = FloatReader(self.opened.model, part)
        reader.first = first - len(fixed)
        module = FloatModule(reader)
        check_shapes(module)
        samples = [tuple(as_tensor(values[n]) for n in part.inputs) for values in self.seen]
        with torch.no_grad():
            for values, sample in zip(self.seen, samples, strict=True):
                results = module(*sample)
                results = results if isinstance(results, tuple) else (results,)
                values.update(zip(part.outputs, (y.numpy() for y in results), strict=True))
        inputs = random_inputs(module.inputs)
        self._append_quantized_part(
            self.quantize(export_file_module(module, inputs, f"{self.opened.name}.tflite"), inputs, samples),
            part,
        )

    def _constant_operators(self, end: int) -> list[tflite.Operator]:
        """Returns the operators before this one that read constants only."""
        graph = self.reader.subgraph
        computed, fixed = {*graph.inputs}, []
        for operator in graph.operators[:end]:
            if computed.isdisjoint(operator.inputs):
                fixed.append(operator)
            else:
                computed.update(operator.outputs)
        return fixed

    def _append_quantized_part(self, graph: Graph, part: tflite.SubGraph) -> None:
        """Appends the ops of a quantized part, with new names, between the file's tensors."""
        instead = dict(zip(graph.inputs, map(self.reader.value, part.inputs), strict=True))
        for value in graph.values.values():
            if value not in instead:
                instead[value] = Value(self.reader.names.fresh(value.name), value.type, value.data)
        for number, value in zip(part.outputs, graph.outputs, strict=True):
            self.reader.rename(number, instead[value])
        self.ops += graph.substitute(instead).ops


def partly_float_graph(opened: OpenedTflite, samples: Batches, quantize: Quantize) -> Graph:
    """Returns the graph of a file. `quantize` quantizes its float operators with these samples as they arrive
    there."""
    with opened.reading():
        reader = TfliteReader(opened.model, opened.model.subgraphs[0])
        boundary = Uint8Boundary(reader)
        inputs, before = boundary.inputs(), tuple(boundary.input_conversions())
        conversion = _PartlyFloat(opened, quantize, reader, ops=[*before])
        inner = Graph(
            "inputs", inputs, before, tuple(map(reader.value, reader.subgraph.inputs)), Arithmetic.TFLITE
        )
        for sample in _sample_tensors(inputs, samples):
            values = inner.reference(*(x.numpy() for x in sample))
            conversion.seen.append(dict(zip(reader.subgraph.inputs, values, strict=True)))
        if not conversion.seen:
            raise no_calibration_data()
        first = 0
        for is_float, some in groupby(
            reader.subgraph.operators, lambda operator: is_float_operator(opened.model, operator)
        ):
            operators = list(some)
            conversion.run(first, operators, is_float)
            first += len(operators)
        outputs, after = boundary.converted_outputs()
    ops = (*conversion.ops, *after)
    name = model_name(opened.name)
    return verify_graph(Graph(name, inputs, ops, outputs, Arithmetic.TFLITE).without_dead_ops())


def _sample_tensors(inputs: Sequence[Value], samples: Batches) -> list[tuple[Tensor, ...]]:
    """Returns all samples as tensors of the inputs' types."""
    placeholders = tuple(torch.zeros(v.shape, dtype=TORCH[v.dtype]) for v in inputs)
    return list(all_samples(samples, placeholders, tuple(v.name for v in inputs)))
