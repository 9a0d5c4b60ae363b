# SPDX-License-Identifier: Apache-2.0
"""Quantization of loop boundaries, which only pass tensors on. `import_loops.py` imports them."""

from __future__ import annotations

from pillion.importers.torch.loop_nodes import CARRIED, ELEMENT, LAST, STACKED
from pillion.importers.torch.rows.quantization import RULES, QuantizationRule
from pillion.ir.op import Quantization
from pillion.ops import Scan

RULES.update(
    {
        ELEMENT: QuantizationRule(Scan.kind, Quantization.SHARED),
        CARRIED: QuantizationRule(Scan.kind, Quantization.SHARED),
        LAST: QuantizationRule(Scan.kind, Quantization.SHARED, operands=(0, 1)),
        STACKED: QuantizationRule(Scan.kind, Quantization.SHARED),
    }
)
