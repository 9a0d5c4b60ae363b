# SPDX-License-Identifier: Apache-2.0
"""The calling convention of all kernels, read from their headers: images name a kernel by its number in this list."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from pillion.devices.cortex_m import Isa
from pillion.emitters.c.kernel_library import HOST
from pillion.emitters.c.params_structs import ParamsField, params_structs, public_headers

ISAS: tuple[Isa, ...] = (Isa.PORTABLE, Isa.SCALAR, Isa.DSP, Isa.MVE)
"""The instruction sets by their bit in images and kernel sets."""
LOG2_ALIGNMENT = {"int16_t": 1, "int32_t": 2, "uint32_t": 2, "float": 2}
"""Element type → the logarithm of its alignment; 0 for all others."""
SCRATCH_LOG2_ALIGNMENT = 3
"""Kernels keep pointers there, which have 8 bytes on a host."""

_COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
_DECLARATION = re.compile(r"\bvoid (pillion_\w+)\((const pillion_\w+_params \*p, [^)]*)\);")


@dataclass(frozen=True)
class AbiKernel:
    """A kernel: its number in images, its operands in the order of its arguments, the fields of its params."""

    number: int
    name: str
    header: str
    operands: tuple[str, ...]
    """The C type of each operand: the inputs, perhaps the number of a row, the output, scratch memory."""
    fields: tuple[ParamsField, ...]

    @property
    def row(self) -> int | None:
        """The position of the operand that is the number of the first row; None without one."""
        return self.operands.index("uint32_t") if "uint32_t" in self.operands else None

    @property
    def alignment(self) -> int:
        """The logarithms of the operands' alignments, 2 bits each."""
        element = [LOG2_ALIGNMENT.get(kind.split()[-2] if "*" in kind else "", 0) for kind in self.operands]
        return sum(bits << 2 * i for i, bits in enumerate((*element[:-1], SCRATCH_LOG2_ALIGNMENT)))

    @property
    def pointers(self) -> tuple[int, ...]:
        """The positions of the pointers among the fields."""
        return tuple(i for i, field in enumerate(self.fields) if field.is_pointer)

    @property
    def isa(self) -> Isa:
        """Its instruction set."""
        return next((isa for isa in ISAS if self.header == f"{isa.value}.h"), Isa.PORTABLE)


@dataclass(frozen=True)
class KernelAbi:
    """All kernels of this version, sorted by name, with a hash of their declarations and of the comments that describe their data."""

    kernels: tuple[AbiKernel, ...]
    hash: int

    def number(self, name: str) -> int:
        """Returns the number of a kernel."""
        return _numbers(self)[name]


def isa_bits(isas: Iterable[Isa]) -> int:
    """Returns instruction sets as bits."""
    return sum(1 << ISAS.index(isa) for isa in set(isas))


@cache
def _numbers(abi: KernelAbi) -> dict[str, int]:
    return {kernel.name: kernel.number for kernel in abi.kernels}


def kernel_abi() -> KernelAbi:
    """Returns the kernels of the library and of plug-ins, except those for this computer."""
    return _abi_of(tuple(header for header in public_headers() if header.name != HOST.header))


@cache
def _abi_of(headers: tuple[Path, ...]) -> KernelAbi:
    structs = params_structs()
    digest = hashlib.sha256()
    found: dict[str, tuple[str, tuple[str, ...]]] = {}
    for header in headers:
        text = header.read_text("utf-8")
        digest.update(text.encode())
        for name, arguments in _DECLARATION.findall(_COMMENT.sub("", text)):
            if f"{name}_params" in structs:
                found[name] = (header.name, tuple(map(_argument_type, arguments.split(",")[1:])))
    kernels = tuple(
        AbiKernel(number, name, *found[name], structs[f"{name}_params"])
        for number, name in enumerate(sorted(found))
    )
    return KernelAbi(kernels, int.from_bytes(digest.digest()[:4], "little"))


def _argument_type(argument: str) -> str:
    """Returns the type of an argument: `const int8_t *x` → `const int8_t *`."""
    match = re.fullmatch(r"\s*(.*?)(\*?)\s*\w+\s*", argument, re.DOTALL)
    assert match is not None
    return " ".join(f"{match[1]} {match[2]}".split())
