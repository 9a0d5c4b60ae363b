# SPDX-License-Identifier: Apache-2.0
"""Forms of the same computation that round less in int8. They are those of the quantizer; in training a model computes what is written."""

from __future__ import annotations

from torch.fx import GraphModule

from pillion.importers.torch.rewrite.canonical import join_moves
from pillion.importers.torch.rewrite.expressions import join_functions
from pillion.importers.torch.rewrite.functional import remove_identities
from pillion.importers.torch.rewrite.joined_constants import add_joined_constants
from pillion.importers.torch.rewrite.magnitudes import use_magnitudes
from pillion.importers.torch.rewrite.pools import scale_pools
from pillion.importers.torch.rewrite.weighted_sums import use_weighted_sums
from pillion.ir.wishes import Wishes


def finer_forms(module: GraphModule, wishes: Wishes) -> None:
    """Rewrites a normalized module into such forms."""
    scale_pools(module, wishes)
    add_joined_constants(module)
    use_weighted_sums(module)
    join_moves(module)
    remove_identities(module)
    module.graph.eliminate_dead_code()
    join_functions(module, wishes)
    use_magnitudes(module, wishes)
    module.recompile()
