# SPDX-License-Identifier: Apache-2.0
"""All rewrites before quantization, in order: those after which each operator is in canonical form, and those for
accuracy."""

from __future__ import annotations

from torch import Tensor
from torch.fx import GraphModule

from pillion.errors import PillionError
from pillion.host_io.torch_threads import one_thread
from pillion.importers.torch.fx_nodes import aten, calls, fake_result, source_line
from pillion.importers.torch.input_types import input_dtype
from pillion.importers.torch.loop_nodes import number_loops
from pillion.importers.torch.rewrite.batch_norm import fold_batch_norms, fold_factors
from pillion.importers.torch.rewrite.canonical_clamps import canonicalize_clamps
from pillion.importers.torch.rewrite.cast_float32 import cast_to_float32
from pillion.importers.torch.rewrite.common_type import widen_constants, widen_inputs
from pillion.importers.torch.rewrite.compare_select import lower_comparisons
from pillion.importers.torch.rewrite.computed_masks import lower_computed_masks
from pillion.importers.torch.rewrite.concat_constants import separate_constants
from pillion.importers.torch.rewrite.concat_stores import concatenate_adjacent_stores
from pillion.importers.torch.rewrite.constant_folding import (
    fold_constants,
    make_scalars_constants,
    use_linear,
)
from pillion.importers.torch.rewrite.decompose import decompose, decompose_late
from pillion.importers.torch.rewrite.find_transforms import find_transforms
from pillion.importers.torch.rewrite.fold_stores import fold_constant_stores, lower_fill_like
from pillion.importers.torch.rewrite.forward_slices import forward_slices
from pillion.importers.torch.rewrite.functionalize import functionalize, remove_identities
from pillion.importers.torch.rewrite.fuse_byte_functions import fuse_byte_functions
from pillion.importers.torch.rewrite.fuse_log_mels import fuse_log_mels
from pillion.importers.torch.rewrite.fuse_magnitudes import fuse_magnitudes
from pillion.importers.torch.rewrite.fuse_scalar_functions import fuse_expressions, fuse_functions
from pillion.importers.torch.rewrite.fuse_spectra import fuse_spectra
from pillion.importers.torch.rewrite.global_pools import global_pools_to_means, pools_to_depthwise
from pillion.importers.torch.rewrite.inline_subgraphs import inline_subgraphs
from pillion.importers.torch.rewrite.layer_biases import canonicalize_layer_constants
from pillion.importers.torch.rewrite.lower_complex import has_complex_numbers, lower_complex_numbers
from pillion.importers.torch.rewrite.lower_indexing import lower_indices
from pillion.importers.torch.rewrite.mask_rows import lower_masks
from pillion.importers.torch.rewrite.norm_calls import lower_norms
from pillion.importers.torch.rewrite.normalize_embeddings import normalize_embeddings
from pillion.importers.torch.rewrite.pixel_scaling import merge_pixel_scalings
from pillion.importers.torch.rewrite.recurrent import shrink_operands
from pillion.importers.torch.rewrite.reroll import reroll_loops
from pillion.importers.torch.rewrite.sums_to_linear import sums_to_linear
from pillion.importers.torch.rewrite.synonyms import drop_expansions, merge_moves, replace_synonyms
from pillion.importers.torch.train.folded_norms import make_trainable
from pillion.ir.constraints import QuantizationConstraints


@one_thread()
def rewrite_for_quantization(
    module: GraphModule, constraints: QuantizationConstraints | None = None, *, training: bool = False
) -> GraphModule:
    """Rewrites a module in place and returns it. With `training`, dropouts and batch norms stay and parameters are
    not folded."""
    _make_functional(module, training)
    _recognize_spectra(module, constraints, training)
    _canonicalize_operators(module, training)
    _recognize_loops(module, constraints, training)
    _lower_selections(module, training)
    _canonicalize_layers(module, training)
    _remove_unused(module)
    _refuse_empty(module)
    module.recompile()
    return module


def _make_functional(module: GraphModule, training: bool) -> None:
    """Replaces writes into tensors and other types of reals, and decomposes operators."""
    for node in module.graph.find_nodes(op="placeholder"):
        input_dtype(node)
    widen_inputs(module)
    inline_subgraphs(module)
    cast_to_float32(module)
    lower_fill_like(module)
    fold_constant_stores(module)
    functionalize(module, training=training)
    remove_identities(module, training=training)
    fuse_byte_functions(module)
    lower_norms(module)
    drop_expansions(module)
    shrink_operands(module)
    decompose(module)
    if functionalize(module, training=training):
        decompose(module)
    if calls(module.graph, [aten.copy.default]):  # through views that were decomposed
        decompose(module)


def _recognize_spectra(
    module: GraphModule, constraints: QuantizationConstraints | None, training: bool
) -> None:
    """Makes spectra and log-mel features one operator each, and lowers other complex numbers."""
    find_transforms(module, constraints, training=training)
    fuse_log_mels(module, constraints, training=training)
    fuse_spectra(module, constraints, training=training)
    if has_complex_numbers(module):
        fold_constants(module, training=training)
        replace_synonyms(module)
        lower_complex_numbers(module)
        decompose(module)


def _recognize_loops(
    module: GraphModule, constraints: QuantizationConstraints | None, training: bool
) -> None:
    """Makes loops of steps that were unrolled, and folds constants."""
    forward_slices(module)
    concatenate_adjacent_stores(module)
    reroll_loops(module, constraints or QuantizationConstraints())
    number_loops(module.graph)
    fold_constants(module, training=training)
    widen_constants(module)


def _lower_selections(module: GraphModule, training: bool) -> None:
    """Lowers comparisons, masks and indices, and makes expressions of one number one operator."""
    lower_comparisons(module)
    lower_computed_masks(module)
    fuse_expressions(module, training=training)
    lower_indices(module)
    if not training:
        normalize_embeddings(module)
    make_scalars_constants(module, training=training)
    lower_masks(module, training=training)


def _canonicalize_layers(module: GraphModule, training: bool) -> None:
    """Gives layers constants of one form, with norms and clamps folded into them."""
    use_linear(module, training=training)
    canonicalize_layer_constants(module, training=training)
    merge_pixel_scalings(module, training=training)
    if training:
        make_trainable(module)
    else:
        fold_batch_norms(module)
        fold_factors(module)
    if decompose_late(module):
        _canonicalize_operators(module, training)
        fold_constants(module, training=training)
    canonicalize_clamps(module, training=training)


def _remove_unused(module: GraphModule) -> None:
    module.graph.eliminate_dead_code()
    for node in module.graph.find_nodes(op="get_attr"):
        if not node.users:
            module.graph.erase_node(node)


def _canonicalize_operators(module: GraphModule, training: bool) -> None:
    """Canonicalizes synonyms and removes identities."""
    replace_synonyms(module)
    merge_moves(module)
    remove_identities(module, training=training)


def _refuse_empty(module: GraphModule) -> None:
    for node in calls(module.graph):
        value = fake_result(node)
        if isinstance(value, Tensor) and not value.numel():
            raise PillionError(
                "a tensor of the model has no elements",
                rule="tensors hold one number at least",
                here=f"{node.target} gives {list(value.shape)}  ({source_line(node)})",
                help="leave out what is made of it, or give inputs of another size",
            )


def accuracy_rewrites(
    module: GraphModule, constraints: QuantizationConstraints, *, calibrated: bool = True
) -> None:
    """Reduces the rounding errors of int8 in a module in canonical form; without calibration data, pools stay.
    Training does not use it."""
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
