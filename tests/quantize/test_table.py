# SPDX-License-Identifier: Apache-2.0
"""The quantizer's table against the ops and against the importer's."""

from __future__ import annotations

from typing import Any

import pytest

from pillion.importers.aten_more import ROWS
from pillion.ir.op import Quantization
from pillion.ops import KINDS
from pillion.quantize import RULES

NO_OP_YET = {"gather"}


@pytest.mark.parametrize("target", RULES, ids=str)
def test_rules_are_those_of_the_ops(target: Any) -> None:
    rule = RULES[target]
    if rule.kind in NO_OP_YET:
        assert rule.kind not in KINDS
    elif rule.kind == "lut":
        assert (rule.quantization is Quantization.FIXED) == (rule.fixed is not None)
    else:
        assert rule.quantization is KINDS[rule.kind].quantization


@pytest.mark.parametrize("target", RULES, ids=str)
def test_what_is_quantized_can_be_imported(target: Any) -> None:
    assert target in ROWS or RULES[target].kind in NO_OP_YET
