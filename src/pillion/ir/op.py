# SPDX-License-Identifier: Apache-2.0
"""The base class of ops. An op is a frozen dataclass of operands, results and attributes, with a shape rule and an
exact reference.

    @op("clamp", quantization=Quantization.SHARED)
    class Clamp(Op):
        '''Values below `low` become `low`, above `high` become `high`.'''

        x: Value = operand()
        y: Value = result()
        low: int = -128
        high: int = 127

The text form, the verifier, the docs page and the random programs of the tests derive from these fields."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterator, Mapping
from enum import Enum
from functools import cache, cached_property
from typing import Any, ClassVar, TypeVar

import numpy as np
from typing_extensions import dataclass_transform

from pillion.errors import PillionError
from pillion.ir.access import ROWS, SAME_ROWS, Access, AxisMap, Span, row_map
from pillion.ir.numerics import Arithmetic, Multipliers
from pillion.ir.types import Array, DType, Pair, TensorType, UnknownScale, Value


class Quantization(Enum):
    """How a result's quantization follows from the operands'. The quantizer derives from this rule."""

    OWN = "the result has parameters of its own"
    SHARED = "operands and result have the same parameters"
    FIXED = "the result has parameters that the op fixes"
    NONE = "the op converts between number formats"


def operand() -> Any:
    """Declares a field that the op reads (a `Value`, a tuple of values, or None if optional)."""
    return dataclasses.field(metadata={"role": "operand"})


def optional_operand() -> Any:
    """Declares an operand that may be absent."""
    return dataclasses.field(default=None, metadata={"role": "operand"})


def result() -> Any:
    """Declares a field that the op computes."""
    return dataclasses.field(metadata={"role": "result"})


_MODULE = re.compile(r"(?:module|.*:\d+) ([\w.]+)")
"""A source that ends with the path of a module."""


@dataclass_transform(
    frozen_default=True,
    eq_default=False,
    kw_only_default=True,
    field_specifiers=(operand, optional_operand, result, dataclasses.field),
)
@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class Op:
    """The base class of ops, and of families of ops that share fields; each subclass becomes a frozen dataclass.
    `source` names the line of the model that the op comes from; it has no effect on the
    computation."""

    kind: ClassVar[str] = ""
    quantization: ClassVar[Quantization] = Quantization.OWN
    takes_int16: ClassVar[bool] = False
    """Whether operands and the result may have 16 bits."""
    real_constants: ClassVar[tuple[str, ...]] = ()
    """Operands that are real constants even in an integer graph; the op quantizes them itself."""

    source: str = dataclasses.field(default="", metadata={"role": "source"})

    def __init_subclass__(cls, **keywords: Any) -> None:
        super().__init_subclass__(**keywords)
        dataclasses.dataclass(frozen=True, eq=False, kw_only=True)(cls)

    def infer(self) -> TensorType:
        """Returns shape and element type of the result, from operands and attributes. Its quantization is a free
        choice."""
        raise NotImplementedError

    def check(self) -> None:
        """Raises a PillionError if operands and attributes contradict each other."""

    def reference(self, arithmetic: Arithmetic, *operands: Array) -> Array:
        """Computes the exact integer result: the definition that every executor is compared with."""
        raise NotImplementedError

    def operand_arrays(self, values: Mapping[Value, Array]) -> list[Array]:
        """Returns the operands, given the `values` of those that are no constants."""
        return [v.constant if v.is_constant else values[v] for v in self.operands]

    def by_result(self, computed: object) -> dict[Value, Array]:
        """Returns the array of each result, given what `reference` returns."""
        arrays = computed if isinstance(computed, tuple) else (computed,)
        return dict(zip(self.results, map(np.asarray, arrays), strict=True))

    def compute(self, arithmetic: Arithmetic, values: Mapping[Value, Array]) -> dict[Value, Array]:
        """Computes the exact array of each result, given the `values` of the operands that are no constants."""
        return self.by_result(self.reference(arithmetic, *self.operand_arrays(values)))

    @classmethod
    def examples(cls) -> Iterator[Op]:
        """Yields small instances with extreme values, for the tests of every executor and for the docs."""
        raise NotImplementedError

    @property
    def name(self) -> str:
        """The name of the first result, which is also the op's."""
        return self.results[0].name

    @property
    def module(self) -> str:
        """The path of the PyTorch module that the op comes from (`features.3.conv`); empty if `source` names none."""
        match = _MODULE.fullmatch(self.source)
        return match[1] if match else ""

    @cached_property
    def operands(self) -> tuple[Value, ...]:
        """All values that the op reads, in the order of its fields."""
        return tuple(
            v for name in _fields_by_role(self, "operand") for v in _values_in_field(getattr(self, name))
        )

    @cached_property
    def results(self) -> tuple[Value, ...]:
        """All values that the op computes, in the order of its fields."""
        return tuple(
            v for name in _fields_by_role(self, "result") for v in _values_in_field(getattr(self, name))
        )

    @cached_property
    def activations(self) -> tuple[Value, ...]:
        """The operands that are not constant."""
        return tuple(v for v in self.operands if not v.is_constant)

    @property
    def attributes(self) -> dict[str, Any]:
        """All fields except tensors and the source line, by name."""
        return {name: getattr(self, name) for name in _fields_by_role(self, None)}

    @property
    def macs(self) -> int:
        """Multiply-accumulates of one run."""
        return 0

    @property
    def is_identity(self) -> bool:
        """Whether the op returns its operand: the same numbers in the same order, whatever they are.

        Each class declares this itself: some converters fail on segments of identities, and some runtimes skip
        them."""
        raise NotImplementedError

    def largest_sums(self) -> Iterator[tuple[int, int]]:
        """Yields the largest integers that are requantized, each with the shift of its multiplier; they must fit
        in 32 bits.

        Every class whose reference requantizes declares this."""
        return iter(())

    def has_own_int16_form(self, arithmetic: Arithmetic) -> bool:
        """Whether the op computes in a 16-bit arithmetic of our own, which other runtimes lack."""
        return False

    @property
    def why_explicit(self) -> str:
        """Explains which numbers of the arithmetic do not follow from known scales; empty if all do."""
        return ""

    why_whole: ClassVar[str] = "it does not say from which rows it makes which"
    """Why every element of the result depends on all operands, in classes without access maps."""

    def access(self, operand: Value) -> Access:
        """Returns the access map of an operand. An op without a declaration is refused in stripes and in streams."""
        return (self.why_whole,) * operand.type.rank

    def tile(self, axis: int, span: Span, missing: Pair) -> Mapping[str, object]:
        """Returns the attributes that change if the op computes a span along an axis of its result. `missing`
        counts the padding elements that the span reads before and behind the operand."""
        return {}

    @property
    def counts_rows(self) -> bool:
        """Whether the computation of a row depends on the row's number. The kernel of a tile then receives the
        number of its first row (`pillion.ir.access.FIRST_ROW`), so that all tiles share one form of the op."""
        return False

    @property
    def row_unit(self) -> int:
        """The number of rows that are computed together; tiles are multiples of it."""
        return 1

    @property
    def folded_bytes(self) -> int:
        """Bytes of the running sum or extremum that replaces the rows consumed so far, in reductions that consume
        a few rows at a time; 0 in other ops."""
        return 0

    @property
    def is_part(self) -> bool:
        """Whether the op consumes only some of the rows of a reduction: it computes a partial result."""
        return False

    @cached_property
    def row_maps(self) -> Mapping[Value, AxisMap | str | None]:
        """Maps from each operand's rows to the result's (`pillion.ir.access.row_map`)."""
        if self.folded_bytes:
            return dict.fromkeys(self.operands, SAME_ROWS)
        return {v: row_map(self.access(v), v, self.results[0]) for v in self.operands}

    @cached_property
    def why_not_tileable(self) -> str:
        """Explains why the op cannot compute some rows of its result alone; empty if it can."""
        return next((reason for reason in self.row_maps.values() if isinstance(reason, str)), "")

    def input_rows(self, operand: Value, span: Span) -> Span | None:
        """Returns the operand's rows that a span of the result reads; None if every row reads the same elements."""
        axis_map = self.row_maps[operand]
        if axis_map is SAME_ROWS:
            return span
        return axis_map.clipped_reach(span, operand.shape[ROWS]) if isinstance(axis_map, AxisMap) else None

    def check_scales(self, arithmetic: Arithmetic) -> None:
        """Raises a ValueError if a ratio of the op's scales has no fixed-point form in an arithmetic: by default, if
        `largest_sums` finds no shift for it. Other ops accept any scales."""
        for _ in self.largest_sums():
            pass

    def refuse(self, rule: str, here: object, help: str = "", problem: str = "is not valid") -> PillionError:
        """Returns an error about the op, with its line of the model: its problem, the rule and the value."""
        location = f"{here}" + (f"  ({self.source})" if self.source else "")
        return PillionError(f"{self.kind} `{self.name}` {problem}", rule=rule, here=location, help=help)

    def substitute(self, values: Mapping[Value, Value], **attributes: Any) -> Op:
        """Returns the op with some of its tensors replaced and some attributes (no tensors) changed."""
        if not attributes and not any(v in values for v in (*self.operands, *self.results)):
            return self
        changes = attributes
        for name in (*_fields_by_role(self, "operand"), *_fields_by_role(self, "result")):
            old = getattr(self, name)
            changes[name] = (
                tuple(values.get(v, v) for v in old) if isinstance(old, tuple) else values.get(old, old)
            )
        return dataclasses.replace(self, **changes)


class ScaledOp(Op):
    """The base class of ops whose kernels receive multipliers. They follow from the scales, or `explicit` holds them:
    some foreign programs store multipliers and no scales."""

    explicit: Multipliers = dataclasses.field(default=(), metadata={"role": "explicit"})

    def from_scales(self, arithmetic: Arithmetic) -> Multipliers:
        """Returns the multipliers that follow from the scales, in the order that the class documents."""
        raise NotImplementedError

    def effective_multipliers(self, arithmetic: Arithmetic) -> Multipliers:
        """Returns the explicit multipliers, or those that follow from the scales."""
        return self.explicit or self.from_scales(arithmetic)

    def from_scales_in_uint8(self) -> Multipliers:
        """Returns LiteRT's multipliers for uint8 if they differ from those for int8; empty by default."""
        return ()

    @property
    def numbers_of_multipliers(self) -> tuple[int, ...]:
        """The allowed numbers of explicit multipliers."""
        return (1,)

    def check_explicit(self) -> None:
        """Raises if kernels do not accept the explicit multipliers."""
        if len(self.explicit) not in self.numbers_of_multipliers:
            counts = " or ".join(map(str, sorted(set(self.numbers_of_multipliers))))
            raise self.refuse(f"multipliers that are given are {counts}", f"{len(self.explicit)} are given")
        strange = next((m for m in self.explicit if not m.is_normal), None)
        if strange is not None:
            rule = f"mantissas are from 2^30 to {2**31 - 1}, shifts from -31 to 30, or both are 0"
            raise self.refuse(rule, f"mantissa {strange.mantissa}, shift {strange.shift}")

    def check_scales(self, arithmetic: Arithmetic) -> None:
        self.effective_multipliers(arithmetic)

    @property
    def why_explicit(self) -> str:
        if self.explicit:
            follow = _multipliers_from_scales(self)
            if self.explicit not in (follow, self.from_scales_in_uint8()) and follow != self.explicit * len(
                follow
            ):
                return f"multipliers {_describe_multipliers(self.explicit)}, where the scales give {_describe_multipliers(follow)}"
        return ""


def values_without_scales(op: Op) -> list[Value]:
    """Returns the operands and results whose scales are unknown."""
    values = dict.fromkeys((*op.activations, *op.results, *op.operands))
    return [v for v in values if isinstance(v.type.quant, UnknownScale)]


def why_multipliers_explicit(op: Op) -> str:
    """Explains which part of an op's arithmetic does not follow from its scales; empty if all of it does."""
    unknown = values_without_scales(op)
    if unknown:
        explicit = op.explicit if isinstance(op, ScaledOp) else ()
        told = f", and the multipliers are {_describe_multipliers(explicit)}" if explicit else ""
        return f"`{unknown[0].name}` has no scale{told}"
    return op.why_explicit


def _multipliers_from_scales(op: ScaledOp) -> Multipliers:
    try:
        return op.from_scales(Arithmetic.TFLITE)
    except ValueError:  # there are none for these scales
        return ()


def _describe_multipliers(multipliers: Multipliers) -> str:
    shown = ", ".join(map(str, multipliers[:3])) or "none"
    return f"{shown}, …" if len(multipliers) > 3 else shown


def _fields_by_role(op: Op | type[Op], role: str | None) -> tuple[str, ...]:
    kind: Any = op if isinstance(op, type) else type(op)
    return _names_by_role(kind, role)


@cache
def _names_by_role(kind: type[Any], role: str | None) -> tuple[str, ...]:
    """Returns the fields of an op class that have a role, bounds last; cached, as it is asked for more often than
    anything else."""
    names = (f.name for f in dataclasses.fields(kind) if f.metadata.get("role") == role)
    return tuple(sorted(names, key=lambda name: name in ("low", "high")))


def _values_in_field(field: Value | tuple[Value, ...] | None) -> tuple[Value, ...]:
    if field is None:
        return ()
    return field if isinstance(field, tuple) else (field,)


def operand_fields(op: Op | type[Op]) -> list[str]:
    """Returns the names of an op's operand fields."""
    return list(_fields_by_role(op, "operand"))


def result_fields(op: Op | type[Op]) -> list[str]:
    """Returns the names of an op's result fields."""
    return list(_fields_by_role(op, "result"))


OpClass = TypeVar("OpClass", bound=type[Op])


def op(kind: str, quantization: Quantization = Quantization.OWN) -> Callable[[OpClass], OpClass]:
    """Registers a class as an op with its kind (its name in the text form) and its quantization rule."""

    def declare(cls: OpClass) -> OpClass:
        cls.kind, cls.quantization = kind, quantization
        return cls

    return declare


def require_rank(op: Op, value: Value, rank: int) -> None:
    """Raises if a value does not have `rank` axes."""
    if value.type.rank != rank:
        raise op.refuse(f"{op.kind}: `{value.name}` has rank {rank}", f"shape {list(value.shape)}")


def require_dtype(op: Op, value: Value, dtype: DType) -> None:
    """Raises if a value has another element type."""
    if value.dtype is not dtype:
        raise op.refuse(f"{op.kind}: `{value.name}` is {dtype.value}", value.dtype.value)


def require_same_quant(op: Op, *values: Value) -> None:
    """Raises if values do not share scale and zero point."""
    quants = {v.type.quant for v in values}
    if len(quants) > 1:
        raise op.refuse(
            f"{op.kind}: operands and result share scale and zero point", ", ".join(map(str, quants))
        )
