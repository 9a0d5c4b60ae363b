# SPDX-License-Identifier: Apache-2.0
"""How operators are quantized, against the ops and against what the operators become."""

from __future__ import annotations

from typing import Any

import pytest

from pillion.importers.torch.loops import CARRIED, ELEMENT, LAST, STACKED
from pillion.importers.torch.quantize import RULES
from pillion.importers.torch.rows import ROWS
from pillion.importers.torch.rows.table import lowers
from pillion.importers.torch.train.simulation import batch_norm
from pillion.ir.op import Quantization
from pillion.ops import KINDS

ENDS_OF_LOOPS = (ELEMENT, CARRIED, LAST, STACKED)


@pytest.mark.parametrize("target", RULES, ids=lambda t: str(t).split(" at ")[0])
def test_rules_are_those_of_the_ops(target: Any) -> None:
    rule = RULES[target]
    if target in ENDS_OF_LOOPS:
        assert rule.quantization is Quantization.SHARED, "what is handed on keeps its parameters"
    elif rule.kind == "lut":
        assert (rule.quantization is Quantization.FIXED) == (rule.fixed is not None)
    else:
        assert rule.quantization is KINDS[rule.kind].quantization


def test_what_is_quantized_can_be_imported_and_nothing_else() -> None:
    """A batch norm is one of training, which is gone when a graph is imported; ends of loops go into an op that runs its own graph."""
    assert set(RULES) - {batch_norm, *ENDS_OF_LOOPS} == set(ROWS)
    assert set(ENDS_OF_LOOPS) <= set(RULES)


def test_a_row_says_how_it_is_quantized() -> None:
    with pytest.raises(TypeError, match="quantized"):
        lowers(object())  # type: ignore[call-arg]  # that is the mistake
