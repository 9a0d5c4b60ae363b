# SPDX-License-Identifier: Apache-2.0
"""What becomes of PyTorch's operators: the tables of this folder in words, for the command line and the docs."""

from __future__ import annotations

from typing import Any

from torch._ops import OpOverload

from pillion.importers.torch.expression import expression, magnitude
from pillion.importers.torch.loops import LOOP_ARGUMENT
from pillion.importers.torch.rewrite.canonical import SYNONYMS
from pillion.importers.torch.rewrite.complex_numbers import FORMS as OF_PAIRS
from pillion.importers.torch.rewrite.decompose import KEPT
from pillion.importers.torch.rewrite.functional import CASTS, DROPOUTS, SAME_VALUES
from pillion.importers.torch.rewrite.recurrent import LAYERS
from pillion.importers.torch.rewrite.standardized import (
    OPERATORS,
    standardized,
    standardized_groups,
)
from pillion.importers.torch.rewrite.tensor_forms import FORMS
from pillion.importers.torch.rows.quantization import RULES
from pillion.importers.torch.rows.reasons import REASONS, WITH_A_NUMBER
from pillion.importers.torch.train.simulation import batch_norm
from pillion.ops import Standardize

COLUMNS = ("operator", "becomes")
NOTHING = "nothing; a change of type is refused"
MADE_OF_OTHERS = "others, of which it is made"
OF_COMPLEX_NUMBERS = "pairs of real numbers: see docs/guide/numbers.md"
WITH_ONE_NUMBER = "lut, if one operand is one constant number"
MADE_OF_OTHERS_OR_A_TABLE = f"{WITH_ONE_NUMBER}; else {MADE_OF_OTHERS}"


def pytorch_operators() -> list[dict[str, str]]:
    """Lists each operator with what it becomes, in the order of the alphabet. What torch itself makes of others is not listed."""
    becomes = {
        _name(target): f"refused: {REASONS.get(target, 'no int8 form')}" for target in (*KEPT, *REASONS)
    }
    becomes |= {_name(target): NOTHING for target in (*DROPOUTS, *SAME_VALUES, *CASTS)}
    becomes |= {_name(target): MADE_OF_OTHERS for target in OF_PAIRS if _name(target) not in becomes}
    becomes |= {_name(target): OF_COMPLEX_NUMBERS for target in OF_PAIRS if target in REASONS}
    becomes |= {_name(target): WITH_ONE_NUMBER for target in WITH_A_NUMBER}
    becomes |= {_name(target): MADE_OF_OTHERS for target in (*FORMS, *SYNONYMS)}
    becomes |= {_name(target): MADE_OF_OTHERS_OR_A_TABLE for target in WITH_A_NUMBER if target in FORMS}
    becomes |= dict.fromkeys(map(_name, LAYERS), "repeat, a loop over one step")
    becomes |= dict.fromkeys(map(_name, OPERATORS), Standardize.kind)
    own = {*LOOP_ARGUMENT, expression, magnitude, standardized, standardized_groups}
    becomes |= {_name(target): rule.kind for target, rule in RULES.items() if target not in own}
    becomes[_name(batch_norm)] = "the layer before it, or depthwise_conv2d"
    public = sorted(name for name in becomes if not name.startswith("_"))
    return [{"operator": name, "becomes": becomes[name]} for name in public]


def _name(target: Any) -> str:
    return target.overloadpacket.__name__ if isinstance(target, OpOverload) else target.__name__
