# SPDX-License-Identifier: Apache-2.0
"""SQUARED_DIFFERENCE: the program's bytes are LiteRT's, for random parameters, zero points at the ends, and broadcasts."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from net_file import answers, litert
from tflite_file import File

import pillion
from pillion.emitters.tflite import emit
from pillion.importers.tflite import read
from pillion.ops import SquaredDifference

SHAPES = (
    ((4, 64), (4, 64)),
    ((3, 5, 7), (1, 5, 1)),
    ((2, 9), (1,)),
    ((2, 3, 1, 5), (2, 3, 4, 5)),
    ((1,), (17, 33)),
)
ZEROS = (-128, -5, 0, 127)


def file(number: int) -> bytes:
    rng = np.random.default_rng(number)
    a, b = SHAPES[number % len(SHAPES)]
    scales = rng.uniform(0.001, 0.3, 2) if number % 3 else 2.0 ** -rng.integers(2, 9, 2)
    largest = float((255 * scales.max()) ** 2)
    out = largest * float(rng.uniform(0.0005, 0.01)) if number % 3 else 2.0 ** -int(rng.integers(-2, 9))
    zeros = [int(zero) for zero in rng.choice(ZEROS, 3)]
    made = File("SQUARED_DIFFERENCE")
    made.input(*a, scale=float(scales[0]), zero=zeros[0]).input(*b, scale=float(scales[1]), zero=zeros[1])
    return made.output(*np.broadcast_shapes(a, b), scale=out, zero=zeros[2]).bytes()


@pytest.mark.parametrize("number", range(30))
def test_bytes_equal_litert(number: int) -> None:
    raw, rng = file(number), np.random.default_rng(number + 100)
    graph = read(raw)
    (op,) = graph.ops
    assert isinstance(op, SquaredDifference)
    again, interpreter = litert(emit(graph)), litert(raw)
    for _ in range(20):
        inputs = [rng.integers(-128, 128, v.shape).astype(np.int8) for v in graph.inputs]
        found = graph.reference(*inputs)[0].tolist()
        assert found == answers(interpreter, inputs)[0].tolist()
        assert found == answers(again, inputs)[0].tolist()


def test_its_c_is_the_same(tmp_path: Path) -> None:
    path = tmp_path / "square.tflite"
    path.write_bytes(file(3))
    program = pillion.compile(path, target="cortex-m55")
    inputs = [
        np.arange(v.type.elements, dtype=np.int64).astype(np.int8).reshape(v.shape)
        for v in program.graph.inputs
    ]
    assert program.run(*inputs, on="host")[0].tolist() == program.run(*inputs)[0].tolist()
