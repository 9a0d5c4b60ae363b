# SPDX-License-Identifier: Apache-2.0
"""Everything that is rewritten before quantization, in order: afterwards each thing is written in one way."""

from __future__ import annotations

from torch import Tensor
from torch.fx import GraphModule

from pillion.errors import PillionError
from pillion.importers.torch.inputs import input_dtype
from pillion.importers.torch.loops import number_loops
from pillion.importers.torch.nodes import aten, calls, source_line, value_of
from pillion.importers.torch.rewrite.batch_norm import fold_batch_norms
from pillion.importers.torch.rewrite.canonical import canonicalize, drop_expansions, join_moves
from pillion.importers.torch.rewrite.choosing import settle_choices
from pillion.importers.torch.rewrite.clamps import normalize_clamps
from pillion.importers.torch.rewrite.complex_numbers import has_complex_numbers, settle_complex_numbers
from pillion.importers.torch.rewrite.constants import fold_constants, make_scalars_constants, use_linear
from pillion.importers.torch.rewrite.decompose import decompose, decompose_late
from pillion.importers.torch.rewrite.expressions import join_expressions
from pillion.importers.torch.rewrite.filled import join_filled
from pillion.importers.torch.rewrite.functional import make_functional, remove_identities
from pillion.importers.torch.rewrite.indexing import settle_indices
from pillion.importers.torch.rewrite.layer_biases import settle_biases
from pillion.importers.torch.rewrite.mask_rows import settle_masks
from pillion.importers.torch.rewrite.masked_scores import settle_masked_scores
from pillion.importers.torch.rewrite.normed_tables import norm_tables
from pillion.importers.torch.rewrite.read_through import read_through
from pillion.importers.torch.rewrite.recurrent import settle_operands
from pillion.importers.torch.rewrite.rolled import roll_steps
from pillion.importers.torch.rewrite.scopes import inline_scopes
from pillion.importers.torch.rewrite.single_precision import use_single_precision
from pillion.importers.torch.rewrite.spelling import widen_constants, widen_inputs
from pillion.importers.torch.rewrite.standardized import settle_norms
from pillion.importers.torch.rewrite.written import settle_likenesses, settle_written_constants
from pillion.importers.torch.train.norms import make_trainable
from pillion.ir.wishes import Wishes
from pillion.outside.threads import one_thread


@one_thread()
def normalize(module: GraphModule, wishes: Wishes | None = None, *, training: bool = False) -> GraphModule:
    """Rewrites in place and returns the module. With `training`, dropouts and batch norms stay, and parameters are no
    constants, so that the result can still be trained."""
    for node in module.graph.find_nodes(op="placeholder"):
        input_dtype(node)
    widen_inputs(module)
    inline_scopes(module)
    use_single_precision(module)
    settle_likenesses(module)
    settle_written_constants(module)
    make_functional(module, training=training)
    remove_identities(module, training=training)
    settle_norms(module)
    drop_expansions(module)
    settle_operands(module)
    decompose(module)
    if make_functional(module, training=training):
        decompose(module)
    if calls(module.graph, [aten.copy.default]):  # through views that were decomposed
        decompose(module)
    if has_complex_numbers(module):
        fold_constants(module, training=training)
        settle_complex_numbers(module)
        decompose(module)
    _spell(module, training)
    read_through(module)
    join_filled(module)
    roll_steps(module, wishes or Wishes())
    number_loops(module.graph)
    fold_constants(module, training=training)
    widen_constants(module)
    settle_choices(module)
    settle_masked_scores(module)
    join_expressions(module, training=training)
    settle_indices(module)
    if not training:
        norm_tables(module)
    make_scalars_constants(module, training=training)
    settle_masks(module, training=training)
    use_linear(module, training=training)
    settle_biases(module, training=training)
    if training:
        make_trainable(module)
    else:
        fold_batch_norms(module)
    if decompose_late(module):
        _tidy(module, training)
    normalize_clamps(module, training=training)
    module.graph.eliminate_dead_code()
    _drop_unused_inputs(module)
    _refuse_empty(module)
    module.recompile()
    return module


def _tidy(module: GraphModule, training: bool) -> None:
    """Each thing in one spelling, and what depends on no input computed."""
    _spell(module, training)
    fold_constants(module, training=training)


def _spell(module: GraphModule, training: bool) -> None:
    """Each thing in one spelling, and nothing that does nothing."""
    canonicalize(module)
    join_moves(module)
    remove_identities(module, training=training)


def _drop_unused_inputs(module: GraphModule) -> None:
    """Constants that nobody reads any more."""
    for node in module.graph.find_nodes(op="get_attr"):
        if not node.users:
            module.graph.erase_node(node)


def _refuse_empty(module: GraphModule) -> None:
    for node in calls(module.graph):
        value = value_of(node)
        if isinstance(value, Tensor) and not value.numel():
            raise PillionError(
                "a tensor of the model has no elements",
                rule="tensors hold one number at least",
                here=f"{node.target} gives {list(value.shape)}  ({source_line(node)})",
                help="leave out what is made of it, or give inputs of another size",
            )
