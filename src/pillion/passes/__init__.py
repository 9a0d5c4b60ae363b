# SPDX-License-Identifier: Apache-2.0
"""Graph passes, one per file: each is a function Graph → Graph, and its docstring is its page in the docs.
`PIPELINE` is their order."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from pillion.ir.graph import Graph
from pillion.ir.verify import verify_graph
from pillion.ops import Scan, has_repeats
from pillion.passes.canonicalize_multipliers import canonicalize_multipliers
from pillion.passes.compose_magnitudes import compose_magnitudes
from pillion.passes.compose_norms import compose_norms
from pillion.passes.convert_to_integer import convert_to_integer
from pillion.passes.crop_padding import crop_padding
from pillion.passes.decompose_silu import decompose_silu
from pillion.passes.demote_sums import demote_sums
from pillion.passes.drop_identities import drop_identities
from pillion.passes.drop_padded_taps import drop_padded_taps
from pillion.passes.flatten_linear import flatten_linear
from pillion.passes.fold_constants import fold_constants
from pillion.passes.fold_pad import fold_pad
from pillion.passes.hoist_quantize import hoist_quantize
from pillion.passes.hoist_transpose import hoist_transpose
from pillion.passes.int8_io import int8_io, int16_io
from pillion.passes.int8_states import int8_states
from pillion.passes.legalize_embedding_bags import legalize_embedding_bags
from pillion.passes.legalize_for_runtime import legalize_for_runtime
from pillion.passes.legalize_functions import legalize_functions
from pillion.passes.legalize_nearest import legalize_nearest
from pillion.passes.legalize_softmax import legalize_softmax
from pillion.passes.materialize_constants import materialize_constants
from pillion.passes.merge_duplicates import merge_duplicates
from pillion.passes.merge_movement import merge_movement
from pillion.passes.merge_rescaled import merge_rescaled
from pillion.passes.per_channel_requantize import per_channel_requantize
from pillion.passes.recover_scales import recover_scales
from pillion.passes.rescale_sums import rescale_sums
from pillion.passes.split_flips import split_flips
from pillion.passes.split_groups import split_groups
from pillion.passes.split_reductions import split_reductions
from pillion.passes.sum_hard_sigmoids import sum_hard_sigmoids
from pillion.passes.transpose_product import transpose_product
from pillion.passes.uint8_io import uint8_io

__all__ = [
    "AFTER_STREAMING",
    "PIPELINE",
    "Pass",
    "Watch",
    "apply",
    "canonicalize_multipliers",
    "clean_up_unrolled",
    "compose_magnitudes",
    "compose_norms",
    "decompose_silu",
    "demote_sums",
    "int8_io",
    "int16_io",
    "legalize_embedding_bags",
    "legalize_for_runtime",
    "legalize_functions",
    "legalize_nearest",
    "legalize_softmax",
    "materialize_constants",
    "per_channel_requantize",
    "recover_scales",
    "rescale_sums",
    "run",
    "split_flips",
    "split_groups",
    "split_reductions",
    "sum_hard_sigmoids",
    "uint8_io",
]

Pass = Callable[[Graph], Graph]
Watch = Callable[[str, Graph], None]
"""Called after each pass with the pass's name and the graph that it returned."""

PIPELINE: tuple[Pass, ...] = (
    merge_duplicates,
    hoist_quantize,
    convert_to_integer,
    int8_states,
    merge_rescaled,
    drop_identities,
    fold_constants,
    hoist_transpose,
    merge_movement,
    transpose_product,
    flatten_linear,
    fold_pad,
    crop_padding,
    drop_padded_taps,
    merge_movement,
    merge_duplicates,
)

AFTER_STREAMING: tuple[Pass, ...] = (merge_movement, merge_duplicates)
"""Passes that clean up after `streams` made tensors smaller."""


def clean_up_unrolled(graph: Graph) -> Graph:
    """Cleans up after a loop was unrolled: folds what the first step computes from constants, and merges
    movement."""
    return merge_movement(fold_constants(graph))


def _apply_to_loop_bodies(graph_pass: Pass, graph: Graph) -> Graph:
    """Applies a pass to the bodies of loops."""
    ops = [
        dataclasses.replace(op, body=graph_pass(_apply_to_loop_bodies(graph_pass, op.body)))
        if isinstance(op, Scan)
        else op
        for op in graph.ops
    ]
    return graph.replace(ops=tuple(ops)) if has_repeats(graph) else graph


def run(graph: Graph, passes: tuple[Pass, ...] = PIPELINE, watch: Watch | None = None) -> Graph:
    """Runs passes in order and verifies the graph before and after each one."""
    verify_graph(graph, "import")
    for graph_pass in passes:
        graph = apply(graph_pass, graph, watch)
    return graph


def apply(one: Pass, graph: Graph, watch: Watch | None = None) -> Graph:
    """Runs a pass, also in the bodies of loops, and verifies the graph after it."""
    graph = verify_graph(one(_apply_to_loop_bodies(one, graph)), one.__name__)
    if watch:
        watch(one.__name__, graph)
    return graph
