# SPDX-License-Identifier: Apache-2.0
"""Decomposes shape operators, copies, products and attention. `BY_TORCH` lists operators that torch decomposes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any

import torch
from torch import Tensor
from torch._decomp import get_decompositions
from torch.fx import Node

from pillion.importers.torch import fx_nodes as fx
from pillion.importers.torch.fx_nodes import aten
from pillion.importers.torch.rewrite.clamp_masks import MARGIN
from pillion.importers.torch.rewrite.decompositions.table import decompose_by
from pillion.importers.torch.rewrite.recurrent import CELLS, LAYERS, reads_inputs


def _decompose_split(x: Tensor, sizes: Sequence[int], dim: int = 0) -> Sequence[Tensor]:
    return [
        aten.slice.Tensor(x, dim, end - size, end) for end, size in zip(accumulate(sizes), sizes, strict=True)
    ]


def _decompose_select(x: Tensor, dim: int, index: int) -> Tensor:
    axis = dim % x.dim()
    return x.narrow(dim, index % x.shape[dim], 1).reshape([*x.shape[:axis], *x.shape[axis + 1 :]])


def _decompose_stack(tensors: Sequence[Tensor], dim: int = 0) -> Tensor:
    return torch.cat([t.unsqueeze(dim) for t in tensors], dim)


def _decompose_repeat(x: Tensor, counts: Sequence[int]) -> Tensor:
    x = x.reshape((1,) * (len(counts) - x.dim()) + tuple(x.shape))
    for dim, count in enumerate(counts):
        x = _repeat_axis(x, count, dim)
    return x


MOST_AT_ONCE = 256
"""Maximum operands of a repeating concatenation; larger repetitions take several steps."""


def _repeat_axis(x: Tensor, count: int, dim: int) -> Tensor:
    if count <= MOST_AT_ONCE:
        return torch.cat([x] * count, dim) if count != 1 else x
    full, rest = divmod(count, MOST_AT_ONCE)
    many = _repeat_axis(torch.cat([x] * MOST_AT_ONCE, dim), full, dim)
    return torch.cat([many, *[x] * rest], dim) if rest else many


def _decompose_expand(x: Tensor, sizes: Sequence[int], implicit: bool = False) -> Tensor:
    shape = (1,) * (len(sizes) - x.dim()) + tuple(x.shape)
    return _decompose_repeat(
        x, [1 if size in (-1, old) else size for size, old in zip(sizes, shape, strict=True)]
    )


def _decompose_roll(x: Tensor, shifts: Sequence[int], dims: Sequence[int] = ()) -> Tensor:
    if not dims:
        return _decompose_roll(x.reshape(-1), shifts, [0]).reshape(x.shape)
    for shift, dim in zip(shifts, dims, strict=True):
        cut = -shift % x.shape[dim]
        x = torch.cat([x.narrow(dim, cut, x.shape[dim] - cut), x.narrow(dim, 0, cut)], dim) if cut else x
    return x


def _decompose_matmul(a: Tensor, b: Tensor) -> Tensor:
    """Treats vectors as matrices of one row or column."""
    left, right = a.dim() == 1, b.dim() == 1
    y = torch.matmul(a.unsqueeze(0) if left else a, b.unsqueeze(1) if right else b)
    shape = (*y.shape[: y.dim() - 2], *(() if left else (y.shape[-2],)), *(() if right else (y.shape[-1],)))
    return y.reshape(shape)


def _decompose_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    q = q * (1 / math.sqrt(q.shape[-1]) if scale is None else scale)
    if enable_gqa:
        k, v = (_repeat_for_heads(x, q.shape[-3] // x.shape[-3]) for x in (k, v))
    if is_causal:
        attn_mask = torch.ones(q.shape[-2], k.shape[-2]).tril() == 1
    logits = torch.matmul(q, k.transpose(-2, -1))
    if attn_mask is not None:
        logits = logits + (
            attn_mask if attn_mask.is_floating_point() else torch.where(attn_mask, 0.0, -math.inf)
        )
    return torch.matmul(aten._safe_softmax.default(logits, -1), v)


def _repeat_for_heads(x: Tensor, times: int) -> Tensor:
    """Repeats keys or values for the query heads that share them."""
    shape = (*x.shape[:-2], times, *x.shape[-2:])
    return x.unsqueeze(-3).expand(shape).reshape(*x.shape[:-3], -1, *x.shape[-2:])


def _decompose_masked_fill(x: Tensor, mask: Tensor, value: float) -> Tensor:
    return x * (1 - mask.to(x.dtype)) + torch.where(mask, value, 0.0)


def _masks_scores(node: Node) -> bool:
    """Whether a constant mask removes scores from a softmax; other values are selected, which is 9 dB more exact."""
    number: Any = node.args[2]
    return fx.is_constant(node.args[1]) and number < -MARGIN


def _clamp_to_tensors(x: Tensor, low: Tensor | None = None, high: Tensor | None = None) -> Tensor:
    x = x if low is None else torch.maximum(x, low)
    return x if high is None else torch.minimum(x, high)


def _add_batch(x: Tensor, a: Tensor, b: Tensor, **options: Any) -> Tensor:
    """Adds the sum of all products of two batches, as one product of wide matrices."""
    wide, high = a.transpose(0, 1).reshape(a.shape[1], -1), b.reshape(-1, b.shape[2])
    return torch.addmm(x, wide, high, **options)


def copy_into(x: Tensor, source: Tensor, non_blocking: bool = False) -> Tensor:
    """Computes `x.copy_(source)` with broadcasting."""
    source = source if source.dtype == x.dtype else source.to(x.dtype)
    return source if source.shape == x.shape else source.expand(x.shape)


def _needs_factors(node: Node) -> bool:
    return (fx.named_argument(node, "beta"), fx.named_argument(node, "alpha")) != (1, 1)


def _with_batch(layer: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Applies a layer to a batch of one."""
    return lambda x, *rest, **options: layer(x.unsqueeze(0), *rest, **options).squeeze(0)


def _is_unbatched(node: Node) -> bool:
    images: Any = node.args[:2]
    return bool(fx.fake_result(images[0]).dim() == fx.fake_result(images[1]).dim() - 1)


def _accepting_scalars(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Applies a function over an axis to a scalar."""
    return lambda x, *rest, **options: function(x.reshape(1), *rest, **options).reshape(())


BY_TORCH = (
    *fx.torch_operators(
        "addcdiv addcmul addmm addmv addr affine_grid_generator baddbmm block_diag channel_shuffle "
        "count_nonzero diag_embed glu index_add index_copy linalg_cross pixel_shuffle pixel_unshuffle "
        "rot90 take tril triu"
    ),
    *fx.torch_operators("clamp_max clamp_min split", "Tensor"),
    *(aten.count_nonzero.dim_IntList, aten.index_fill.int_Scalar, aten.index_fill.int_Tensor),
    *(aten.norm.Scalar, aten.norm.ScalarOpt_dim, aten.std.correction, aten.unbind.int),
)
"""Operators that torch's own table decomposes as well; own decompositions exist where these are exact or cheaper in int8."""
OVER_AN_AXIS = (aten.prelu.default, aten.softmax.int, aten.log_softmax.int)

for _target, _decomposed in {**CELLS, **get_decompositions(BY_TORCH)}.items():
    decompose_by(
        _decomposed, _target, when=_needs_factors if _target is aten.addmm.default else lambda _: True
    )
for _target, _decomposed in LAYERS.items():
    decompose_by(_decomposed, _target, when=reads_inputs)
for _target in fx.CONVOLUTIONS:
    decompose_by(_with_batch(_target), _target, when=_is_unbatched)
for _target in OVER_AN_AXIS:
    decompose_by(_accepting_scalars(_target), _target, when=lambda node: not fx.shape_of(node))
decompose_by(_add_batch, aten.addbmm.default)
decompose_by(_clamp_to_tensors, aten.clamp.Tensor)
decompose_by(copy_into, aten.copy.default, aten.fill.Tensor)
decompose_by(lambda x, value: torch.full(x.shape, value, dtype=x.dtype), aten.fill.Scalar)
decompose_by(lambda x: torch.zeros(x.shape, dtype=x.dtype), aten.zero.default)
decompose_by(_decompose_matmul, aten.dot.default, aten.vdot.default, aten.matmul.default, aten.mv.default)
decompose_by(_decompose_expand, aten.expand.default)
decompose_by(lambda x, y, weight: x + (y - x) * weight, aten.lerp.Scalar, aten.lerp.Tensor)
decompose_by(_decompose_masked_fill, aten.masked_fill.Scalar, when=_masks_scores)
decompose_by(_decompose_repeat, aten.repeat.default)
decompose_by(_decompose_roll, aten.roll.default)
decompose_by(
    _decompose_attention,
    aten.scaled_dot_product_attention.default,
    when=lambda node: not fx.named_argument(node, "dropout_p"),
)
decompose_by(_decompose_select, aten.select.int)
decompose_by(_decompose_split, aten.split_with_sizes.default)
decompose_by(_decompose_stack, aten.stack.default)
