# SPDX-License-Identifier: Apache-2.0
"""The DSP kernel of transposed convolutions: the rows of each phase by the kernel of convolutions."""

from __future__ import annotations

from pillion.emitters.c.dsp import conv
from pillion.emitters.c.kernel import Call, Kernel
from pillion.emitters.c.library import DSP
from pillion.emitters.c.phases import judge, phases, places
from pillion.ir.numerics import Arithmetic
from pillion.ir.verdict import Verdict, all_ok
from pillion.ops.transpose_conv import TransposeConv2d

ROUTINE = DSP.routine("transpose_conv2d_s8", "conv2d_s8", "dot", "clamp")
ROUTINES = (ROUTINE,)


def takes(op: TransposeConv2d, arithmetic: Arithmetic) -> tuple[Verdict, ...]:
    """Judges whether all phases of a transposed convolution are convolutions that the kernel takes."""
    known = judge(op)
    if not all_ok(known):
        return known
    return (*known, *(v for p in phases(op) for v in conv.takes_conv(p.conv, arithmetic)))


def calls(op: TransposeConv2d, arithmetic: Arithmetic) -> tuple[Call, ...]:
    """Gives one call for each phase of a transposed convolution."""
    made = [(p, conv.calls_conv(p.conv, arithmetic)) for p in phases(op)]
    return tuple(
        Call(ROUTINE, {**call.params, **places(op, p)}, (op.x,), op.y) for p, calls in made for call in calls
    )


def scratch_bytes(op: TransposeConv2d) -> int:
    """Gives the largest scratch that a phase needs."""
    return max(conv.scratch_conv(p.conv) for p in phases(op))


KERNELS: tuple[Kernel, ...] = (DSP.row(TransposeConv2d, calls, takes, scratch_bytes=scratch_bytes),)
