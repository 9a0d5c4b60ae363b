# SPDX-License-Identifier: Apache-2.0
"""The Helium kernel of bilinear resizing in float32."""

from __future__ import annotations

from pillion.emitters.c.kernel import Kernel
from pillion.emitters.c.kernel_conditions import all_int8
from pillion.emitters.c.kernel_library import MVE
from pillion.emitters.c.portable.resize import calls_resize_float
from pillion.ir.numerics import Arithmetic
from pillion.ir.verdict import Verdict
from pillion.ops.resize import ResizeBilinearFloat

LEAST_CHANNELS = 2


def check(op: ResizeBilinearFloat, arithmetic: Arithmetic) -> tuple[Verdict, ...]:
    """Checks whether operand and result are int8 with at least two channels; for one, portable C takes fewer
    instructions."""
    channels = op.x.shape[-1]
    several = Verdict("channels", channels >= LEAST_CHANNELS, f"at least {LEAST_CHANNELS}", str(channels))
    return (*all_int8(op), several)


KERNELS: tuple[Kernel, ...] = (MVE.kernel(ResizeBilinearFloat, MVE.port(calls_resize_float), check),)
