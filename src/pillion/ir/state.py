# SPDX-License-Identifier: Apache-2.0
"""States: tensors that live from one run to the next."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass

from pillion.ir.types import Array, Value


@dataclass(frozen=True, eq=False)
class State:
    """A tensor that lives between runs. Ops read `before`; the next run finds there the value of `after`. A reset
    restores `initial`."""

    name: str
    before: Value
    after: Value
    """The new value: a result, an input, a constant or another state's `before`, of the type of `before`."""
    initial: Array

    def __post_init__(self) -> None:
        if self.initial.shape != self.before.shape or self.initial.dtype != self.before.dtype.numpy:
            initial_type = f"{self.initial.dtype}{list(self.initial.shape)}"
            raise ValueError(f"state {self.name} begins as {initial_type}, and is {self.before!r}")

    @property
    def bytes(self) -> int:
        """The size of the tensor in bytes."""
        return self.before.type.size_bytes

    def substitute(self, values: Mapping[Value, Value]) -> State:
        """Returns the state with some values replaced."""
        before, after = values.get(self.before, self.before), values.get(self.after, self.after)
        is_same = before is self.before and after is self.after
        return self if is_same else dataclasses.replace(self, before=before, after=after)
