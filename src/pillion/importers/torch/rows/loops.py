# SPDX-License-Identifier: Apache-2.0
"""Quantization of loop boundaries, which only pass tensors on. `import_loops.py` imports them."""

from __future__ import annotations

from dataclasses import replace

from pillion.importers.torch.loop_nodes import CARRIED, ELEMENT, LAST, STACKED
from pillion.importers.torch.rows.quantization import RULES, QuantizationRule
from pillion.ir.op import Quantization
from pillion.ops import Scan

_RULE = QuantizationRule(Scan.kind, Quantization.SHARED)
RULES.update({ELEMENT: _RULE, CARRIED: _RULE, STACKED: _RULE, LAST: replace(_RULE, operands=(0, 1))})
