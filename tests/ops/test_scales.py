# SPDX-License-Identifier: Apache-2.0
"""Every class of ops says how large the integers become that it scales, and which scales it has no multiplier for: what it says is
compared with what its definition does, so that a class that forgets is named."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from pillion.errors import PillionError
from pillion.ir import numerics
from pillion.ir.numerics import Arithmetic, Multiplier
from pillion.ir.op import Op, op, operand, result
from pillion.ir.types import Array, PerTensor, TensorType, Value
from pillion.ops import ALL_OPS
from pillion.ops.example_values import make_op, random_like, value


def filled(held: Value) -> Array:
    """Constants as they are; of other integers the number that is furthest from the zero point, so that sums are large."""
    if held.is_constant:
        return held.constant
    if not held.is_quantized:
        return random_like(held)
    furthest = max(held.dtype.bounds, key=lambda level: abs(level - held.zero_point))
    return np.full(held.shape, furthest, held.dtype.numpy)


def largest_scaled(made: Op, monkeypatch: pytest.MonkeyPatch) -> int:
    """The largest integer that the definition of an op gives to `requantize`, shifted to the left as it is there."""
    largest = [0]

    def watched(x: Any, mantissa: Any, shift: Any) -> Any:
        largest.append(int(np.abs(np.asarray(x, np.int64) << np.maximum(shift, 0)).max(initial=0)))
        return requantize(x, mantissa, shift)

    requantize = numerics.requantize
    with monkeypatch.context() as patched:
        patched.setattr(numerics, "requantize", watched)
        made.reference(Arithmetic.CMSIS_NN, *map(filled, made.operands))
    return max(largest)


def unsaid_sums(cls: type[Op], monkeypatch: pytest.MonkeyPatch) -> list[Op]:
    """The examples that scale larger integers than their class says."""
    return [
        made
        for made in cls.examples()
        if largest_scaled(made, monkeypatch)
        > max((held << max(shift, 0) for held, shift in made.largest_sums()), default=0)
    ]


def with_scale(made: Op, held: Value, scale: float) -> Op:
    """The op with another scale for one of its tensors."""
    quant = PerTensor(scale, held.zero_point)
    return made.substitute(
        {held: dataclasses.replace(held, type=dataclasses.replace(held.type, quant=quant))}
    )


def extremes(cls: type[Op]) -> Iterator[Op]:
    """An op of the class, one of whose scales is so small or so large that ratios leave what multipliers can hold."""
    for made in list(cls.examples())[:3]:
        for held in {v for v in (*made.operands, *made.results) if isinstance(v.type.quant, PerTensor)}:
            yield from (with_scale(made, held, scale) for scale in (2.0**-60, 2.0**60))


def is_undefined(made: Op, arithmetic: Arithmetic) -> bool:
    """Whether the definition finds no multiplier for the scales of an op."""
    try:
        with np.errstate(all="ignore"):
            made.reference(arithmetic, *map(filled, made.operands))
    except ValueError:
        return True
    except PillionError:  # the arithmetic does not have it at all
        return False
    return False


def unsaid_scales(cls: type[Op], arithmetic: Arithmetic) -> list[Op]:
    """The ops that their class takes although their definition cannot."""
    found = []
    for made in extremes(cls):
        if is_undefined(made, arithmetic):
            try:
                made.check_scales(arithmetic)
            except ValueError:
                continue
            found.append(made)
    return found


@pytest.mark.parametrize("cls", ALL_OPS, ids=lambda cls: cls.kind)
def test_sums_are_as_large_as_the_class_says(cls: type[Op], monkeypatch: pytest.MonkeyPatch) -> None:
    assert not unsaid_sums(cls, monkeypatch), (
        f"{cls.kind}: {cls.__name__}.largest_sums says less than it scales"
    )


@pytest.mark.parametrize("arithmetic", Arithmetic)
@pytest.mark.parametrize("cls", ALL_OPS, ids=lambda cls: cls.kind)
def test_scales_without_a_multiplier_are_refused(cls: type[Op], arithmetic: Arithmetic) -> None:
    found = unsaid_scales(cls, arithmetic)
    assert not found, (
        f"{cls.kind}: {cls.__name__}.check_scales takes scales that its definition has no multiplier for"
    )


@op("forgetful")
class Forgetful(Op):
    """Scales a number, and says nothing of it."""

    x: Value = operand()
    y: Value = result()

    @property
    def multiplier(self) -> Multiplier:
        return numerics.encode_multiplier(self.x.scale / self.y.scale)

    def infer(self) -> TensorType:
        return TensorType(self.x.shape, self.x.dtype)

    def reference(self, arithmetic: Arithmetic, *operands: Array) -> Array:
        m = self.multiplier
        scaled = numerics.requantize(operands[0].astype(np.int64) - self.x.zero_point, m.mantissa, m.shift)
        return numerics.clamp_to_int8(scaled + self.y.zero_point, -128, 127)

    @classmethod
    def examples(cls) -> Iterator[Op]:
        yield make_op(cls, value("y", (), 0.1), x=value("x", (2, 3), 0.05))


def test_a_class_that_forgets_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    assert unsaid_sums(Forgetful, monkeypatch)
    assert all(unsaid_scales(Forgetful, arithmetic) for arithmetic in Arithmetic)


@pytest.mark.parametrize("fact", ["largest_sums", "check_scales"])
def test_no_class_says_it_for_nothing(fact: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of each class that says it, the tests above notice if it were silent."""
    for cls in ALL_OPS:
        if getattr(cls, fact) is getattr(Op, fact) or cls.kind in SAID_FOR_MORE:
            continue
        with monkeypatch.context() as patched:
            patched.setattr(cls, fact, lambda self, *arithmetic: ())
            noticed = (
                unsaid_sums(cls, monkeypatch)
                if fact == "largest_sums"
                else [x for arithmetic in Arithmetic for x in unsaid_scales(cls, arithmetic)]
            )
            assert noticed, f"{cls.kind}: {fact}"


SAID_FOR_MORE = {"softmax", "log_softmax", "lut"}
"""Their definitions bring every positive scale into bounds, or have rules of their own for them (see `tflite_entries`)."""
