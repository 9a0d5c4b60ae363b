# SPDX-License-Identifier: Apache-2.0
"""Regions: ops that run together, a few rows at a time, as one op with an inner graph."""

from __future__ import annotations

from collections.abc import Iterator

from pillion.ir.access import ROWS, Span
from pillion.ir.graph import Graph
from pillion.ir.numerics import Arithmetic
from pillion.ir.op import Op, Quantization, op, operand, result
from pillion.ir.types import Array, TensorType, Value
from pillion.ops.movement import Reshape


@op("region", quantization=Quantization.NONE)
class Region(Op):
    """Runs its inner graph in steps. Each step computes `rows` more rows of the last result and keeps the rows
    that later steps need. With a `grain`, no op computes more rows at once. A region that is `fed` receives the
    rows of its first operand one after another, from outside the arena. `units` is, for each inner op, the
    number of rows that its kernel computes at once. The result equals that of the inner graph."""

    is_identity = False
    why_whole = "it runs in steps of its own"

    xs: tuple[Value, ...] = operand()
    ys: tuple[Value, ...] = result()
    body: Graph
    step: int = 1
    grain: int = 0
    fed: bool = False
    units: tuple[int, ...] = ()

    def infer(self) -> TensorType:
        first = self.body.outputs[0]
        return TensorType(first.shape, first.dtype)

    def check(self) -> None:
        if list(self.xs) != list(self.body.inputs) or list(self.ys) != list(self.body.outputs):
            raise self.refuse("operands and results are those of the inner graph", f"{self.xs} and {self.ys}")
        if self.step < 1 or self.grain < 0:
            raise self.refuse(
                "a step makes at least one row, a grain is no less than 0", f"{self.step}, {self.grain}"
            )
        if self.units and (len(self.units) != len(self.body.ops) or min(self.units) < 1):
            raise self.refuse("a number of rows for each op inside", str(self.units))
        for inner in self.body.ops:
            if reason := why_not_in_rows(inner):
                here = f"{inner.kind} `{inner.name}`: {reason}"
                raise self.refuse("all ops make their rows one after another", here)
        driver = self.body.ops[-1].results[0]
        for inner in self.body.ops:
            if inner.results[0].shape[0] != driver.shape[0]:
                raise self.refuse("all ops work on as many images", f"{inner.kind} `{inner.name}`")
            if isinstance(inner, Reshape) and (inner.x in self.xs or inner.y in self.ys):
                raise self.refuse("what changes shape only lies inside", f"{inner.kind} `{inner.name}`")
        if not self.body.is_output(driver):
            raise self.refuse("the last op makes a result of the region", f"`{driver.name}`")
        self._check_folded()
        self._check_fed()

    def _check_folded(self) -> None:
        """Raises if an op reads a reduction over all rows inside the region."""
        folded = {inner.results[0] for inner in self.body.ops if inner.folded_bytes}
        for inner in self.body.ops:
            if folded & set(inner.operands):
                raise self.refuse(
                    "what is made of all rows leaves the region", f"{inner.kind} `{inner.name}`"
                )

    def _check_fed(self) -> None:
        """Raises if rows are delivered, but the operand has none that can be."""
        whole = [
            inner.name
            for inner in self.body.ops
            for x in self.xs[:1]
            if self.fed and x in inner.activations and inner.input_rows(x, Span(0, inner.row_unit)) is None
        ]
        if self.fed and (not self.xs or self.xs[0].type.rank <= ROWS + 1 or whole):
            rule = "a region that is fed has an operand whose rows all ops read one after another"
            raise self.refuse(rule, f"{self.xs}{f', which `{whole[0]}` reads as a whole' if whole else ''}")

    @property
    def fed_value(self) -> Value | None:
        """The operand whose rows come from outside the arena."""
        return self.xs[0] if self.fed else None

    @property
    def macs(self) -> int:
        return self.body.macs

    def reference(self, arithmetic: Arithmetic, *operands: Array) -> tuple[Array, ...]:  # type: ignore[override]  # several results
        return self.body.reference(*operands)

    @classmethod
    def examples(cls) -> Iterator[Op]:
        """Yields nothing: regions are cut from graphs, and the chains of their tests are their examples."""
        return iter(())


def why_not_in_rows(op: Op) -> str:
    """Explains why an op cannot be part of a region; empty if it can."""
    if len(op.results) > 1 or not op.activations:
        return "it has several results" if op.activations else "it has no operand"
    return op.why_not_tileable


def rows_made(op: Op) -> int:
    """Returns the number of rows that an op computes, or consumes if its result has none."""
    return (op.activations if op.folded_bytes else op.results)[0].shape[ROWS]


def split_into_tiles(
    graph: Graph, first: int, end: int, step: int, grain: int = 0, fed: str = "", units: tuple[int, ...] = ()
) -> Region:
    """Returns the region of the ops from `first` to before `end`. `fed` names the input whose rows come from
    outside."""
    ops = graph.ops[first:end]
    results = {v for op in ops for v in op.results}
    read = [v for op in ops for v in op.activations if v not in results]
    read = list(dict.fromkeys([*(v for v in graph.inputs if v.name == fed), *read]))
    later = {v for op in graph.ops[end:] for v in op.operands} | set(graph.sinks)
    ys = tuple(v for op in ops for v in op.results if v in later)
    body = Graph(f"{graph.name}_rows_{first}", tuple(read), ops, ys, graph.arithmetic)
    return Region(
        xs=tuple(read),
        ys=ys,
        body=body,
        step=step,
        grain=grain,
        fed=bool(fed),
        units=units,
        source=ops[0].source,
    )
