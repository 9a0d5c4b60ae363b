# SPDX-License-Identifier: Apache-2.0
"""Ops as cases for the rig: by the kernel that the compiler would choose, with the answer of the reference."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from itertools import chain
from typing import Any

import numpy as np

from kernels import rig
from pillion.devices.cortex_m import Isa
from pillion.emitters.c.kernel import Kernel
from pillion.emitters.c.kernel_choice import choose_kernels
from pillion.ir.graph import Graph
from pillion.ir.numerics import Arithmetic
from pillion.ir.op import Op
from pillion.ir.types import Array, Value
from pillion.ir.verdict import all_ok, failed_rules

CMSIS_NN = Arithmetic.CMSIS_NN


def kernels_of(target: rig.Target, op: Op, arithmetic: Arithmetic = CMSIS_NN) -> list[Kernel]:
    """The kernels made for the target that take the op."""
    return [k for k in target.kernels if k.op is type(op) and all_ok(k.check(op, arithmetic))]


def kernel_of(target: rig.Target, op: Op, arithmetic: Arithmetic = CMSIS_NN) -> Kernel | None:
    """The first of them."""
    return next(iter(kernels_of(target, op, arithmetic)), None)


def refusals(target: rig.Target, op: Op, arithmetic: Arithmetic = CMSIS_NN) -> list[str]:
    """The rules that keep a kernel from taking the op: the last of this kind for the op's types."""
    kinds = [k for k in reversed(target.kernels) if k.op is type(op)]
    failed = [[verdict.rule for verdict in failed_rules(k.check(op, arithmetic))] for k in kinds]
    of_types = {"form", *(f.name for f in fields(op) if isinstance(getattr(op, f.name), Value))}
    return min(failed, key=lambda rules: len(of_types.intersection(rules)))


def random_operands(op: Op, rng: np.random.Generator, extreme: bool = False) -> tuple[Array, ...]:
    """Data for the operands that are not constants; `extreme` has only the least and the largest numbers."""
    return tuple(_random(v.shape, v.dtype.numpy, rng, extreme) for v in op.activations)


def _random(
    shape: tuple[int, ...], dtype: np.dtype[np.generic], rng: np.random.Generator, extreme: bool
) -> Array:
    if dtype == np.float32:
        return (rng.standard_normal(shape) * (100 if extreme else 3)).astype(np.float32)
    least, most = (-32768, 32767) if dtype == np.int16 else (-128, 127)
    numbers = rng.choice([least, most], shape) if extreme else rng.integers(least, most, shape, endpoint=True)
    if dtype == np.int16:
        return numbers.astype(np.int16)
    made = numbers.astype(np.int8)
    return made.view(np.uint8) if dtype == np.uint8 else made


def reference(op: Op, arithmetic: Arithmetic, activations: tuple[Array, ...]) -> Array:
    """What the op answers."""
    given = dict(zip(op.activations, activations, strict=True))
    operands = (v.constant if v.is_constant else given[v] for v in op.operands)
    return np.ascontiguousarray(op.reference(arithmetic, *operands))


def case_of(
    op: Op,
    kernel: Kernel | None,
    activations: tuple[Array, ...],
    arithmetic: Arithmetic = CMSIS_NN,
    overwritten: Value | None = None,
    misalign: int = 0,
) -> rig.Case:
    """The op by a kernel, its result perhaps in the memory of an operand."""
    assert kernel is not None, f"no kernel takes {op}"
    assert overwritten is None or overwritten in kernel.in_place(op)
    calls = kernel.calls(op, arithmetic)
    operands = dict(zip(op.activations, activations, strict=True))
    operands |= {v: v.constant for call in calls for v in call.inputs if v.is_constant}
    sizes = kernel.scratch_bytes(op), kernel.overread_bytes
    return rig.Case(calls, op.results[0], operands, *sizes, overwritten, misalign)


@dataclass(frozen=True)
class Run:
    """An op with the data of its operands that are not constants."""

    op: Op
    inputs: tuple[Array, ...]
    in_place: bool = False


def check_runs(target: rig.Target, runs: Iterable[Run], arithmetic: Arithmetic = CMSIS_NN) -> None:
    """Ops with data of their own; where loads reach beyond an operand, with two kinds of bytes there."""
    cases, wanted = [], []
    for run in runs:
        kernel, overwritten = (
            kernel_of(target, run.op, arithmetic),
            run.op.activations[0] if run.in_place else None,
        )
        cases.append(case_of(run.op, kernel, run.inputs, arithmetic, overwritten))
        wanted.append(reference(run.op, arithmetic, run.inputs))
    rig.check(target, cases, wanted, rig.fillings(cases))


def check_every_kernel(target: rig.Target, runs: Iterable[Run]) -> set[str]:
    """The same runs by every kernel that takes the op; gives the names of these."""
    taken = [(run, kernel) for run in runs for kernel in kernels_of(target, run.op)]
    cases = [case_of(run.op, kernel, run.inputs) for run, kernel in taken]
    wanted = [reference(run.op, CMSIS_NN, run.inputs) for run, _ in taken]
    rig.check(target, cases, wanted, rig.fillings(cases))
    return {kernel.name for _, kernel in taken}


def check(target: rig.Target, ops: Sequence[Op], seed: int = 0, arithmetic: Arithmetic = CMSIS_NN) -> None:
    """Every op with extreme and with random data, off the alignment and in place wherever it may be."""
    rng = np.random.default_rng(seed)
    cases, wanted = [], []
    for number, op in enumerate(ops):
        kernel = kernel_of(target, op, arithmetic)
        assert kernel is not None, f"no kernel takes {op}"
        (call,) = kernel.calls(op, arithmetic)
        for extreme in (True, False):
            data = random_operands(op, rng, extreme)
            in_place = call.inputs[0] in kernel.in_place(op) and number % 2 == 1
            bytes_only = all(v.dtype.size_bytes == 1 for v in (*op.activations, op.results[0]))
            misalign = number % 4 if bytes_only else 0
            overwritten = call.inputs[0] if in_place else None
            cases.append(case_of(op, kernel, data, arithmetic, overwritten, misalign))
            wanted.append(reference(op, arithmetic, data))
    rig.check(target, cases, wanted)


def compare_counts(target: rig.Target, pairs: Sequence[tuple[Any, Any]], most: float) -> None:
    """Checks the instructions of each layer against those of another one."""
    rng, cases = np.random.default_rng(0), []
    for one in chain(*pairs):
        (choice,) = choose_kernels(Graph("g", one.activations, (one,), one.results), Isa(target.folders[-1]))
        cases.append(case_of(one, choice.kernel, random_operands(one, rng)))
    counts = [result.instructions for result in rig.run(target, cases)]
    for (op, _), few, many in zip(pairs, counts[::2], counts[1::2], strict=True):
        assert few <= most * many, (op.kind, op.x, op.weights, few, many)
