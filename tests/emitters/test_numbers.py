# SPDX-License-Identifier: Apache-2.0
"""Arrays of all types and sizes stand in C as Python's own spelling of each number has them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from pillion.emitters.c import literals
from pillion.emitters.c.literals import LINES_AT_ONCE, PER_LINE, PER_LINE_OF_OTHERS, c_literal, lines
from pillion.host_io.atomic_files import LazyContent
from pillion.host_io.project_folders import sha256
from pillion.ir.types import Array

INTEGERS = ("int8", "uint8", "int16", "uint16", "int32", "uint32")


def spelled(data: Array) -> str:
    """One number after another, without any table."""
    all_of_them = [c_literal(n) for n in data.ravel().tolist()] or ["0"]
    per_line = PER_LINE.get(data.dtype.name, PER_LINE_OF_OTHERS)
    rows = (", ".join(all_of_them[i : i + per_line]) for i in range(0, len(all_of_them), per_line))
    return ",\n".join(f"    {row}" for row in rows)


def random(dtype: str, size: int) -> Array:
    """Numbers of all lengths, with the ends of the type among them."""
    rng = np.random.default_rng(size)
    if dtype.startswith("float"):
        return (rng.standard_normal(size) * 10.0 ** rng.integers(-9, 9, size)).astype(dtype)
    info = np.iinfo(dtype)
    drawn = rng.integers(info.min, info.max, size, np.int64, endpoint=True) >> rng.integers(
        0, info.bits, size
    )
    drawn[: 3 * size // 50] = rng.choice([info.min + 1, info.max, 0, -1 if info.min else 1], 3 * size // 50)
    return drawn.astype(dtype)


@pytest.mark.parametrize("dtype", [*INTEGERS, "float32", "float64"])
@pytest.mark.parametrize("size", [0, 1, 7, 8, 9, 23, 24, 25, 48, 1000, 24 * LINES_AT_ONCE + 25])
def test_text(dtype: str, size: int) -> None:
    data = random(dtype, size)
    assert b"".join(lines(data)).decode() == spelled(data)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16"])
def test_every_number_of_a_small_type(dtype: str) -> None:
    info = np.iinfo(dtype)
    data = np.arange(info.min, info.max + 1).astype(dtype)
    assert b"".join(lines(data)).decode() == spelled(data)


MANY = 8 * LINES_AT_ONCE
"""32-bit numbers that are formatted together."""


def test_32_bits_around_powers_of_ten() -> None:
    near = [10**k + d for k in range(10) for d in (-1, 0, 1)]
    edges = [s * n for n in (*near, 99999, 100000, 199999, 2**31 - 1, 0) for s in (1, -1)]
    data = np.resize(np.array(edges, np.int64), MANY + 9).astype(np.int32)
    assert b"".join(lines(data)).decode() == spelled(data)


@pytest.mark.parametrize("place", [0, MANY // 2, MANY + 8])
def test_the_least_number_of_32_bits_among_many(place: int) -> None:
    data = random("int32", MANY + 9)
    data[place] = literals.LEAST
    text = b"".join(lines(data)).decode()
    assert text == spelled(data)
    assert text.count("(-2147483647 - 1)") == 1


@pytest.mark.parametrize(("dtype", "size"), [("int8", 10**6), ("int16", 10**6), ("int32", 10**6)])
def test_many_integers_are_not_spelled_one_by_one(
    monkeypatch: pytest.MonkeyPatch, dtype: str, size: int
) -> None:
    spelled_out: list[object] = []
    monkeypatch.setattr(literals, "c_literal", lambda n: spelled_out.append(n) or str(n))
    parts = list(lines(random(dtype, size)))
    assert not spelled_out
    assert max(map(len, parts)) < 3 * 10**6, "a part fits into a cache"


def test_a_large_content_is_made_once_to_be_hashed() -> None:
    made: list[int] = []

    def parts() -> Iterator[bytes]:
        made.append(1)
        yield from (b"int8_t", b" w[]")

    content = LazyContent(parts)
    assert sha256(content) == sha256("int8_t w[]") == sha256(content)
    assert len(made) == 1
    assert content == LazyContent(lambda: [b"int8_t w[]"])
    assert content != LazyContent(lambda: [b"int8_t v[]"])
