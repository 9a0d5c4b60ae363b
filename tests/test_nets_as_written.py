# SPDX-License-Identifier: Apache-2.0
"""Nets as people write them: they compile as they are, the C of this computer and LiteRT answer what the reference says, and that is
as near to PyTorch as a plain simulation of int8."""

from __future__ import annotations

import importlib.util
import shutil

import numpy as np
import pytest

import pillion
from nets_as_written import NETS
from nightly import part_of
from pillion.ir.types import Array
from pillion.ops import Segment
from pillion.run.executor import Outputs
from plain_int8 import arrays_of, decibels, plain_answers

pytestmark = [pytest.mark.torch]

LOUD_ENOUGH = 50.0
"""Decibels above which nobody asks for more: the simulation rounds a result of few numbers by luck."""


@pytest.mark.turns(19)
@pytest.mark.parametrize("name", NETS)
def test_as_near_as_eight_bits_are(name: str) -> None:
    module, inputs = NETS[name].built(), NETS[name].inputs()
    found = pillion.compile(module, inputs, target="cortex-m33").run(*inputs)
    wanted = arrays_of(module(*inputs))
    assert [a.shape for a in found] == [a.shape for a in wanted]
    for ours, plain, exact in zip(found, plain_answers(module, inputs), wanted, strict=True):
        assert decibels(exact, ours) >= min(decibels(exact, plain), LOUD_ENOUGH) - NETS[name].may_lose


def same(wanted: Outputs, found: Outputs) -> bool:
    pairs: list[tuple[Array, Array]] = list(zip(wanted, found, strict=True))
    return all(np.array_equal(a, b) for a, b in pairs)


@pytest.mark.turns(7)
@pytest.mark.slow
@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
@pytest.mark.parametrize(
    "name", part_of([*NETS][::3], 3)
)  # each op has examples of its own that all executors are asked
def test_host_and_litert_equal_the_reference(name: str) -> None:
    """For a chip with an NPU, whose segments have a form that LiteRT runs."""
    inputs = NETS[name].inputs()
    program = pillion.compile(NETS[name].built(), inputs, target="imxrt700")
    wanted = program.run(*inputs)
    assert same(wanted, program.run(*inputs, on="host"))
    has_segments = any(isinstance(op, Segment) for op in program.graph.ops)
    if has_segments and importlib.util.find_spec("ai_edge_litert") is not None:
        assert same(wanted, program.run(*inputs, on="litert"))
