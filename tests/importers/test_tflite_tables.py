# SPDX-License-Identifier: Apache-2.0
"""Operators that are read as a table or as copies: NEG of LiteRT's reference kernels; ELU and BROADCAST_TO of its optimized ones, since
the reference kernels lack them."""

from __future__ import annotations

import numpy as np
import pytest
from tflite_file import File, same_as_litert

from pillion.errors import PillionError
from pillion.importers.tflite import read
from pillion.ops.example_values import random_like
from pillion.schemas import tflite
from pillion.schemas.flatbuffer import write_flatbuffer
from pillion.schemas.tflite import ElementType

ALL = np.arange(-128, 128, dtype=np.int8)
ZEROS = (-128, -1, 0, 127)


def by_default(raw: bytes, *inputs: np.ndarray) -> list[np.ndarray]:
    """The answers of LiteRT's optimized kernels."""
    litert = pytest.importorskip("ai_edge_litert.interpreter")
    resolver = litert.OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES
    interpreter = litert.Interpreter(model_content=raw, experimental_op_resolver_type=resolver, num_threads=1)
    interpreter.allocate_tensors()
    for detail, array in zip(interpreter.get_input_details(), inputs, strict=True):
        interpreter.set_tensor(detail["index"], array)
    interpreter.invoke()
    return [interpreter.get_tensor(detail["index"]) for detail in interpreter.get_output_details()]


@pytest.mark.parametrize("number", range(24))
def test_elu_is_litert_s(number: int) -> None:
    rng = np.random.default_rng(number)
    scales = rng.uniform(0.004, 0.2, 2) if number % 3 else 2.0 ** -rng.integers(3, 7, 2)
    zeros = rng.choice(ZEROS, 2)
    x = {"scale": float(scales[0]), "zero": int(zeros[0])}
    raw = File("ELU").input(1, 256, **x).output(1, 256, scale=float(scales[1]), zero=int(zeros[1])).bytes()
    (wanted,) = by_default(raw, ALL[None])
    assert read(raw).reference(ALL[None])[0].tolist() == wanted.tolist()


@pytest.mark.parametrize("zero", ZEROS)
def test_neg_is_litert_s(zero: int) -> None:
    raw = File("NEG").input(16, 16, zero=zero).output(16, 16, zero=zero).bytes()
    graph = same_as_litert(raw)
    assert graph.reference(ALL.reshape(16, 16))[0][0, 0] == -128


@pytest.mark.parametrize(
    ("shape", "to"),
    [((5,), (3, 5)), ((2, 1, 7), (2, 5, 7)), ((1, 3, 1), (2, 2, 3, 4)), ((1,), (300, 257)), ((2, 3), (2, 3))],
)
def test_broadcast_to_is_litert_s(shape: tuple[int, ...], to: tuple[int, ...]) -> None:
    model = File("BROADCAST_TO").input(*shape, zero=-128).constant(list(to)).output(*to, zero=-128).model()
    model.operator_codes[0].version = 2
    raw = write_flatbuffer(model, tflite.IDENTIFIER)
    graph = read(raw)
    x = random_like(graph.inputs[0])
    (wanted,) = by_default(raw, x)
    assert graph.reference(x)[0].tolist() == wanted.tolist()
    assert (graph.outputs[0].shape, wanted.shape) == (to, to)


@pytest.mark.parametrize(("shape", "to"), [((2, 5), (3, 5)), ((2, 3, 5), (3, 5))])
def test_other_shapes_are_refused(shape: tuple[int, ...], to: tuple[int, ...]) -> None:
    with pytest.raises(PillionError, match="axes of 1 are larger"):
        read(File("BROADCAST_TO").input(*shape).constant(list(to)).output(*to).bytes())


def test_another_scale_is_refused() -> None:
    raw = File("BROADCAST_TO").input(1, 5).constant([3, 5], ElementType.INT32).output(3, 5, zero=4).bytes()
    with pytest.raises(PillionError, match="of the same type"):
        read(raw)
