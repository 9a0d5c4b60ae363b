# SPDX-License-Identifier: Apache-2.0
"""The values that options accept, in a module of their own: a wrong value is refused before large imports."""

from __future__ import annotations

from typing import Literal, get_args

from pillion.errors import require_one_of

IoDtype = Literal["float32", "int8", "uint8", "int16"]
"""Data type of inputs and outputs."""
IoLayout = Literal["nchw", "nhwc"]
"""Axis order of image inputs and outputs."""
StateForm = Literal["kept", "io"]
"""Whether state persists inside the program between runs, or is an input and an output of each run."""
ArithmeticName = Literal["cmsis-nn", "tflite", "tflite-integer"]
"""Arithmetic whose results a program reproduces bit for bit."""
Precision = Literal["int8", "int16", "mixed"]
Ranges = Literal["auto", "minmax", "percentile", "mse"]
"""How calibration chooses a tensor's range: everything seen, all but the rarest values, or least squared error.
`auto` chooses the last if its error is much lower, otherwise the first."""
WeightRounding = Literal["auto", "nearest", "fitted"]
"""How layers' weights are rounded: to the nearest steps, or so that results for calibration samples are nearest. `auto`
fits them where tensors may have 16 bits: beside tensors of 8 bits, it changes little."""
Optimize = Literal["speed", "size"]
"""Whether kernels are chosen and compiled for speed or size."""
VelaOptimise = Literal["Performance", "Size"]
"""Whether Vela optimizes the NPU's code for speed or for memory."""
Runtime = Literal["1.4", "1.5"]
"""ExecuTorch version whose operators a .pte calls."""
CORTEX_M, PILLION = "cortex_m", "pillion"
"""The kernels of a .pte: ExecuTorch's library, or program images in a delegate."""
NEWEST_RUNTIME: Runtime = "1.5"


def known_runtime(name: str, option: str = "runtime") -> Runtime:
    """Returns the ExecuTorch version of this name; raises for others. The older name `main` is the newest one."""
    if name == "main":
        return NEWEST_RUNTIME
    require_one_of(option, name, get_args(Runtime))
    return "1.4" if name == "1.4" else "1.5"


REFERENCE, HOST, EXECUTORCH, LITERT, NPU = "reference", "host", "executorch", "litert", "npu"
LITERT_FILE = "litert-file"
"""Names of the executors that are not boards."""
EXECUTORS = (REFERENCE, HOST, EXECUTORCH, LITERT, LITERT_FILE, NPU)
