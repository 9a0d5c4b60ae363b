# SPDX-License-Identifier: Apache-2.0
"""The naming scheme of the kernel library: each instruction set has a folder below kernels/, a header and a
suffix."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Any, TypeVar

from pillion.devices.cortex_m import Isa
from pillion.emitters.c.kernel import Call, Kernel, Params, Routine
from pillion.emitters.c.kernel_conditions import (
    Condition,
    OfOp,
    all_of,
    ignore_arithmetic,
    in_place_same_shape,
    is_tile,
    operands_in_fields,
)
from pillion.emitters.c.op_fields import with_op_fields
from pillion.ir.numerics import Arithmetic
from pillion.ir.op import Op, operand_fields
from pillion.ir.types import Value

OpClass = TypeVar("OpClass", bound=Op)
PACKED = {
    "weights",
    "bias",
    "input_weights",
    "recurrent_weights",
    "anchors",
    "thresholds",
    "window",
    "filters",
}
"""Operands that params hold in packed form; all others are arguments of kernels."""
Calls = Callable[[OpClass, Arithmetic], tuple[Call, ...]]


def argument_fields(op: type[Op]) -> list[str]:
    """Returns the operands that kernels of an op receive as arguments; its params hold the optional ones, too."""
    optional = {f.name for f in fields(op) if f.default is None}
    return [name for name in operand_fields(op) if name not in PACKED | optional]


def types_suffix(types: str) -> str:
    """Returns the end of the names of kernels of some types: nothing for s8, _8_16 for s8_s16."""
    return "" if types in ("", "s8") else f"_{types.replace('s', '')}"


def kernel_name(op: type[Op], function: str) -> str:
    """Returns the name of an op's kernel by its C function: conv2d_1x1 for conv2d_1x1_s8, conv2d_1x1_8_16 for
    conv2d_1x1_s8_s16. It begins with the op's kind, even if the function is named after another op."""
    stem, types = re.fullmatch(r"(.*?)((?:_[sf]\d+)*)", function).groups()  # type: ignore[union-attr]  # all match
    return (stem if stem.startswith(op.kind) else op.kind) + types_suffix(types[1:])


@dataclass(frozen=True)
class Library:
    """The kernels of one instruction set."""

    isa: Isa
    header: str

    @property
    def suffix(self) -> str:
        """The suffix of functions and files; empty for the portable kernels."""
        return "" if self.isa is Isa.PORTABLE else f"_{self.isa.value}"

    def routine(self, name: str, *also: str) -> Routine:
        """Returns the function of a kernel; `also` names the files that it shares with other kernels."""
        return Routine(
            f"pillion_{name}{self.suffix}", self._file(name), self.header, tuple(map(self._file, also))
        )

    def _file(self, name: str) -> str:
        return f"{self.isa.value}/{name}{self.suffix}.c"

    def kernel(
        self,
        op: type[OpClass],
        routine: str | Routine | OfOp[OpClass, str | Routine],
        params: OfOp[OpClass, Params] = lambda op: {},
        *,
        operands: str | Callable[[OpClass], tuple[Value, ...]] = "",
        counts_rows: Callable[[OpClass], bool] = lambda op: False,
        also: tuple[str, ...] = (),
        name: str = "",
        **conditions_and_cost: Any,
    ) -> Kernel:
        """Returns a kernel of one call.

        It names its routine, without prefix and suffix, perhaps by a function of the op; `also` names files that it shares
        with other kernels. `params` has the fields of its struct that do not follow from the op's own (op_fields.py). Its
        arguments are the `operands`, by field; by default all that are not packed. Its name follows from its routine
        (`kernel_name`), or is the op's kind."""
        calls = self._one_call(routine, params, operands or " ".join(argument_fields(op)), also, counts_rows)
        function = (
            routine.name if isinstance(routine, Routine) else routine if isinstance(routine, str) else ""
        )
        name = name or kernel_name(op, function.removeprefix("pillion_").removesuffix(self.suffix))
        return self.kernel_of_calls(op, calls, name=name, **conditions_and_cost)

    def kernel_of_calls(
        self,
        op: type[OpClass],
        calls: Calls[OpClass],
        *,
        name: str = "",
        requires: Sequence[Condition[OpClass]] = (),
        in_place: str | Callable[[OpClass], tuple[Value, ...]] = "",
        is_tiled: bool = False,
        **memory_and_cost: Any,
    ) -> Kernel:
        """Returns a kernel of this library. Its functions are called only with ops of the kernel's class; a result without
        elements needs no call. All conditions of `requires` are evaluated. The result may overwrite those operands in the
        fields `in_place` that have its shape."""

        def calls_for_elements(op: OpClass, arithmetic: Arithmetic) -> tuple[Call, ...]:
            return calls(op, arithmetic) if op.results[0].type.elements else ()

        def of_shape(op: OpClass) -> tuple[Value, ...]:
            return (
                in_place_same_shape(op, *operands_in_fields(op, in_place))
                if isinstance(in_place, str)
                else in_place(op)
            )

        functions: Any = {
            "calls": calls_for_elements,
            "check": all_of(*[is_tile] * is_tiled, *requires),
            "in_place": of_shape,
        }
        return Kernel(
            f"{name or op.kind}{self.suffix}",
            op,
            isa=self.isa,
            is_tiled=is_tiled,
            **functions,
            **memory_and_cost,
        )

    def _one_call(
        self,
        routine: str | Routine | OfOp[OpClass, str | Routine],
        params: OfOp[OpClass, Params],
        operands: str | Callable[[OpClass], tuple[Value, ...]],
        also: tuple[str, ...],
        counts_rows: Callable[[OpClass], bool],
    ) -> Calls[OpClass]:
        """Returns the function that makes the call of a kernel."""
        of_name = None if isinstance(routine, (str, Routine)) else ignore_arithmetic(routine)
        of_params = ignore_arithmetic(params)

        def calls(op: OpClass, arithmetic: Arithmetic) -> tuple[Call, ...]:
            named = of_name(op, arithmetic) if of_name else routine
            chosen = named if isinstance(named, Routine) else self.routine(str(named), *also)
            operand_values = operands_in_fields(op, operands) if isinstance(operands, str) else operands(op)
            full = with_op_fields(chosen.params_type, of_params(op, arithmetic), op, arithmetic)
            return (Call(chosen, full, operand_values, op.results[0], counts_rows(op)),)

        return calls


PORTABLE = Library(Isa.PORTABLE, "kernels.h")
DSP = Library(Isa.DSP, "dsp.h")
MVE = Library(Isa.MVE, "mve.h")
HOST = Library(Isa.HOST, "host.h")
SCALAR = Library(Isa.SCALAR, "scalar.h")
