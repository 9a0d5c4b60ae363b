# SPDX-License-Identifier: Apache-2.0
"""Random programs of 8 and 16 bits in one graph: an op that was drawn in 8 bits gets operands, a result, or both in 16 bits
now and then. What comes next reads the 16 bits, or the 8 bits that are made of them."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import numpy as np

from fuzz.grow import Grower, Unfit, bounded
from pillion.devices.cortex_m import Isa
from pillion.emitters.c.kernel_choice import choose_kernels
from pillion.errors import PillionError
from pillion.ir.graph import Graph
from pillion.ir.op import Op, Quantization
from pillion.ir.types import Array, DType, PerTensor, Quant, Shape, TensorType, Value, constant_value
from pillion.ops import Conv2d, DepthwiseConv2d, Linear, Lut, Requantize, Softmax
from pillion.ops.softmax import OUTPUT_OF_8_BITS
from pillion.ops.softmax16 import OUTPUT_16

LAYERS = (Conv2d, DepthwiseConv2d, Linear)
"""Ops that make 16 bits from 8 bits, too."""
LEVELS = 256
"""Steps of 16 bits in one of 8."""
LONG = (2**15, 2**15 + 3, 2**16 - 15, 2**16, 2**16 + 1)
"""Sizes past which counters and strides of 16 bits overflow."""
LARGE = 20_000
"""The elements of a program's largest values from which on axes may be long; boards do not hold several such programs."""


class MixedGrower(Grower):
    """A grower that widens ops. `wide` has the 16-bit value of which an 8-bit one was made."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.wide: dict[Value, Value] = {}

    def shape(self, rank: int | None = None) -> Shape:
        """Now and then one with a long axis, in programs of large values."""
        usual = super().shape(rank)
        if self.largest < LARGE or not usual or not self.choices.one_in(4):
            return usual
        axis = self.choices.integer(0, len(usual) - 1)
        return tuple(self.choices.pick(LONG) if i == axis else 1 for i in range(len(usual)))

    def put(
        self,
        cls: Any,
        dtype: DType,
        quant: Quant | None,
        shape: Shape = (),
        *,
        fit: bool = False,
        **fields: Any,
    ) -> Value:
        can_widen = cls.takes_int16 and cls is not Requantize and isinstance(quant, PerTensor)
        if dtype is DType.INT8 and can_widen and self.choices.one_in(3):
            held = self.inputs.copy(), self.ops.copy(), self.values.copy(), self.wide.copy()
            with suppress(Unfit):
                return self.widened(cls, quant, shape, fit, fields)
            self.inputs, self.ops, self.values, self.wide = held
        return super().put(cls, dtype, quant, shape, fit=fit, **fields)

    def widened(self, cls: Any, quant: PerTensor, shape: Shape, fit: bool, fields: dict[str, Any]) -> Value:
        """Adds the op in 16 bits, and the 8 bits of its result."""
        before = fields.get("x", fields.get("a", fields.get("xs", [None])[0]))
        shares = cls is Softmax and self.choices.one_in(2)
        reads_8_bits = shares or (cls in LAYERS and self.choices.one_in(2))
        fields = (
            fields.copy()
            if reads_8_bits
            else {name: self.in_16_bits(name, held) for name, held in fields.items()}
        )
        first = fields.get("x", fields.get("a", fields.get("xs", [None])[0]))
        if "bias" in fields:
            fields["bias"] = finer(fields["bias"], before, first)
        if cls.quantization is not Quantization.SHARED and not reads_8_bits and self.choices.one_in(4):
            return super().put(cls, DType.INT8, quant, shape, fit=fit, **fields)
        if "low" in fields and cls is not Lut:
            fields |= {"low": fields["low"] * LEVELS, "high": fields["high"] * LEVELS + LEVELS - 1}
        scale = quant.scale / LEVELS
        if reads_8_bits and "weights" in fields and not self.choices.one_in(4):  # which vector kernels take
            scale = max(scale, 2.001 * first.scale * max(fields["weights"].channel_scales))
        wide = PerTensor(bounded(scale))
        if cls is Softmax:
            wide = OUTPUT_OF_8_BITS if shares else OUTPUT_16
        elif cls.quantization is Quantization.SHARED:
            wide = first.type.quant
        elif cls is Lut and self.choices.one_in(2):
            wide = OUTPUT_16
        y = super().put(cls, DType.INT16, wide, shape, fit=fit, **fields)
        narrow = PerTensor(bounded(y.scale * LEVELS), quant.zero_point)
        narrowed = super().put(Requantize, DType.INT8, narrow, x=y)
        if y.type.quant != OUTPUT_OF_8_BITS:
            self.wide[narrowed] = y
        return narrowed

    def in_16_bits(self, name: str, held: Any) -> Any:
        """Returns operands in 16 bits, and other fields as they are."""
        if isinstance(held, tuple) and held and isinstance(held[0], Value):
            first = self.in_16_bits(name, held[0])
            return (first, *(self.of_scale(first.type.quant, v) for v in held[1:]))
        if not isinstance(held, Value) or held.dtype is not DType.INT8 or name in ("weights", "table"):
            return held
        quant = PerTensor(bounded(held.scale / LEVELS * self.choices.pick((1.0, 0.71))))
        if name == "b" and self.choices.one_in(2):  # what some ops need of both
            quant = next(reversed(self.wide.values()), held).type.quant
        return self.of_scale(quant, held)

    def of_scale(self, quant: Quant | None, held: Value) -> Value:
        """Returns a value in 16 bits: the one that it was made of, a constant, an input, or a conversion."""
        if held.is_constant:
            rng = np.random.default_rng(held.type.elements)
            data = held.constant.astype(np.int32) * LEVELS + rng.integers(0, LEVELS, held.shape)
            return constant_value(self.name("c"), data.astype(np.int16), quant)
        known = self.wide.get(held)
        if known is not None and (known.type.quant == quant or not self.choices.one_in(4)):
            return known
        if self.choices.one_in(8):
            return self.source(Value(self.name("x"), TensorType(held.shape, DType.INT16, quant)))
        made = super().put(Requantize, DType.INT16, quant, x=held, to=DType.INT16)
        self.wide.setdefault(held, made)
        return made

    def tried(self, cls: Any, type: TensorType, fields: dict[str, Any]) -> tuple[Any, Array]:
        """An op in 16 bits has the type of result that was drawn, and a kernel."""
        op, made = super().tried(cls, type, fields)
        is_wide = any(v.dtype is DType.INT16 for v in (*op.operands, op.y))
        if is_wide and (op.infer().dtype is not op.y.dtype or not has_kernel(op, self.arithmetic)):
            raise Unfit
        return op, made


def has_kernel(op: Op, arithmetic: Any) -> bool:
    try:
        choose_kernels(Graph("one", op.activations, (op,), op.results, arithmetic), Isa.SCALAR)
    except PillionError:
        return False
    return True


def finer(bias: Value, before: Value, x: Value) -> Value:
    """Returns a bias for an operand of another scale."""
    ratio = x.scale / before.scale
    data = np.clip(bias.constant / ratio, -(2**30), 2**30).astype(np.int32)
    quant: Any = bias.type.quant
    return constant_value(bias.name, data, type(quant)(tuple(s * ratio for s in quant.scales), quant.axis))
