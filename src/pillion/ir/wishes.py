# SPDX-License-Identifier: Apache-2.0
"""What a device asks of quantization beyond the rules of the ops."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Wishes:
    """Kinds of ops by wish. `|` composes the wishes of several devices."""

    symmetric_operands: frozenset[str] = frozenset()
    """Kinds whose operands have zero point 0 in [-127, 127]."""
    shared: frozenset[str] = frozenset()
    """Kinds whose result has the parameters of the operand, although the op could do with its own."""
    fixed: frozenset[str] = frozenset()
    """Kinds whose result always has the parameters that other runtimes give it, where the core's kernels could give it finer steps."""
    per_tensor_weights: frozenset[str] = frozenset()
    """Kinds whose weights have one scale instead of one for each channel."""
    functions_by_name: bool = False
    """Whether the device has functions that it knows by name, and no tables of any expression."""
    copies_of_convolutions: bool = False
    """Whether convolutions in a loop that is written out stay copies: the device knows no loops, and takes copies of these."""
    target: str = field(default="", compare=False)
    """The chip whose wishes these are, to be named in messages."""

    def __or__(self, other: Wishes) -> Wishes:
        return Wishes(
            self.symmetric_operands | other.symmetric_operands,
            self.shared | other.shared,
            self.fixed | other.fixed,
            self.per_tensor_weights | other.per_tensor_weights,
            self.functions_by_name or other.functions_by_name,
            self.copies_of_convolutions or other.copies_of_convolutions,
            " and ".join(dict.fromkeys(filter(None, (self.target, other.target)))),
        )
