# SPDX-License-Identifier: Apache-2.0
"""Programs of the zoo's models, large pictures made smaller, each compiled once for all tests of a process."""

from __future__ import annotations

import dataclasses
from functools import cache

import pillion
from pillion import zoo
from pillion.program import Program
from pillion.targets import find_target

SMALL = {"mobilenet_v2": 64, "mobilenet_v3_small": 64, "unet": 24, "yolo_two_heads": 48}
TARGETS = ("cortex-m33+int8", "cortex-m55+int8", "imxrt700")
MODELS = sorted(zoo.MODELS)


@cache
def compiled(name: str, target: str) -> Program:
    """Quantized once for all targets without an NPU: they differ in kernels, not in the graph (see `run/test_executorch_zoo.py`)."""
    if target != TARGETS[0] and find_target(target).npu is None:
        return dataclasses.replace(compiled(name, TARGETS[0]), target=find_target(target))
    size = SMALL.get(name)
    module, example = zoo.build(name, size)
    return pillion.compile(
        module, example, target=target, calibrate=zoo.random_inputs(name, 2, size), name=name
    )
