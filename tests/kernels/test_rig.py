# SPDX-License-Identifier: Apache-2.0
"""The rig sees kernels that answer wrongly, write outside their memory, change what is constant, or read beyond an input."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from kernels import rig
from pillion.emitters.c.kernel import Call
from pillion.emitters.c.kernel_library import PORTABLE
from pillion.ops.example_values import value

TARGETS = [
    pytest.param(
        rig.host(*rig.SANITIZED), id="host", marks=pytest.mark.skipif(not rig.HAS_CC, reason="needs cc")
    ),
    *(pytest.param(b, id=b.board.core, marks=pytest.mark.qemu) for b in (rig.M33, rig.M55) if b.board),
]
X = np.arange(-20, 20, dtype=np.int8)


def clamp(inputs: int, outputs: int, count: int) -> rig.Case:
    """A kernel that is told to handle so many bytes, whatever its operands have."""
    x, y = value("x", (inputs,), 0.1), value("y", (outputs,), 0.1)
    call = Call(PORTABLE.routine("clamp_s8"), {"count": count, "low": -5, "high": 7}, (x,), y)
    return rig.Case((call,), y, {x: X[:inputs]})


@pytest.mark.parametrize("target", TARGETS)
def test_right_answers(target: rig.Target) -> None:
    case = clamp(40, 40, 40)
    in_place = replace(case, overwritten=next(iter(case.operands)), misalign=3)
    (result, again) = rig.check(target, [case, in_place], [np.clip(X, -5, 7)] * 2)
    assert target.board is None or result.instructions > 40
    assert again.stayed_inside


@pytest.mark.parametrize("target", TARGETS)
def test_a_wrong_byte_is_seen(target: rig.Target) -> None:
    with pytest.raises(AssertionError, match="1 bytes differ, the first at 0"):
        rig.check(target, [clamp(40, 40, 40)], [np.clip(X, -5, 7) - (np.arange(40) == 0).astype(np.int8)])


@pytest.mark.parametrize("target", TARGETS)
def test_a_write_behind_the_result_is_seen(target: rig.Target) -> None:
    with pytest.raises(AssertionError, match=r"wrote outside its memory|AddressSanitizer"):
        rig.check(target, [clamp(40, 39, 40)], [np.clip(X, -5, 7)[:39]])


@pytest.mark.parametrize("target", TARGETS)
def test_a_call_without_operands(target: rig.Target) -> None:
    y = value("y", (40,), 0.1)
    numbers = {"count": 40, "element_bytes": 1, "element": np.full(1, 9, np.uint8)}
    fill = Call(PORTABLE.routine("fill"), numbers, (), y)
    rig.check(target, [rig.Case((fill,), y, {})], [np.full(40, 9, np.int8)])


@pytest.mark.parametrize("target", TARGETS)
def test_a_read_beyond_an_input_is_a_fault(target: rig.Target) -> None:
    """Unless the kernel says that it reads there."""
    with pytest.raises(AssertionError):
        rig.check(target, [clamp(8, 40, 12)], [np.resize(X, 40)])
    allowed = replace(clamp(8, 12, 12), overread_bytes=4)
    (result,) = rig.run(target, [allowed])
    assert np.array_equal(result.y[:8], np.clip(X[:8], -5, 7))
