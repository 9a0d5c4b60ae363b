# SPDX-License-Identifier: Apache-2.0
"""How ops of layers that remember get their operands: what they remember is an input of 16 bits."""

from __future__ import annotations

from typing import Any

import numpy as np

from fuzz.grow import Grower
from pillion.ir.op import Op
from pillion.ir.types import DType, PerChannel, PerTensor, Shape, TensorType, Value, constant_value
from pillion.ops import LstmCell, LstmOutput, SvdfMemory, SvdfOutput

SIZES = (5, 1, 8, 3, 17, 33)


def remembered(grower: Grower, shape: Shape, scale: float) -> Value:
    """Numbers of 16 bits, which are an input."""
    return grower.source(Value(grower.name("held"), TensorType(shape, DType.INT16, PerTensor(scale))))


def step(grower: Grower, cls: type[LstmCell] | type[LstmOutput]) -> Value:
    x = grower.held(2)
    batch, cells = x.shape[0], grower.choices.pick(SIZES)
    h = grower.input((batch, cells))
    c = remembered(grower, (batch, cells), grower.choices.pick((2.0**-11, 2.0**-9, 2.0**-15)))
    rows, rng = cls.gates * cells, np.random.default_rng(grower.choices.integer(0, 999))
    scales = np.repeat(rng.uniform(0.002, 0.02, cls.gates), cells)
    held = {
        name: constant_value(
            grower.name("w"), grower.levels((rows, width)), PerChannel(tuple(scales.tolist()), 0)
        )
        for name, width in (("input_weights", x.shape[1]), ("recurrent_weights", cells))
    }
    bias = constant_value(grower.name("bias"), rng.integers(-3000, 3000, rows).astype(np.int32))
    operands: dict[str, Any] = {"x": x, "h": h, "c": c, **held, "bias": bias}
    if cls is LstmCell:
        clip = grower.choices.pick((0, 0, 1000))
        return grower.put(cls, DType.INT16, c.type.quant, **operands, clip=clip)
    return grower.put(cls, DType.INT8, PerTensor(2.0**-7, grower.choices.pick((0, -128, 9))), **operands)


def moved_on(grower: Grower, cls: type[SvdfMemory]) -> Value:
    x = grower.held(2)
    filters = grower.choices.pick(SIZES)
    memory = remembered(grower, (x.shape[0], filters * grower.choices.pick((1, 2, 5))), 0.0008)
    weights = constant_value(grower.name("w"), grower.levels((filters, x.shape[1])), PerTensor(0.011))
    return grower.put(cls, DType.INT16, memory.type.quant, x=x, memory=memory, weights=weights)


def weighed(grower: Grower, cls: type[SvdfOutput]) -> Value:
    units, rank, length = (grower.choices.pick(s) for s in (SIZES, (1, 2), (1, 2, 5)))
    memory = remembered(grower, (grower.choices.pick((1, 2)), units * rank * length), 0.0008)
    rng = np.random.default_rng(grower.choices.integer(0, 999))
    reach = grower.choices.pick((900, 2**15 - 1))
    data = rng.integers(-reach, reach, (units * rank, length)).astype(np.int16)
    bias = constant_value(grower.name("bias"), rng.integers(-9000, 9000, units).astype(np.int32))
    quant = PerTensor(grower.choices.pick((0.25, 0.71)), grower.choices.pick((0, -128, 9)))
    weights = constant_value(grower.name("w"), data, PerTensor(0.0011))
    return grower.put(cls, DType.INT8, quant, memory=memory, weights=weights, bias=bias)


RECIPES: dict[type[Op], Any] = {
    LstmCell: step,
    LstmOutput: step,
    SvdfMemory: moved_on,
    SvdfOutput: weighed,
}
