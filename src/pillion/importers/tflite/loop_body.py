# SPDX-License-Identifier: Apache-2.0
"""The body of a loop as a def-use graph of the file's operators."""

from __future__ import annotations

import numpy as np

from pillion.importers.tflite.model import TfliteReader
from pillion.ir.numerics import Int64Array
from pillion.schemas import tflite
from pillion.schemas.flatbuffer import MalformedError

SLICES = {"GATHER": 2, "SLICE": 3, "STRIDED_SLICE": 4, "DYNAMIC_UPDATE_SLICE": 3}
"""Operators at places that counters give, and the least number of their operands."""
SAME_NUMBERS = ("RESHAPE", "EXPAND_DIMS", "SQUEEZE")
"""Operators that change only the shape."""


class LoopBody:
    """A subgraph whose tensor indices and operand counts are checked."""

    def __init__(self, reader: TfliteReader) -> None:
        self.reader, self.graph = reader, reader.subgraph
        self.made = {y: operator for operator in self.graph.operators for y in operator.outputs}
        """The operator that computes each tensor."""
        self._require_tensors()
        pairs = zip(self.graph.inputs, self.graph.outputs, strict=True)
        self.kept = tuple(number for number, (before, after) in enumerate(pairs) if before == after)
        """The operands that no step changes."""

    def _require_tensors(self) -> None:
        """Raises if a tensor does not exist or an operator lacks operands."""
        graph = self.graph
        read = {n for operator in graph.operators for n in operator.inputs} - {-1}
        for tensor in (*graph.inputs, *graph.outputs, *self.made, *read):
            if not 0 <= tensor < len(graph.tensors):
                raise MalformedError(f"tensor {tensor} of {len(graph.tensors)}")
        least = {**SLICES, **dict.fromkeys(SAME_NUMBERS, 1)}
        for operator in graph.operators:
            if len(operator.inputs) < least.get(self.code(operator), 0):
                raise MalformedError(f"{self.code(operator)} has {len(operator.inputs)} operands")

    def code(self, operator: tflite.Operator) -> str:
        """Returns the name of an operator."""
        return self.reader.code(operator.opcode_index)

    def source(self, tensor: int) -> int:
        """Returns the tensor before all reshapes."""
        for _ in range(len(self.graph.operators)):  # a hostile file may have a cycle
            maker = self.made.get(tensor)
            if maker is None or self.code(maker) not in SAME_NUMBERS:
                break
            tensor = maker.inputs[0]
        return tensor

    def users(self, tensor: int) -> list[tflite.Operator]:
        """Returns the operators that read a tensor."""
        return [operator for operator in self.graph.operators if tensor in operator.inputs]

    def shape(self, tensor: int) -> list[int]:
        """Returns the shape of a tensor."""
        return list(self.graph.tensors[tensor].shape)


def slices_of_steps(
    operator: tflite.Operator, operands: list[Int64Array], shape: list[int]
) -> tuple[int, Int64Array] | None:
    """Returns the axis along which an operator slices a tensor of this shape, and the indices [steps, slices], from the
    numbers [steps, …] of its other operands; None if it takes part of several axes."""
    match operator.options, operands:
        case (tflite.GatherOptions() | None) as options, [numbers] if numbers.ndim <= 2:
            if options is not None and options.batch_dims:
                return None
            return (options.axis % max(len(shape), 1) if options else 0), numbers.reshape(len(numbers), -1)
        case ((tflite.SliceOptions() | None), [begin, size]) if (
            begin.shape[1:] == size.shape[1:] == (len(shape),)
        ):
            return _along_one_axis(begin, np.where(size == -1, shape, begin + size), shape)
        case tflite.StridedSliceOptions() as options, [begin, end, step] if begin.shape == end.shape:
            masks = options.ellipsis_mask | options.new_axis_mask
            if masks or begin.ndim != 2 or begin.shape[1] > len(shape) or (step != 1).any():
                return None
            first, last = np.zeros((len(begin), len(shape)), np.int64), np.tile(shape, (len(begin), 1))
            for axis in range(begin.shape[1]):
                if not options.begin_mask >> axis & 1:
                    first[:, axis] = begin[:, axis]
                if options.shrink_axis_mask >> axis & 1:
                    last[:, axis] = first[:, axis] + 1
                elif not options.end_mask >> axis & 1:
                    last[:, axis] = end[:, axis]
            return _along_one_axis(first, last, shape)
    return None


def _along_one_axis(first: Int64Array, last: Int64Array, shape: list[int]) -> tuple[int, Int64Array] | None:
    sizes = last - first
    axes = [a for a, size in enumerate(shape) if first[:, a].any() or sizes[0, a] != size] or [0]
    if len(axes) > 1 or not shape or (sizes != sizes[0]).any() or sizes[0].min() < 1:
        return None
    return axes[0], first[:, axes[0], None] + np.arange(sizes[0, axes[0]])
