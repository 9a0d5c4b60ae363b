# SPDX-License-Identifier: Apache-2.0
"""Makes a program fit a limit of flash: kernels whose constants take further flash are left out, then layers get weights of
4 bits. The first keeps the outputs."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from math import inf, nextafter

from pillion.compile_options import CompileOptions
from pillion.emitters.c.kernel_choice import BYTE_PRICE, largest_worth
from pillion.errors import PillionError
from pillion.flash_budget import Candidate, FlashSearch
from pillion.ir.flash_choice import FlashChoice, FlashSize
from pillion.ir.graph import Graph
from pillion.ops import Segment, flatten_ops
from pillion.program import Program


@dataclass(frozen=True)
class FlashFit:
    """The limits of flash and RAM of a graph's program, and the search for layers of 4 bits. `place` returns the program of
    a graph."""

    search: FlashSearch
    options: CompileOptions
    place: Callable[[Graph], Program]

    def fitting(self) -> tuple[Graph, FlashChoice, float]:
        """Returns the graph with as many layers of 4 bits as the limit needs, the choice, and the price of a byte that
        decides for kernels. Fast kernels stay where flash is left."""
        graph, choice = self.search.within(self._limit, self._smallest_flash, self._may_have_4_bits)
        program = self.place(graph)
        price = self._least_price(program)
        fits = self._at_price(program, price)
        fast = {*_layers_of_fast_kernels(fits), *choice.layers}
        choice = replace(
            choice,
            before_bytes=self._in_8_bits.flash.bytes,
            after_bytes=fits.flash.bytes,
            slower=tuple(name for name in _layers_of_fast_kernels(self._in_8_bits) if name not in fast),
        )
        return graph, choice, price

    @property
    def _limit(self) -> int:
        limit = self.options.memory.flash_limit
        assert limit is not None
        return limit

    @cached_property
    def _in_8_bits(self) -> Program:
        return self._at_price(self.place(self.search.graph), BYTE_PRICE)

    @cached_property
    def _results_on_core(self) -> set[str]:
        ops = [op for op in flatten_ops(self._in_8_bits.graph.ops) if not isinstance(op, Segment)]
        return {v.name for op in ops for v in op.results}

    @cached_property
    def _needs_4_bits(self) -> bool:
        return self._smallest_flash(self.search.graph).bytes > self._limit

    def _at_price(self, program: Program, price: float) -> Program:
        return replace(program, byte_price=price).within(self.options.memory_budget)

    def _smallest_flash(self, graph: Graph) -> FlashSize:
        """Returns the flash without any kernel that takes further flash, unless these alone fit the RAM."""
        program = self.place(graph)
        return (self._if_it_fits_ram(program, inf) or self._at_price(program, BYTE_PRICE)).flash

    def _if_it_fits_ram(self, program: Program, price: float) -> Program | None:
        """Returns the program with the kernels for a price, without a limit of RAM in any case."""
        try:
            return self._at_price(program, price)
        except PillionError:
            if self.options.memory.limit is None:
                raise
            return None

    def _may_have_4_bits(self, layer: Candidate) -> bool:
        """Whether the core runs a layer, and has the RAM to unpack its weights."""
        if layer.y.name not in self._results_on_core or not self._needs_4_bits:
            return layer.y.name in self._results_on_core
        program = self.place(self.search.as_large([layer]))
        return any(self._if_it_fits_ram(program, price) for price in (inf, BYTE_PRICE))

    def _least_price(self, program: Program) -> float:
        """Returns the least price of a byte at which a program fits: from the usual one to one that no kernel is worth."""
        choices = [step.choice for step in program.unstriped.steps]
        arithmetic, isa = program.graph.arithmetic, program.target.isa
        worths = {largest_worth(one, arithmetic, isa) for one in choices if one.kernel.extra_flash(one.op)}
        prices = [BYTE_PRICE, *(nextafter(worth, inf) for worth in sorted(worths)), inf]

        def fits(price: float) -> bool:
            fitting = self._if_it_fits_ram(program, price)
            return fitting is not None and fitting.flash.bytes <= self._limit

        price = prices[bisect_left(prices, True, hi=len(prices) - 1, key=fits)]
        return price if price < inf or self._if_it_fits_ram(program, inf) else BYTE_PRICE


def _layers_of_fast_kernels(program: Program) -> Iterable[str]:
    """Returns the layers whose kernels take further flash, by the names of their results."""
    choices = [step.choice for step in program.lowered.steps]
    return dict.fromkeys(one.op.results[0].name for one in choices if one.kernel.extra_flash(one.op))
