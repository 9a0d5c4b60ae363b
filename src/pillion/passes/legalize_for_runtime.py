# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Callable

from pillion.ir.graph import Graph
from pillion.ir.numerics import Arithmetic
from pillion.ops import flatten_ops
from pillion.ops.movement import computes_in_16_bits
from pillion.ops.widen_operands import widen_operands
from pillion.passes.compose_magnitudes import compose_magnitudes
from pillion.passes.compose_norms import compose_norms
from pillion.passes.demote_sums import demote_sums
from pillion.passes.legalize_embedding_bags import legalize_embedding_bags
from pillion.passes.legalize_softmax import legalize_softmax

COARSER: tuple[tuple[Callable[[Graph], Graph], str], ...] = (
    (
        legalize_softmax,
        "probabilities that are multiplied on are in steps of 1/256 there, and in finer ones in C (docs/quality.md)",
    ),
    (
        demote_sums,
        "states between runs, sums between norms and states of loops have 8 bits there, and 16 in C (docs/guide/quantization.md)",
    ),
    (
        compose_norms,
        "norms are made of ops of 8 bits there, and one exact op in C (docs/guide/quantization.md)",
    ),
    (
        legalize_embedding_bags,
        "tables of embeddings have one scale there, and one a row in C (docs/guide/numbers.md)",
    ),
    (
        compose_magnitudes,
        "squares that are added up have 8 bits there, and 32 in C (docs/guide/quantization.md)",
    ),
)
"""Passes that rewrite ops that other runtimes lack, each with the precision that it loses."""


def legalize_for_runtime(
    graph: Graph, said: Callable[[str], None] = lambda words: None, is_litert: bool = False
) -> Graph:
    """Rewrites a graph into ops that other runtimes have, and reports what becomes coarser. LiteRT has layers of 16 bits
    in its own arithmetic."""
    graph = widen_operands(graph) if is_litert else graph
    refuse_16_bit_ops(graph, is_litert and graph.arithmetic is Arithmetic.TFLITE)
    for rewritten, words in COARSER:
        before, graph = graph, rewritten(graph)
        if graph is not before:
            said(words)
    return graph


def refuse_16_bit_ops(graph: Graph, is_litert: bool = False) -> None:
    """Raises if layers and pools have 16 bits because the user asked for them: no pass makes them coarser silently. In
    LiteRT's arithmetic they stay, unless an op between them has none."""
    ops = list(flatten_ops(graph.ops))
    own = [op for op in ops if op.has_own_int16_form(graph.arithmetic)]
    wide = [op for op in ops if computes_in_16_bits(op) and op not in own]
    refused = own if wide and is_litert else wide
    in_litert = "" if graph.arithmetic.is_tflite else "--arithmetic tflite for a .tflite, "
    for op in refused:
        raise op.refuse(
            "layers of .pte files are int8; those of .tflite files have 16 bits as far as LiteRT has, with --arithmetic "
            "tflite; C projects and program images have 16 bits",
            f"`{op.name}` of `{graph.name}`",
            f"-o FOLDER, -o NAME.plm, --kernels pillion for a .pte, {in_litert}or leave --precision, --int16 and --io-dtype int16 out",
            "computes in 16 bits",
        )
