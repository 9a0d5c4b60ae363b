# SPDX-License-Identifier: Apache-2.0
"""L2_NORMALIZATION: the program's bytes are LiteRT's, on int8 and uint8, for vectors of any length, zero vectors and the largest ones."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from net_file import answers, litert
from tflite_file import File

import pillion
from pillion.emitters.tflite import emit
from pillion.errors import PillionError
from pillion.importers.tflite import read
from pillion.ir.types import Array
from pillion.ops import L2Normalize
from pillion.ops.l2_normalize import LONGEST
from pillion.schemas import tflite
from pillion.schemas.tflite import ElementType

SHAPES = ((1, 1), (3, 2), (2, 7), (4, 128), (1, 1000), (2, 3, 5, 9), (2, LONGEST))
ZEROS = (-128, 127, 0, -5)


def file(number: int, is_unsigned: bool) -> bytes:
    shape, zero = SHAPES[number % len(SHAPES)], ZEROS[number % 4]
    above, kind = (128, ElementType.UINT8) if is_unsigned else (0, ElementType.INT8)
    made = File("L2_NORMALIZATION", tflite.L2NormOptions())
    made.input(*shape, scale=0.037, zero=zero + above, type=kind)
    return made.output(*shape, scale=1 / 128, zero=above, type=kind).bytes()


def inputs_of(shape: tuple[int, ...], zero: int, number: int) -> Array:
    """Zeros, vectors near zero, and those at both ends."""
    rng = np.random.default_rng(number)
    reach = (0, 1, 3, 20, 255)[number % 5]
    if number % 7 == 6:
        return rng.choice([-128, 127], shape)
    return np.clip(rng.integers(-reach, reach + 1, shape) + zero, -128, 127)


@pytest.mark.parametrize("is_unsigned", [False, True])
@pytest.mark.parametrize("number", range(28))
def test_bytes_equal_litert(number: int, is_unsigned: bool) -> None:
    raw = file(number, is_unsigned)
    graph = read(raw)
    (op,) = (op for op in graph.ops if isinstance(op, L2Normalize))
    again, interpreter = litert(emit(graph)), litert(raw)
    above, dtype = (128, np.uint8) if is_unsigned else (0, np.int8)
    for count in range(20 if op.x.type.elements < 5000 else 5):
        x = (inputs_of(op.x.shape, op.x.zero_point, count) + above).astype(dtype)
        (wanted,) = answers(interpreter, [x])
        assert graph.reference(x)[0].tobytes() == wanted.tobytes()
        assert answers(again, [x])[0].tobytes() == wanted.tobytes()


@pytest.mark.parametrize("is_unsigned", [False, True])
def test_its_c_is_the_same(is_unsigned: bool, tmp_path: Path) -> None:
    path = tmp_path / "lengths.tflite"
    path.write_bytes(file(9, is_unsigned))
    program = pillion.compile(path, target="cortex-m55")
    for number in range(7):
        x = np.concatenate([inputs_of((1, 7), 127, number + n) for n in range(2)])
        x = (x + 128 * is_unsigned).astype(program.graph.inputs[0].dtype.numpy)
        assert program.run(x, on="host")[0].tolist() == program.run(x)[0].tolist()


def test_unsupported_l2_normalizations_are_refused() -> None:
    length = LONGEST + 1
    made = File("L2_NORMALIZATION").input(1, length).output(1, length, scale=1 / 128, zero=0)
    with pytest.raises(PillionError, match=f"at most {LONGEST} elements"):
        read(made.bytes())
    bounded = File("L2_NORMALIZATION", tflite.L2NormOptions(fused_activation=1)).input(1, 4)
    with pytest.raises(PillionError, match="no activation"):
        read(bounded.output(1, 4, scale=1 / 128, zero=0).bytes())
    with pytest.raises(PillionError, match="1/128"):
        read(File("L2_NORMALIZATION").input(1, 4).output(1, 4, scale=0.1, zero=0).bytes())
