# SPDX-License-Identifier: Apache-2.0
"""One pass per file, each a function Graph → Graph whose docstring says what it does; `PIPELINE` is their order."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from pillion.ir.graph import Graph
from pillion.ir.verify import verify
from pillion.ops import Repeat, has_repeats
from pillion.passes.compose_magnitudes import compose_magnitudes
from pillion.passes.compose_norms import compose_norms
from pillion.passes.crop_padding import crop_padding
from pillion.passes.drop_idle import drop_idle
from pillion.passes.flatten_linear import flatten_linear
from pillion.passes.fold_constants import fold_constants
from pillion.passes.fold_pad import fold_pad
from pillion.passes.for_others import for_others
from pillion.passes.int8_io import int8_io
from pillion.passes.int8_states import int8_states
from pillion.passes.integer import integer
from pillion.passes.merge_duplicates import merge_duplicates
from pillion.passes.merge_movement import merge_movement
from pillion.passes.merge_rescaled import merge_rescaled
from pillion.passes.narrow_sums import narrow_sums
from pillion.passes.plain_bags import plain_bags
from pillion.passes.plain_nearest import plain_nearest
from pillion.passes.quantize_early import quantize_early
from pillion.passes.rescale_sums import rescale_sums
from pillion.passes.split_groups import split_groups
from pillion.passes.spread_multipliers import spread_multipliers
from pillion.passes.sum_hard_sigmoids import sum_hard_sigmoids
from pillion.passes.sums_of_one_axis import sums_of_one_axis
from pillion.passes.transpose_early import transpose_early
from pillion.passes.transpose_product import transpose_product
from pillion.passes.uint8_io import uint8_io
from pillion.passes.usual_multipliers import usual_multipliers
from pillion.passes.usual_softmaxes import usual_softmaxes
from pillion.passes.write_constants import write_constants

__all__ = [
    "AFTER_CUTTING",
    "BORDERS",
    "PIPELINE",
    "Pass",
    "Watch",
    "after_copying",
    "compose_magnitudes",
    "compose_norms",
    "for_others",
    "int8_io",
    "narrow_sums",
    "plain_bags",
    "plain_nearest",
    "rescale_sums",
    "run",
    "split_groups",
    "spread_multipliers",
    "sum_hard_sigmoids",
    "sums_of_one_axis",
    "uint8_io",
    "usual_multipliers",
    "usual_softmaxes",
    "write_constants",
]

Pass = Callable[[Graph], Graph]
Watch = Callable[[str, Graph], None]
"""A function that is called with each pass's name and the graph that it has left."""

PIPELINE: tuple[Pass, ...] = (
    merge_duplicates,
    quantize_early,
    integer,
    int8_states,
    merge_rescaled,
    drop_idle,
    fold_constants,
    transpose_early,
    merge_movement,
    transpose_product,
    flatten_linear,
    fold_pad,
    crop_padding,
    merge_movement,
    merge_duplicates,
)

BORDERS: dict[str, tuple[Pass, ...]] = {"float32": (), "int8": (int8_io,), "uint8": (uint8_io,)}
"""What makes inputs and outputs of the element type that a user wants."""

AFTER_CUTTING: tuple[Pass, ...] = (merge_movement, merge_duplicates)
"""What finds less movement in a graph whose tensors have become smaller."""


def after_copying(graph: Graph) -> Graph:
    """Computes what the first of the copies of a loop's steps make of constants, and merges the movement around each."""
    return merge_movement(fold_constants(graph))


def _inside(one: Pass, graph: Graph) -> Graph:
    """Does a pass to the inner graphs of repetitions."""
    ops = [
        dataclasses.replace(op, body=one(_inside(one, op.body))) if isinstance(op, Repeat) else op
        for op in graph.ops
    ]
    return graph.replace(ops=tuple(ops)) if has_repeats(graph) else graph


def run(graph: Graph, passes: tuple[Pass, ...] = PIPELINE, watch: Watch | None = None) -> Graph:
    """Runs passes in order and verifies the graph around each; `watch` sees every state, under the name of its pass."""
    verify(graph, "import")
    for one in passes:
        graph = verify(one(_inside(one, graph)), one.__name__)
        if watch:
            watch(one.__name__, graph)
    return graph
