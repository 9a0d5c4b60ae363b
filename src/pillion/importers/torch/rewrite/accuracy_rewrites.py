# SPDX-License-Identifier: Apache-2.0
"""Rewrites that reduce int8 rounding error. Training does not use them."""

from __future__ import annotations

from torch.fx import GraphModule

from pillion.importers.torch.rewrite.concat_constants import separate_constants
from pillion.importers.torch.rewrite.functionalize import remove_identities
from pillion.importers.torch.rewrite.fuse_magnitudes import fuse_magnitudes
from pillion.importers.torch.rewrite.fuse_scalar_functions import fuse_functions
from pillion.importers.torch.rewrite.global_pools import global_pools_to_means, pools_to_depthwise
from pillion.importers.torch.rewrite.sums_to_linear import sums_to_linear
from pillion.importers.torch.rewrite.synonyms import merge_moves
from pillion.ir.constraints import QuantizationConstraints


def accuracy_rewrites(
    module: GraphModule, constraints: QuantizationConstraints, *, calibrated: bool = True
) -> None:
    """Applies all accuracy rewrites to a module in canonical form; without calibration data, pools stay."""
    global_pools_to_means(module, constraints)
    if calibrated:
        pools_to_depthwise(module, constraints)
    separate_constants(module)
    sums_to_linear(module)
    merge_moves(module)
    remove_identities(module)
    module.graph.eliminate_dead_code()
    fuse_functions(module, constraints)
    fuse_magnitudes(module, constraints)
    module.recompile()
