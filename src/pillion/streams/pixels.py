# SPDX-License-Identifier: Apache-2.0
"""Gathers the pixels that a convolution with a single output pixel reads. The rest is a matrix-vector product, whose
kernels take half the time of image kernels."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from pillion.ir.graph import Graph, UniqueNames
from pillion.ir.op import Op
from pillion.ir.types import DType
from pillion.ops import Conv2d, Slice


def gathered_pixels(graph: Graph) -> Graph:
    """Gathers the operands of convolutions with a single output pixel. The result is the same."""
    names = UniqueNames(graph.values)
    return graph.replace(ops=tuple(new_op for op in graph.ops for new_op in _gather_operands(op, names)))


def _gather_operands(op: Op, names: UniqueNames) -> Iterator[Op]:
    if not isinstance(op, Conv2d) or not _makes_one_pixel(op) or op.x.shape[1:3] == op.kernel:
        yield op
        return
    taken = op.x.like(names.fresh(f"{op.x.name}_pixels"), shape=(1, *op.kernel, op.in_channels))
    yield Slice(x=op.x, y=taken, begin=(0,) * 4, step=(1, *op.dilation, 1), source=op.source)
    yield dataclasses.replace(op, x=taken, stride=(1, 1), dilation=(1, 1))


def _makes_one_pixel(op: Conv2d) -> bool:
    """Whether a convolution has a single output pixel and no padding."""
    is_dense = op.groups == 1 and op.x.dtype is DType.INT8 and op.kernel != (1, 1)
    return is_dense and op.y.shape[:3] == (1, 1, 1) and not any(op.padding)
