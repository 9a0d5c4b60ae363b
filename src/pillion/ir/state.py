# SPDX-License-Identifier: Apache-2.0
"""What a model remembers from one run to the next."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass

from pillion.ir.types import Array, Value


@dataclass(frozen=True, eq=False)
class State:
    """A tensor that lives between runs: ops read it as `before`, and the next run finds there what `after` was at the end of this one.
    After a reset it is `initial`."""

    name: str
    before: Value
    after: Value
    """A result of an op, an input, a constant, or what some state was before; of the type of `before`."""
    initial: Array

    def __post_init__(self) -> None:
        if self.initial.shape != self.before.shape or self.initial.dtype != self.before.dtype.numpy:
            held = f"{self.initial.dtype}{list(self.initial.shape)}"
            raise ValueError(f"state {self.name} begins as {held}, and is {self.before!r}")

    @property
    def bytes(self) -> int:
        """The bytes of the tensor."""
        return self.before.type.size_bytes

    def substitute(self, values: Mapping[Value, Value]) -> State:
        """Gives the state with some values exchanged; this one if it has none of them."""
        before, after = values.get(self.before, self.before), values.get(self.after, self.after)
        is_same = before is self.before and after is self.after
        return self if is_same else dataclasses.replace(self, before=before, after=after)
