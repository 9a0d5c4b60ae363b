# SPDX-License-Identifier: Apache-2.0
"""The DSP kernels of LSTM steps and SVDF filters."""

from __future__ import annotations

import numpy as np

from pillion.emitters.c.accumulators import Int8Array, Int32Array
from pillion.emitters.c.channel_scaling import MOST_SHIFT, SUM_LIMIT
from pillion.emitters.c.dsp.pack import B_LIMIT, groups_of_four, pack_pairs
from pillion.emitters.c.kernel import Kernel, Params
from pillion.emitters.c.kernel_conditions import short_circuit
from pillion.emitters.c.kernel_library import DSP
from pillion.emitters.c.portable import recurrent as portable
from pillion.ir.numerics import Multipliers
from pillion.ir.types import Array
from pillion.ir.verdict import Verdict
from pillion.ops.lstm import LstmCell, LstmGates, LstmOutput
from pillion.ops.svdf import SvdfMemory

LEAST_WEIGHT = -127
"""The smallest weight: 256 * -128 plus a negative number does not fit 16 bits."""


def groups_of_eight(inputs: int) -> int:
    """Returns the number of groups of eight inputs."""
    return -(-inputs // 8)


def pack(weights: Int8Array, bias: Int32Array, gates: int = 1) -> Int32Array:
    """Packs the rows of each gate in fours: pairs of weights in halfwords, alternating four inputs of the first
    and of the second pair, then biases."""
    rows, inputs = weights.shape[0] // gates, weights.shape[1]
    missing = 4 * groups_of_four(rows) - rows
    padded = np.pad(weights.reshape(gates, rows, inputs), ((0, 0), (0, missing), (0, -inputs % 8)))
    biases = np.pad(bias.reshape(gates, rows), ((0, 0), (0, missing))).reshape(-1, 4)
    pairs = padded.reshape(-1, 2, padded.shape[-1])
    words = pack_pairs(pairs[:, 0], pairs[:, 1]).reshape(len(biases), 2, -1, 2).swapaxes(1, 2)
    return np.hstack([words.reshape(len(biases), -1), biases]).astype(np.int32).reshape(-1)


def scalings(multipliers: Multipliers) -> Int32Array:
    """Returns multiplier, right shift and left shift of each gate."""
    numbers = [(m.mantissa, max(-m.shift, 0), max(m.shift, 0)) for m in multipliers]
    return np.array(numbers, np.int32).reshape(-1)


def gate_params(op: LstmGates) -> Params:
    """Returns weights, biases and multipliers of the gates as parameters."""
    plain = portable.gate_params(op)
    weights, recurrent, bias, recurrent_bias = (
        np.asarray(plain[name]) for name in ("weights", "recurrent", "bias", "recurrent_bias")
    )
    inputs, outputs = (
        portable.gate_multipliers(op, m) for m in (op.input_multipliers, op.recurrent_multipliers)
    )
    return {
        **{name: plain[name] for name in ("inputs", "outputs")},
        "groups": groups_of_four(op.cells),
        **{"eights": groups_of_eight(op.x.shape[1]), "recurrent_eights": groups_of_eight(op.h.shape[1])},
        "stream": pack(weights, bias, op.gates),
        "recurrent_stream": pack(recurrent, recurrent_bias, op.gates),
        "scalings": scalings((*inputs, *outputs)),
    }


def memory_params(op: SvdfMemory) -> Params:
    """Returns weights, biases and multipliers of the filters as parameters."""
    plain = portable.filter_params(op)
    return {
        **{
            "inputs": plain["inputs"],
            "groups": groups_of_four(op.filters),
            "eights": groups_of_eight(op.x.shape[1]),
        },
        "stream": pack(np.asarray(plain["weights"]), np.asarray(plain["bias"])),
        "scalings": scalings((op.multiplier,)),
    }


def check_sums(weights: tuple[Array, ...], largest: int, multipliers: Multipliers) -> tuple[Verdict, ...]:
    """Checks whether pairs of weights fit halfwords, products fit 24 bits, and biased sums fit 31 bits after a
    left shift."""
    few = min(w.shape[1] for w in weights)
    least = min(int(w.min(initial=0)) for w in weights)
    reach = 128 * max(int(np.abs(w.astype(np.int64)).sum(axis=1).max(initial=0)) for w in weights)
    least_shift, most_shift = (edge(m.shift for m in multipliers) for edge in (min, max))
    largest <<= max(most_shift, 0)
    return (
        Verdict("inputs", few > 0, "one at least", str(few)),
        Verdict("weights", least >= LEAST_WEIGHT, f"{LEAST_WEIGHT} or more", str(least)),
        Verdict("products", reach < B_LIMIT, f"below {B_LIMIT}", f"up to {reach}"),
        Verdict("sum", largest < SUM_LIMIT, f"below {SUM_LIMIT}", f"up to {largest}"),
        Verdict("right_shift", -least_shift <= MOST_SHIFT, f"{MOST_SHIFT} at most", str(-least_shift)),
    )


def gates_fit(op: LstmCell | LstmOutput) -> tuple[Verdict, ...]:
    """Checks whether the gates of an LSTM step are within the kernel's limits."""
    weights = op.input_weights.constant, op.recurrent_weights.constant
    largest = max(largest for largest, _ in LstmGates.largest_sums(op))
    return check_sums(weights, largest, (*op.input_multipliers, *op.recurrent_multipliers))


def filters_fit(op: SvdfMemory) -> tuple[Verdict, ...]:
    """Checks whether the filters of an SVDF are within the kernel's limits."""
    return check_sums((op.weights.constant,), op.largest_sum, (op.multiplier,))


def gates_bytes(op: LstmGates) -> int:
    """Returns the scratch bytes: the sums of all gates, and inputs and outputs in 16 bits."""
    return 8 * groups_of_four(op.cells) * op.gates + 16 * (
        groups_of_eight(op.x.shape[1]) + groups_of_eight(op.h.shape[1])
    )


def svdf_scratch_bytes(op: SvdfMemory) -> int:
    """Returns the scratch bytes: the new values of all filters, and the inputs in 16 bits."""
    return 8 * groups_of_four(op.filters) + 16 * groups_of_eight(op.x.shape[1])


KERNELS: tuple[Kernel, ...] = (
    DSP.kernel(
        LstmCell,
        "lstm_cell_s16",
        lambda op: {**gate_params(op), **portable.cell_bounds(op)},
        requires=(short_circuit(portable.state_types, gates_fit),),
        scratch_bytes=gates_bytes,
        in_place="c",
        also=("gates",),
    ),
    DSP.kernel(
        LstmOutput,
        "lstm_output_s8",
        lambda op: {**gate_params(op), **portable.output_scale(op)},
        requires=(short_circuit(portable.state_types, gates_fit),),
        scratch_bytes=gates_bytes,
        also=("gates",),
    ),
    DSP.kernel(
        SvdfMemory,
        "svdf_memory_s16",
        memory_params,
        requires=(short_circuit(portable.state_types, filters_fit),),
        scratch_bytes=svdf_scratch_bytes,
        in_place="memory",
        also=("gates",),
    ),
)
