# SPDX-License-Identifier: Apache-2.0
"""Conditions that many kernels have in common, as verdicts."""

from __future__ import annotations

from pillion.ir.numerics import Arithmetic
from pillion.ir.op import Op
from pillion.ir.types import DType, Value
from pillion.ir.verdict import Verdict


def int8(**values: Value) -> tuple[Verdict, ...]:
    """Judges whether operands and result are int8, as most kernels need."""
    return tuple(Verdict(name, v.dtype is DType.INT8, "int8", v.dtype.value) for name, v in values.items())


def orderly(**values: Value) -> tuple[Verdict, ...]:
    """Judges whether operands and result are int8 or booleans, bytes that compare as they are."""
    wanted = (DType.INT8, DType.BOOL)
    return tuple(
        Verdict(name, v.dtype in wanted, "int8 or bool", v.dtype.value) for name, v in values.items()
    )


def constants(**values: Value) -> tuple[Verdict, ...]:
    """Judges whether weights are known at compile time, for kernels that pack them."""
    return tuple(
        Verdict(name, v.is_constant, "a constant", "a constant" if v.is_constant else "computed")
        for name, v in values.items()
    )


def all_int8(op: Op, arithmetic: Arithmetic | None = None) -> tuple[Verdict, ...]:
    """Judges whether everything that is computed is int8, for kernels that know no other type."""
    return int8(**{v.name: v for v in dict.fromkeys((*op.activations, *op.results))})


def overwritable(op: Op, *operands: Value) -> tuple[Value, ...]:
    """Gives those of some operands whose memory a result of the same shape may take over."""
    return tuple(v for v in dict.fromkeys(operands) if not v.is_constant and v.shape == op.results[0].shape)
