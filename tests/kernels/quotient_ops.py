# SPDX-License-Identifier: Apache-2.0
"""Divisions: all pairs of numbers, runs of any length, rows with one divisor, operands that are overwritten."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from kernels.op_cases import Run
from pillion.ops.div import Div
from pillion.ops.example_values import make_op, random_like, value


def every_quotient() -> Iterator[Run]:
    rng = np.random.default_rng(6)
    levels = np.arange(-128, 128, dtype=np.int8)
    pairs = np.repeat(levels, 256), np.tile(levels, 256)
    for i in range(8):
        scales, ratio = 2.0 ** rng.uniform(-7, 0, 2), 2.0 ** rng.uniform(-3, 8)
        zps = [int(z) for z in rng.choice([-128, -7, 0, 19, 127], 3)]
        a, b = value("a", (65536,), scales[0], zps[0]), value("b", (65536,), scales[1], zps[1])
        y = value("y", (), scales[0] / scales[1] / ratio, zps[2])
        yield Run(make_op(Div, y, a=a, b=b, low=-128 if i % 2 else -90, high=127), pairs)
    shapes = [((n,), (n,)) for n in (*range(1, 20), 63, 64, 65)]
    shapes += [((5, 3, 9), (9,)), ((2, 7, 5), (2, 7, 1)), ((3, 33), (1, 33)), ((1, 5, 3, 17), (1, 5, 3, 1))]
    for a_shape, b_shape in shapes:
        a, b = value("a", a_shape, 0.0513, 3), value("b", b_shape, 0.0417, -9)
        op = make_op(Div, value("y", (), 0.0231, 5), a=a, b=b)
        data = random_like(a), random_like(b, 1)
        yield Run(op, data)
        yield Run(op, data, in_place=True)
