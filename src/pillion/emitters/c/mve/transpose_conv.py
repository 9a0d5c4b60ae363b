# SPDX-License-Identifier: Apache-2.0
"""The Helium kernel of transposed convolutions: the rows of each phase by the kernel of convolutions."""

from __future__ import annotations

from pillion.emitters.c.accumulators import channels_of
from pillion.emitters.c.kernel import Call, Kernel
from pillion.emitters.c.library import MVE
from pillion.emitters.c.mve import conv
from pillion.emitters.c.phases import judge, phases, places
from pillion.ir.numerics import Arithmetic
from pillion.ir.verdict import Verdict, all_ok
from pillion.ops.transpose_conv import TransposeConv2d

ROW = conv.IM2COL
ROUTINE = MVE.routine("transpose_conv2d_s8", "conv2d_im2col_s8", "im2col", "dot", "dot_any", "dot_group")


def takes(op: TransposeConv2d, arithmetic: Arithmetic) -> tuple[Verdict, ...]:
    """Judges whether all phases of a transposed convolution are convolutions that the kernel takes."""
    known = judge(op)
    if not all_ok(known):
        return known
    rows = [v for p in phases(op) for v in ROW.verdicts(conv.geometry(p.conv), channels_of(p.conv))]
    return (*known, *rows)


def calls(op: TransposeConv2d, arithmetic: Arithmetic) -> tuple[Call, ...]:
    """Gives one call for each phase of a transposed convolution."""
    params = [{**ROW.params(conv.geometry(p.conv), channels_of(p.conv)), **places(op, p)} for p in phases(op)]
    return tuple(Call(ROUTINE, of_row, (op.x,), op.y) for of_row in params)


def scratch_bytes(op: TransposeConv2d) -> int:
    """Gives the largest scratch that a phase needs."""
    return max(ROW.scratch(conv.geometry(p.conv)) for p in phases(op))


KERNELS: tuple[Kernel, ...] = (MVE.row(TransposeConv2d, calls, takes, scratch_bytes=scratch_bytes),)
