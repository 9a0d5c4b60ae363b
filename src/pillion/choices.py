# SPDX-License-Identifier: Apache-2.0
"""The values that options take. They stand apart so that a wrong one is refused before anything large is imported."""

from __future__ import annotations

from typing import Literal

IoDtype = Literal["float32", "int8", "uint8"]
"""What goes in and comes out."""
IoLayout = Literal["nchw", "nhwc"]
"""How images do."""
StateForm = Literal["kept", "io"]
"""Whether what a model remembers lives between its runs, or goes in and comes out of each."""
ArithmeticName = Literal["cmsis-nn", "tflite", "tflite-integer"]
"""Whose bits a program computes, where that is chosen."""
Ranges = Literal["auto", "minmax", "percentile", "mse"]
"""How calibration comes to the range of a tensor: all that it saw, all but the rarest values, or what gives the least squared error; `auto` is
the last one where that is much less, and else the first."""
Runtime = Literal["1.4", "main"]
"""The ExecuTorch whose operators a .pte calls."""
REFERENCE, HOST, EXECUTORCH, LITERT, NPU = "reference", "host", "executorch", "litert", "npu"
LITERT_FILE = "litert-file"
"""The executors that are no boards."""
EXECUTORS = (REFERENCE, HOST, EXECUTORCH, LITERT, LITERT_FILE, NPU)
