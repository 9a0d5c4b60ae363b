# SPDX-License-Identifier: Apache-2.0
"""Nets that end in places, choices and constants: whole numbers are PyTorch's, real ones as near to it as a plain simulation of int8 is,
and the C of this computer answers what the reference says."""

from __future__ import annotations

import shutil

import numpy as np
import pytest

import pillion
from index_nets import NETS
from plain_int8 import arrays_of, decibels, plain_answers

pytestmark = [pytest.mark.torch]
LOUD_ENOUGH = 50.0


@pytest.mark.turns(15)
@pytest.mark.parametrize("name", NETS)
def test_as_near_as_eight_bits_are(name: str) -> None:
    module, inputs = NETS[name].built(), NETS[name].inputs()
    program = pillion.compile(module, inputs, target="cortex-m55")
    found, wanted = program.run(*inputs), arrays_of(module(*inputs))
    assert [a.shape for a in found] == [a.shape for a in wanted]
    for ours, plain, exact in zip(found, plain_answers(module, inputs), wanted, strict=True):
        if exact.dtype.kind == "f":
            assert decibels(exact, ours) >= min(decibels(exact, plain), LOUD_ENOUGH) - NETS[name].may_lose
        else:
            assert np.array_equal(ours, exact)
    if shutil.which("cc"):
        for ours, of_c in zip(found, program.run(*inputs, on="host"), strict=True):
            assert np.array_equal(ours, of_c)


def test_outputs_in_other_programs() -> None:
    """An output that is a constant, an input, or one that comes twice has a form in all files."""
    module, inputs = NETS["outputs of all kinds"].built(), NETS["outputs of all kinds"].inputs()
    program = pillion.compile(module, inputs, target="cortex-m55")
    wanted = program.run(*inputs)
    assert program.pte()
    for on in ("executorch", "litert"):
        try:
            found = program.run(*inputs, on=on)
        except pillion.PillionError:
            continue  # not installed
        assert all(np.array_equal(a, b) for a, b in zip(wanted, found, strict=True))
