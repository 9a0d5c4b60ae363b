# SPDX-License-Identifier: Apache-2.0
"""The Helium kernel of resizing in float32."""

from __future__ import annotations

from pillion.emitters.c.conditions import all_int8
from pillion.emitters.c.kernel import Call, Kernel
from pillion.emitters.c.library import MVE
from pillion.emitters.c.portable import resize as portable
from pillion.ir.numerics import Arithmetic
from pillion.ir.verdict import Verdict
from pillion.ops.resize import ResizeBilinearFloat

LEAST_CHANNELS = 2


def calls(op: ResizeBilinearFloat, arithmetic: Arithmetic) -> tuple[Call, ...]:
    """Gives the call of a resize whose shares are float32."""
    return (portable.call_in_float(op, MVE),)


def takes(op: ResizeBilinearFloat, arithmetic: Arithmetic) -> tuple[Verdict, ...]:
    """Judges the element types, and whether there are channels to be done side by side: one alone takes fewer instructions in
    portable C."""
    channels = op.x.shape[-1]
    several = Verdict("channels", channels >= LEAST_CHANNELS, f"at least {LEAST_CHANNELS}", str(channels))
    return (*all_int8(op), several)


KERNELS: tuple[Kernel, ...] = (MVE.row(ResizeBilinearFloat, calls, takes),)
