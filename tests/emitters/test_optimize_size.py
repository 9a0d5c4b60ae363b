# SPDX-License-Identifier: Apache-2.0
"""`--optimize size` gives up kernels that others can stand in for, those that do the least work first."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pillion.devices.cortex_m import Isa
from pillion.emitters.c import kernel_choice
from pillion.emitters.c.kernel import Kernel
from pillion.ir.graph import Graph
from pillion.ir.numerics import Arithmetic
from pillion.ir.op import Op
from pillion.ir.types import Value
from pillion.ir.verdict import Verdict
from pillion.ops import BatchMatmul
from pillion.ops.example_values import make_op, value


def product(name: str, rows: int) -> Op:
    a, b = value(f"{name}_a", (1, rows, 4)), value(f"{name}_b", (1, 4, 5))
    made = make_op(BatchMatmul, value(f"{name}_y", ()), a=a, b=b, adj_x=False, adj_y=False)
    assert made.macs == rows * 20
    return made


def kernel(name: str, *firsts: str) -> Kernel:
    """A kernel that takes the products whose names begin so."""

    def takes(op: Op, arithmetic: Arithmetic) -> tuple[Verdict, ...]:
        return (Verdict("name", op.results[0].name[0] in firsts, str(firsts), op.name),)

    return Kernel(name, BatchMatmul, calls=lambda op, arithmetic: (), check=takes)


KERNELS = (kernel("one", "a"), kernel("two", "b", "a"), kernel("three", "c", "b"))
"""The second can do what the first does, and the third what the second does, but nobody does both."""


@pytest.fixture
def chosen(monkeypatch: pytest.MonkeyPatch) -> Callable[..., dict[str, str]]:
    """The kernel of each product, by the first letter of its name, for the rows that each has."""
    monkeypatch.setattr(kernel_choice, "kernels", lambda isa: KERNELS)

    def names(optimize: str, **rows: int) -> dict[str, str]:
        ops = tuple(product(name, count) for name, count in rows.items())
        inputs: tuple[Value, ...] = tuple(v for op in ops for v in op.activations)
        graph = Graph("g", inputs, ops, tuple(op.results[0] for op in ops))
        return {
            c.op.results[0].name[0]: c.kernel.name
            for c in kernel_choice.choose_kernels(graph, Isa.MVE, optimize)
        }  # type: ignore[arg-type]  # a word

    return names


def test_for_speed_each_product_has_the_first_kernel_that_takes_it(
    chosen: Callable[..., dict[str, str]],
) -> None:
    assert chosen("speed", a=1, b=1, c=1) == {"a": "one", "b": "two", "c": "three"}


def test_the_kernel_with_the_least_work_goes_first(chosen: Callable[..., dict[str, str]]) -> None:
    """Once the first is given up, the second does its work and has to stay; and the other way round."""
    assert chosen("size", a=1, b=2, c=3) == {"a": "two", "b": "two", "c": "three"}
    assert chosen("size", a=2, b=1, c=3) == {"a": "one", "b": "three", "c": "three"}


def test_no_kernel_comes_in_that_was_not_in_use(chosen: Callable[..., dict[str, str]]) -> None:
    assert chosen("size", a=1, c=1) == {"a": "one", "c": "three"}
