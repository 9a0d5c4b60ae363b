# SPDX-License-Identifier: Apache-2.0
"""Cost estimates of tiles: the instructions of an op that computes a few rows at a time, beyond the whole op's."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import cache

from pillion.devices.cortex_m import Isa
from pillion.emitters.c.kernel import A_CALL, row_elements
from pillion.emitters.c.kernel_choice import KernelChoice, choose_kernels, choose_variant_kernels
from pillion.emitters.c.kernel_costs import kernel_instructions
from pillion.emitters.c.tile_variants import VariantCache
from pillion.ir.access import Span, row_bytes
from pillion.ir.graph import Graph
from pillion.ir.op import Op
from pillion.ir.verdict import all_ok
from pillion.memory.events import Event, InnerOpRun, RowMove, is_alias
from pillion.ops import Mean, ReduceSum
from pillion.ops.region import rows_made, why_not_in_rows

INSTRUCTIONS_PER_MOVED_BYTE = {Isa.MVE: 0.2, Isa.DSP: 1.0, Isa.SCALAR: 1.0, Isa.PORTABLE: 1.0}
"""Measured in the emulator, loops included."""
INSTRUCTIONS_PER_KEPT_BYTE = 0.75
"""For each call of a tiled reduction, whose partial results are read and written."""
INSTRUCTIONS_PER_SUMMED_ELEMENT = {Isa.DSP: 2.5}
"""Instructions per element by which tiled sums and means cost more than complete ones, on cores with kernels for
complete ones only."""


class TilingCosts:
    """The instructions of the ops of one graph, as declared by their kernels."""

    def __init__(
        self, graph: Graph, choices: Sequence[KernelChoice], isa: Isa, known: VariantCache | None = None
    ) -> None:
        self.graph, self.choices, self.isa = graph, choices, isa
        self.known = known or VariantCache()
        self.per_moved_byte = INSTRUCTIONS_PER_MOVED_BYTE[isa]
        self.middle_kernel = cache(self._middle_kernel)
        self.added_instructions = cache(self._added_instructions)
        self.edge_call_instructions = cache(self._edge_call_instructions)
        self.least_split_cost = cache(self._least_split_cost)

    def whole_instructions(self) -> float:
        """Returns the instructions of all ops run whole."""
        return sum(kernel_instructions(choice.op, choice.kernel, self.isa) for choice in self.choices)

    def instructions_of_events(self, first: int, events: Sequence[Event]) -> float:
        """Returns the instructions that the events of a region add, each run by the kernel and the padding of its
        rows."""
        fired: dict[int, Counter[tuple[Op, int]]] = {}
        for event in events:
            if isinstance(event, InnerOpRun):
                op = self.graph.ops[first + event.op]
                variant = op if is_alias(op) or op.folded_bytes else self.known.of(op, event.span).op
                fired.setdefault(first + event.op, Counter())[variant, event.span.count] += 1
        moved = sum(
            event.bytes if isinstance(event, RowMove) else event.rows * row_bytes(event.value)
            for event in events
            if not isinstance(event, InnerOpRun)
        )
        return (
            sum(self._instructions_of_runs(i, runs) for i, runs in fired.items())
            + moved * self.per_moved_byte
        )

    def _instructions_of_runs(self, i: int, runs: Counter[tuple[Op, int]]) -> float:
        """Returns the instructions that all runs of one op add, by tile variant."""
        variants = tuple(dict.fromkeys(variant for variant, _ in runs))
        chosen = {variant: self._kernel_choice(variant) for variant in variants}
        most_frequent = max(
            variants, key=lambda variant: sum(n for (other, _), n in runs.items() if other is variant)
        )
        chosen |= choose_variant_kernels(variants, most_frequent, chosen, self.graph.arithmetic, self.isa)
        return sum(
            times * self._variant_call_overhead(i, chosen[variant], rows)
            for (variant, rows), times in runs.items()
        )

    def _kernel_choice(self, variant: Op) -> KernelChoice:
        if variant not in self.known.choices:
            alone = self.graph.replace(ops=(variant,))
            (self.known.choices[variant],) = choose_kernels(alone, self.isa, byte_price=self.known.byte_price)
        return self.known.choices[variant]

    def _middle_kernel(self, i: int, rows: int) -> KernelChoice:
        """Returns the kernel of an op for some rows in the middle of the image; it may differ from the whole op's."""
        first = rows_made(self.graph.ops[i]) // 2 // rows * rows
        return self._kernel_for_span(i, Span(first, rows))

    def _kernel_for_span(self, i: int, span: Span) -> KernelChoice:
        """Returns the kernel of an op for given rows: the whole op's, if others would need constants of their own."""
        variant, kernel = self.known.of(self.graph.ops[i], span).op, self.choices[i].kernel
        if kernel.has_private_constants and all_ok(kernel.check(variant, self.graph.arithmetic)):
            return KernelChoice(variant, kernel, ())
        return self._kernel_choice(variant)

    def _edge_call_instructions(self, i: int, rows: int) -> float:
        """Returns the additional instructions of the calls for the first and the last rows of an image."""
        op, count = self.graph.ops[i], rows_made(self.graph.ops[i])
        if is_alias(op) or op.folded_bytes or 2 * rows > count:
            return 0.0
        middle = self.added_instructions(i, rows)
        return sum(
            self._variant_call_overhead(i, self._kernel_for_span(i, edge), rows) - middle
            for edge in (Span(0, rows), Span(count - rows, rows))
        )

    def _least_split_cost(self, i: int) -> float:
        """Returns a lower bound for the instructions of splitting an op into two calls."""
        op, kernel = self.graph.ops[i], self.choices[i].kernel
        half = -(-rows_made(op) // 2)
        if is_alias(op) or op.folded_bytes or why_not_in_rows(op) or half == rows_made(op):
            return 0.0
        if kernel.work and kernel.call_cost is A_CALL:
            variant = self.known.of(op, Span(rows_made(op) - half, half)).op
            return max(2 * kernel.work(variant) - kernel.work(op), 0.0)
        return kernel.call_cost.instructions(op, kernel.call_cost.pixels)

    def _added_instructions(self, i: int, rows: int) -> float:
        """Returns the instructions of a call for some rows, beyond their share of the whole op."""
        op = self.graph.ops[i]
        is_whole = is_alias(op) or op.folded_bytes
        return self._variant_call_overhead(
            i, self.choices[i] if is_whole else self.middle_kernel(i, rows), rows
        )

    def _variant_call_overhead(self, i: int, variant: KernelChoice, rows: int) -> float:
        """Returns the instructions of a call of a tile variant by its kernel, beyond the rows' share of the whole
        op."""
        op, full_kernel = self.graph.ops[i], self.choices[i].kernel
        if is_alias(op):
            return 0.0
        if op.folded_bytes:
            summed = rows * row_elements(op.activations[0]) if isinstance(op, (Mean, ReduceSum)) else 0
            known = full_kernel.call_cost.call + INSTRUCTIONS_PER_KEPT_BYTE * op.folded_bytes
            return known + INSTRUCTIONS_PER_SUMMED_ELEMENT.get(self.isa, 0.0) * summed
        share = rows / (rows_made(op) * op.results[0].shape[0])
        is_said = variant.kernel is full_kernel and full_kernel.call_cost is not A_CALL
        if full_kernel.work and variant.kernel.work and not is_said:
            return variant.kernel.work(variant.op) - share * full_kernel.work(op)
        return variant.kernel.call_cost.instructions(op, rows) - share * full_kernel.call_cost.instructions(
            op, rows_made(op)
        )
