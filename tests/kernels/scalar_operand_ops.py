# SPDX-License-Identifier: Apache-2.0
"""Operations of a tensor and a number: with the number first and last, and with every kind of bounds."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from pillion.emitters.c.table_lookup import WITH_SCALAR
from pillion.ir.op import Op, Quantization
from pillion.ir.types import PerTensor, constant_value
from pillion.ops.example_values import make_op, value
from pillion.ops.prelu import Prelu

SHAPE = (7, 37)


def operations() -> Iterator[Op]:
    for i, cls in enumerate(WITH_SCALAR):
        quant = PerTensor(0.05, 3)
        is_shared = cls.quantization is Quantization.SHARED
        for number, shape in ((-128, ()), (5, (1,)), (127, (1, 1))):
            x = value("x", SHAPE, 0.05, 3)
            levels = np.full(shape, number, np.int8)
            n = constant_value("n", levels, quant if is_shared else PerTensor(0.07, -number - 1))
            y = value("y", (), 0.05 if is_shared else 0.11, 3 if is_shared else -7)
            bounds: dict[str, Any] = {"low": -90, "high": 100} if i % 2 and not is_shared else {}
            if cls is Prelu:
                yield make_op(cls, y, x=x, slope=n)
                continue
            yield make_op(cls, y, a=x, b=n, **bounds)
            yield make_op(cls, y, a=n, b=x, **bounds)
