# SPDX-License-Identifier: Apache-2.0
"""How the kernel library names things: each instruction set has a folder below kernels/, a header and a suffix of its own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from pillion.devices.cortex_m import Isa
from pillion.emitters.c.kernel import A_CALL, Call, CallCost, Kernel, Routine
from pillion.ir.numerics import Arithmetic
from pillion.ir.op import Op
from pillion.ir.types import Value
from pillion.ir.verdict import Verdict

OpClass = TypeVar("OpClass", bound=Op)


@dataclass(frozen=True)
class Library:
    """The kernels of one instruction set."""

    isa: Isa
    header: str

    @property
    def suffix(self) -> str:
        """The end of the names of functions and files; portable ones have the plain names."""
        return "" if self.isa is Isa.PORTABLE else f"_{self.isa.value}"

    def routine(self, name: str, *also: str) -> Routine:
        """Gives the function of a kernel. `also` names the files with the functions that it shares with other kernels."""
        return Routine(
            f"pillion_{name}{self.suffix}", self._file(name), self.header, tuple(map(self._file, also))
        )

    def _file(self, name: str) -> str:
        return f"{self.isa.value}/{name}{self.suffix}.c"

    def row(
        self,
        op: type[OpClass],
        calls: Callable[[OpClass, Arithmetic], tuple[Call, ...]],
        takes: Callable[[OpClass, Arithmetic], tuple[Verdict, ...]],
        *,
        name: str = "",
        scratch_bytes: Callable[[OpClass], int] = lambda op: 0,
        in_place: Callable[[OpClass], tuple[Value, ...]] = lambda op: (),
        overread_bytes: int = 0,
        each_call: CallCost = A_CALL,
        work: Callable[[OpClass], float] | None = None,
        is_for_parts: bool = False,
        further_flash: Callable[[OpClass], int] = lambda op: 0,
        own_constants: bool = False,
        row_unit: int = 1,
    ) -> Kernel:
        """Makes a row of the table of kernels. Its functions take the op's own class, because they are called with no other; a
        result without elements takes no call."""

        def calls_for_elements(made: OpClass, arithmetic: Arithmetic) -> tuple[Call, ...]:
            return calls(made, arithmetic) if made.results[0].type.elements else ()

        functions: Any = {
            "calls": calls_for_elements,
            "takes": takes,
            "scratch_bytes": scratch_bytes,
            "in_place": in_place,
            "work": work,
            "is_for_parts": is_for_parts,
            "further_flash": further_flash,
            "own_constants": own_constants,
            "row_unit": row_unit,
        }
        full_name = f"{name or op.kind}{self.suffix}"
        return Kernel(full_name, op, **functions, overread_bytes=overread_bytes, each_call=each_call)


PORTABLE = Library(Isa.PORTABLE, "kernels.h")
DSP = Library(Isa.DSP, "dsp.h")
MVE = Library(Isa.MVE, "mve.h")
HOST = Library(Isa.HOST, "host.h")
SCALAR = Library(Isa.SCALAR, "scalar.h")
