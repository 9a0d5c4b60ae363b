# SPDX-License-Identifier: Apache-2.0
"""The choice of a kernel for each op: the first of the core's list whose conditions hold, or a later, cheaper one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf

from pillion.devices.cortex_m import Isa
from pillion.emitters.c.kernel import Kernel
from pillion.emitters.c.kernel_lists import KERNELS_OF
from pillion.errors import PillionError
from pillion.ir.graph import Graph
from pillion.ir.numerics import Arithmetic
from pillion.ir.op import Op
from pillion.ir.verdict import Verdict, all_ok, failed_rules
from pillion.ops import Scan, Segment
from pillion.option_values import Optimize
from pillion.registry import REGISTRY

BYTE_PRICE = 2.0
"""Instructions that each call must save for a further byte of flash; an op may be called once for each tile. Where flash is
short, a byte costs more; at an infinite price no kernel takes further flash."""


@dataclass(frozen=True)
class KernelChoice:
    """The kernel of an op, with the failed conditions of the kernels before it in the list."""

    op: Op
    kernel: Kernel
    passed_over: tuple[tuple[str, Verdict], ...]

    @property
    def reason(self) -> str:
        """Every failed condition of the kernels before this one."""
        if not self.passed_over:
            return "first choice"
        return "; ".join(f"not {name}: {verdict}" for name, verdict in self.passed_over)

    @property
    def short_reason(self) -> str:
        """The failed conditions of the kernel just before this one, and the number of other kernels before that."""
        missed: dict[str, list[str]] = {}
        for name, verdict in self.passed_over:
            missed.setdefault(name, []).append(verdict.rule)
        if not missed:
            return "first choice"
        *others, last = missed
        return f"not {last} ({', '.join(missed[last])}){f', nor {len(others)} before it' if others else ''}"


NPU = Kernel("npu", Segment, calls=lambda op, arithmetic: ())
"""The pseudo-kernel of a segment; npu_segments.py writes its calls."""

LOOP = Kernel("loop", Scan, calls=lambda op, arithmetic: ())
"""The pseudo-kernel of a loop (scan) around kernel calls; scan_calls.py writes it."""


def kernels(isa: Isa) -> tuple[Kernel, ...]:
    """Returns all kernels of an instruction set, the most specialized first, and plug-ins' kernels before the
    library's."""
    others = REGISTRY.kernels
    return tuple(
        k for one in dict.fromkeys((isa, Isa.PORTABLE)) for k in (*others.get(one, ()), *KERNELS_OF[one])
    )


def choose_kernels(
    graph: Graph, isa: Isa, optimize: Optimize = "speed", byte_price: float = BYTE_PRICE
) -> tuple[KernelChoice, ...]:
    """Chooses a kernel for every op of the graph: the fastest, if it is worth its flash; for `size`, few different
    ones."""
    listed = (*kernels(isa), NPU, LOOP)
    candidates = {op: [k for k in listed if _handles_op(k, op)] for op in graph.ops}
    byte_price = inf if optimize == "size" else byte_price
    if byte_price == inf:
        candidates = {op: [k for k in of_op if not k.extra_flash(op)] for op, of_op in candidates.items()}
    choices = tuple(_choose_one(op, graph.arithmetic, candidates[op], byte_price) for op in graph.ops)
    return _fewer_kernels(choices, listed, graph.arithmetic) if optimize == "size" else choices


def _fewer_kernels(
    choices: Sequence[KernelChoice], listed: Sequence[Kernel], arithmetic: Arithmetic
) -> tuple[KernelChoice, ...]:
    """Drops kernels, the least used first, if the remaining ones can compute all their ops."""
    chosen = {choice.op: choice for choice in choices}
    work = {
        k: sum(c.op.macs for c in choices if c.kernel is k) for k in dict.fromkeys(c.kernel for c in choices)
    }
    for kernel in sorted(work, key=work.__getitem__):
        used = {c.kernel for c in chosen.values()} - {kernel}
        movers = [op for op, c in chosen.items() if c.kernel is kernel]
        instead = {
            op: _alternative_kernel(op, kernel, [k for k in listed if k in used], arithmetic) for op in movers
        }
        if all(instead.values()):
            small = Verdict("optimize.size", False, "few kernels", kernel.name)
            chosen.update(
                (op, KernelChoice(op, replacement, (*chosen[op].passed_over, (kernel.name, small))))
                for op, replacement in instead.items()
                if replacement is not None
            )
    return tuple(chosen[choice.op] for choice in choices)


def choose_variant_kernels(
    variants: Sequence[Op], usual: Op, chosen: Mapping[Op, KernelChoice], arithmetic: Arithmetic, isa: Isa
) -> dict[Op, KernelChoice]:
    """Chooses kernels again for the variants of an op if they would pack its constants in several layouts: the kernel
    of the most frequent variant if it takes all variants, otherwise kernels that share constants."""
    choices = {variant: chosen[variant] for variant in variants}
    used = {choice.kernel for choice in choices.values()}
    if len(used) == 1 or not any(kernel.has_private_constants for kernel in used):
        return choices
    kernel = choices[usual].kernel
    if kernel.has_private_constants and all(
        all_ok(kernel.check(variant, arithmetic)) for variant in variants
    ):
        return {variant: KernelChoice(variant, kernel, choices[usual].passed_over) for variant in variants}
    shared = [k for k in kernels(isa) if not k.has_private_constants]
    return {
        variant: _choose_one(variant, arithmetic, [k for k in shared if _handles_op(k, variant)], BYTE_PRICE)
        for variant in variants
    }


def _alternative_kernel(
    op: Op, than: Kernel, used: Sequence[Kernel], arithmetic: Arithmetic
) -> Kernel | None:
    fitting = (k for k in used if _handles_op(k, op) and k is not than and all_ok(k.check(op, arithmetic)))
    return next(fitting, None)


def _handles_op(kernel: Kernel, op: Op) -> bool:
    """Whether a kernel computes ops of this class, and of this form: complete or tiled reductions."""
    return kernel.op is type(op) and kernel.is_tiled is op.is_part


def largest_worth(choice: KernelChoice, arithmetic: Arithmetic, isa: Isa) -> float:
    """Returns the highest price of a byte at which a kernel is worth its further flash."""
    op, kernel = choice.op, choice.kernel
    others = (k for k in kernels(isa) if _handles_op(k, op) and k.work and not k.extra_flash(op))
    works = [k.work(op) for k in others if k.work and all_ok(k.check(op, arithmetic))]
    if kernel.work is None or not works:
        return inf
    return (min(works) - kernel.work(op)) / kernel.extra_flash(op)


def _choose_cheaper_kernel(
    first: KernelChoice, arithmetic: Arithmetic, candidates: Sequence[Kernel], byte_price: float
) -> KernelChoice:
    """Returns the first kernel that takes an op, or a later one with a lower estimate."""
    op, kernel = first.op, first.kernel
    if kernel.work is None:
        return first
    later = [
        k for k in candidates[candidates.index(kernel) + 1 :] if k.work and all_ok(k.check(op, arithmetic))
    ]
    works = {k: k.work(op) + _flash_cost(k, op, byte_price) for k in (kernel, *later) if k.work}
    best = min(works, key=works.__getitem__)
    if best is kernel:
        return first
    verdict = Verdict("instructions", False, f"about {works[best]:,.0f}", f"about {works[kernel]:,.0f}")
    return KernelChoice(op, best, (*first.passed_over, (kernel.name, verdict)))


def _flash_cost(kernel: Kernel, op: Op, byte_price: float) -> float:
    more = kernel.extra_flash(op)
    return byte_price * more if more else 0.0  # no flash is free at any price


def _choose_one(
    op: Op, arithmetic: Arithmetic, candidates: Sequence[Kernel], byte_price: float
) -> KernelChoice:
    passed_over: list[tuple[str, Verdict]] = []
    for kernel in candidates:
        verdicts = kernel.check(op, arithmetic)
        if all_ok(verdicts):
            return _choose_cheaper_kernel(
                KernelChoice(op, kernel, tuple(passed_over)), arithmetic, candidates, byte_price
            )
        passed_over += [(kernel.name, verdict) for verdict in failed_rules(verdicts)]
    raise PillionError(
        f"{op.kind} `{op.name}` has no C kernel",
        rule="; ".join(dict.fromkeys(str(verdict) for _, verdict in passed_over))
        or f"no kernel for {op.kind}",
        here=op.source or op.name,
        help=next((v.help for _, v in passed_over if v.help), "`pillion ops` lists what each kernel takes"),
    )
