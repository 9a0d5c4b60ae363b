# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pillion.ir.graph import Graph, UniqueNames, rewrite
from pillion.ir.op import Op
from pillion.ir.types import PerTensor, TensorType, Value
from pillion.ops import Lut, Requantize


def legalize_functions(graph: Graph) -> Graph:
    """Computes sigmoid and tanh in the steps that TFLite fixes (1/256, 1/128), and requantizes their results."""
    names = UniqueNames(list(graph.values))
    return rewrite(graph, lambda _, op: _requantized(op, names))


def _requantized(op: Op, names: UniqueNames) -> list[Op] | None:
    fixed = op.function.fixed_output if isinstance(op, Lut) else None
    if not isinstance(op, Lut) or fixed is None or op.y.type.quant in (PerTensor(*fixed), None):
        return None
    fixed_value = Value(
        names.fresh(f"{op.y.name}_usual"), TensorType(op.y.shape, op.y.dtype, PerTensor(*fixed))
    )
    return [op.substitute({op.y: fixed_value}), Requantize(x=fixed_value, y=op.y, source=op.source)]
