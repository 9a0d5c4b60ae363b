# SPDX-License-Identifier: Apache-2.0
"""Where random programs get their decisions from: Hypothesis, which shrinks them, or a seed, for long hunts."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Protocol, TypeVar

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

T = TypeVar("T")


class Integers(Protocol):
    """Answers with an integer between two bounds, both included."""

    def __call__(self, low: int, high: int) -> int: ...


class Choices:
    """Decisions in the words of a generator. The first alternative is the simplest one: shrinking ends there."""

    def __init__(self, integer: Integers) -> None:
        self.integer = integer

    def pick(self, alternatives: Sequence[T]) -> T:
        return alternatives[self.integer(0, len(alternatives) - 1)]

    def one_in(self, times: int) -> bool:
        return self.integer(0, times - 1) == times - 1

    def latest(self, held: Sequence[T]) -> T:
        """One of some things, the last ones more often than the first ones."""
        back = min(self.integer(0, len(held) - 1), self.integer(0, len(held) - 1))
        return held[-1 - back]


def from_hypothesis(draw: DrawFn) -> Choices:
    return Choices(lambda low, high: draw(st.integers(low, high)))


def from_seed(seed: int) -> Choices:
    return Choices(random.Random(seed).randint)
