# SPDX-License-Identifier: Apache-2.0
"""The DSP fully connected kernel against the reference, byte for byte."""

from __future__ import annotations

from itertools import product

import pytest
from dsp_ops import linear
from dsp_rig import M4, M7, M33, Board, check

from pillion.ops.linear import Linear

pytestmark = pytest.mark.qemu

OUT = (*range(1, 18), 31, 32, 33, 63, 64, 65)
IN = (*range(1, 34), 35, 36, 37, 63, 64, 65, 127, 128)


def ops() -> list[Linear]:
    sizes = [(k, n) for n in OUT for k in IN]
    return [linear(1 + i % 3 // 2, k, n, seed=i) for i, (k, n) in enumerate(sizes)]


def test_every_size() -> None:
    check(M33, ops())


@pytest.mark.parametrize("board", [M4, M7], ids=lambda board: board.cpu)
def test_other_cores(board: Board) -> None:
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
