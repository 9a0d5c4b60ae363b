# SPDX-License-Identifier: Apache-2.0
"""Makes recorded graphs accept any batch size in training, and fixes the size for compilation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.fx import GraphModule, Node
from torch.fx.node import map_arg

from pillion.errors import PillionError
from pillion.importers.torch.export import export
from pillion.importers.torch.fx_nodes import aten, calls, constant_of, evaluate, fake_mode, shape_of
from pillion.importers.torch.rewrite.pipeline import rewrite_for_quantization
from pillion.ir.constraints import QuantizationConstraints

Change = tuple[Node, list[int]]


def trainable_graph(
    model: nn.Module, inputs: Sequence[Tensor], constraints: QuantizationConstraints | None = None
) -> tuple[GraphModule, bool]:
    """Returns the rewritten graph of a module, and whether it accepts any batch size."""
    graph = _export_and_rewrite(model, inputs, constraints)
    try:
        longer = _export_and_rewrite(model, with_extra_sample(inputs), constraints)
    except PillionError:
        return graph, False
    return graph, free_batch_size(graph, longer)


def _export_and_rewrite(
    model: nn.Module, inputs: Sequence[Tensor], constraints: QuantizationConstraints | None
) -> GraphModule:
    return rewrite_for_quantization(
        export(model, inputs).module(check_guards=False), constraints, training=True
    )


def with_extra_sample(inputs: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """Returns the inputs with one more sample, where they share the first one's batch axis."""
    batch = inputs[0].shape[:1]
    return tuple(torch.cat([x, x[:1]]) if batch and x.shape[:1] == batch else x for x in inputs)


def free_batch_size(graph: GraphModule, longer: GraphModule) -> bool:
    """Frees the sizes in which graphs of two batch sizes differ. Returns False, and changes nothing, if they
    differ otherwise."""
    nodes, others = list(graph.graph.nodes), list(longer.graph.nodes)
    if len(nodes) != len(others):
        return False
    changes = []
    for node, counterpart in zip(nodes, others, strict=True):
        if (node.op, str(node.target), len(node.args)) != (
            counterpart.op,
            str(counterpart.target),
            len(counterpart.args),
        ):
            return False
        if _literal_arguments(node) != _literal_arguments(counterpart) or not _same_constant(
            node, counterpart
        ):
            sizes = _free_size(node, counterpart)
            if sizes is None:
                return False
            changes.append((node, sizes))
    for node, sizes in changes:
        node.args = (node.args[0], sizes)
    graph.recompile()
    return True


def _literal_arguments(node: Node) -> str:
    return str(map_arg((node.args, dict(node.kwargs)), lambda n: n.name))


def _same_constant(node: Node, counterpart: Node) -> bool:
    ours, theirs = constant_of(node), constant_of(counterpart)
    return ours is None or theirs is None or ours.shape == theirs.shape


def _free_size(node: Node, counterpart: Node) -> list[int] | None:
    """Sizes of a reshape with -1 for the batch-dependent one."""
    if node.target is not aten.reshape.default:
        return None
    sizes: Any = node.args[1]
    theirs: Any = counterpart.args[1]
    if len(sizes) != len(theirs) or -1 in sizes or 0 in sizes:
        return None
    free = [-1 if a != b else a for a, b in zip(sizes, theirs, strict=True)]
    return free if free.count(-1) == 1 else None


def check_fit(graph: GraphModule, inputs: Sequence[Tensor]) -> None:
    """Raises if inputs differ from the recorded shapes beyond the batch size."""
    recorded = [shape_of(n) for n in graph.graph.find_nodes(op="placeholder")]
    shapes = [tuple(x.shape) for x in inputs]
    if [shape[1:] for shape in recorded] != [shape[1:] for shape in shapes]:
        raise PillionError(
            "the inputs do not fit the trained module",
            rule=" and ".join(map(_shape_with_any_batch, recorded)),
            here=" and ".join(str(list(shape)) for shape in shapes),
            help="compile with inputs like those that `prepare_qat` was given",
        )


def _shape_with_any_batch(shape: tuple[int, ...]) -> str:
    return f"[{', '.join(('any', *map(str, shape[1:])))}]" if shape else "[]"


def fix_shapes(module: GraphModule, inputs: Sequence[Tensor]) -> None:
    """Fixes all shapes of a graph to the shapes for `inputs`."""
    mode = fake_mode(module.graph)
    for node, example in zip(module.graph.find_nodes(op="placeholder"), inputs, strict=True):
        node.meta["val"] = mode.from_tensor(example.detach(), static_shapes=True)
    for node in calls(module.graph):
        node.meta["val"] = evaluate(module.graph, node.target, node.args, node.kwargs)  # type: ignore[arg-type]  # a call
        if node.target is aten.reshape.default:
            node.args = (node.args[0], list(shape_of(node)))
    module.recompile()
