# SPDX-License-Identifier: Apache-2.0
"""Folds constant calls, and turns Python numbers into constants that can be quantized."""

from __future__ import annotations

from functools import partial
from operator import getitem
from typing import Any

import torch
from torch import Tensor
from torch.fx import GraphModule, Node
from torch.fx.node import map_arg

from pillion.importers.torch import fx_nodes as fx
from pillion.importers.torch.fx_nodes import aten
from pillion.importers.torch.rewrite.functionalize import is_write
from pillion.importers.torch.rewrite.norm_calls import normalize_axes, normalize_groups
from pillion.importers.torch.rewrite.recurrent import LAYERS
from pillion.importers.torch.rewrite.synonyms import BROADCASTING

NORMS = frozenset({normalize_axes, normalize_groups})
"""Functions of this package that fold like operators."""


def fold_constants(module: GraphModule, *, training: bool = False) -> None:
    """Evaluates calls on constants. With `training`, parameters are not constants."""
    for node in fx.calls(module.graph):
        if node.users and _is_foldable(node, training):
            args, kwargs = map_arg((node.args, dict(node.kwargs)), fx.constant_of)
            with torch.no_grad():
                result = node.target(*args, **kwargs)  # type: ignore[operator]  # a call_function
            if isinstance(result, Tensor):
                fx.replace(node, fx.constant(node, result.clone(), f"{node.name}_folded"))
            else:
                for user in list(node.users):
                    tensor: Tensor = result[user.args[1]]
                    fx.replace(user, fx.constant(user, tensor.clone(), f"{user.name}_folded"))
                module.graph.erase_node(node)  # torch keeps calls that may be random


def _is_foldable(node: Node, training: bool) -> bool:
    """Whether a call returns constant tensors whose users are known. Folded calls have no users left."""
    value, parts = fx.fake_result(node), all(user.target is getitem for user in node.users)
    return (isinstance(value, Tensor) or (isinstance(value, (tuple, list)) and parts)) and _is_constant_call(
        node, training
    )


def _is_constant_call(node: Node, training: bool) -> bool:
    """Whether a call has a fixed result. A write has not: it would modify the model's tensor in each run. Conversions
    stay, because the importer reads scales from them."""
    if not isinstance(node.target, torch._ops.OpOverload):
        return node.target in NORMS and _depends_on_constants(node, training)
    if _is_random(node) or is_write(node) or fx.conversion_name(node):
        return False
    return _depends_on_constants(node, training)


def _depends_on_constants(node: Node, training: bool) -> bool:
    """Whether all operands are constant and not trained."""
    sources = node.all_input_nodes
    if any(fx.fixed_tensor(n, training) is None for n in sources):
        return False
    return bool(sources) or isinstance(fx.fake_result(node), Tensor)


def _is_random(node: Node) -> bool:
    """Whether a call is random; recurrent layers only if they train with dropout."""
    drops = node.target not in LAYERS or fx.named_argument(node, "train")
    return drops and fx.RANDOM in node.target.tags  # type: ignore[union-attr]  # an OpOverload


def make_scalars_constants(module: GraphModule, *, training: bool = False) -> None:
    """Makes all operands tensors: `x + 3` reads a constant; `1 - x` becomes a subtraction, `x / 4` a
    multiplication."""
    for node in fx.calls(module.graph, [aten.rsub.Scalar, aten.rsub.Tensor]):
        fx.replace(node, fx.call(node, aten.sub.Tensor, node.args[1], node.args[0], **node.kwargs))
    for node in fx.calls(module.graph, [*BROADCASTING, *_SCALAR_FORMS]):
        if fx.is_tensor(node):
            _make_operands_tensors(node)
            _apply_alpha(node)
            if not (training and fx.is_trainable(node.args[1])):
                _multiply_instead_of_divide(node)


_SCALAR_FORMS = {
    aten.add.Scalar: aten.add.Tensor,
    aten.sub.Scalar: aten.sub.Tensor,
    aten.mul.Scalar: aten.mul.Tensor,
    aten.div.Scalar: aten.div.Tensor,
}


def _make_operands_tensors(node: Node) -> None:
    node.target = _SCALAR_FORMS.get(node.target, node.target)  # type: ignore[call-overload]  # targets are hashable
    node.args = (*(_as_tensor(node, a) for a in node.args[:2]), *node.args[2:])


def _as_tensor(node: Node, operand: Any) -> Any:
    value = fx.constant_of(operand)
    if value is None and not isinstance(operand, (int, float)):
        return operand
    if value is not None and value.dtype == torch.float32:
        return operand
    device = fx.fake_result(node).device
    tensor = torch.tensor(float(operand), device=device) if value is None else value.to(torch.float32)
    return fx.constant(node, tensor, f"{node.name}_operand")


def _apply_alpha(node: Node) -> None:
    """Lowers `add(a, b, alpha=k)` to a + k·b."""
    if node.target not in (aten.add.Tensor, aten.sub.Tensor):
        return
    alpha, operand = fx.named_argument(node, "alpha"), node.args[1]
    if alpha == 1:
        node.args, node.kwargs = node.args[:2], {}
        return
    factor = fx.constant(node, torch.tensor(float(alpha)), f"{node.name}_alpha")
    node.args, node.kwargs = (node.args[0], fx.call(node, aten.mul.Tensor, operand, factor)), {}


def _multiply_instead_of_divide(node: Node) -> None:
    divisor = fx.constant_of(node.args[1])
    if node.target is not aten.div.Tensor or divisor is None or bool((divisor == 0).any()):
        return
    node.target = aten.mul.Tensor
    node.args = (node.args[0], fx.constant(node, 1 / divisor, f"{node.name}_reciprocal"))


def use_linear(module: GraphModule, *, training: bool = False) -> None:
    """Lowers matrix products: to a linear layer with a constant right operand, otherwise to a batch of one."""
    product = partial(_lower_matrix_product, training=training)
    fx.lower_calls(
        module.graph,
        {
            **dict.fromkeys((aten.addmm.default, aten.mm.default), product),
            aten.bmm.default: partial(_lower_batch_product, training=training),
        },
    )


def _lower_matrix_product(node: Node, training: bool) -> Node:
    bias, x, right = (None, *node.args) if node.target is aten.mm.default else node.args[:3]
    is_vector = isinstance(bias, Node) and fx.is_constant(bias) and len(fx.shape_of(bias)) == 1
    if fx.is_constant(right) and (bias is None or is_vector):
        return fx.call(node, aten.linear.default, x, _transpose_weight(node, right, training), bias)
    batches = [fx.call(node, aten.reshape.default, n, [1, *fx.shape_of(n)]) for n in (x, right)]  # type: ignore[arg-type]  # nodes
    product = fx.call(node, aten.bmm.default, *batches)
    flat = fx.call(node, aten.reshape.default, product, list(fx.shape_of(node)))
    return flat if bias is None else fx.call(node, aten.add.Tensor, flat, bias)


def _lower_batch_product(node: Node, training: bool) -> Node | None:
    """Lowers a product of each matrix of a batch with the same constant to a linear layer."""
    x, right = node.args
    matrices = fx.fixed_tensor(right, training) if fx.is_constant(right) else None
    if matrices is None or not bool((matrices == matrices[:1]).all()):
        return None
    return fx.call(
        node, aten.linear.default, x, fx.constant(node, matrices[0].t().contiguous(), f"{node.name}_weight")
    )


def _transpose_weight(node: Node, weight: Any, training: bool) -> Node:
    tensor = fx.fixed_tensor(weight, training)
    if tensor is None:
        return fx.call(node, aten.permute.default, weight, [1, 0])
    return fx.constant(node, tensor.t().contiguous(), f"{node.name}_weight")
