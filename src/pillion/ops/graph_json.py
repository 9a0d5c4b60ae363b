# SPDX-License-Identifier: Apache-2.0
"""Serializes a graph as JSON without the data of its constants, for files that store them elsewhere.

Derivable scales are omitted: weights' scales follow from the kernels' multipliers, and biases' from the scales of
operand and weights. All other scales are written out."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, get_type_hints

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pillion.errors import PillionError
from pillion.ir.graph import Graph, UniqueNames, clean_name, model_name, without_control_characters
from pillion.ir.numerics import Arithmetic, Multiplier, Multipliers, mantissas_and_shifts
from pillion.ir.op import Op, ScaledOp, operand_fields, result_fields
from pillion.ir.state import State
from pillion.ir.types import (
    Array,
    DType,
    PerChannel,
    PerTensor,
    Quant,
    Shape,
    TensorType,
    UnknownScale,
    Value,
)
from pillion.ir.verify import verify_graph

Json = Any
NumberOf = Callable[[Array], "int | None"]
"""Returns the number of a constant in the file that holds the data, if it is there."""
BytesOf = Callable[[int, int], NDArray[np.uint8]]
"""Returns the first bytes of the constant with a number."""
ALL = "all"
"""The key before the one element of uniform data."""
WEIGHTS, MULTIPLIERS = "weights", "multipliers"
"""The fields of ops whose accumulators are requantized channel by channel."""


def channel_scales(mantissas: ArrayLike, shifts: ArrayLike, x: float, y: float) -> tuple[float, ...]:
    """Recovers the scales of weights from multipliers. A mantissa has 31 bits, a scale 24, so nothing is lost."""
    ratios = np.ldexp(np.asarray(mantissas, np.float64), np.asarray(shifts, np.int64) - 31)
    return tuple((ratios * y / x).astype(np.float32).astype(np.float64).tolist())


def sum_scales(x: float, weights: Quant) -> Quant | None:
    """Returns the accumulator's scales: the products of the operand's scale and the weights' scales."""
    match weights:
        case PerChannel(scales):
            return _quant_if_valid(lambda: PerChannel(tuple(x * scale for scale in scales), 0))
        case PerTensor(scale):
            return _quant_if_valid(lambda: PerTensor(x * scale))
        case UnknownScale():
            return None


def _quant_if_valid(make: Callable[[], Quant]) -> Quant | None:
    try:
        return make()
    except ValueError:
        return None


# Writing


def pack(graph: Graph, number_of: NumberOf, bodies: Sequence[NumberOf | None] = ()) -> bytes:
    """Serializes a graph. `bodies` find the constants of its segments, in running order; None marks a segment
    whose graph is not stored."""
    return json.dumps(_Packer(graph, number_of, bodies).pack(), separators=(",", ":")).encode()


class _Packer:
    def __init__(self, graph: Graph, number_of: NumberOf, bodies: Sequence[NumberOf | None] = ()) -> None:
        self.graph, self.number_of, self.bodies = graph, number_of, bodies
        self.values = list(graph.values.values())
        self.index = {value: i for i, value in enumerate(self.values)}
        self.rules = self.derived_quants()

    def pack(self) -> Json:
        graph = self.graph
        states = [
            [state.name, self.index[state.before], self.index[state.after], self.initial(state)]
            for state in graph.states
        ]
        return {
            **({"states": states} if states else {}),
            "name": graph.name,
            "arithmetic": graph.arithmetic.value,
            "values": [self.value(v) for v in self.values],
            "inputs": [self.index[v] for v in graph.inputs],
            "ops": [self.op(op) for op in graph.ops],
            "outputs": [self.index[v] for v in graph.outputs],
            "bodies": [
                find and _Packer(body, find).pack()
                for body, find in zip(_inner_graphs(graph), self.bodies, strict=True)
            ],
        }

    def derived_quants(self) -> dict[Value, Json]:
        """Says how the quantization of weights and biases follows from the rest, where it does."""
        rules: dict[Value, Json] = {}
        for op in self.graph.ops:
            weights, bias = (getattr(op, name, None) for name in (WEIGHTS, "bias"))
            if not isinstance(weights, Value) or not isinstance(bias, Value) or not weights.is_quantized:
                continue
            x, y = op.operands[0], op.results[0]
            if isinstance(x.type.quant, UnknownScale) or isinstance(y.type.quant, UnknownScale):
                continue
            if isinstance(weights.type.quant, PerChannel) and weights not in rules:
                rules.update(self.weights_rule(op, x, weights, y))
            if weights.type.quant and bias.is_quantized and bias not in rules:
                follows = sum_scales(x.scale, weights.type.quant) == bias.type.quant
                rules.update({bias: {"sums": [self.index[x], self.index[weights]]}} if follows else {})
        return rules

    def weights_rule(self, op: Op, x: Value, weights: Value, y: Value) -> dict[Value, Json]:
        quant = weights.type.quant
        assert isinstance(quant, PerChannel)
        mantissas, shifts = getattr(op, MULTIPLIERS)
        numbers = [self.number_of(mantissas), self.number_of(shifts)]
        if None in numbers or channel_scales(mantissas, shifts, x.scale, y.scale) != quant.scales:
            return {}
        return {weights: {"axis": quant.axis, "multipliers": [*numbers, self.index[x], self.index[y]]}}

    def initial(self, state: State) -> Json:
        first = state.initial.ravel()[:1]
        is_even = state.initial.size > 1 and state.initial.tobytes() == first.tobytes() * state.initial.size
        return {ALL: _encode_array(first)} if is_even else self.data(state.initial)

    def value(self, value: Value) -> Json:
        packed = [value.name, value.dtype.value, list(value.shape), self.quant(value)]
        return [*packed, self.data(value.constant)] if value.is_constant else packed

    def quant(self, value: Value) -> Json:
        if value in self.rules:
            return self.rules[value]
        match value.type.quant:
            case PerTensor(scale, zero_point):
                return [scale, zero_point]
            case UnknownScale(zero_point):
                return [None, zero_point]
            case PerChannel(scales, axis):
                return {"axis": axis, "scales": self.data(np.array(scales, np.float32))}
            case _:
                return None

    def data(self, array: Array) -> Json:
        number = self.number_of(array) if array.size else None
        return _encode_array(array) if number is None else number

    def op(self, op: Op) -> Json:
        operands = {name: self.refer(getattr(op, name)) for name in operand_fields(op)}
        results = {name: self.refer(getattr(op, name)) for name in result_fields(op)}
        attributes = {
            name: attribute.value if isinstance(attribute, Enum) else attribute
            for name, attribute in op.attributes.items()
            if not isinstance(attribute, Graph)
        }
        packed = [op.kind, operands, results, attributes, op.source]
        return (
            [*packed, self.explicit_multipliers(op.explicit)]
            if isinstance(op, ScaledOp) and op.explicit
            else packed
        )

    def explicit_multipliers(self, multipliers: Multipliers) -> Json:
        return [len(multipliers), *map(self.data, mantissas_and_shifts(multipliers))]

    def refer(self, operand: Value | tuple[Value, ...] | None) -> Json:
        if isinstance(operand, tuple):
            return [self.index[v] for v in operand]
        return None if operand is None else self.index[operand]


def _inner_graphs(graph: Graph) -> list[Graph]:
    """Returns the inner graphs of ops, in running order."""
    return [
        attribute for op in graph.ops for attribute in op.attributes.values() if isinstance(attribute, Graph)
    ]


def _encode_array(array: Array) -> str:
    return base64.b64encode(np.ascontiguousarray(array, array.dtype.newbyteorder("<")).tobytes()).decode()


# Reading


@dataclass(frozen=True)
class GraphSource:
    """Access to the constants that a serialized graph refers to."""

    bytes_of: BytesOf
    kinds: Mapping[str, type[Op]]
    bodies: Sequence[BytesOf] = field(default=())
    """Functions that return the constants of each segment, in running order."""


def unpack(raw: bytes, source: GraphSource) -> Graph:
    """Deserializes a graph from untrusted JSON; raises a PillionError if it is malformed."""
    try:
        return _Unpacker(json.loads(raw), source).graph()
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError) as error:
        raise PillionError(
            "a graph's record does not make sense",
            rule="it is what Pillion wrote into the file",
            here=f"{type(error).__name__}: {error}"[:200],
            help="compile the model again",
        ) from None


class _Unpacker:
    def __init__(self, held: Json, source: GraphSource) -> None:
        self.held, self.source = held, source
        self.values: dict[int, Value] = {}
        self.names = UniqueNames()
        self.bodies = [
            _Unpacker(body, GraphSource(bytes_of, source.kinds)).graph() if body else None
            for body, bytes_of in zip(held["bodies"], source.bodies, strict=True)
        ]

    def graph(self) -> Graph:
        fields = self.held
        inputs, outputs = fields["inputs"], fields["outputs"]
        if len({name for name, *_ in fields["values"]}) != len(fields["values"]):
            raise ValueError("two values have one name")
        graph = Graph(
            model_name(_require_text(fields["name"])),
            tuple(map(self.value, inputs)),
            tuple(map(self.op, fields["ops"])),
            tuple(map(self.value, outputs)),
            Arithmetic(fields["arithmetic"]),
            tuple(self.state(*state) for state in fields.get("states", ())),
        )
        if self.bodies:
            raise ValueError("there are more segments than ops for them")
        return verify_graph(graph)

    def state(self, name: Json, before: Json, after: Json, data: Json) -> State:
        read = self.value(before)
        if isinstance(data, dict):
            (fill,) = _array_from_bytes(_decode_bytes(data[ALL]), read.dtype.numpy)
            initial: Array = np.full(read.shape, fill, read.dtype.numpy)
        else:
            initial = self.data(data, read.type)
        return State(clean_name(_require_text(name)), read, self.value(after), initial)

    def value(self, index: int) -> Value:
        if index not in self.values:
            name, dtype, shape, quant, *data = self.held["values"][_require_natural(index)]
            sizes = tuple(map(_require_natural, shape))
            tensor_type = TensorType(sizes, DType(dtype), self.quant(quant, sizes))
            self.values[index] = Value(
                self.names.fresh(clean_name(_require_text(name))),
                tensor_type,
                self.data(data[0], tensor_type) if data else None,
            )
        return self.values[index]

    def data(self, reference: Json, tensor_type: TensorType) -> Array:
        return self.array(reference, tensor_type.dtype.numpy, tensor_type.elements).reshape(tensor_type.shape)

    def array(self, data: Json, dtype: np.dtype[Any], count: int) -> Array:
        """Returns `count` elements: a constant by its number, or written out."""
        is_number = isinstance(data, int)
        raw = (
            self.source.bytes_of(data, count * dtype.itemsize).tobytes() if is_number else _decode_bytes(data)
        )
        return _array_from_bytes(raw, dtype)

    def quant(self, fields: Json, shape: Shape) -> Quant | None:
        match fields:
            case None:
                return None
            case [None, zero_point]:
                return UnknownScale(zero_point)
            case [scale, zero_point]:
                return PerTensor(scale, zero_point)
            case {"sums": [x, weights]}:
                of_weights = self.value(weights).type.quant
                return sum_scales(self.value(x).scale, of_weights) if of_weights else None
            case {"axis": axis, "multipliers": [*numbers, x, y]}:
                count = shape[_require_natural(axis)]
                mantissas, shifts = (self.array(n, np.dtype(np.int32), count) for n in numbers)
                scales = channel_scales(mantissas, shifts, self.value(x).scale, self.value(y).scale)
                return PerChannel(scales, axis)
            case {"axis": axis, "scales": scales}:
                count = shape[_require_natural(axis)]
                return PerChannel(tuple(self.array(scales, np.dtype(np.float32), count).tolist()), axis)
            case _:
                raise ValueError(f"no quantization: {fields!r}")

    def op(self, held: Json) -> Op:
        kind, operands, results, attributes, source, *multipliers = held
        if kind not in self.source.kinds:
            raise ValueError(f"no op is called `{kind}`")
        cls = self.source.kinds[kind]
        hints = get_type_hints(cls)
        if {*operands, *results} != {*operand_fields(cls), *result_fields(cls)}:
            raise ValueError(f"operands of {kind}: {sorted(operands)}")
        fields: dict[str, Any] = {n: self.refer(v) for n, v in (*operands.items(), *results.items())}
        fields |= {name: _decode_attribute(spelled, hints[name]) for name, spelled in attributes.items()}
        fields |= {"explicit": self.multipliers(*multipliers[0])} if multipliers else {}
        fields |= {name: self.body(fields) for name, hint in hints.items() if hint is Graph}
        return cls(**fields, source=without_control_characters(_require_text(source)))

    def multipliers(self, count: Json, *numbers: Json) -> Multipliers:
        """Returns the explicit multipliers of an op."""
        mantissas, shifts = (
            self.array(data, np.dtype(np.int32), _require_natural(count)) for data in numbers
        )
        return tuple(Multiplier(m, s) for m, s in zip(mantissas.tolist(), shifts.tolist(), strict=True))

    def body(self, fields: Mapping[str, Any]) -> Graph:
        """Returns the graph of the next segment; without ops if it is not stored."""
        stored = self.bodies.pop(0)
        name, arithmetic = model_name(_require_text(self.held["name"])), Arithmetic(self.held["arithmetic"])
        return stored or Graph(f"{name}_closed", fields["xs"], (), fields["ys"], arithmetic)

    def refer(self, operand: Json) -> Value | tuple[Value, ...] | None:
        if isinstance(operand, list):
            return tuple(map(self.value, operand))
        return None if operand is None else self.value(operand)


def _decode_bytes(spelled: str) -> bytes:
    return base64.b64decode(spelled, validate=True)


def _array_from_bytes(raw: bytes, dtype: np.dtype[Any]) -> Array:
    return np.frombuffer(raw, dtype.newbyteorder("<")).astype(dtype, copy=False)


def _require_text(data: Json) -> str:
    if not isinstance(data, str):
        raise TypeError(f"no text: {data!r}")
    return data


def _require_natural(data: Json) -> int:
    if not isinstance(data, int) or data < 0:
        raise ValueError(f"no size or number: {data!r}")
    return data


def _decode_attribute(spelled: Json, hint: Any) -> Any:
    """Decodes an attribute as the op's class declares it."""
    if isinstance(hint, type) and issubclass(hint, Enum):
        return hint(spelled)
    if isinstance(spelled, list):
        return tuple(_require_natural(item) for item in spelled)
    if hint in (int, float, bool, str) and isinstance(spelled, (int, float) if hint is float else hint):
        return spelled
    raise TypeError(f"no {hint}: {spelled!r}")
