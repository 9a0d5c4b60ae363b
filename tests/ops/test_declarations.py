# SPDX-License-Identifier: Apache-2.0
"""Every op is complete: documented, with examples at the edges, and in order in every table."""

from __future__ import annotations

import re

import pytest

from pillion.ir.op import Op
from pillion.ir.types import DType
from pillion.ops import ALL_OPS, Biquads, Reshape, Slice

ONLY_MOVE = (Reshape, Slice)
"""Ops that do not look at the zero point."""
SYMMETRIC = (Biquads,)
"""Ops of samples, whose zero point is 0."""
OPS = [pytest.param(cls, id=cls.kind) for cls in ALL_OPS]


@pytest.mark.parametrize("cls", OPS)
def test_every_op_is_documented(cls: type[Op]) -> None:
    """By words of its own: a dataclass without any is given its signature, and a class those of its base."""
    words = vars(cls).get("__doc__") or ""
    assert not words.startswith(f"{cls.__name__}(")
    assert re.match(r"\S.*[.:]", words, re.DOTALL), f"{cls.kind}: a sentence for docs/reference/ops.md"


@pytest.mark.parametrize("cls", OPS)
def test_every_op_has_examples_with_zero_points_at_the_ends(cls: type[Op]) -> None:
    examples = list(cls.examples())
    assert len(examples) >= 2
    values = {v for op in examples for v in (*op.activations, *op.results) if v.is_quantized}
    zero_points = {v.zero_point for v in values}
    if not zero_points and all(not v.is_quantized for op in examples for v in op.results):
        return  # it knows no scales
    low, high = (DType.INT16 if {v.dtype for v in values} == {DType.INT16} else DType.INT8).bounds
    wanted = {0} if cls in SYMMETRIC else {low, 0} if cls in ONLY_MOVE else {low, 0, high}
    assert wanted <= zero_points, f"{cls.kind}: no example with {sorted(wanted - zero_points)}"


def test_kinds_are_unique() -> None:
    kinds = [cls.kind for cls in ALL_OPS]
    assert len(set(kinds)) == len(kinds)
