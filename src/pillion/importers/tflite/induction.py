# SPDX-License-Identifier: Apache-2.0
"""Computes induction variables: the integers of a loop body that depend only on the step number, for all
steps at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from pillion.importers.tflite.model import TfliteReader
from pillion.ir.numerics import INT32_MAX
from pillion.ir.types import Array
from pillion.schemas import tflite
from pillion.schemas.tflite import ElementType

WHOLE = (ElementType.INT32, ElementType.INT64, ElementType.BOOL)
"""Element types of induction variables."""
FEW = 16
"""The largest number of elements of an induction variable."""
Numbers = Array
"""The elements [steps, …] of a tensor; [1, …] if they are loop-invariant."""
PAIRS: Mapping[str, Callable[[Array, Array], Array]] = {
    "ADD": np.add,
    "SUB": np.subtract,
    "MUL": np.multiply,
    "MINIMUM": np.minimum,
    "MAXIMUM": np.maximum,
    "LESS": np.less,
    "LESS_EQUAL": np.less_equal,
    "GREATER": np.greater,
    "GREATER_EQUAL": np.greater_equal,
    "EQUAL": np.equal,
    "NOT_EQUAL": np.not_equal,
    "LOGICAL_AND": np.logical_and,
    "LOGICAL_OR": np.logical_or,
}
SHAPES = ("RESHAPE", "SQUEEZE", "EXPAND_DIMS", "CAST")
"""Operators that preserve the numbers of their operand."""


class KnownIntegers:
    """The tensors of a subgraph whose numbers are known in every step."""

    def __init__(self, reader: TfliteReader, given: Mapping[int, Numbers]) -> None:
        self.reader, self.tensors = reader, reader.subgraph.tensors
        self.known: dict[int, Numbers] = dict(given)
        for operator in reader.subgraph.operators:
            self._evaluate_operator(operator)

    def of(self, number: int) -> Numbers | None:
        """Returns a tensor's numbers if they are known, also those of a constant."""
        if number in self.known:
            return self.known[number]
        if not 0 <= number < len(self.tensors) or self.tensors[number].type not in WHOLE:
            return None
        if self.reader.data(self.tensors[number]) is None:
            return None
        value = self.reader.value(number)
        return value.constant[None].astype(np.int64) if value.type.elements <= FEW else None

    def _evaluate_operator(self, operator: tflite.Operator) -> None:
        operands = [self.of(number) for number in operator.inputs]
        is_bounded = getattr(operator.options, "fused_activation", 0)
        if len(operator.outputs) != 1 or not operands or operands[0] is None or is_bounded:
            return
        code, y = self.reader.code(operator.opcode_index), operator.outputs[0]
        if code not in (
            *PAIRS,
            *SHAPES,
            "LOGICAL_NOT",
            "CONCATENATION",
            "PACK",
        ) or not self._is_integer_tensor(y):
            return
        known = [operand for operand in operands if operand is not None]
        if code in SHAPES:
            result = self._reshape_numbers(known[0], y)
        else:
            result = self._compute_numbers(code, known) if len(known) == len(operands) else None
        if (
            result is not None
            and result.size <= FEW * len(result)
            and np.abs(result).max(initial=0) <= INT32_MAX
        ):
            self.known[y] = result

    def _is_integer_tensor(self, number: int) -> bool:
        return 0 <= number < len(self.tensors) and self.tensors[number].type in WHOLE

    def _reshape_numbers(self, x: Numbers, y: int) -> Numbers | None:
        shape = self.tensors[y].shape
        fits = int(np.prod(shape)) * len(x) == x.size and all(size > 0 for size in shape)
        return x.reshape(len(x), *shape) if fits else None

    def _compute_numbers(self, code: str, known: list[Numbers]) -> Numbers | None:
        if code == "LOGICAL_NOT":
            return (known[0] == 0).astype(np.int64)
        if code in PAIRS:
            return _compute_broadcast(PAIRS[code], *known) if len(known) == 2 else None
        steps = max(map(len, known))
        wide = [np.broadcast_to(operand, (steps, *operand.shape[1:])) for operand in known]
        if code == "PACK":
            return np.stack(wide, 1) if all(operand.ndim == 1 for operand in wide) else None
        return np.concatenate(wide, 1) if all(operand.ndim == 2 for operand in wide) else None


def _compute_broadcast(compute: Callable[[Array, Array], Array], a: Numbers, b: Numbers) -> Numbers | None:
    """Computes with broadcasting behind the step axis."""
    rank = max(a.ndim, b.ndim)
    left, right = (x.reshape(len(x), *(1,) * (rank - x.ndim), *x.shape[1:]) for x in (a, b))
    try:
        return np.asarray(compute(left, right), np.int64)
    except ValueError:
        return None
