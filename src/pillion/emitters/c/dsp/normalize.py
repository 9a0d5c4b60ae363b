# SPDX-License-Identifier: Apache-2.0
"""The DSP kernel of norms."""

from __future__ import annotations

from pillion.emitters.c.kernel import Kernel
from pillion.emitters.c.kernel_library import DSP
from pillion.emitters.c.portable import normalize as portable
from pillion.ops.normalize import Standardize


def scratch_bytes(op: Standardize) -> int:
    """Returns the scratch bytes: four numbers for each channel if there are groups."""
    return 16 * op.x.shape[-1] if op.groups > 1 else 0


KERNELS: tuple[Kernel, ...] = (
    DSP.kernel(
        Standardize,
        DSP.port(portable.calls_norm_wide, "clamp"),
        portable.check_wide_group,
        name="standardize_wide",
    ),
    DSP.kernel(
        Standardize,
        DSP.port(portable.calls_norm, "clamp"),
        portable.check,
        scratch_bytes=scratch_bytes,
        in_place=portable.in_place,
    ),
)
