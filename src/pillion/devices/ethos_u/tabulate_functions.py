# SPDX-License-Identifier: Apache-2.0
"""A pass before partitioning: activations that Vela does not know become tables, which the NPU looks up."""

from __future__ import annotations

from pillion.devices.ethos_u import limits
from pillion.ir.rewriting import Replacement, RewriteSweep, rewrite_pass
from pillion.ir.types import DType, constant_value
from pillion.ops import Function, Lut


@rewrite_pass(Lut)
def tabulate_functions(op: Lut, at: RewriteSweep) -> Replacement:
    """Turns activations without an exact TFLite operator into the tables that they are, for NPUs with lookup tables."""
    is_known = op.function not in limits.TABULATED or op.y.dtype is DType.INT16
    if is_known or not limits.can_exchange_tables():
        return None
    table = constant_value(at.names.fresh(f"{op.name}_table"), op.entries(at.graph.arithmetic))
    return [Lut(x=op.x, y=op.y, table=table, function=Function.TABLE, source=op.source)]
