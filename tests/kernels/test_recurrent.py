# SPDX-License-Identifier: Apache-2.0
"""Steps of LSTMs and filters over time on the emulated cores and on this computer against the reference, byte for byte."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from kernels import rig
from kernels.op_cases import Run, case_of, check_runs, kernel_of, refusals
from kernels.rig import M4, M33, M55, SANITIZED
from nightly import part_of
from pillion.devices.cortex_m import Isa
from pillion.emitters.c.kernel_lists import KERNELS_OF
from pillion.ir.numerics import Arithmetic
from pillion.ir.types import Array, DType, PerChannel, PerTensor, TensorType, Value, constant_value
from pillion.ir.verdict import all_ok
from pillion.ops.example_values import make_op, random_like, value
from pillion.ops.lstm import LstmCell, LstmOutput
from pillion.ops.svdf import SvdfMemory, SvdfOutput

HOST = rig.host(*SANITIZED)
TARGETS = [
    pytest.param(HOST, marks=pytest.mark.slow, id="host"),
    *(
        pytest.param(t, marks=marks, id=name)
        for name, t, marks in (
            ("m4", M4, (pytest.mark.qemu, pytest.mark.nightly)),
            ("m33", M33, pytest.mark.qemu),
            ("m55", M55, pytest.mark.qemu),
        )
    ),
]
EVERY_INT16 = np.arange(-(2**15), 2**15)
ENDS = (-128, 127)


def layer(
    cls: Any,
    batch: int,
    inputs: int,
    cells: int,
    seed: int = 0,
    scale: float = 0.004,
    zeros: tuple[int, int, int] = (3, -9, 0),
    outputs: int = 0,
    **fields: Any,
) -> Any:
    """A half of a step with random weights, gates of scales that differ by a factor of thirty, so that shifts go both ways."""
    rng = np.random.default_rng([seed, inputs, cells])
    outputs = outputs or cells
    c = Value("c", TensorType((batch, cells), DType.INT16, PerTensor(2.0 ** -(9 + seed % 7))))
    rows, factors = cls.gates * cells, (1.0, 0.1, 3.0)[: cls.gates] if cls.gates > 1 else (1.0 + seed % 3,)
    scales = PerChannel(tuple(np.repeat([scale * factor for factor in factors], cells).tolist()), 0)
    held = {
        name: constant_value(
            name, rng.integers(-127, 127, (rows, width), endpoint=True).astype(np.int8), scales
        )
        for name, width in (("input_weights", inputs), ("recurrent_weights", outputs))
    }
    bias = constant_value("bias", rng.integers(-30000, 30000, rows).astype(np.int32))
    y = Value("y", TensorType((), DType.INT16, c.type.quant)) if cls is LstmCell else None
    return make_op(
        cls,
        y or value("y", (), (2.0**-7, 0.0071)[seed % 2], zeros[2]),
        x=value("x", (batch, inputs), 0.05, zeros[0]),
        h=value("h", (batch, outputs), 2.0**-7, zeros[1]),
        c=c,
        **held,
        bias=bias,
        **fields,
    )


def filters(batch: int, inputs: int, count: int, length: int, seed: int = 0, zero: int = 3) -> Any:
    """Filters that take an input, whose scale moves sums to the right or to the left."""
    rng = np.random.default_rng([seed, inputs, count])
    weights = rng.integers(-127, 127, (count, inputs), endpoint=True).astype(np.int8)
    quant = PerTensor((0.0008, 0.00002, 0.05)[seed % 3])
    memory = Value("memory", TensorType((batch, count * length), DType.INT16, quant))
    return make_op(
        SvdfMemory,
        Value("y", memory.type),
        x=value("x", (batch, inputs), 0.05, zero),
        memory=memory,
        weights=constant_value("weights", weights, PerTensor(0.0113)),
    )


def data(op: Any, seed: int) -> tuple[Array, ...]:
    """Numbers of the whole range, or nothing but its ends."""
    if seed % 3:
        return tuple(random_like(v, seed) for v in op.activations)
    rng = np.random.default_rng(seed)
    return tuple(rng.choice(np.array(v.dtype.bounds), v.shape).astype(v.dtype.numpy) for v in op.activations)


def steps() -> list[Any]:
    """Inputs around 8 and 16 and past several rounds, cells around 4 and 8, zero points at the ends, batches, projections."""
    sizes = [
        (1, 1),
        (3, 2),
        (7, 3),
        (8, 4),
        (9, 5),
        (15, 7),
        (16, 8),
        (17, 9),
        (33, 16),
        (128, 13),
        (257, 17),
    ]
    made = []
    for seed, (inputs, cells) in enumerate(sizes):
        for cls in (LstmCell, LstmOutput):
            zeros = ENDS[seed % 2], ENDS[seed // 2 % 2], ENDS[seed // 4 % 2]
            batch, more = 1 + seed % 3, {"clip": 900} if cls is LstmCell and seed % 2 else {}
            made.append(layer(cls, batch, inputs, cells, seed, zeros=zeros, **more))
    made.append(layer(LstmCell, 2, 5, 6, 3, outputs=11))
    return made


def memories() -> list[Any]:
    sizes = ((1, 1, 1), (7, 3, 2), (8, 4, 1), (9, 5, 10), (16, 8, 3), (17, 9, 8), (40, 17, 5), (257, 12, 9))
    return [
        filters(1 + i % 3, *size, seed=i + seed, zero=ENDS[i % 2])
        for i, size in enumerate(sizes)
        for seed in range(2)
    ]


@pytest.mark.parametrize("target", TARGETS)
def test_every_size(target: rig.Target) -> None:
    made = [*steps(), *memories()]
    assert all(kernel_of(target, op, Arithmetic.TFLITE) for op in made)
    runs = [Run(op, data(op, number + n)) for number, op in enumerate(made) for n in range(2)]
    check_runs(target, runs, Arithmetic.TFLITE)


@pytest.mark.parametrize("target", TARGETS)
def test_the_result_in_the_place_of_what_is_remembered(target: rig.Target) -> None:
    cases, wanted = [], []
    for number, op in enumerate(op for op in (*steps(), *memories()) if not isinstance(op, LstmOutput)):
        kernel, inputs = kernel_of(target, op, Arithmetic.TFLITE), data(op, number)
        assert kernel is not None
        (held,) = kernel.in_place(op)
        cases.append(case_of(op, kernel, inputs, Arithmetic.TFLITE, overwritten=held))
        operands = dict(zip(op.activations, inputs, strict=True))
        constants = (v.constant if v.is_constant else operands[v] for v in op.operands)
        wanted.append(op.reference(Arithmetic.TFLITE, *constants))
    rig.check(target, cases, wanted, rig.fillings(cases))


def every_sum(cls: Any, exponent: int) -> list[Run]:
    """Gates and cells that go through all numbers of 16 bits: sums are the biases, which nothing scales."""
    runs = []
    for part in np.split(EVERY_INT16, 8):
        op = layer(cls, 1, 1, len(part), outputs=1)
        quant = op.input_weights.type.quant
        alike = PerChannel((0.5**12 / 0.05,) * len(quant.scales), 0)
        zeros = {
            name: constant_value(name, np.zeros_like(getattr(op, name).constant), alike)
            for name in ("input_weights", "recurrent_weights")
        }
        rng = np.random.default_rng(7)
        gates = [part, *(rng.permutation(part) for _ in range(cls.gates - 1))]
        bias = constant_value("bias", np.concatenate(gates).astype(np.int32))
        held = replace(op.c, type=replace(op.c.type, quant=PerTensor(2.0**exponent)))
        y = replace(op.y, type=replace(op.y.type, quant=held.type.quant)) if cls is LstmCell else op.y
        made = replace(op, **zeros, bias=bias, c=held, y=y)
        x, h = np.zeros((1, 1), np.int8), np.zeros(op.h.shape, np.int8)
        runs.append(Run(made, (x, h, rng.permutation(part)[None].astype(np.int16))))
    return runs


@pytest.mark.turns(9)
@pytest.mark.parametrize("target", part_of(TARGETS, 3))
def test_every_number_of_16_bits(target: rig.Target) -> None:
    runs = [run for exponent in (-15, -11, -10, -9) for run in every_sum(LstmOutput, exponent)]
    for run in (*runs, *(cells := every_sum(LstmCell, -11))):
        multipliers = *run.op.input_multipliers, *run.op.recurrent_multipliers  # type: ignore[attr-defined]  # of gates
        assert run.op.bias.constant.min() >= -(2**15)  # type: ignore[attr-defined]  # of gates
        assert {m.shift for m in multipliers[: run.op.gates]} <= {0, 1}  # type: ignore[attr-defined]  # of gates
    check_runs(target, [*runs, *cells], Arithmetic.TFLITE)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("remembered", [1, 2, 7, 8, 9, 40])
def test_svdf_sums_wrap_in_32_bits(target: rig.Target, remembered: int) -> None:
    """Sums of 16-bit products wrap in 32 bits."""
    rng, units = np.random.default_rng(remembered), 3
    shape = units, remembered
    weights = rng.choice([-(2**15), 2**15 - 1], shape).astype(np.int16)
    memory = Value("memory", TensorType((2, units * remembered), DType.INT16, PerTensor(0.0008)))
    op = make_op(
        SvdfOutput,
        value("y", (), 0.37, -128),
        memory=memory,
        weights=constant_value("weights", weights, PerTensor(0.0011)),
        bias=constant_value("bias", rng.integers(-9000, 9000, units).astype(np.int32)),
    )
    kernel = next(k for k in KERNELS_OF[Isa.PORTABLE] if k.op is SvdfOutput)
    assert all_ok(kernel.check(op, Arithmetic.TFLITE))
    inputs = [data(op, seed) for seed in range(3)]
    wanted = [op.reference(Arithmetic.TFLITE, x, weights, op.bias.constant) for (x,) in inputs]
    rig.check(target, [case_of(op, kernel, x, Arithmetic.TFLITE) for x in inputs], wanted)


def test_overflowing_pair_sums_use_the_portable_kernel() -> None:
    """256 times -128 and a number below zero leave a halfword, and long sums of large weights 24 bits."""
    op = layer(LstmCell, 1, 5, 4)
    weights = op.input_weights.constant.copy()
    weights[3, 2] = -128
    lower = replace(op, input_weights=constant_value("w", weights, op.input_weights.type.quant))
    assert refusals(M33, lower, Arithmetic.TFLITE) == ["weights"]
    assert kernel_of(M55, lower, Arithmetic.TFLITE) is not None
    most = layer(LstmCell, 1, 517, 1)
    weights = np.full_like(most.input_weights.constant, 127)
    long = replace(most, input_weights=constant_value("w", weights, most.input_weights.type.quant))
    assert refusals(M33, long, Arithmetic.TFLITE) == ["products"]


@pytest.mark.qemu
@pytest.mark.parametrize(("target", "most"), [(M33, 0.5), (M55, 0.13)], ids=["m33", "m55"])
def test_instructions_of_an_lstm_step(target: rig.Target, most: float) -> None:
    """Of the instructions of the portable kernels, a layer of 128 cells that takes 128 numbers."""
    for cls in (LstmCell, LstmOutput):
        op, fast = layer(cls, 1, 128, 128), {M33: KERNELS_OF[Isa.DSP], M55: KERNELS_OF[Isa.MVE]}[target]
        kernels = (next(k for k in library if k.op is cls) for library in (fast, KERNELS_OF[Isa.PORTABLE]))
        cases = [case_of(op, k, data(op, 1), Arithmetic.TFLITE) for k in kernels]
        now, before = (result.instructions for result in rig.run(target, cases))
        assert now < most * before * (1.2 if cls is LstmOutput else 1)
