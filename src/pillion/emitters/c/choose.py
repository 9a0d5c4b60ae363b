# SPDX-License-Identifier: Apache-2.0
"""Which kernel does which op: the first of the core's list whose conditions all hold, or one behind it that is known to be cheaper."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pillion.boards.board import Optimize
from pillion.devices.cortex_m import Isa
from pillion.emitters.c import portable
from pillion.emitters.c.kernel import Kernel
from pillion.errors import PillionError
from pillion.ir.graph import Graph
from pillion.ir.numerics import Arithmetic
from pillion.ir.op import Op
from pillion.ir.verdict import Verdict, all_ok, failures
from pillion.ops import Repeat, Segment

BYTE_OF_FLASH = 2.0
"""Instructions that a call must save for each byte more of flash: an op may be called for a few rows, again and again."""


@dataclass(frozen=True)
class Choice:
    """The kernel of an op, and why not the ones before it in the list."""

    op: Op
    kernel: Kernel
    passed_over: tuple[tuple[str, Verdict], ...]

    @property
    def reason(self) -> str:
        """Says in words why the kernels before this one were passed over."""
        if not self.passed_over:
            return "first choice"
        return "; ".join(f"not {name}: {verdict}" for name, verdict in self.passed_over)

    @property
    def short_reason(self) -> str:
        """Names the kernel before this one with the conditions that it did not find, and how many there are before that."""
        missed: dict[str, list[str]] = {}
        for name, verdict in self.passed_over:
            missed.setdefault(name, []).append(verdict.rule)
        if not missed:
            return "first choice"
        *others, last = missed
        return f"not {last} ({', '.join(missed[last])}){f', nor {len(others)} before it' if others else ''}"


NPU = Kernel("npu", Segment, calls=lambda op, arithmetic: ())
"""A segment is a call of its own form: see npu.py."""

LOOP = Kernel("loop", Repeat, calls=lambda op, arithmetic: ())
"""A repetition is a loop around calls of kernels for its ops: see repeats.py."""


def kernels(isa: Isa) -> tuple[Kernel, ...]:
    """Lists all kernels of an instruction set, the most special ones first."""
    if isa is Isa.MVE:
        from pillion.emitters.c import mve

        return (*mve.KERNELS, *portable.KERNELS)
    if isa is Isa.HOST:
        from pillion.emitters.c import host

        return (*host.KERNELS, *portable.KERNELS)
    if isa is Isa.SCALAR:
        from pillion.emitters.c import scalar

        return (*scalar.KERNELS, *portable.KERNELS)
    if isa is Isa.DSP:
        from pillion.emitters.c import dsp

        return (*dsp.KERNELS, *portable.KERNELS)
    return portable.KERNELS


def choose(graph: Graph, isa: Isa, optimize: Optimize = "speed") -> tuple[Choice, ...]:
    """Chooses a kernel for every op of the graph: the fastest that takes it, or for `size` one of few."""
    listed = (*kernels(isa), NPU, LOOP)
    candidates = {op: [k for k in listed if _is_of(k, op)] for op in graph.ops}
    if optimize == "size":
        candidates = {op: [k for k in of_op if not k.further_flash(op)] for op, of_op in candidates.items()}
    choices = tuple(_choose_one(op, graph.arithmetic, candidates[op]) for op in graph.ops)
    return _fewer_kernels(choices, listed, graph.arithmetic) if optimize == "size" else choices


def _fewer_kernels(
    choices: Sequence[Choice], listed: Sequence[Kernel], arithmetic: Arithmetic
) -> tuple[Choice, ...]:
    """Gives up kernels, the least used first, whose ops others that are in use can do as well."""
    chosen = {choice.op: choice for choice in choices}
    work = {
        k: sum(c.op.macs for c in choices if c.kernel is k) for k in dict.fromkeys(c.kernel for c in choices)
    }
    for kernel in sorted(work, key=work.__getitem__):
        used = {c.kernel for c in chosen.values()} - {kernel}
        movers = [op for op, c in chosen.items() if c.kernel is kernel]
        instead = {op: _another(op, kernel, [k for k in listed if k in used], arithmetic) for op in movers}
        if all(instead.values()):
            small = Verdict("optimize.size", False, "few kernels", kernel.name)
            chosen.update(
                (op, Choice(op, other, (*chosen[op].passed_over, (kernel.name, small))))
                for op, other in instead.items()
                if other is not None
            )
    return tuple(chosen[choice.op] for choice in choices)


def choose_together(
    forms: Sequence[Op], usual: Op, chosen: Mapping[Op, Choice], arithmetic: Arithmetic, isa: Isa
) -> dict[Op, Choice]:
    """Chooses anew for the forms in which an op is run where they would pack its constants in several ways: the kernel of the usual form for all of
    them, if it takes them, or else kernels that share constants."""
    found = {form: chosen[form] for form in forms}
    used = {choice.kernel for choice in found.values()}
    if len(used) == 1 or not any(kernel.own_constants for kernel in used):
        return found
    kernel = found[usual].kernel
    if kernel.own_constants and all(all_ok(kernel.takes(form, arithmetic)) for form in forms):
        return {form: Choice(form, kernel, found[usual].passed_over) for form in forms}
    shared = [k for k in kernels(isa) if not k.own_constants]
    return {form: _choose_one(form, arithmetic, [k for k in shared if _is_of(k, form)]) for form in forms}


def _another(op: Op, than: Kernel, used: Sequence[Kernel], arithmetic: Arithmetic) -> Kernel | None:
    """A kernel in use that takes the op too."""
    fitting = (k for k in used if _is_of(k, op) and k is not than and all_ok(k.takes(op, arithmetic)))
    return next(fitting, None)


def _is_of(kernel: Kernel, op: Op) -> bool:
    """Whether a kernel is for ops of a kind, and for the whole of them or for parts as it is asked."""
    return kernel.op is type(op) and kernel.is_for_parts is op.is_part


def _cheaper(first: Choice, arithmetic: Arithmetic, candidates: Sequence[Kernel]) -> Choice:
    """The first kernel that takes an op, or a later one that takes it and says that it takes fewer instructions."""
    op, kernel = first.op, first.kernel
    if kernel.work is None:
        return first
    later = [
        k for k in candidates[candidates.index(kernel) + 1 :] if k.work and all_ok(k.takes(op, arithmetic))
    ]
    works = {k: k.work(op) + BYTE_OF_FLASH * k.further_flash(op) for k in (kernel, *later) if k.work}
    best = min(works, key=works.__getitem__)
    if best is kernel:
        return first
    verdict = Verdict("instructions", False, f"about {works[best]:,.0f}", f"about {works[kernel]:,.0f}")
    return Choice(op, best, (*first.passed_over, (kernel.name, verdict)))


def _choose_one(op: Op, arithmetic: Arithmetic, candidates: Sequence[Kernel]) -> Choice:
    passed_over: list[tuple[str, Verdict]] = []
    for kernel in candidates:
        verdicts = kernel.takes(op, arithmetic)
        if all_ok(verdicts):
            return _cheaper(Choice(op, kernel, tuple(passed_over)), arithmetic, candidates)
        passed_over += [(kernel.name, verdict) for verdict in failures(verdicts)]
    raise PillionError(
        f"{op.kind} `{op.name}` has no C kernel",
        rule="; ".join(str(verdict) for _, verdict in passed_over) or f"no kernel for {op.kind}",
        here=op.source or op.name,
        help="`pillion ops` lists what each kernel takes",
    )
