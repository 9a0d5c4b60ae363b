# SPDX-License-Identifier: Apache-2.0
"""The kernels of LSTM steps and SVDF filters. Libraries with vectors pack rows of weights in groups."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from pillion.emitters.c.accumulators import Int8Array, Int32Array
from pillion.emitters.c.channel_scaling import MOST_SHIFT, SUM_LIMIT
from pillion.emitters.c.dsp.pack import B_LIMIT, pack_pairs
from pillion.emitters.c.kernel import Kernel, Params
from pillion.emitters.c.kernel_conditions import Condition, all_of, shifted_right, short_circuit
from pillion.emitters.c.kernel_library import DSP, MVE, PORTABLE, Library
from pillion.emitters.c.mve.pack import EVEN, ODD, OVERREAD_BYTES, chunks_of, join_groups
from pillion.ir import numerics
from pillion.ir.numerics import INT16_MAX, Multiplier, Multipliers
from pillion.ir.op import Op
from pillion.ir.types import Array, DType, Value
from pillion.ir.verdict import Verdict
from pillion.ops.lstm import FRACTION_BITS, LstmCell, LstmGates, LstmOutput
from pillion.ops.svdf import SvdfMemory, SvdfOutput

GatesOrFilters = LstmGates | SvdfMemory

# --- portable ---------------------------------------------------------------------------------------------------------


def gate_params(op: LstmGates) -> Params:
    """Returns weights, biases and multipliers of the gates as parameters, with zero points folded into the biases."""
    weights, recurrent = op.input_weights.constant, op.recurrent_weights.constant
    bias = op.bias.constant.astype(np.int64) - op.x.zero_point * numerics.row_sums(weights)
    multiplier, shift = numerics.mantissas_and_shifts(op.input_multipliers, op.gates)
    recurrent_multiplier, recurrent_shift = numerics.mantissas_and_shifts(op.recurrent_multipliers, op.gates)
    return {
        **{"inputs": op.x.shape[1], "outputs": op.h.shape[1]},
        **{"weights": weights, "recurrent": recurrent, "bias": bias.astype(np.int32)},
        "recurrent_bias": (-op.h.zero_point * numerics.row_sums(recurrent)).astype(np.int32),
        **{"multiplier": multiplier, "shift": shift},
        **{"recurrent_multiplier": recurrent_multiplier, "recurrent_shift": recurrent_shift},
    }


def cell_bounds(op: LstmCell) -> Params:
    """Returns the shift and the bounds of the cell state as parameters."""
    low, high = (-op.clip, op.clip) if op.clip else (-INT16_MAX - 1, INT16_MAX)
    return {"places": 2 * FRACTION_BITS + op.cell_exponent, "low": low, "high": high}


def filter_params(op: SvdfMemory) -> Params:
    """Returns sizes, weights and scale of the filters as parameters, with the zero point folded into the biases."""
    weights = op.weights.constant
    bias = (-op.x.zero_point * numerics.row_sums(weights)).astype(np.int32)
    return {"inputs": op.x.shape[1], "weights": weights, "bias": bias}


def svdf_output_params(op: SvdfOutput) -> Params:
    """Returns the parameters of the weighted filters' memory."""
    return {
        **{"batch": op.memory.shape[0], "remembered": op.memory.shape[1] // op.units},
        **{"weights": op.weights.constant, "bias": op.bias.constant},
    }


def state_types(op: Op) -> Iterable[Verdict]:
    """Checks whether cell state and filter memory are int16, and all other computed values int8."""
    wide = {value for field in ("c", "memory") if isinstance(value := getattr(op, field, None), Value)}
    wide |= {*op.results} if isinstance(op, (LstmCell, SvdfMemory)) else set()
    for value in dict.fromkeys((*op.activations, *op.results)):
        expected = DType.INT16 if value in wide else DType.INT8
        yield Verdict(value.name, value.dtype is expected, expected.value, value.dtype.value)


# --- groups of rows ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class GroupedRows:
    """The packing of weights by a library: in groups of rows that are summed together, along vectors of inputs."""

    rows: int
    inputs: int
    counts: str
    """The field with the number of vectors of inputs."""
    constants: str
    """The field with the packed weights and biases."""
    pack_groups: Callable[[Int8Array, Int32Array], Int32Array]
    """Packs weights [groups, rows, inputs] and biases [groups, rows]."""
    scaling: Callable[[Multiplier], tuple[int, ...]]
    """Returns the numbers by which the sums of a gate are rescaled."""
    group_bytes: int
    """The scratch bytes of a group's sums."""
    vector_bytes: int = 0
    """The scratch bytes of a vector of inputs."""

    def params(self, op: GatesOrFilters) -> Params:
        """Returns weights, biases and multipliers of gates or filters as parameters."""
        plain = gate_params(op) if isinstance(op, LstmGates) else filter_params(op)
        sizes = {name: plain[name] for name in ("inputs", "outputs") if name in plain}
        parts = [("", "weights", "bias"), ("recurrent_", "recurrent", "recurrent_bias")]
        packed = {
            f"{prefix}{self.constants}": self._pack_gate_rows(
                np.asarray(plain[weights]), np.asarray(plain[bias]), op
            )
            for prefix, weights, bias in parts[: len(_input_values(op))]
        }
        counts = {
            f"{prefix}{self.counts}": self._input_vector_count(value)
            for (prefix, *_), value in zip(parts, _input_values(op), strict=False)
        }
        scalings = [self.scaling(m) for m in _gate_multipliers(op)]
        numbers: Params = {
            "groups": self._row_group_count(op),
            "scalings": np.array(scalings, np.int32).reshape(-1),
        }
        return {**sizes, **counts, **packed, **numbers}

    def scratch_bytes(self, op: GatesOrFilters) -> int:
        """Returns the scratch bytes: the sums of all gates, and inputs and outputs in vectors."""
        vectors = sum(map(self._input_vector_count, _input_values(op)))
        return self.group_bytes * self._row_group_count(op) * _gate_count(op) + self.vector_bytes * vectors

    def _row_group_count(self, op: GatesOrFilters) -> int:
        return -(-(op.cells if isinstance(op, LstmGates) else op.filters) // self.rows)

    def _input_vector_count(self, value: Value) -> int:
        return -(-value.shape[1] // self.inputs)

    def _pack_gate_rows(self, weights: Int8Array, bias: Int32Array, op: GatesOrFilters) -> Int32Array:
        """Packs the rows of each gate, padded with zeros to complete groups."""
        gates, inputs = _gate_count(op), weights.shape[1]
        rows = weights.shape[0] // gates
        padding = ((0, 0), (0, -rows % self.rows), (0, -inputs % self.inputs))
        padded = np.pad(weights.reshape(gates, rows, inputs), padding)
        biases = np.pad(bias.reshape(gates, rows), padding[:2])
        groups = padded.reshape(-1, self.rows, padded.shape[-1])
        return self.pack_groups(groups, biases.reshape(-1, self.rows)).astype(np.int32).reshape(-1)


def _gate_count(op: GatesOrFilters) -> int:
    return op.gates if isinstance(op, LstmGates) else 1


def _input_values(op: GatesOrFilters) -> tuple[Value, ...]:
    return (op.x, op.h) if isinstance(op, LstmGates) else (op.x,)


def _gate_multipliers(op: GatesOrFilters) -> Multipliers:
    """Returns the multipliers of inputs, then of outputs, one per gate."""
    if not isinstance(op, LstmGates):
        return (op.multiplier,)
    shared = (op.input_multipliers, op.recurrent_multipliers)
    return tuple(m[gate % len(m)] for m in shared for gate in range(op.gates))


def some_inputs(op: GatesOrFilters) -> Verdict:
    """Checks whether there are inputs."""
    few = min(v.shape[1] for v in _input_values(op))
    return Verdict("inputs", few > 0, "one at least", str(few))


# --- DSP --------------------------------------------------------------------------------------------------------------

LEAST_WEIGHT = -127
"""The smallest weight: 256 * -128 plus a negative number does not fit 16 bits."""


def pack_fours(groups: Int8Array, biases: Int32Array) -> Int32Array:
    """Packs pairs of weights in halfwords, alternating four inputs of the first and of the second pair, then
    biases."""
    pairs = groups.reshape(-1, 2, groups.shape[-1])
    words = pack_pairs(pairs[:, 0], pairs[:, 1]).reshape(len(groups), 2, -1, 2).swapaxes(1, 2)
    return np.hstack([words.reshape(len(groups), -1), biases])


def products_fit(op: GatesOrFilters) -> tuple[Verdict, ...]:
    """Checks whether pairs of weights fit halfwords, products fit 24 bits, and biased sums fit 31 bits after a
    left shift."""
    largest, weights = _largest_sum_and_weights(op)
    least = min(int(w.min(initial=0)) for w in weights)
    reach = 128 * max(int(np.abs(w.astype(np.int64)).sum(axis=1).max(initial=0)) for w in weights)
    least_shift, most_shift = (edge(m.shift for m in _gate_multipliers(op)) for edge in (min, max))
    largest <<= max(most_shift, 0)
    return (
        some_inputs(op),
        Verdict("weights", least >= LEAST_WEIGHT, f"{LEAST_WEIGHT} or more", str(least)),
        Verdict("products", reach < B_LIMIT, f"below {B_LIMIT}", f"up to {reach}"),
        Verdict("sum", largest < SUM_LIMIT, f"below {SUM_LIMIT}", f"up to {largest}"),
        Verdict("right_shift", -least_shift <= MOST_SHIFT, f"{MOST_SHIFT} at most", str(-least_shift)),
    )


def _largest_sum_and_weights(op: GatesOrFilters) -> tuple[int, tuple[Array, ...]]:
    if not isinstance(op, LstmGates):
        return op.largest_sum, (op.weights.constant,)
    largest = max(largest for largest, _ in LstmGates.largest_sums(op))
    return largest, (op.input_weights.constant, op.recurrent_weights.constant)


def right_then_left(m: Multiplier) -> tuple[int, int, int]:
    """Returns multiplier, right shift and left shift."""
    return m.mantissa, max(-m.shift, 0), max(m.shift, 0)


FOURS = GroupedRows(4, 8, "eights", "stream", pack_fours, right_then_left, group_bytes=8, vector_bytes=16)

# --- Helium -----------------------------------------------------------------------------------------------------------


def pack_eights(groups: Int8Array, biases: Int32Array) -> Int32Array:
    """Packs biases, then weights in chunks of 16 inputs, even rows first."""
    order = [*EVEN, *ODD]
    return join_groups(biases[:, order], chunks_of(groups[:, order]))


def right_fix_left(m: Multiplier) -> tuple[int, int, int, int]:
    """Returns multiplier, right shift, sign correction and left shift."""
    return m.mantissa, min(m.shift, 0), int(m.shift < 0), max(m.shift, 0)


EIGHTS = GroupedRows(8, 16, "chunks", "constants", pack_eights, right_fix_left, group_bytes=16)
WITH_INPUTS = all_of(state_types, some_inputs)


def recurrent_kernels(
    library: Library,
    gates: Callable[[Any], Params],
    filters: Callable[[Any], Params],
    requires: Condition[Any],
    requires_of_output: Condition[Any],
    **memory: Any,
) -> tuple[Kernel, ...]:
    """Returns the kernels of a library, by the parameters of its gates and filters."""
    return (
        library.kernel(
            SvdfMemory,
            "svdf_memory_s16",
            filters,
            requires=(requires,),
            in_place="memory",
            name="svdf_memory",
            **memory,
        ),
        library.kernel(
            LstmCell,
            "lstm_cell_s16",
            lambda op: {**gates(op), **cell_bounds(op)},
            requires=(requires,),
            in_place="c",
            name="lstm_cell",
            **memory,
        ),
        library.kernel(
            LstmOutput,
            "lstm_output_s8",
            lambda op: {**gates(op), "integer_bits": FRACTION_BITS + op.cell_exponent},
            requires=(requires_of_output,),
            **memory,
        ),
    )


def grouped_kernels(
    library: Library, layout: GroupedRows, *requires: Condition[Any], **memory: Any
) -> tuple[Kernel, ...]:
    """Returns the kernels of a library that packs rows in groups."""
    of_library = {"also": ("gates",), "scratch_bytes": layout.scratch_bytes, **memory}
    return recurrent_kernels(library, layout.params, layout.params, *requires, **of_library)


EXACT_PRODUCTS = short_circuit(state_types, products_fit)
SHIFTED_OUTPUT = short_circuit(WITH_INPUTS, shifted_right(0, 31))
KERNELS: tuple[Kernel, ...] = (
    *recurrent_kernels(PORTABLE, gate_params, filter_params, state_types, state_types),
    PORTABLE.kernel(SvdfOutput, "svdf_output_s8", svdf_output_params, requires=(state_types,)),
    *grouped_kernels(DSP, FOURS, EXACT_PRODUCTS, EXACT_PRODUCTS),
    *grouped_kernels(MVE, EIGHTS, WITH_INPUTS, SHIFTED_OUTPUT, overread_bytes=OVERREAD_BYTES),
)
