# SPDX-License-Identifier: Apache-2.0
"""Functions of one number that have no name among ours: torch itself fills their table."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from pillion.importers.aten import aten, lowers, refuse
from pillion.importers.aten_more import ROWS
from pillion.importers.layout import Builder, Placed
from pillion.ir import numerics
from pillion.ir.types import DType, PerTensor, Value, constant
from pillion.ops import Dequantize, Lut

TABULATED = (
    aten.atan.default,
    aten.celu.default,
    aten.cos.default,
    aten.erf.default,
    aten.exp2.default,
    aten.expm1.default,
    aten.floor.default,
    aten.hardshrink.default,
    aten.log1p.default,
    aten.log2.default,
    aten.log_sigmoid.default,
    aten.mish.default,
    aten.pow.Tensor_Scalar,
    aten.round.default,
    aten.selu.default,
    aten.sign.default,
    aten.sin.default,
    aten.softshrink.default,
    aten.threshold.default,
)


__all__ = ["ROWS", "TABULATED"]


@lowers(*TABULATED)
def tabulated(b: Builder, x: Placed, *_: Any, **__: Any) -> Placed:
    """The function on all 256 values of its operand, rounded to the parameters of its result."""
    known = next((op for op in reversed(b.ops) if isinstance(op, Dequantize) and op.y is x.value), None)
    output = _output_quant(b.node)
    if known is None or output is None:
        raise refuse(f"{b.node.target} stays in float", "operand and result are quantized", b.node.name)
    table = constant(b.names.fresh(f"{b.hint}_table"), _entries(b.node, known.x, output))
    integers = b.emit(Lut, x=known.x, table=table, dtype=DType.INT8, quant=output, name=f"{b.hint}_i8")
    return x.with_value(b.emit(Dequantize, x=integers))


def _output_quant(node: Any) -> PerTensor | None:
    """The parameters of the one quantize that reads the result."""
    users = list(node.users)
    if len(users) != 1 or users[0].target is not torch.ops.quantized_decomposed.quantize_per_tensor.default:
        return None
    return PerTensor(float(users[0].args[1]), int(users[0].args[2]))


def _entries(node: Any, x: Value, output: PerTensor) -> np.ndarray[Any, np.dtype[np.int8]]:
    reals = torch.from_numpy((np.arange(-128, 128) - x.zero_point) * np.float64(x.scale))
    with torch.no_grad():
        values = node.target(reals, *node.args[1:], **node.kwargs).numpy()
    with np.errstate(all="ignore"):
        levels = numerics.round_half_away(values / output.scale + output.zero_point)
    return numerics.saturate(np.nan_to_num(levels, nan=-128, posinf=127, neginf=-128), -128, 127)
