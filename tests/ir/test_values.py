# SPDX-License-Identifier: Apache-2.0
"""What may be asked of a value, and what only of some."""

from __future__ import annotations

import numpy as np
import pytest

from pillion.ir.types import DType, PerChannel, PerTensor, Quant, TensorType, Value, constant_value
from pillion.ops import Clamp


@pytest.mark.parametrize("quant", [None, PerChannel((0.5, 0.25), 0)], ids=["real", "per_channel"])
def test_one_scale_is_asked_of_what_has_one(quant: Quant | None) -> None:
    value = Value("w", TensorType((2, 3), DType.INT8, quant))
    for ask in (lambda: value.quant, lambda: value.scale, lambda: value.zero_point):
        with pytest.raises(ValueError, match="w is not quantized per tensor"):
            ask()
    assert Value("x", TensorType((2,), DType.INT8, PerTensor(0.5, 3))).quant == PerTensor(0.5, 3)


def test_data_is_asked_of_constants() -> None:
    with pytest.raises(ValueError, match="x is not a constant"):
        _ = Value("x", TensorType((2,), DType.INT8, PerTensor(0.5))).constant
    assert constant_value("k", np.arange(2, dtype=np.int8), PerTensor(0.5)).constant.tolist() == [0, 1]


def test_ops_are_things_and_not_their_fields() -> None:
    """Two that look the same are two: tables of what is known of an op keep them apart."""
    x, y = (Value(name, TensorType((2,), DType.INT8, PerTensor(0.5))) for name in "xy")
    one, other = Clamp(x=x, y=y), Clamp(x=x, y=y)
    assert one != other
    assert len({one, other}) == len({one: 1, other: 2}) == 2


def test_constants_lie_in_the_order_of_their_axes() -> None:
    """Whatever view they are made of: writers take their bytes as they are. Scalars stay scalars."""
    turned = constant_value("k", np.arange(6, dtype=np.int8).reshape(2, 3).T, PerTensor(0.5)).constant
    assert turned.flags.c_contiguous
    assert turned.tobytes() == bytes([0, 3, 1, 4, 2, 5])
    assert constant_value("k", np.array(3, np.int8), PerTensor(0.5)).shape == ()
