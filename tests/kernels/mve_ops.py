# SPDX-License-Identifier: Apache-2.0
"""Ops on the emulated Cortex-M55, by the Helium kernels that the compiler would choose for them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import mve_image
import numpy as np

from pillion.emitters.c import mve
from pillion.emitters.c.kernel import Kernel
from pillion.ir.numerics import Arithmetic
from pillion.ir.op import Op
from pillion.ir.types import Array
from pillion.ir.verdict import all_ok, failures
from pillion.ops.samples import random_like


@dataclass(frozen=True)
class Run:
    """An op with the data of its operands that are not constants."""

    op: Op
    inputs: tuple[Array, ...]
    in_place: bool = False

    def expected(self, arithmetic: Arithmetic) -> Array:
        given = dict(zip(self.op.activations, self.inputs, strict=True))
        operands = (v.constant if v.is_constant else given[v] for v in self.op.operands)
        return self.op.reference(arithmetic, *operands)


def with_random_data(op: Op, seed: int = 0) -> Run:
    return Run(op, tuple(random_like(v, seed) for v in op.activations))


def kernel_of(op: Op, arithmetic: Arithmetic = Arithmetic.CMSIS_NN) -> Kernel | None:
    """The first Helium kernel that takes the op."""
    rows = (k for k in mve.KERNELS if k.op is type(op))
    return next((k for k in rows if all_ok(k.takes(op, arithmetic))), None)


def refusals(op: Op, arithmetic: Arithmetic = Arithmetic.CMSIS_NN) -> list[str]:
    """The rules that keep the last Helium kernel of this kind from taking the op."""
    kernel = [k for k in mve.KERNELS if k.op is type(op)][-1]
    return [verdict.rule for verdict in failures(kernel.takes(op, arithmetic))]


def check(runs: Iterable[Run], arithmetic: Arithmetic = Arithmetic.CMSIS_NN) -> None:
    """Runs ops twice, with different bytes around their operands."""
    chosen = [(run, kernel_of(run.op, arithmetic)) for run in runs]
    assert chosen
    for filling in (0xA5, 0x7F):
        image = mve_image.Image(filling=filling)
        placed = [_place(image, run, kernel, arithmetic) for run, kernel in chosen]
        outcome = mve_image.run(image)
        for (run, _), call in zip(chosen, placed, strict=True):
            assert np.array_equal(outcome.output(call), run.expected(arithmetic), equal_nan=True), repr(
                run.op
            )
        assert outcome.foreign_writes() == []


def _place(image: mve_image.Image, run: Run, kernel: Kernel | None, arithmetic: Arithmetic) -> mve_image.Call:
    assert kernel is not None, repr(run.op)
    assert not run.in_place or run.op.activations[0] in kernel.in_place(run.op)
    data = dict(zip(run.op.activations, run.inputs, strict=True))
    output, placed = run.expected(arithmetic), None
    for call in kernel.calls(run.op, arithmetic):
        inputs = [v.constant if v.is_constant else data[v] for v in call.inputs]
        scratch = kernel.scratch_bytes(run.op)
        placed = image.call(
            call.routine.name, call.params, inputs, output, scratch, in_place=run.in_place, into=placed
        )
    assert placed is not None
    return placed


def every_pair() -> Sequence[Array]:
    """Two operands that meet with all their values."""
    levels = np.arange(-128, 128, dtype=np.int8)
    return np.repeat(levels, 256), np.tile(levels, 256)
