# SPDX-License-Identifier: Apache-2.0
"""Reads resource variables as states, and the initializing subgraph as their initial values. A state's
value before a run is the first READ_VARIABLE before any assignment; its value after the run is the last
assignment."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from pillion.errors import PillionError
from pillion.ir.graph import UniqueNames, clean_name
from pillion.ir.numerics import Arithmetic
from pillion.ir.op import Op
from pillion.ir.state import State
from pillion.ir.types import Array, Value
from pillion.schemas import tflite
from pillion.schemas.flatbuffer import MalformedError

CODES = ("VAR_HANDLE", "READ_VARIABLE", "ASSIGN_VARIABLE", "CALL_ONCE")
Key = tuple[str, str]
"""Container and name of a variable."""


@dataclass
class _Variable:
    """A variable while operators are read: its value before the run, and its current value."""

    name: str
    before: Value | None = None
    now: Value | None = None


class Variables:
    """The variables of one subgraph."""

    def __init__(
        self, value: Callable[[int], Value], rename: Callable[[int, Value], None], subgraphs: int
    ) -> None:
        self.value, self.rename, self.subgraphs = value, rename, subgraphs
        self.keys: dict[int, Key] = {}
        """The variable of each handle tensor."""
        self.held: dict[Key, _Variable] = {}
        self.called: list[int] = []
        """The subgraphs that initialize variables."""
        self.names = UniqueNames()
        self.kept: list[State] = []
        """States of operators, without a variable."""

    def take(self, number: int, code: str, operator: tflite.Operator) -> None:
        """Reads a variable operator."""
        source = f"operator {number}, {code}"
        counts = {
            "VAR_HANDLE": (0, 1),
            "READ_VARIABLE": (1, 1),
            "ASSIGN_VARIABLE": (2, 0),
            "CALL_ONCE": (0, 0),
        }
        if (len(operator.inputs), len(operator.outputs)) != counts[code]:
            raise MalformedError(
                f"{source} has {len(operator.inputs)} operands and {len(operator.outputs)} results"
            )
        match code:
            case "VAR_HANDLE":
                self._handle(operator)
            case "READ_VARIABLE":
                self._read(self._variable_of_handle(operator.inputs[0], source), operator.outputs[0], source)
            case "ASSIGN_VARIABLE":
                self._variable_of_handle(operator.inputs[0], source).now = self.value(operator.inputs[1])
            case _:
                self._call_once(operator, source)

    def keep(self, name: str, before: Value, after: Value, initial: Array) -> None:
        """Records an operator's state."""
        self.kept.append(State(self.names.fresh(clean_name(name)), before, after, initial))

    def states(self, initial: Mapping[Key, Array]) -> tuple[State, ...]:
        """Returns the states of all variables that a run reads before it assigns them."""
        read = ((key, variable) for key, variable in self.held.items() if variable.before is not None)
        return (*(_variable_state(variable, initial.get(key)) for key, variable in read), *self.kept)

    def _handle(self, operator: tflite.Operator) -> None:
        options = operator.options
        if not isinstance(options, tflite.VarHandleOptions):
            raise MalformedError("a variable has no name")
        key = options.container, options.shared_name
        self.keys[operator.outputs[0]] = key
        if key not in self.held:
            self.held[key] = _Variable(self.names.fresh(clean_name(options.shared_name)))

    def _variable_of_handle(self, tensor: int, source: str) -> _Variable:
        if tensor not in self.keys:
            raise MalformedError(f"{source} takes a variable, found tensor {tensor}")
        return self.held[self.keys[tensor]]

    def _read(self, variable: _Variable, tensor: int, source: str) -> None:
        if variable.now is None:
            variable.before = variable.now = self.value(tensor)
            return
        value = self.value(tensor)
        if value.type != variable.now.type:
            raise _variable_type_error(
                variable.name, f"{value!r} is read, {variable.now!r} is held  ({source})"
            )
        self.rename(tensor, variable.now)

    def _call_once(self, operator: tflite.Operator, source: str) -> None:
        options = operator.options
        number = options.init_subgraph_index if isinstance(options, tflite.CallOnceOptions) else -1
        if not 0 < number < self.subgraphs:
            raise MalformedError(f"{source} calls subgraph {number} of {self.subgraphs}")
        self.called.append(number)


def _variable_state(variable: _Variable, initial: Array | None) -> State:
    before, after = variable.before, variable.now
    assert before is not None
    assert after is not None
    if initial is None:
        raise PillionError(
            f"variable `{variable.name}` is read before anything was written to it",
            rule="a subgraph that CALL_ONCE runs says what each variable is at first",
            here=repr(before),
            help="give the variable an initial value in the model, and convert it with its initializer",
        )
    initial_text = f"{initial.dtype}{list(initial.shape)} at first"
    if before.type != after.type or (initial.shape, initial.dtype) != (before.shape, before.dtype.numpy):
        raise _variable_type_error(
            variable.name, f"{before!r} is read, {after!r} is assigned, {initial_text}"
        )
    return State(variable.name, before, after, initial)


def initializer_subgraphs(model: tflite.Model, subgraph: tflite.SubGraph) -> set[int]:
    """Returns the indices of the subgraphs that CALL_ONCE runs."""
    options = (operator.options for operator in subgraph.operators)
    return {option.init_subgraph_index for option in options if isinstance(option, tflite.CallOnceOptions)}


def assigned_values(variables: Variables, ops: Iterable[Op]) -> dict[Key, Array]:
    """Returns the values that a subgraph without inputs assigns to its variables."""
    if variables.called:
        raise MalformedError("the subgraph of CALL_ONCE calls another one")
    known: dict[Value, Array] = {}
    for op in ops:
        if any(not v.is_constant and v not in known for v in op.operands):
            raise MalformedError(f"the subgraph of CALL_ONCE reads what nothing makes: {op.kind}")
        known |= op.compute(Arithmetic.TFLITE, known)
    assigned = {key: variable.now for key, variable in variables.held.items() if variable.now is not None}
    if any(not v.is_constant and v not in known for v in assigned.values()):
        raise MalformedError("the subgraph of CALL_ONCE assigns what nothing makes")
    return {key: v.constant if v.is_constant else known[v] for key, v in assigned.items()}


def _variable_type_error(name: str, here: str) -> PillionError:
    return PillionError(
        f"variable `{name}` has several types",
        rule="shape, element type and quantization of a variable stay the same",
        here=here,
        help="convert the model again: its quantizer gives one scale to a variable",
    )
