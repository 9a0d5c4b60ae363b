# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pillion.ir.graph import Graph
from pillion.ir.op import Op
from pillion.ir.size_limits import LARGEST
from pillion.ir.types import PerChannel, Value, constant_value


def fold_constants(graph: Graph) -> Graph:
    """Evaluates ops whose operands are all constant."""
    known: dict[Value, Value] = {}
    ops: list[Op] = []
    folded = 0
    for op in graph.ops:
        op = op.substitute(known)
        if (
            op.operands
            and not op.activations
            and not any(isinstance(v.type.quant, PerChannel) for v in op.operands)
        ):
            folded += op.results[0].type.size_bytes
            if max(folded, op.macs) > LARGEST:
                raise op.refuse(
                    f"what depends on no input has at most {LARGEST} bytes and products", repr(op.results[0])
                )
            result = op.reference(graph.arithmetic, *(v.constant for v in op.operands))
            known[op.results[0]] = constant_value(op.name, result, op.results[0].type.quant)
        else:
            ops.append(op)
    return graph.with_ops(ops, known)
