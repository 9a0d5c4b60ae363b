# SPDX-License-Identifier: Apache-2.0
"""Constraints that devices put on quantization, beyond the rules of the ops."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class QuantizationConstraints:
    """Kinds of ops by constraint. `|` combines the constraints of several devices."""

    symmetric_operands: frozenset[str] = frozenset()
    """Kinds whose operands have zero point 0 and values in [-127, 127]."""
    shared: frozenset[str] = frozenset()
    """Kinds whose result shares the operand's scale and zero point, although the op could use its own."""
    fixed: frozenset[str] = frozenset()
    """Kinds whose result has the scale that other runtimes fix, although the core's kernels support finer ones."""
    per_tensor_weights: frozenset[str] = frozenset()
    """Kinds whose weights have one scale instead of one per channel."""
    functions_by_name: bool = False
    """Whether the device supports named functions only, not lookup tables."""
    int16_inputs: bool = field(default=False, compare=False)
    """Whether signals may enter in 16 bits, because the user asks for them and all formats of the program have them. Trained modules do not
    depend on it: training keeps spectra as they are."""
    copies_of_convolutions: bool = False
    """Whether convolutions in an unrolled loop stay unrolled, because the device supports them but no loops."""
    image_bits: int = field(default=16, compare=False)
    """The bits of 16-bit images that 3x3 convolutions read. Fewer bits have faster kernels."""
    target: str = field(default="", compare=False)
    """The chip's name, for messages."""

    def __or__(self, other: QuantizationConstraints) -> QuantizationConstraints:
        return QuantizationConstraints(
            self.symmetric_operands | other.symmetric_operands,
            self.shared | other.shared,
            self.fixed | other.fixed,
            self.per_tensor_weights | other.per_tensor_weights,
            self.functions_by_name or other.functions_by_name,
            self.int16_inputs or other.int16_inputs,
            self.copies_of_convolutions or other.copies_of_convolutions,
            max(self.image_bits, other.image_bits),
            " and ".join(dict.fromkeys(filter(None, (self.target, other.target)))),
        )
