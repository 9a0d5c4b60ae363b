# SPDX-License-Identifier: Apache-2.0
"""Run a firmware's C on this computer: the same model.c, weights.c and kernels, as a shared library."""

from __future__ import annotations

import ctypes
import re
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pillion.boards.build import Compiler, compile_objects, link
from pillion.boards.firmware import C_FLAGS, read_firmware
from pillion.boards.toolchain import host_compiler
from pillion.errors import PillionError

_ALIGNMENT = 16
_GUARD_BYTES = 4096
# Lies around the arena, and in it before a run: no kernel may write there or count on zeros.
_JUNK = 0xA5
_LIBRARY = "libpillion_model.so"


class _Buffer(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("offset", ctypes.c_uint32), ("bytes", ctypes.c_uint32)]


_AfterOp = ctypes.CFUNCTYPE(None, ctypes.c_uint32)


class _Model(ctypes.Structure):
    """`pillion_model` of pillion/model.h."""

    _fields_ = [
        ("name", ctypes.c_char_p),
        ("arena_bytes", ctypes.c_uint32),
        ("input_count", ctypes.c_uint32),
        ("output_count", ctypes.c_uint32),
        ("op_count", ctypes.c_uint32),
        ("inputs", ctypes.POINTER(_Buffer)),
        ("outputs", ctypes.POINTER(_Buffer)),
        ("op_names", ctypes.POINTER(ctypes.c_char_p)),
        ("run", ctypes.CFUNCTYPE(None, ctypes.c_void_p, _AfterOp)),
    ]


@dataclass(frozen=True)
class Place:
    """An input or an output in the arena."""

    name: str
    offset: int
    bytes: int


class HostModel:
    """A compiled model, ready to run. `native` lets the compiler use all that this processor has."""

    def __init__(self, firmware: Path, *, native: bool = False) -> None:
        # Of the library nothing is used but the descriptor; it keeps itself loaded.
        self._library = ctypes.CDLL(str(build(firmware, native=native)))
        self._model = _Model.in_dll(self._library, _descriptor(firmware))
        self.name = self._model.name.decode()
        self.arena_bytes = int(self._model.arena_bytes)
        self.inputs = _places(self._model.inputs, self._model.input_count)
        self.outputs = _places(self._model.outputs, self._model.output_count)
        self.op_names = [self._model.op_names[i].decode() for i in range(self._model.op_count)]
        self._memory = ctypes.create_string_buffer(self.arena_bytes + 2 * _GUARD_BYTES + _ALIGNMENT)
        first = ctypes.addressof(self._memory) + _GUARD_BYTES
        self._arena = first + -first % _ALIGNMENT
        self._fill()

    def run(self, inputs: Sequence[bytes]) -> list[bytes]:
        """The outputs for one sample."""
        self._check_inputs(inputs)
        self._fill()
        for place, data in zip(self.inputs, inputs, strict=True):
            ctypes.memmove(self._arena + place.offset, bytes(data), place.bytes)
        self._model.run(self._arena, _AfterOp())
        self._check_guards()
        return [ctypes.string_at(self._arena + place.offset, place.bytes) for place in self.outputs]

    def microseconds(self, repeat: int = 20) -> float:
        """Median time of a run, on whatever the arena holds: the work does not depend on the values."""
        times = []
        for _ in range(repeat):
            start = time.perf_counter_ns()
            self._model.run(self._arena, _AfterOp())
            times.append(time.perf_counter_ns() - start)
        return statistics.median(times) / 1000

    def _fill(self) -> None:
        ctypes.memset(self._arena - _GUARD_BYTES, _JUNK, self.arena_bytes + 2 * _GUARD_BYTES)

    def _check_inputs(self, inputs: Sequence[bytes]) -> None:
        wanted = [place.bytes for place in self.inputs]
        got = [len(data) for data in inputs]
        if wanted != got:
            raise PillionError(
                f"the inputs do not fit {self.name}",
                rule=f"bytes of {', '.join(place.name for place in self.inputs)}: {wanted}",
                here=f"bytes given: {got}",
                help="pass one bytes object for each input, in the order of the model",
            )

    def _check_guards(self) -> None:
        clean = bytes([_JUNK]) * _GUARD_BYTES
        for side, start in (
            ("before", self._arena - _GUARD_BYTES),
            ("after", self._arena + self.arena_bytes),
        ):
            guard = ctypes.string_at(start, _GUARD_BYTES)
            if guard != clean:
                touched = [i for i in range(_GUARD_BYTES) if guard[i] != _JUNK]
                nearest = _GUARD_BYTES - touched[-1] if side == "before" else touched[0] + 1
                raise PillionError(
                    f"{self.name} wrote outside its arena",
                    rule=f"the arena has {self.arena_bytes} bytes",
                    here=f"{len(touched)} bytes {side} the arena were changed, the nearest {nearest} from it",
                    help="this is a defect of a kernel or of the memory plan: please report it",
                )


def build(firmware: Path, *, native: bool = False) -> Path:
    """The shared library of a firmware, in the cache."""
    parts = read_firmware(firmware)
    # -O3 gives up size for speed, which is right here: a third less time than -O2 in portable kernels.
    flags = ("-O3", "-fPIC", *(("-march=native",) if native else ()))
    compiler = Compiler(host_compiler(), (*flags, *C_FLAGS))
    objects = [*compile_objects(compiler, parts.model), *compile_objects(compiler, parts.kernels)]
    return link(Compiler(compiler.command, ("-shared",)), objects, parts.folder, (), _LIBRARY)


def _descriptor(firmware: Path) -> str:
    found = re.search(
        r"^extern const pillion_model (\w+);", (firmware / "model.h").read_text("utf-8"), re.MULTILINE
    )
    if found is None:
        raise PillionError(
            "the model's name is not known",
            rule="model.h says: extern const pillion_model pillion_model_NAME;",
            here=str(firmware / "model.h"),
            help="write the firmware folder again with: pillion compile",
        )
    return found[1]


def _places(buffers: ctypes.Array[_Buffer], count: int) -> list[Place]:
    return [
        Place(buffers[i].name.decode(), int(buffers[i].offset), int(buffers[i].bytes)) for i in range(count)
    ]
