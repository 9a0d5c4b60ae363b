# SPDX-License-Identifier: Apache-2.0
"""Random files as converters write them: the reference and the C answer LiteRT's bytes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from exported_nets import BORDERS, exported
from net_file import answers, litert

from nightly import part_of
from pillion.compiler import compile_graph
from pillion.importers.tflite import read
from pillion.ir.types import Array
from pillion.targets import find_target

TARGETS = ("cortex-m33", "cortex-m55", "cortex-m0")
BOARDS = {"cortex-m33": "mps2-an505", "cortex-m55": "mps3-an547"}


def samples(interpreter: Any, seed: int, count: int) -> list[Array]:
    """Inputs of the type that the file takes: real numbers of a few units, or any bytes."""
    (detail,) = interpreter.get_input_details()
    rng, shape = np.random.default_rng(seed), (count, *detail["shape"])
    if detail["dtype"] == np.float32:
        return list(rng.normal(0, 3, shape).astype(np.float32))
    return list(rng.integers(0, 256, shape).astype(np.uint8).view(detail["dtype"]))


def same(found: list[Array] | tuple[Array, ...], wanted: list[Array]) -> bool:
    pairs = zip(found, wanted, strict=True)
    return all(np.asarray(a).tobytes() == b.tobytes() for a, b in pairs)


@pytest.mark.turns(2)
@pytest.mark.parametrize("seed", range(60))
def test_the_reference_is_litert(seed: int) -> None:
    raw = exported(seed)
    graph, interpreter = read(raw), litert(raw)
    for x in samples(interpreter, seed, 3):
        assert same(graph.reference(x), answers(interpreter, [x])), BORDERS[seed % len(BORDERS)]


@pytest.mark.turns(3)
@pytest.mark.parametrize("seed", part_of(range(100, 106), 2))
def test_the_c_is_litert(seed: int) -> None:
    raw = exported(seed)
    interpreter = litert(raw)
    stream = compile_graph(read(raw), find_target(TARGETS[seed % 3])).stream(on="host")
    for x in samples(interpreter, seed, 3):
        assert same(stream.step(x), answers(interpreter, [x]))


@pytest.mark.qemu
@pytest.mark.parametrize("seed", part_of(range(200, 202), 2))
def test_the_emulated_cores_are_litert(seed: int) -> None:
    raw = exported(seed)
    interpreter = litert(raw)
    target = tuple(BOARDS)[seed % 2]
    (x,) = samples(interpreter, seed, 1)
    found = compile_graph(read(raw), find_target(target)).run(x, on=BOARDS[target])
    assert same(found, answers(interpreter, [x]))
