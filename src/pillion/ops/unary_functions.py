# SPDX-License-Identifier: Apache-2.0
"""The named unary functions."""

from __future__ import annotations

from enum import Enum


class Function(Enum):
    """The functions of a `lut`; `clamp` reads low and high, `leaky_relu` and `elu` read alpha."""

    SIGMOID = "sigmoid"
    TANH = "tanh"
    HARDSIGMOID = "hardsigmoid"
    HARDSWISH = "hardswish"
    SILU = "silu"
    GELU = "gelu"
    GELU_TANH = "gelu_tanh"
    ELU = "elu"
    LEAKY_RELU = "leaky_relu"
    CLAMP = "clamp"
    EXP = "exp"
    LOG = "log"
    SQRT = "sqrt"
    RSQRT = "rsqrt"
    RECIPROCAL = "reciprocal"
    SQUARE = "square"
    ABS = "abs"
    NEG = "neg"
    SOFTPLUS = "softplus"
    TABLE = "table"

    @property
    def fixed_output(self) -> tuple[float, int] | None:
        """The result's scale and zero point if the function's range fixes them."""
        return {Function.SIGMOID: (1 / 256, -128), Function.TANH: (1 / 128, 0)}.get(self)
