# SPDX-License-Identifier: Apache-2.0
"""Loads and runs programs in the wheel's runtime, in this process."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Sequence
from functools import cache, lru_cache
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from pillion.devices.cortex_m import CORES, Isa
from pillion.errors import PillionError
from pillion.importers.pte.container import Container
from pillion.ir.types import Array
from pillion.run.executorch import segment
from pillion.run.executorch.wheel import build_plugin, find_wheel
from pillion.schemas.flatbuffer import MalformedError

MODULE = "executorch.extension.pybindings._portable_lib"
"""The runtime itself. `executorch.runtime` would import the whole of ExecuTorch's compiler first: seconds."""
SENTINEL = "cortex_m::quantized_add.out"
"""An operator that only a plug-in brings."""
_MOST_WORDS = 1024


class Host:
    """The runtime of this process. There is one: operators cannot be registered twice."""

    def __init__(self, plugin: Path | None = None) -> None:
        wheel = find_wheel()
        plugin = plugin or build_plugin(wheel)
        import_module("torch")  # brings the libraries that the runtime is linked with
        self.module: Any = import_module(MODULE)
        self.library = load_plugin(plugin, wheel.libraries)
        # Python's own reference keeps the callback alive as long as the runtime may call it.
        self.runner = segment.RUNNER(segment.run)
        self.loaded: tuple[bytes, Any] | None = None
        """The program that ran last, and its method."""
        self.register()

    def register(self) -> None:
        """Registers our operators, once in a process."""
        if SENTINEL in self.module._get_operator_names():
            raise PillionError(
                f"`{SENTINEL}` is already in this process's ExecuTorch runtime",
                rule="operators are registered once in a process",
                here="another library has registered them",
                help="run in a process that loads no other library of cortex_m operators",
            )
        _want_room(self.library.pillion_register(self.runner), "operators")

    def play_delegates(self, program: bytes) -> None:
        """Lets the interpreter of segments answer to whatever name a program has for its NPU."""
        for name in segment.delegates(program):
            _want_room(self.library.pillion_register_delegate(name.encode()), "delegates")

    def execute(self, program: bytes, inputs: Sequence[Array], goes_on: bool = False) -> tuple[Array, ...]:
        """Runs a program on one sample, and gives copies of its outputs. It is loaded anew, unless it goes on from the run before."""
        import torch

        self.play_delegates(program)
        tensors = [torch.from_numpy(np.array(x)) for x in inputs]
        self.library.pillion_set_helium(is_for_helium(program))
        try:
            outputs = self.method(program, goes_on)(tensors)
            return tuple(out.numpy().copy() for out in outputs)
        except (RuntimeError, ValueError) as error:
            raise self.refused(str(error)) from None

    def method(self, program: bytes, goes_on: bool) -> Any:
        """Gives the method of a program, loaded anew or as the run before has left it."""
        if goes_on and self.loaded is not None and self.loaded[0] == program:
            return self.loaded[1]
        if goes_on:
            raise ValueError("the run before was of another program: its states are not at hand")
        self.loaded = None
        verification = self.module.Verification.InternalConsistency
        held = self.module._load_program_from_buffer(program, program_verification=verification)
        self.loaded = program, held.load_method("forward")
        return self.loaded[1]

    def refused(self, words: str) -> PillionError:
        """Makes the error for a program that the runtime does not run, in the runtime's own words."""
        said = ctypes.create_string_buffer(_MOST_WORDS)
        length = self.library.pillion_last_refusal(said, _MOST_WORDS)
        reason = said.raw[:length].decode(errors="replace") or segment.last_error()
        return PillionError(
            "the ExecuTorch runtime does not run the program",
            rule=reason or "an error code of ExecuTorch (runtime/core/error.h)",
            here=words.splitlines()[0] if words else "no reason given",
            help="was the file written by this version of Pillion, for this runtime (--runtime)?",
        )


def _want_room(error: int, what: str) -> None:
    """Raises where the runtime's table of something is full."""
    if error:
        raise PillionError(
            f"the ExecuTorch runtime does not take more {what}",
            rule=f"its table of {what} has a fixed size",
            here=f"error 0x{error:x}",
            help=f"run in a process that loads no other library of {what}",
        )


def load_plugin(plugin: Path, libraries: Sequence[Path]) -> ctypes.CDLL:
    """Loads the plug-in, so that it finds the runtime's symbols in the libraries that Python has loaded for itself alone."""
    for path in libraries:
        ctypes.CDLL(str(path), mode=ctypes.RTLD_GLOBAL | os.RTLD_NOLOAD)
    library = ctypes.CDLL(str(plugin))
    library.pillion_register.argtypes = [segment.RUNNER]
    library.pillion_register_delegate.argtypes = [ctypes.c_char_p]
    library.pillion_set_helium.argtypes = [ctypes.c_int]
    library.pillion_last_refusal.argtypes = [ctypes.c_char_p, ctypes.c_size_t]
    library.pillion_last_refusal.restype = ctypes.c_size_t
    return library


@lru_cache(maxsize=16)
def is_for_helium(program: bytes) -> bool:
    """Whether a program says that its core has Helium: the library's kernels for it have limits of their own."""
    try:
        record = Container(program, "program").record
    except (MalformedError, PillionError):
        return False
    core = CORES.get(record.core) if record else None
    return core is not None and core.isa is Isa.MVE


@cache
def host(plugin: Path | None = None) -> Host:
    """Gives the runtime, which is made when it is first needed."""
    return Host(plugin)
