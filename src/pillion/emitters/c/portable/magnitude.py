# SPDX-License-Identifier: Apache-2.0
"""The portable kernel of functions of the sum of two squares."""

from __future__ import annotations

import numpy as np

from pillion.emitters.c.kernel import Kernel, Params
from pillion.emitters.c.kernel_conditions import INT8_ABY
from pillion.emitters.c.kernel_library import PORTABLE
from pillion.ops.magnitude import Magnitude


def params(op: Magnitude) -> Params:
    """Returns the parameters of all magnitude kernels."""
    a_factor, b_factor = op.factors
    return {
        **{"a_factor": a_factor, "b_factor": b_factor},
        **{"step": -1 if op.falls else 1, "thresholds": op.levels.astype(np.int32)},
    }


KERNELS: tuple[Kernel, ...] = (
    PORTABLE.kernel(Magnitude, "magnitude_s8", params, requires=(INT8_ABY,), in_place="a b"),
)
