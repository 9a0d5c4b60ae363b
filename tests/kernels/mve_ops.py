# SPDX-License-Identifier: Apache-2.0
"""Ops on the emulated Cortex-M55, by the Helium kernels that the compiler would choose for them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from kernels import op_cases
from kernels.op_cases import Run
from kernels.rig import M55
from pillion.emitters.c.kernel import Kernel
from pillion.ir.numerics import Arithmetic
from pillion.ir.op import Op
from pillion.ir.types import Array
from pillion.ops.example_values import random_like


def with_random_data(op: Op, seed: int = 0) -> Run:
    """The op with numbers of the whole range."""
    return Run(op, tuple(random_like(v, seed) for v in op.activations))


def kernel_of(op: Op, arithmetic: Arithmetic = Arithmetic.CMSIS_NN) -> Kernel | None:
    """The first Helium kernel that takes the op."""
    return op_cases.kernel_of(M55, op, arithmetic)


def refusals(op: Op, arithmetic: Arithmetic = Arithmetic.CMSIS_NN) -> list[str]:
    """The rules that keep the last Helium kernel of this kind from taking the op."""
    return op_cases.refusals(M55, op, arithmetic)


def check(runs: Iterable[Run], arithmetic: Arithmetic = Arithmetic.CMSIS_NN) -> None:
    """The answers on the board."""
    op_cases.check_runs(M55, runs, arithmetic)


def every_pair() -> Sequence[Array]:
    """Two operands that meet with all their values."""
    levels = np.arange(-128, 128, dtype=np.int8)
    return np.repeat(levels, 256), np.tile(levels, 256)
