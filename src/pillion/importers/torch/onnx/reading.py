# SPDX-License-Identifier: Apache-2.0
"""An operator of an ONNX file, and the reason why one cannot be read."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

MOST_ELEMENTS = 1 << 28
"""Limit of the elements of a tensor, so that a small file cannot ask for more memory than there is."""
MOST_NUMBERS = 4096
"""Limit of constants that are read as numbers: shapes, axes, paddings."""


class UnreadableOperator(Exception):
    """Says why one operator of a file cannot be read."""


@dataclass(frozen=True)
class Operator:
    """An ONNX operator: its attributes, and its operands that are known when the file is read."""

    kind: str
    attributes: Mapping[str, Any]
    names: tuple[str, ...]
    """The operands; empty where an optional one is left out."""
    constants: tuple[Tensor | None, ...]
    lists: tuple[list[Any] | None, ...]
    """The elements of small constants."""
    opset: int
    outputs: int
    asked: set[str] = field(default_factory=set, compare=False)
    """Attributes that were read."""

    def get(self, name: str, default: Any = None) -> Any:
        """Returns an attribute."""
        self.asked.add(name)
        return self.attributes.get(name, default)

    def require(self, name: str, *allowed: Any) -> None:
        """Raises if an attribute, whose default is the first of the allowed values, has another one."""
        if (value := self.get(name, allowed[0])) not in allowed:
            raise UnreadableOperator(f"{name} is {str(value)[:80]}")

    def has(self, index: int) -> bool:
        """Whether an operand is given."""
        return index < len(self.names) and self.names[index] != ""

    def numbers(self, index: int, name: str) -> list[Any] | None:
        """Returns numbers that are an operand in newer opsets and an attribute in older ones; None if absent."""
        if self.has(index):
            if (found := self.lists[index]) is None:
                raise UnreadableOperator(
                    f"its {name} depends on the inputs, or has more than {MOST_NUMBERS:,} numbers"
                )
            return found
        value = self.get(name)
        return value if value is None or isinstance(value, list) else [value]

    def required_numbers(self, index: int, name: str) -> list[Any]:
        """Returns numbers that must be there."""
        found = self.numbers(index, name)
        if found is None:
            raise UnreadableOperator(f"it has no {name}")
        return found

    def refuse_unread_attributes(self) -> None:
        """Raises if the operator has attributes that its reading did not ask for."""
        if unread := sorted(set(self.attributes) - self.asked):
            raise UnreadableOperator(f"{unread[0][:80]} is {str(self.attributes[unread[0]])[:80]}")


def small_lists(constants: Sequence[Tensor | None]) -> tuple[list[Any] | None, ...]:
    """Returns the elements of small constants."""
    return tuple(None if x is None or x.numel() > MOST_NUMBERS else x.reshape(-1).tolist() for x in constants)


def bounded(shape: Sequence[int]) -> list[int]:
    """Returns a shape whose number of elements is within the limit."""
    if any(size < 0 for size in shape) or math.prod(shape) > MOST_ELEMENTS:
        raise UnreadableOperator(f"shape {list(shape)[:8]} passes {MOST_ELEMENTS:,} elements")
    return list(shape)
