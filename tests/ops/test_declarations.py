# SPDX-License-Identifier: Apache-2.0
"""Every op is complete: documented, with examples at the edges, and in order in every table."""

from __future__ import annotations

import inspect

import pytest

from pillion.ir.op import Op
from pillion.ops import ALL_OPS

OPS = [pytest.param(cls, id=cls.kind) for cls in ALL_OPS]


@pytest.mark.parametrize("cls", OPS)
def test_every_op_is_documented(cls: type[Op]) -> None:
    assert (cls.__doc__ and cls.__doc__ == inspect.getdoc(cls)) or inspect.getdoc(cls)


@pytest.mark.parametrize("cls", OPS)
def test_every_op_has_examples_with_zero_points_at_the_ends(cls: type[Op]) -> None:
    examples = list(cls.examples())
    assert len(examples) >= 2
    zero_points = {v.zero_point for op in examples for v in (*op.activations, *op.results) if v.is_quantized}
    assert {-128, 0} & zero_points


def test_kinds_are_unique() -> None:
    kinds = [cls.kind for cls in ALL_OPS]
    assert len(set(kinds)) == len(kinds)
