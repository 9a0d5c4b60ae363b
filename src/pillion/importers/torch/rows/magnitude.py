# SPDX-License-Identifier: Apache-2.0
"""Row of functions of a sum of two squares."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from pillion.importers.torch.layout import Builder, LayoutValue
from pillion.importers.torch.rows.elementwise import broadcast_operands
from pillion.importers.torch.rows.quantization import rule_of_op
from pillion.importers.torch.rows.table import lowers, unsupported_call_error
from pillion.importers.torch.rows.unary import output_quant
from pillion.importers.torch.scalar_function import Step, evaluate_on_squares
from pillion.ir.types import constant_value
from pillion.ops import Magnitude
from pillion.ops.magnitude import Reals, tabulate_thresholds


@lowers(evaluate_on_squares, quantized=rule_of_op(Magnitude, operands=(0, 1)))
def magnitude_of(b: Builder, first: LayoutValue, second: LayoutValue, steps: tuple[Step, ...]) -> LayoutValue:
    """Lowers to an op with the thresholds of its function, in steps of its result."""
    output = output_quant(b.node)
    if output is None:
        raise unsupported_call_error(
            "a sum of two squares stays in float",
            "operands and result are quantized",
            b.node.name,
            "compile the float model: pillion quantizes it",
        )

    def function(x: Reals) -> Reals:
        real, none = torch.from_numpy(np.sqrt(np.maximum(x, 0))), torch.zeros((), dtype=torch.float64)
        with torch.no_grad():
            result: Any = evaluate_on_squares(real, none, steps)
        return np.asarray(result.numpy(), np.float64)

    table, at_zero, falls = tabulate_thresholds(function, output)
    (left, right), order = broadcast_operands(b, first, second)
    thresholds = b.constant(constant_value(b.names.fresh(f"{b.hint}_thresholds"), table))
    y = b.emit(Magnitude, a=left, b=right, thresholds=thresholds, first=at_zero, falls=falls)
    return LayoutValue(y, order)
