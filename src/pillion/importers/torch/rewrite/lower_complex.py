# SPDX-License-Identifier: Apache-2.0
"""Lowers complex numbers (spectra, rotary embeddings, frequency filters) to pairs of real numbers. A call that
cannot be lowered keeps its complex operands and is refused later."""

from __future__ import annotations

from typing import Any

from torch.fx import GraphModule, Node

from pillion.importers.torch.fx_nodes import calls, replace
from pillion.importers.torch.rewrite import complex_arithmetic, spectra
from pillion.importers.torch.rewrite.complex_pairs import ComplexPairs, PairLowering, is_complex

LOWERINGS: dict[Any, PairLowering] = {**complex_arithmetic.LOWERINGS, **spectra.LOWERINGS}


def has_complex_numbers(module: GraphModule) -> bool:
    """Whether a module computes with complex numbers."""
    return bool(_complex_calls(module))


def lower_complex_numbers(module: GraphModule) -> None:
    """Replaces complex numbers by pairs of real numbers."""
    pairs = ComplexPairs()
    for node in _complex_calls(module):
        lowering = LOWERINGS.get(node.target)
        lowered = lowering(pairs, node) if lowering is not None else None
        if lowered is None:
            pairs.keep(node)
        elif is_complex(node):
            pairs.known[node] = lowered
        else:
            replace(node, lowered)
    pairs.keep(module.graph.output_node())
    module.graph.eliminate_dead_code()


def _complex_calls(module: GraphModule) -> list[Node]:
    """Calls that read or return complex numbers, and spectrograms."""
    return [
        node
        for node in calls(module.graph)
        if is_complex(node) or any(map(is_complex, node.all_input_nodes)) or node.target in spectra.WINDOWED
    ]
