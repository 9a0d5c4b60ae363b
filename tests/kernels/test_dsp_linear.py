# SPDX-License-Identifier: Apache-2.0
"""The DSP fully connected kernel against the reference, byte for byte."""

from __future__ import annotations

from itertools import product

import pytest
from dsp_ops import linear, with_pruned_channel

from kernels.op_cases import check
from kernels.rig import M4, M7, M33, Target
from nightly import part_of
from pillion.emitters.c.dsp.linear import KERNELS
from pillion.ir.numerics import Arithmetic
from pillion.ir.verdict import all_ok
from pillion.ops.linear import Linear

pytestmark = pytest.mark.qemu

OUT = (*range(1, 18), 31, 32, 33, 63, 64, 65)
IN = (*range(1, 34), 35, 36, 37, 63, 64, 65, 127, 128)


def ops() -> list[Linear]:
    sizes = [(k, n) for n in OUT for k in IN]
    return [linear(1 + i % 3 // 2, k, n, seed=i) for i, (k, n) in part_of(enumerate(sizes), 3)]


@pytest.mark.turns(2)
def test_every_size() -> None:
    check(M33, ops())


@pytest.mark.nightly
@pytest.mark.parametrize("board", [M4, M7], ids=lambda board: board.board.core)
def test_other_cores(board: Target) -> None:
    check(board, ops()[::11])


def test_sums_beyond_24_bits() -> None:
    """Of B, which carries its sums in the upper 24 bits: they are set aside on the way."""
    check(
        M33,
        [
            linear(1, features, out, seed=i)
            for i, (features, out) in enumerate(product((1023, 1300, 4097), (1, 4, 7, 10, 12)))
        ],
    )


def test_pruned_channels() -> None:
    """In a group of four, and among those that are left."""
    biases = (2**30 + 128, -(2**30), 2**31 - 1, -(2**31) + 1)
    cases = product((1, 3, 4, 5, 6), biases, (-128, 5, 127))
    ops = [
        with_pruned_channel(linear(2, 9, 7, seed=channel, out_zp=zp), channel, b) for channel, b, zp in cases
    ]
    kernel = next(k for k in KERNELS if k.name == "linear_dsp")
    assert all(all_ok(kernel.check(op, Arithmetic.CMSIS_NN)) for op in ops)
    check(M33, ops)
