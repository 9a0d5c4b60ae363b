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
from pillion.run.executorch import npu_delegate
from pillion.run.executorch.wheel import build_plugin, find_wheel
from pillion.schemas.flatbuffer import MalformedError

SENTINEL = "cortex_m::quantized_add.out"
"""An operator that only a plug-in registers."""
_MOST_WORDS = 1024


class RuntimeHost:
    """The runtime of this process. Operators can be registered only once, so it is unique."""

    def __init__(self, plugin: Path | None = None) -> None:
        wheel = find_wheel()
        plugin = plugin or build_plugin(wheel)
        import_module("torch")  # loads the libraries that the runtime needs
        # `executorch.runtime` would import ExecuTorch's compiler, which takes seconds.
        self.module: Any = import_module(f"executorch.{wheel.module}")
        self.library = load_plugin(plugin, wheel.libraries)
        # This reference keeps the callback alive while the runtime may call it.
        self.runner = npu_delegate.RUNNER(npu_delegate.run_segment)
        self.loaded: tuple[bytes, Any] | None = None
        """The last program and its method."""
        self.register()

    def register(self) -> None:
        """Registers Pillion's operators, once per process."""
        if SENTINEL in self.module._get_operator_names():
            raise PillionError(
                f"`{SENTINEL}` is already in this process's ExecuTorch runtime",
                rule="operators are registered once in a process",
                here="another library has registered them",
                help="run in a process that loads no other library of cortex_m operators",
            )
        _require_table_room(self.library.pillion_register(self.runner), "operators")

    def register_delegates(self, program: bytes) -> None:
        """Registers the interpreter of segments under all delegate names of a program."""
        for name in npu_delegate.delegate_names(program):
            _require_table_room(self.library.pillion_register_delegate(name.encode()), "delegates")

    def execute(self, program: bytes, inputs: Sequence[Array], goes_on: bool = False) -> tuple[Array, ...]:
        """Returns copies of a program's outputs for one sample. The program is loaded again unless
        `goes_on`."""
        import torch

        self.register_delegates(program)
        tensors = [torch.from_numpy(np.array(x)) for x in inputs]
        self.library.pillion_set_helium(is_for_helium(program))
        try:
            outputs = self.method(program, goes_on)(tensors)
            return tuple(out.numpy().copy() for out in outputs)
        except (RuntimeError, ValueError) as error:
            raise self.refused(str(error)) from None

    def method(self, program: bytes, goes_on: bool) -> Any:
        """Returns the method of a program, loaded again or from the previous run."""
        if goes_on and self.loaded is not None and self.loaded[0] == program:
            return self.loaded[1]
        if goes_on:
            raise ValueError("the run before was of another program: its states are not at hand")
        self.loaded = None
        verification = self.module.Verification.InternalConsistency
        loaded = self.module._load_program_from_buffer(program, program_verification=verification)
        self.loaded = program, loaded.load_method("forward")
        return self.loaded[1]

    def refused(self, words: str) -> PillionError:
        """Returns the error for a program that the runtime refuses, in the runtime's words."""
        message = ctypes.create_string_buffer(_MOST_WORDS)
        length = self.library.pillion_last_refusal(message, _MOST_WORDS)
        reason = message.raw[:length].decode(errors="replace") or npu_delegate.last_error()
        return PillionError(
            "the ExecuTorch runtime does not run the program",
            rule=reason or "an error code of ExecuTorch (runtime/core/error.h)",
            here=words.splitlines()[0] if words else "no reason given",
            help="was the file written by this version of Pillion, for this runtime (--runtime)?",
        )


def _require_table_room(error: int, what: str) -> None:
    """Raises if a table of the runtime is full."""
    if error:
        raise PillionError(
            f"the ExecuTorch runtime does not take more {what}",
            rule=f"its table of {what} has a fixed size",
            here=f"error 0x{error:x}",
            help=f"run in a process that loads no other library of {what}",
        )


def load_plugin(plugin: Path, libraries: Sequence[Path]) -> ctypes.CDLL:
    """Loads the plug-in with the runtime's symbols, from the libraries that Python loaded locally."""
    for path in libraries:
        ctypes.CDLL(str(path), mode=ctypes.RTLD_GLOBAL | os.RTLD_NOLOAD)
    library = ctypes.CDLL(str(plugin))
    library.pillion_register.argtypes = [npu_delegate.RUNNER]
    library.pillion_register_delegate.argtypes = [ctypes.c_char_p]
    library.pillion_set_helium.argtypes = [ctypes.c_int]
    library.pillion_last_refusal.argtypes = [ctypes.c_char_p, ctypes.c_size_t]
    library.pillion_last_refusal.restype = ctypes.c_size_t
    return library


@lru_cache(maxsize=16)
def is_for_helium(program: bytes) -> bool:
    """Whether a program's core has Helium, for which the library's kernels have limits of their own."""
    try:
        record = Container(program, "program").record
    except (MalformedError, PillionError):
        return False
    core = CORES.get(record.core) if record else None
    return core is not None and core.isa is Isa.MVE


@cache
def host(plugin: Path | None = None) -> RuntimeHost:
    """Returns the runtime, created at the first use."""
    return RuntimeHost(plugin)
