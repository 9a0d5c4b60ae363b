# SPDX-License-Identifier: Apache-2.0
"""The quantizer's table against the ops and against the importer's."""

from __future__ import annotations

from typing import Any

import pytest

from pillion.importers.torch.quantize import RULES
from pillion.importers.torch.rows import ROWS
from pillion.importers.torch.train.simulation import batch_norm
from pillion.ir.op import Quantization
from pillion.ops import KINDS


@pytest.mark.parametrize("target", RULES, ids=lambda t: str(t).split(" at ")[0])
def test_rules_are_those_of_the_ops(target: Any) -> None:
    rule = RULES[target]
    if rule.kind == "lut":
        assert (rule.quantization is Quantization.FIXED) == (rule.fixed is not None)
    else:
        assert rule.quantization is KINDS[rule.kind].quantization


@pytest.mark.parametrize("target", RULES, ids=lambda t: str(t).split(" at ")[0])
def test_what_is_quantized_can_be_imported(target: Any) -> None:
    assert target in ROWS or target is batch_norm
