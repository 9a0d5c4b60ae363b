# SPDX-License-Identifier: Apache-2.0
"""What an op is: a frozen dataclass of operands, one or more results, and attributes, with its shape rule and its meaning.

    @op("clamp", quantization=Quantization.SHARED)
    class Clamp(Op):
        '''Values below `low` become `low`, above `high` become `high`.'''

        x: Value = operand()
        y: Value = result()
        low: int = -128
        high: int = 127

The text form, the verifier, the docs page and the random programs of the tests are derived from these fields.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from enum import Enum
from functools import cache, cached_property
from typing import Any, ClassVar, TypeVar

import numpy as np
from typing_extensions import dataclass_transform

from pillion.errors import PillionError
from pillion.ir.along import Course
from pillion.ir.numerics import Arithmetic, Multipliers
from pillion.ir.rows import Span
from pillion.ir.types import Array, DType, TensorType, Unscaled, Value


class Quantization(Enum):
    """The ways in which the quantization of the result follows from that of the operands; the quantizer is derived from this."""

    OWN = "the result has parameters of its own"
    SHARED = "operands and result have the same parameters"
    FIXED = "the result has parameters that the op fixes"
    NONE = "the op converts between number formats"


def operand() -> Any:
    """Declares a field that is a tensor the op reads (a `Value`, a tuple of them, or None where optional)."""
    return dataclasses.field(metadata={"role": "operand"})


def optional_operand() -> Any:
    """Declares an operand that may be absent."""
    return dataclasses.field(default=None, metadata={"role": "operand"})


def result() -> Any:
    """Declares a field that is a tensor the op makes."""
    return dataclasses.field(metadata={"role": "result"})


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class Op:
    """The base of all ops. `source` is the line of the model that the op comes from; it never changes what the op computes."""

    kind: ClassVar[str] = ""
    quantization: ClassVar[Quantization] = Quantization.OWN
    real_constants: ClassVar[tuple[str, ...]] = ()
    """The operands that are constants of real numbers in a graph of integers, too: the op itself makes integers of them."""

    source: str = dataclasses.field(default="", metadata={"role": "source"})

    def infer(self) -> TensorType:
        """Gives shape and element type of the result, from operands and attributes (its quantization is a choice)."""
        raise NotImplementedError

    def check(self) -> None:
        """Raises a PillionError where operands and attributes do not make sense together."""

    def reference(self, arithmetic: Arithmetic, *operands: Array) -> Array:
        """Computes the exact meaning, in integers: the definition that every executor is compared with."""
        raise NotImplementedError

    @classmethod
    def examples(cls) -> Iterator[Op]:
        """Gives small instances at the edges: for the tests of every executor, and for the documentation."""
        raise NotImplementedError

    @property
    def name(self) -> str:
        """The name of the op, which is that of its first result."""
        return self.results[0].name

    @cached_property
    def operands(self) -> tuple[Value, ...]:
        """All values that the op reads, in the order of its fields."""
        return tuple(v for name in _fields(self, "operand") for v in _values(getattr(self, name)))

    @cached_property
    def results(self) -> tuple[Value, ...]:
        """All values that the op makes, in the order of its fields."""
        return tuple(v for name in _fields(self, "result") for v in _values(getattr(self, name)))

    @cached_property
    def activations(self) -> tuple[Value, ...]:
        """The operands that are not constants."""
        return tuple(v for v in self.operands if not v.is_constant)

    @property
    def attributes(self) -> dict[str, Any]:
        """Everything that is neither a tensor nor the source line, by name."""
        return {name: getattr(self, name) for name in _fields(self, None)}

    @property
    def macs(self) -> int:
        """The multiply-accumulates of one run."""
        return 0

    @property
    def is_idle(self) -> bool:
        """Whether the op answers with its operand: the same numbers in the same order, whatever they are.

        Each class of ops says this itself, for nothing follows from silence: there are converters that fail where nothing
        is left to compute, and runtimes in which nothing need be done."""
        raise NotImplementedError

    def largest_sums(self) -> Iterator[tuple[int, int]]:
        """The largest integers that are scaled to the result, each with the shift of its multiplier: in 32 bits they must fit.

        Every class whose definition requantizes says this; an op that does not has none."""
        return iter(())

    @property
    def counts_rows(self) -> bool:
        """Whether each row is made in a way of its own, which follows from its number. Where only some rows are made, the kernel is handed
        the number of the first one (`pillion.ir.rows.FIRST_ROW`) with each call: it takes no further form of the op."""
        return False

    @property
    def crosses_rows(self) -> str:
        """Says why rows of the result cannot be made one after another, each from a few rows of the operands; empty if they can."""
        raise NotImplementedError

    @property
    def row_unit(self) -> int:
        """The number of rows that are made together: rows are asked for in whole units."""
        return 1

    def rows_of(self, operand: Value, span: Span) -> Span | None:
        """Gives the rows of an operand that some rows of the result are made of; None if all of it is read for any row."""
        raise NotImplementedError

    def on_rows(self, span: Span) -> Mapping[str, object]:
        """Gives the attributes that are others where only some rows of the result are made."""
        return {}

    @property
    def folded_bytes(self) -> int:
        """The bytes that stand for the rows of the operand that were taken so far, where an op without rows of its own may take them a few
        at a time; 0 where it takes all at once."""
        return 0

    @property
    def is_part(self) -> bool:
        """Whether it takes only some of the rows that its result is made of: it has a meaning together with the others alone."""
        return False

    def along(self, operand: Value, axis: int) -> Course:
        """Says how the op goes along an axis of an operand: which rows of the result are made from which rows of that; or why they
        are not made one after another. What an op does not say is refused."""
        return "it does not say from which rows it makes which"

    def all_inside(self, axis: int, count: int) -> Mapping[str, object]:
        """Gives the attributes that are others where so many rows along an axis of the result are made, from rows that are all
        there."""
        return {}

    def check_scales(self, arithmetic: Arithmetic) -> None:
        """Raises a ValueError where a ratio of the op's scales has no fixed-point form in an arithmetic.

        Every class that turns scales into multipliers says this; an op that does not takes any scales."""

    def refuse(self, rule: str, here: object, help: str = "") -> PillionError:
        """Makes the error of `check`: what the op wants and what it got."""
        place = f"{here}" + (f"  ({self.source})" if self.source else "")
        return PillionError(f"{self.kind} `{self.name}` is not valid", rule=rule, here=place, help=help)

    def substitute(self, values: Mapping[Value, Value]) -> Op:
        """Gives the same op with some of its tensors exchanged."""
        if not any(v in values for v in (*self.operands, *self.results)):
            return self
        changes: dict[str, Any] = {}
        for name in (*_fields(self, "operand"), *_fields(self, "result")):
            old = getattr(self, name)
            changes[name] = (
                tuple(values.get(v, v) for v in old) if isinstance(old, tuple) else values.get(old, old)
            )
        return dataclasses.replace(self, **changes)


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class Scaled(Op):
    """The base of ops whose kernels are handed multipliers. These follow from the scales, or are `given`: programs of others hold
    the multipliers, and no scales."""

    given: Multipliers = dataclasses.field(default=(), metadata={"role": "given"})

    def from_scales(self, arithmetic: Arithmetic) -> Multipliers:
        """Gives the multipliers that follow from the scales, in the order that the class says."""
        raise NotImplementedError

    def scaling(self, arithmetic: Arithmetic) -> Multipliers:
        """Gives the multipliers: those that were given, or those that follow from the scales."""
        return self.given or self.from_scales(arithmetic)

    def from_scales_in_uint8(self) -> Multipliers:
        """Gives the multipliers that LiteRT's kernels for uint8 form of the same scales, where these are others; none by default."""
        return ()

    @property
    def numbers_of_multipliers(self) -> tuple[int, ...]:
        """How many multipliers may be given."""
        return (1,)

    def check_given(self) -> None:
        """Raises where the multipliers that were given are not such as the kernels take."""
        if len(self.given) not in self.numbers_of_multipliers:
            counts = " or ".join(map(str, sorted(set(self.numbers_of_multipliers))))
            raise self.refuse(f"multipliers that are given are {counts}", f"{len(self.given)} are given")
        strange = next((m for m in self.given if not m.is_normal), None)
        if strange is not None:
            rule = f"mantissas are from 2^30 to {2**31 - 1}, shifts from -31 to 30, or both are 0"
            raise self.refuse(rule, f"mantissa {strange.mantissa}, shift {strange.shift}")

    def check_scales(self, arithmetic: Arithmetic) -> None:
        self.scaling(arithmetic)


def without_scales(op: Op) -> list[Value]:
    """Gives what an op reads and makes whose scales are not known."""
    values = dict.fromkeys((*op.activations, *op.results, *op.operands))
    return [v for v in values if isinstance(v.type.quant, Unscaled)]


def beyond_scales(op: Op) -> str:
    """Says what of an op's arithmetic its scales do not tell, for those who are told nothing else; nothing where they tell all."""
    unknown = without_scales(op)
    if unknown:
        return f"`{unknown[0].name}` has no scale"
    if isinstance(op, Scaled) and op.given:
        follow = _from_scales(op)
        if op.given not in (follow, op.from_scales_in_uint8()) and follow != op.given * len(follow):
            return f"multipliers {_some(op.given)}, where the scales give {_some(follow)}"
    return ""


def _from_scales(op: Scaled) -> Multipliers:
    try:
        return op.from_scales(Arithmetic.TFLITE)
    except ValueError:  # there are none for these scales
        return ()


def _some(multipliers: Multipliers) -> str:
    shown = ", ".join(map(str, multipliers[:3])) or "none"
    return f"{shown}, …" if len(multipliers) > 3 else shown


def _fields(op: Op | type[Op], role: str | None) -> tuple[str, ...]:
    kind: Any = op if isinstance(op, type) else type(op)
    return _names_by_role(kind, role)


@cache
def _names_by_role(kind: type[Any], role: str | None) -> tuple[str, ...]:
    """The fields of a class of ops that play a role; they are asked for more often than anything else of an op."""
    return tuple(f.name for f in dataclasses.fields(kind) if f.metadata.get("role") == role)


def _values(held: Value | tuple[Value, ...] | None) -> tuple[Value, ...]:
    if held is None:
        return ()
    return held if isinstance(held, tuple) else (held,)


def operand_fields(op: Op | type[Op]) -> list[str]:
    """Gives the names of an op's fields that are operands."""
    return list(_fields(op, "operand"))


def result_fields(op: Op | type[Op]) -> list[str]:
    """Gives the names of an op's fields that are results."""
    return list(_fields(op, "result"))


OpClass = TypeVar("OpClass", bound=type[Op])


@dataclass_transform(
    frozen_default=True,
    eq_default=False,
    kw_only_default=True,
    field_specifiers=(operand, optional_operand, result),
)
def op(kind: str, quantization: Quantization = Quantization.OWN) -> Callable[[OpClass], OpClass]:
    """Makes a class an op: a frozen dataclass with its name in the text form and its quantization rule."""

    def declare(cls: OpClass) -> OpClass:
        cls.kind, cls.quantization = kind, quantization
        return dataclasses.dataclass(frozen=True, eq=False, kw_only=True)(cls)  # type: ignore[return-value]  # dataclass() loses the bound

    return declare


def int8(array: Array) -> Array:
    """Narrows an array to int8; its numbers fit already."""
    return array.astype(np.int8)


def want_rank(op: Op, value: Value, rank: int) -> None:
    """Refuses an op if a value does not have so many axes."""
    if value.type.rank != rank:
        raise op.refuse(f"{op.kind}: `{value.name}` has rank {rank}", f"shape {list(value.shape)}")


def want_dtype(op: Op, value: Value, dtype: DType) -> None:
    """Refuses an op if a value is of another element type."""
    if value.dtype is not dtype:
        raise op.refuse(f"{op.kind}: `{value.name}` is {dtype.value}", value.dtype.value)


def want_same_quant(op: Op, *values: Value) -> None:
    """Refuses an op if values do not share scale and zero point."""
    quants = {v.type.quant for v in values}
    if len(quants) > 1:
        raise op.refuse(
            f"{op.kind}: operands and result share scale and zero point", ", ".join(map(str, quants))
        )
