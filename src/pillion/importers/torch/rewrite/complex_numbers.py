# SPDX-License-Identifier: Apache-2.0
"""Complex numbers become pairs of real ones: spectra, rotations of positions, filters in the frequency domain.

A call without a form of pairs keeps its complex operands, and is refused with all else that stays in float."""

from __future__ import annotations

from typing import Any

from torch.fx import GraphModule, Node

from pillion.importers.torch.nodes import calls, replace
from pillion.importers.torch.rewrite import complex_arithmetic, spectra
from pillion.importers.torch.rewrite.pairs import Form, Pairs, is_complex

FORMS: dict[Any, Form] = {**complex_arithmetic.FORMS, **spectra.FORMS}


def has_complex_numbers(module: GraphModule) -> bool:
    """Says whether there is anything to settle."""
    return bool(_of_complex_numbers(module))


def settle_complex_numbers(module: GraphModule) -> None:
    """Puts pairs of real numbers in the place of complex ones."""
    pairs = Pairs(module)
    for node in _of_complex_numbers(module):
        form = FORMS.get(node.target)
        made = form(pairs, node) if form is not None else None
        if made is None:
            pairs.keep(node)
        elif is_complex(node):
            pairs.known[node] = made
        else:
            replace(node, made)
    pairs.keep(module.graph.output_node())
    module.graph.eliminate_dead_code()


def _of_complex_numbers(module: GraphModule) -> list[Node]:
    """The calls that make or read some. A transform may give pairs right away."""
    return [
        node
        for node in calls(module.graph)
        if is_complex(node) or any(map(is_complex, node.all_input_nodes)) or node.target in spectra.WINDOWED
    ]
