# SPDX-License-Identifier: Apache-2.0
"""Valid files made invalid, for readers that must not trust them."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Iterator
from typing import Any

import numpy as np

from pillion.schemas import tflite
from pillion.schemas.flatbuffer import Table, read_root_table, write_flatbuffer

WORDS = (0, 1, 2, 255, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF)
"""At which sizes and offsets go wrong."""


def damaged(rng: random.Random, whole: bytes, tables: int | None = None) -> bytes:
    """The file with a few bytes or words replaced, a piece left out, or the end cut off. With `tables`, most changes are made
    in so many bytes at the front."""
    raw = bytearray(whole)
    if rng.random() < 0.1:
        return bytes(raw[: rng.randrange(len(raw))])
    for _ in range(rng.choice((1, 1, 2, 3, 8, 30))):
        front = tables is not None and rng.random() < 0.8
        at = rng.randrange(min(tables or len(raw), len(raw)) if front else len(raw))
        kind = rng.random()
        if kind < 0.5:
            raw[at] = rng.randrange(256)
        elif kind < 0.9:
            word = rng.choice((*WORDS, len(raw), rng.randrange(2**32)))
            raw[at & ~3 : (at & ~3) + 4] = word.to_bytes(4, "little")
        else:
            del raw[at : at + rng.randrange(1, 9)]
    return bytes(raw)


NUMBERS = (0, 1, 2, 3, 7, 16, -1, -2, 127, 128, -128, 255, 65535, 2**30, 2**31 - 1, -(2**31))
REALS = (0.0, -1.0, float("nan"), float("inf"), 1e-45, 1e-38, 1e-20, 1e38, 3.4e38)
TEXTS = ("", "*/", "a/b", "x" * 3000, "\n", '"')


def tables(table: Table) -> Iterator[Table]:
    """The table and all below it."""
    yield table
    for field in dataclasses.fields(table):  # type: ignore[arg-type]  # every table is a dataclass
        held = getattr(table, field.name)
        for inner in held if isinstance(held, list) else [held]:
            if isinstance(inner, Table):
                yield from tables(inner)


def changed_tables(rng: random.Random, whole: bytes) -> bytes:
    """A TFLite file that is whole as a file and has other numbers, texts or lists in one to three of its fields."""
    model = read_root_table(tflite.Model, whole, tflite.IDENTIFIER)
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        table = rng.choice([t for t in tables(model) if not isinstance(t, tflite.Buffer)])
        fields = dataclasses.fields(table)  # type: ignore[arg-type]  # every table is a dataclass
        if fields:
            name = rng.choice(fields).name
            setattr(table, name, _another(rng, getattr(table, name)))
    try:
        return write_flatbuffer(model, tflite.IDENTIFIER)
    except Exception:  # a number that the field cannot hold
        return whole


def _another(rng: random.Random, held: Any) -> Any:
    match held:
        case bool():
            return not held
        case int():
            return rng.choice((*NUMBERS, held + 1, held - 1))
        case float():
            return rng.choice((*REALS, held * 1.5))
        case str():
            return rng.choice(TEXTS)
        case [first, *_]:
            at = rng.randrange(len(held))
            other = rng.choice(held) if isinstance(first, Table) else _another(rng, first)
            return [*held[:at], *[other] * rng.choice((0, 1, 1, 2)), *held[at + rng.randrange(2) :]]
        case _:
            return held


def contradicted(rng: random.Random, whole: bytes) -> bytes:
    """A TFLite file in which an operator contradicts itself: another shape or scale of a tensor, another option, or another constant."""
    model = read_root_table(tflite.Model, whole, tflite.IDENTIFIER)
    graph = rng.choice(model.subgraphs)
    operator = rng.choice(graph.operators)
    match rng.randrange(4):
        case 0 | 1:
            tensor = graph.tensors[rng.choice(operator.outputs)]
            tensor.shape = _other_shape(rng, tensor.shape)
        case 2 if operator.options is not None and dataclasses.fields(operator.options):  # type: ignore[arg-type]  # a dataclass
            name = rng.choice(dataclasses.fields(operator.options)).name  # type: ignore[arg-type]  # a dataclass
            setattr(operator.options, name, _another(rng, getattr(operator.options, name)))
        case _:
            held = [graph.tensors[n] for n in operator.inputs if n >= 0]
            numbers = [t for t in held if t.type == tflite.ElementType.INT32 and t.buffer]
            if numbers:
                buffer = model.buffers[rng.choice(numbers).buffer]
                changed = np.array(buffer.data).view("<i4").copy()
                changed[rng.randrange(changed.size)] += rng.choice((-2, -1, 1, 2, 100))
                buffer.data = changed.view(np.uint8)
    try:
        return write_flatbuffer(model, tflite.IDENTIFIER)
    except Exception:  # a number that the field cannot hold
        return whole


def _other_shape(rng: random.Random, shape: list[int]) -> list[int]:
    """Another order, a factor on another axis, an axis more or less, or another size."""
    made = list(shape)
    at, other = (rng.randrange(len(made)) for _ in range(2))
    match rng.randrange(5):
        case 0:
            rng.shuffle(made)
        case 1:
            made[at], made[other] = 1, made[other] * made[at]
        case 2:
            made.insert(at, 1)
        case 3:
            made = [int(np.prod(made))]
        case _:
            made[at] = max(1, made[at] + rng.choice((-1, 1, 3)))
    return made
