# SPDX-License-Identifier: Apache-2.0
"""The kernels of each instruction set, from the modules of all families; the most specialized of an op first."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module

from pillion.devices.cortex_m import Isa
from pillion.emitters.c.kernel import Kernel

FAMILIES = {
    "families": (
        *(
            "elementwise",
            "conversions",
            "sums_and_products",
            "compare_select",
            "div",
            "log_mel",
            "matmul",
            "movement",
            "normalize",
            "pool",
        ),
        *("prelu", "recurrent", "reduce", "resize", "biquads", "window_statistic", "four_bits"),
    ),
    "portable": ("conv", "detections", "layers16", "magnitude", "signal_stages", "transpose_conv"),
    "scalar": ("conv", "depthwise"),
    "dsp": ("conv", "depthwise", "linear", "layers16"),
    "mve": ("conv", "depthwise", "layers16", "layers8_16"),
    "host": ("conv",),
}
"""Folder → its modules with kernels."""


def _all_kernels() -> Iterator[Kernel]:
    for folder, names in FAMILIES.items():
        for name in names:
            yield from import_module(f"pillion.emitters.c.{folder}.{name}").KERNELS


_ALL = tuple(_all_kernels())
KERNELS_OF: dict[Isa, tuple[Kernel, ...]] = {isa: tuple(k for k in _ALL if k.isa is isa) for isa in Isa}
