# SPDX-License-Identifier: Apache-2.0
"""The body of a loop as a def-use graph of the file's operators."""

from __future__ import annotations

from pillion.importers.tflite.model import TfliteReader
from pillion.schemas import tflite
from pillion.schemas.flatbuffer import MalformedError

OPERANDS = {
    "ADD": 2,
    "SUB": 2,
    "GATHER": 2,
    "SLICE": 3,
    "STRIDED_SLICE": 4,
    "DYNAMIC_UPDATE_SLICE": 3,
    "RESHAPE": 1,
    "EXPAND_DIMS": 1,
    "SQUEEZE": 1,
}
"""The least number of operands, by operator."""
SAME_NUMBERS = ("RESHAPE", "EXPAND_DIMS", "SQUEEZE")
"""Operators that change only the shape."""


class LoopBody:
    """A subgraph whose tensor indices and operand counts are checked."""

    def __init__(self, reader: TfliteReader) -> None:
        self.reader, self.graph = reader, reader.subgraph
        self.made: dict[int, int] = {}
        """The operator that computes each tensor."""
        for number, operator in enumerate(self.graph.operators):
            self.made.update(dict.fromkeys(operator.outputs, number))
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
        for operator in graph.operators:
            if len(operator.inputs) < OPERANDS.get(self.code(operator), 0):
                raise MalformedError(f"{self.code(operator)} has {len(operator.inputs)} operands")

    def code(self, operator: tflite.Operator) -> str:
        """Returns the name of an operator."""
        return self.reader.code(operator.opcode_index)

    def maker(self, tensor: int) -> tflite.Operator | None:
        """Returns the operator that computes a tensor."""
        return self.graph.operators[self.made[tensor]] if tensor in self.made else None

    def source(self, tensor: int) -> int:
        """Returns the tensor before all reshapes."""
        for _ in range(len(self.graph.operators)):  # a hostile file may have a cycle
            maker = self.maker(tensor)
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
