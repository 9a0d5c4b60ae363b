# SPDX-License-Identifier: Apache-2.0
"""Pillion inside ExecuTorch's flow; needs the extra `executorch`. `PillionQuantizer` annotates for a target,
`PillionPartitioner` compiles what it can of a converted program to delegates, and `PillionRecipeType` names a recipe of
ExecuTorch's `export` with both."""

from importlib.util import find_spec

from pillion.errors import PillionError

if find_spec("executorch") is None:
    raise PillionError(
        "ExecuTorch is not installed",
        rule="pillion.executorch belongs to the extra `executorch`",
        here="import pillion.executorch",
        help="pip install 'pillion[executorch]'",
    )

from pillion.executorch.backend import PillionBackend
from pillion.executorch.partitioner import PillionPartitioner
from pillion.executorch.quantizer import PillionQuantizer
from pillion.executorch.recipe import PillionRecipeType

__all__ = ["PillionBackend", "PillionPartitioner", "PillionQuantizer", "PillionRecipeType"]
