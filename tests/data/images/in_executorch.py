# SPDX-License-Identifier: Apache-2.0
"""Runs programs in the runtime of the installed ExecuTorch: a list of (program, samples) is unpickled from standard input, and the bytes of
all outputs, or what the runtime said, are pickled to standard output. The arguments are a
library with delegates, or an empty word, and `npu` for Pillion's interpreter of NPU segments, also under the names that follow, or
`etdump` and a file for the events of the last program."""

from __future__ import annotations

import ctypes
import os
import pickle
import sys
from importlib import import_module, util
from pathlib import Path
from typing import Any

import numpy as np
import torch

FOLDER = Path(next(iter(util.find_spec("executorch").submodule_search_locations)))  # type: ignore[union-attr]


def runtime() -> Any:
    for name in ("_portable_lib", "_C"):  # 1.4, 1.5
        for file in (FOLDER / "extension" / "pybindings").glob(f"{name}.*.so"):
            module = import_module(f"executorch.extension.pybindings.{name}")
            for library in (file, FOLDER / "backends" / "qualcomm" / "libqnn_executorch_backend.so"):
                if library.exists():
                    ctypes.CDLL(str(library), mode=ctypes.RTLD_GLOBAL | os.RTLD_NOLOAD)
            return module
    raise ImportError("no runtime")


def outputs(module: Any, program: bytes, samples: list[list[Any]], etdump: str) -> bytes | str:
    try:
        loaded = module._load_program_from_buffer(program, bool(etdump))
        method = loaded.load_method("forward")
        ran = [method([torch.from_numpy(np.array(x)) for x in sample]) for sample in samples]
        if etdump:
            loaded.write_etdump_result_to_file(etdump)
        return b"".join(y.numpy().tobytes() for run in [[y.clone() for y in ys] for ys in ran] for y in run)
    except (RuntimeError, ValueError) as error:
        return str(error)


if __name__ == "__main__":
    jobs = pickle.load(sys.stdin.buffer)
    module = runtime()
    if sys.argv[1]:
        ctypes.CDLL(sys.argv[1])
    if sys.argv[2:3] == ["npu"]:
        from pillion.run.executorch.runtime import host

        for program, _ in jobs:
            host().register_delegates(program)
        for name in sys.argv[3:]:
            host().library.pillion_register_delegate(name.encode())
    etdump = sys.argv[3] if sys.argv[2:3] == ["etdump"] else ""
    found = [outputs(module, *one, etdump) for one in jobs]
    sys.stdout.buffer.write(pickle.dumps(found))
