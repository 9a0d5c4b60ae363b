# SPDX-License-Identifier: Apache-2.0
"""The text form of a graph: readable, exact, and parsed back to an equal graph.

graph ds_cnn arithmetic=cmsis-nn
input x: int8[1, 5, 3, 8] @(0.05, -3)
const w: int8[4, 1, 1, 8] @axis0(0.1, 0.2, 0.3, 0.4) = base64:...
y: int8[1, 5, 3, 4] @(0.1, 0) = conv2d(x=x, weights=w, bias=b) stride=(1, 1) low=-128 # model.py:41
z: int8[1, 5, 3, 4] @(?, 7) = mul(a=y, b=y) low=-128 high=127 explicit=[1374389535*2^-38]
output z

The scale of z is not known, so its multiplier is explicit. States have their initial values before the ops, and their new values at the end:

state h reads before: int8[1, 300] @(0.1, 0) = all 0
state h becomes z
"""

from __future__ import annotations

import ast
import base64
import dataclasses
import re
import zlib
from collections.abc import Mapping
from enum import Enum
from typing import Any, get_type_hints

import numpy as np

from pillion.errors import PillionError
from pillion.ir.graph import Graph
from pillion.ir.numerics import Arithmetic, Multiplier, Multipliers
from pillion.ir.op import Op, ScaledOp, operand_fields, result_fields
from pillion.ir.state import State
from pillion.ir.types import Array, DType, PerChannel, PerTensor, Quant, TensorType, UnknownScale, Value

SHORT_CONSTANT = 16
"""Constants of at most this many elements are written as a list."""
EXPLICIT, UNKNOWN = "explicit", "?"
"""The keyword before explicit multipliers, and the mark of an unknown scale."""
UNREADABLE = (ValueError, KeyError, SyntaxError, AttributeError, TypeError, OverflowError)
"""Exceptions that a malformed line raises."""
READS, BECOMES, ALL = "reads", "becomes", "all"
"""Keywords of state lines: before the value that ops read, before the value that the state becomes, before a
uniform initial value."""


def to_text(graph: Graph, *, constants: bool = True) -> str:
    """Returns the text of a graph. With `constants=False` long constants are named but not written; such a text
    does not parse."""
    lines = [f"graph {graph.name} arithmetic={graph.arithmetic.value}"]
    lines += [f"input {_value_with_type(v)}" for v in graph.inputs]
    lines += [
        f"state {s.name} {READS} {_value_with_type(s.before)} = {_initial_text(s, constants)}"
        for s in graph.states
    ]
    lines += [f"const {_value_with_type(v)} = {_constant_data_text(v, constants)}" for v in graph.constants]
    for op in graph.ops:
        lines += [op_text(op, constants=constants), *([] if constants else _inner_graph_lines(op))]
    lines += [f"output {v.name}" for v in graph.outputs]
    lines += [f"state {s.name} {BECOMES} {s.after.name}" for s in graph.states]
    return "\n".join(lines) + "\n"


def _inner_graph_lines(op: Op) -> list[str]:
    """Returns the ops of an op's inner graphs, indented for readers."""
    bodies = [attribute for attribute in op.attributes.values() if isinstance(attribute, Graph)]
    return [
        f"    {line}"
        for body in bodies
        for inner in body.ops
        for line in (op_text(inner, constants=False), *_inner_graph_lines(inner))
    ]


def op_text(op: Op, *, constants: bool = True) -> str:
    """Returns the text of one op; with `constants=False` long lists of multipliers are named but not written."""
    results = ", ".join(_value_with_type(v) for v in op.results)
    operands = ", ".join(
        f"{name}={_value_names(getattr(op, name))}"
        for name in operand_fields(op)
        if getattr(op, name) is not None
    )
    attributes = "".join(
        f" {name}={_attribute_text(value, constants)}" for name, value in op.attributes.items()
    )
    attributes += (
        _multipliers_text(op.explicit, constants) if isinstance(op, ScaledOp) and op.explicit else ""
    )
    source = f" # {op.source}" if op.source else ""
    return f"{results} = {op.kind}({operands}){attributes}{source}"


def _multipliers_text(multipliers: Multipliers, in_full: bool) -> str:
    spelled = ", ".join(map(str, multipliers)) if in_full or len(multipliers) <= SHORT_CONSTANT else "..."
    return f" {EXPLICIT}=[{spelled}]"


def _value_with_type(value: Value) -> str:
    return f"{value.name}: {value.dtype.value}{list(value.shape)}{_quant_text(value.type.quant)}"


def _quant_text(quant: Quant | None) -> str:
    match quant:
        case PerTensor(scale, zero_point):
            return f" @({scale!r}, {zero_point})"
        case UnknownScale(zero_point):
            return f" @({UNKNOWN}, {zero_point})"
        case PerChannel(scales, axis):
            return f" @axis{axis}({', '.join(map(repr, scales))})"
        case _:
            return ""


def _constant_data_text(value: Value, in_full: bool) -> str:
    data = value.constant
    if data.size <= SHORT_CONSTANT:
        return str(data.ravel().tolist())
    if not in_full:
        return "..."
    return "base64:" + base64.b64encode(zlib.compress(data.tobytes(), 9)).decode()


def _initial_text(state: State, in_full: bool) -> str:
    data = state.initial
    if data.size > SHORT_CONSTANT and np.isfinite(data.flat[0]) and (data == data.flat[0]).all():
        return f"{ALL} {data.flat[0].item()!r}"
    return _constant_data_text(dataclasses.replace(state.before, data=data), in_full)


def _value_names(operand: Value | tuple[Value, ...]) -> str:
    return operand.name if isinstance(operand, Value) else "[" + ", ".join(v.name for v in operand) + "]"


def _attribute_text(value: Any, in_full: bool) -> str:
    if isinstance(value, Enum):
        return str(value.value)
    if isinstance(value, Graph) and not in_full:
        return f"[{', '.join(map(_value_with_type, value.inputs))} -> {', '.join(map(_value_with_type, value.outputs))}]"
    if isinstance(value, Graph):
        return "base64:" + base64.b64encode(zlib.compress(to_text(value).encode(), 9)).decode()
    return repr(value)


_TYPED = re.compile(
    r"(?P<name>[^\s:]+): (?P<dtype>\w+)\[(?P<shape>[^\]]*)\](?: @(?P<axis>axis\d+)?\((?P<quant>[^)]*)\))?"
)
_OP = re.compile(
    r"^(?P<results>.*?) = (?P<kind>\w+)\((?P<operands>[^)]*)\)(?P<attributes>.*?)(?: # (?P<source>.*))?$"
)
_ATTRIBUTE = re.compile(r" (\w+)=((?:\([^)]*\)|\[[^\]]*\]|'[^']*'|\S)+)")


def parse(text: str, kinds: Mapping[str, type[Op]]) -> Graph:
    """Parses the text of a graph."""
    values: dict[str, Value] = {}
    inputs, outputs, ops = [], [], []
    begins: dict[str, tuple[Value, Array]] = {}
    states: list[State] = []
    name, arithmetic = "", Arithmetic.CMSIS_NN
    for number, line in enumerate(text.splitlines(), 1):
        word, _, rest = line.partition(" ")
        try:
            if not line.strip():
                continue
            if word == "graph":
                name, _, spelled = rest.partition(" arithmetic=")
                arithmetic = Arithmetic(spelled)
            elif word == "input":
                inputs.append(_define_value(values, _parse_value(rest)))
            elif word == "state":
                _parse_state(rest, values, begins, states)
            elif word == "const":
                _define_value(values, _parse_constant(rest))
            elif word == "output":
                outputs.append(values[rest.strip()])
            else:
                ops.append(_parse_op(line, values, kinds))
        except (*UNREADABLE, zlib.error) as error:
            raise PillionError(
                "a graph's text does not parse",
                rule=str(error),
                here=f"line {number}: {line[:200]}",
                help="docs/reference/ops.md lists the attributes of each op",
            ) from None
    if len(states) != len(begins):
        raise PillionError(
            "a graph's text does not parse",
            rule="each state says what it becomes",
            here=f"{len(begins)} states, of which {len(states)} do",
            help="docs/reference/ops.md lists the attributes of each op",
        )
    return Graph(name, tuple(inputs), tuple(ops), tuple(outputs), arithmetic, tuple(states))


def _parse_state(
    text: str, values: dict[str, Value], begins: dict[str, tuple[Value, Array]], states: list[State]
) -> None:
    """Parses one of the two lines of a state."""
    name, word, rest = text.split(" ", 2)
    if word == READS:
        typed, _, spelled = rest.partition(" = ")
        before = _define_value(values, _parse_value(typed))
        begins[name] = before, _parse_data(before, spelled)
    elif word == BECOMES:
        before, initial = begins[name]
        states.append(State(name, before, values[rest.strip()], initial))
    else:
        raise ValueError(f"a state {READS} or {BECOMES}")


def _define_value(values: dict[str, Value], value: Value) -> Value:
    return values.setdefault(value.name, value)


def _parse_value(text: str) -> Value:
    match = _TYPED.fullmatch(text.strip())
    if match is None:
        raise ValueError("expected `name: dtype[shape] @(scale, zero point)`")
    return _value_from_match(match)


def _value_from_match(match: re.Match[str]) -> Value:
    shape = tuple(int(d) for d in match["shape"].split(",") if d.strip())
    quant: Quant | None = None
    if match["axis"]:
        quant = PerChannel(tuple(float(s) for s in match["quant"].split(",")), int(match["axis"][4:]))
    elif match["quant"]:
        scale, zero_point = match["quant"].split(",")
        level = int(zero_point)
        quant = UnknownScale(level) if scale == UNKNOWN else PerTensor(float(scale), level)
    return Value(match["name"], TensorType(shape, DType(match["dtype"]), quant))


def _parse_constant(text: str) -> Value:
    typed, _, spelled = text.partition(" = ")
    value = _parse_value(typed)
    return dataclasses.replace(value, data=_parse_data(value, spelled))


def _parse_data(value: Value, spelled: str) -> Array:
    if spelled.startswith("base64:"):
        raw = zlib.decompress(base64.b64decode(spelled[7:]))
        return np.frombuffer(raw, value.dtype.numpy).reshape(value.shape)
    if spelled.startswith(f"{ALL} "):
        return np.full(value.shape, ast.literal_eval(spelled[len(ALL) :].strip()), value.dtype.numpy)
    return np.array(ast.literal_eval(spelled), value.dtype.numpy).reshape(value.shape)


def _parse_op(line: str, values: dict[str, Value], kinds: Mapping[str, type[Op]]) -> Op:
    match = _OP.match(line)
    if match is None:
        raise ValueError("expected `result: type = kind(operands) attributes`")
    if match["kind"] not in kinds:
        raise ValueError(f"no op is called `{match['kind']}`")
    cls = kinds[match["kind"]]
    fields: dict[str, Any] = dict(_parse_operands(match["operands"], values))
    results = [_value_from_match(typed) for typed in _TYPED.finditer(match["results"])]
    for value in results:
        values[value.name] = value
    name = result_fields(cls)[0]
    fields[name] = tuple(results) if get_type_hints(cls)[name] is not Value else results[0]
    hints = get_type_hints(cls)
    for key, spelled in _ATTRIBUTE.findall(match["attributes"]):
        is_explicit = key == EXPLICIT and issubclass(cls, ScaledOp)
        fields[key] = (
            _parse_multipliers(spelled) if is_explicit else _parse_attribute(spelled, hints[key], kinds)
        )
    return cls(**fields, source=match["source"] or "")


def _parse_operands(text: str, values: dict[str, Value]) -> list[tuple[str, Any]]:
    fields = re.findall(r"(\w+)=(\[[^\]]*\]|[^,\s]+)", text)
    return [
        (
            key,
            tuple(values[n.strip()] for n in operand[1:-1].split(",") if n.strip())
            if operand.startswith("[")
            else values[operand],
        )
        for key, operand in fields
    ]


def _parse_multipliers(spelled: str) -> Multipliers:
    parts = (multiplier.partition("*2^") for multiplier in spelled[1:-1].split(","))
    return tuple(Multiplier(int(mantissa), int(power) + 31) for mantissa, _, power in parts)


def _parse_attribute(spelled: str, hint: Any, kinds: Mapping[str, type[Op]]) -> Any:
    if isinstance(hint, type) and issubclass(hint, Enum):
        return hint(spelled)
    if hint is Graph:
        return parse(zlib.decompress(base64.b64decode(spelled[7:])).decode(), kinds)
    return {"inf": float("inf"), "-inf": float("-inf")}.get(spelled) or ast.literal_eval(spelled)
