# SPDX-License-Identifier: Apache-2.0
"""How the beginnings and ends of loops are quantized: they only hand tensors on. What becomes of them is in `repeats.py`."""

from __future__ import annotations

from pillion.importers.torch.loops import CARRIED, ELEMENT, LAST, STACKED
from pillion.importers.torch.rows.quantization import RULES, Rule
from pillion.ir.op import Quantization
from pillion.ops import Repeat

RULES.update(
    {
        ELEMENT: Rule(Repeat.kind, Quantization.SHARED),
        CARRIED: Rule(Repeat.kind, Quantization.SHARED),
        LAST: Rule(Repeat.kind, Quantization.SHARED, operands=(0, 1)),
        STACKED: Rule(Repeat.kind, Quantization.SHARED),
    }
)
