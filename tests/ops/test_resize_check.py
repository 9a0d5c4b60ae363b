# SPDX-License-Identifier: Apache-2.0
"""A resize is checked without working out where its pixels come from."""

from __future__ import annotations

import tracemalloc

import pytest

from pillion.errors import PillionError
from pillion.ir.types import DType, PerTensor, TensorType, Value
from pillion.ops import ResizeBilinear

FAR = 2**30


def resize(side: int, size: int, **mode: bool) -> ResizeBilinear:
    values = [
        Value(n, TensorType((1, s, 1, 1), DType.INT8, PerTensor(0.1))) for n, s in (("x", side), ("y", size))
    ]
    return ResizeBilinear(x=values[0], y=values[1], size=(size, 1), **mode)


@pytest.mark.parametrize("mode", [{}, {"align_corners": True}, {"half_pixel": True}], ids=str)
def test_checks_of_large_resizes_take_little_memory(mode: dict[str, bool]) -> None:
    tracemalloc.start()
    resize(5, FAR, **mode).check()
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < 100_000


@pytest.mark.parametrize("mode", [{}, {"align_corners": True}, {"half_pixel": True}], ids=str)
def test_the_last_pixel_decides(mode: dict[str, bool]) -> None:
    """The refusal is the one that all pixels would give."""
    for side in (1, 2, 3, 700, 1500):
        for size in (1, 2, 3, 7, 1000, 1499, 3001):
            op = resize(side, size, **mode)
            outside = int(op.sources(0)[:, 0].max()) >= side
            if outside:
                with pytest.raises(PillionError, match="resize_bilinear"):
                    op.check()
            else:
                op.check()
