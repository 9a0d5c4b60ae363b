# SPDX-License-Identifier: Apache-2.0
"""The graph verifier, which runs before and after every pass."""

from __future__ import annotations

from collections.abc import Sequence

from pillion.errors import PillionError, distinct_lines_with_counts
from pillion.ir.graph import Graph
from pillion.ir.numerics import Arithmetic
from pillion.ir.op import Op, ScaledOp, why_multipliers_explicit
from pillion.ir.size_limits import check_size, check_sizes
from pillion.ir.state import State
from pillion.ir.types import DType, TensorType, UnknownScale, Value


def verify_graph(graph: Graph, after: str = "") -> Graph:
    """Returns the graph if it is valid; else raises a PillionError that shows the faulty op."""
    defined: dict[str, Value] = {}
    for value in graph.sources:
        check_size(value)
        _define_value(defined, value)
    for op in graph.ops:
        try:
            _verify_op(defined, op, graph.arithmetic)
        except PillionError as error:
            raise _error_at_op(error, op, after) from None
    for value in graph.outputs:
        if not value.is_constant and defined.get(value.name) is not value:
            raise PillionError(
                f"output `{value.name}` of `{graph.name}` is made by no op",
                rule="outputs are results of ops, inputs or constants",
                here=f"after {after}" if after else f"graph `{graph.name}`",
                help="--intermediates keeps the graph's text",
            )
    _verify_states(graph, defined, f"after {after}" if after else f"graph `{graph.name}`")
    return graph


def _verify_states(graph: Graph, defined: dict[str, Value], where: str) -> None:
    """Raises if nothing computes a state, if a state changes its type, or if two states share a name."""
    names: set[str] = set()
    for state in graph.states:
        before, after = state.before, state.after
        if state.name in names:
            raise _state_error(graph, state, "each state has a name of its own", where)
        names.add(state.name)
        if before.is_constant:
            raise _state_error(graph, state, "what ops read of a state is no constant", where)
        if not after.is_constant and defined.get(after.name) is not after:
            raise _state_error(graph, state, "what it becomes is a result of ops, an input or a state", where)
        if not _same_meaning(before.type, after.type):
            rule = "shape, element type and quantization stay from run to run"
            raise _state_error(graph, state, rule, f"{before!r} becomes {after!r}, {where}")


def _same_meaning(before: TensorType, after: TensorType) -> bool:
    """Whether integers of one type have the same meaning in the other, as far as scales are known."""
    if (before.shape, before.dtype) != (after.shape, after.dtype):
        return False
    old, new = before.quant, after.quant
    if isinstance(old, UnknownScale) or isinstance(new, UnknownScale):
        return getattr(old, "zero_point", None) == getattr(new, "zero_point", None)
    return old == new


def _state_error(graph: Graph, state: State, rule: str, here: str) -> PillionError:
    return PillionError(
        f"state `{state.name}` of `{graph.name}` makes no sense",
        rule=rule,
        here=here,
        help="--intermediates keeps the graph's text",
    )


def _verify_op(defined: dict[str, Value], op: Op, arithmetic: Arithmetic) -> None:
    for value in op.operands:
        known = defined.setdefault(value.name, value) if value.is_constant else defined.get(value.name)
        if known is None:
            raise op.refuse("an operand is made before it is read", f"`{value.name}`")
        if known is not value:
            raise op.refuse("one name, one value", f"two different values are called `{value.name}`")
    _check_op(op, arithmetic)
    low, high = (op.attributes.get(bound, 0) for bound in ("low", "high"))
    if low > high:
        raise op.refuse("low is at most high", f"low {low}, high {high}")
    check_sizes(op)
    inferred = op.infer()
    first = op.results[0]
    if (inferred.shape, inferred.dtype) != (first.shape, first.dtype):
        raise op.refuse(
            f"the result is {inferred.dtype.value}{list(inferred.shape)}",
            f"`{first.name}` is {first.dtype.value}{list(first.shape)}",
        )
    for value in op.results:
        _define_value(defined, value)


def _check_op(op: Op, arithmetic: Arithmetic) -> None:
    """Raises if the op's own check fails, if kernels or `tflite` arithmetic do not have its multipliers, or if a
    scale that it needs is unknown."""
    unscaled = any(isinstance(v.type.quant, UnknownScale) for v in (*op.operands, *op.results))
    try:
        op.check()
        if unscaled:
            op.check_scales(arithmetic)
    except ValueError as error:
        if not unscaled:
            raise
        raise op.refuse("an op is given its multipliers, or its tensors have scales", error) from None
    if isinstance(op, ScaledOp) and op.explicit:
        op.check_explicit()
        if arithmetic.is_tflite and (reason := why_multipliers_explicit(op)):
            raise op.refuse("in `tflite` arithmetic, multipliers follow from the scales", reason)


def _define_value(defined: dict[str, Value], value: Value) -> None:
    if value.dtype is DType.INT64:
        rule = "int64 is the type of constant biases alone"
        raise PillionError(f"`{value.name}` has 64 bits", rule=rule, here=repr(value), help="use int32")
    if value.name in defined:
        raise PillionError(
            f"two values are called `{value.name}`",
            rule="one name, one value",
            here=repr(value),
            help="",  # the caller adds the place
        )
    defined[value.name] = value


def _error_at_op(error: PillionError, op: Op, after: str) -> PillionError:
    from pillion.ir.text import op_text

    help = error.help or (
        f"found after pass `{after}`; --intermediates keeps the graph's text" if after else ""
    )
    return PillionError(
        error.what, rule=error.rule, here=f"{error.here}\n{op_text(op, constants=False)}", help=help
    )


def refuse_float(name: str, left: Sequence[tuple[str, str, str]]) -> None:
    """Raises if ops (kind, source line, reason) still compute in float inside the model."""
    if left:
        listed = "\n".join(
            distinct_lines_with_counts(
                f"{what}{f' ({source})' if source else ''}: {reason}" for what, source, reason in left
            )
        )
        raise PillionError(
            f"{len(left)} {'op' if len(left) == 1 else 'ops'} of `{name}` would stay in float",
            rule="all ops between the model's inputs and outputs compute in integers",
            here=listed,
            help="write these ops with supported ones (`pillion ops --pytorch`), or leave them outside the model",
        )
