# SPDX-License-Identifier: Apache-2.0
"""Lists how each PyTorch operator is imported, for the command line and the docs."""

from __future__ import annotations

from typing import Any

from torch._ops import OpOverload

from pillion.importers.torch.rewrite.decompose import KEPT
from pillion.importers.torch.rewrite.decompositions.table import TABLE
from pillion.importers.torch.rewrite.functionalize import CASTS, DROPOUTS, SAME_VALUES
from pillion.importers.torch.rewrite.lower_complex import LOWERINGS as COMPLEX_LOWERINGS
from pillion.importers.torch.rewrite.norm_calls import OPERATORS
from pillion.importers.torch.rewrite.recurrent import LAYERS
from pillion.importers.torch.rewrite.synonyms import SYNONYMS
from pillion.importers.torch.rows.quantization import RULES
from pillion.importers.torch.rows.refusal_reasons import REASONS, WITH_CONSTANT_OPERAND
from pillion.importers.torch.train.batch_norm_calls import batch_norm
from pillion.ops import Normalize

COLUMNS = ("operator", "becomes")
NOTHING = "nothing; a change of type is refused"
DECOMPOSED = "decomposed into other operators"
OF_COMPLEX_NUMBERS = "pairs of real numbers: see docs/guide/numbers.md"
WITH_ONE_NUMBER = "lut, if one operand is one constant number"
DECOMPOSED_OR_TABLE = f"{WITH_ONE_NUMBER}; else {DECOMPOSED}"


def pytorch_operators() -> list[dict[str, str]]:
    """Returns each operator with the op that it becomes, sorted by name. Operators that torch itself decomposes
    are not listed."""
    becomes = {
        _operator_name(target): f"refused: {REASONS.get(target, 'no int8 form')}"
        for target in (*KEPT, *REASONS)
    }
    becomes |= {_operator_name(target): NOTHING for target in (*DROPOUTS, *SAME_VALUES, *CASTS)}
    becomes |= {
        _operator_name(target): DECOMPOSED
        for target in COMPLEX_LOWERINGS
        if _operator_name(target) not in becomes
    }
    becomes |= {
        _operator_name(target): OF_COMPLEX_NUMBERS for target in COMPLEX_LOWERINGS if target in REASONS
    }
    becomes |= {_operator_name(target): WITH_ONE_NUMBER for target in WITH_CONSTANT_OPERAND}
    becomes |= {_operator_name(target): DECOMPOSED for target in (*TABLE, *SYNONYMS)}
    becomes |= {
        _operator_name(target): DECOMPOSED_OR_TABLE for target in WITH_CONSTANT_OPERAND if target in TABLE
    }
    becomes |= dict.fromkeys(map(_operator_name, LAYERS), "scan, a loop over one step")
    becomes |= dict.fromkeys(map(_operator_name, OPERATORS), Normalize.kind)
    public = [t for t in RULES if isinstance(t, OpOverload) and t.namespace != "pillion"]
    becomes |= {_operator_name(target): RULES[target].kind for target in public}
    becomes[_operator_name(batch_norm)] = "the layer before it, or depthwise_conv2d"
    names = sorted(name for name in becomes if not name.startswith("_"))
    return [{"operator": name, "becomes": becomes[name]} for name in names]


def _operator_name(target: Any) -> str:
    """Returns the name of an operator, with its namespace if it is not PyTorch's own."""
    if not isinstance(target, OpOverload):
        return str(target.__name__)
    packet = target.overloadpacket
    return packet.__name__ if target.namespace == "aten" else f"{target.namespace}::{packet.__name__}"
