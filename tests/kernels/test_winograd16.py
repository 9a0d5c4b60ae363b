# SPDX-License-Identifier: Apache-2.0
"""Winograd's convolutions of 16-bit operands that lie within fewer numbers against the reference, byte for byte, on emulated boards."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from layers16_ops import conv2d

from kernels import rig
from kernels.op_cases import CMSIS_NN, case_of, reference
from kernels.rig import M4, M7, M33, M55, Target
from kernels.test_dsp_winograd import CLOSE, PADDINGS
from nightly import part_of
from pillion.devices.cortex_m import Isa
from pillion.emitters.c.dsp import winograd16 as dsp
from pillion.emitters.c.dsp.winograd import MOST_FLASH
from pillion.emitters.c.kernel import Kernel
from pillion.emitters.c.kernel_choice import choose_kernels
from pillion.emitters.c.lower import lower
from pillion.emitters.c.mve import winograd16 as mve
from pillion.ir.graph import Graph
from pillion.ir.types import Array, PerTensor, constant_value
from pillion.ir.verdict import all_ok, failed_rules
from pillion.ops.conv import Conv2d

pytestmark = pytest.mark.qemu

DSP = next(k for k in M33.kernels if k.name == "conv2d_winograd_16_dsp")
MVE = next(k for k in M55.kernels if k.name == "conv2d_winograd_16_mve")
NAMES = {"ids": lambda board: board.board.core}


def kernel_of(board: Target) -> tuple[Kernel, int]:
    """The kernel of a board, and the numbers within which its operands lie."""
    return (MVE, mve.WIDTH) if board is M55 else (DSP, dsp.WIDTH)


def layers(board: Target) -> Iterator[Conv2d]:
    """Images from one result on, of odd and even sides; inputs below, at and above a round of the loop; all bounds; images
    that are never negative, that are as often, and others."""
    kernel, width = kernel_of(board)
    inputs, outputs = (8, 4) if kernel is MVE else (4, 2)
    for i in range(30):
        padding = PADDINGS[i % len(PADDINGS)]
        h, w = (max(size, 3) for size in (1 + i % 7, 1 + i * 5 % 11))
        shape = (1 + i % 3 // 2, h, w, inputs * (1 + i * 3 % 10))
        low = (0, -width // 2, -width + 1, -77, 3)[i % 5]
        bounds = (low, low + width - 1 - max(low, 0))
        yield conv2d(shape, outputs * (1 + i % 6), (3, 3), seed=i, padding=padding, x_bounds=bounds)
    around = {"padding": (1, 1, 1, 1), "x_bounds": (0, width - 1)}
    for channels in (3, 4, 5, 9, 17):
        yield conv2d((1, 6, 7, inputs * channels), outputs, (3, 3), seed=channels, **around)
    yield conv2d((1, 2, 40, 8), 3 * outputs, (3, 3), seed=2, **around)
    yield conv2d((1, 70, 120, 8), outputs, (3, 3), seed=3, **around)  # more than 2^16 elements


def images(op: Conv2d, seed: int) -> Iterator[Array]:
    """Random numbers, and the least and the largest ones mixed and alone."""
    low, high = op.x_bounds or op.x.dtype.bounds
    rng = np.random.default_rng(seed)
    yield rng.integers(low, high + 1, op.x.shape).astype(np.int16)
    yield rng.choice(np.array([low, high], np.int16), op.x.shape)
    yield np.full(op.x.shape, high, np.int16)
    yield np.full(op.x.shape, low, np.int16)


@pytest.mark.parametrize("board", [*part_of([M33, M4, M7], 3), M55], **NAMES)
def test_bytes_equal_the_reference(board: Target) -> None:
    cases, expected = [], []
    for number, op in enumerate(layers(board)):
        for x in images(op, number):
            cases.append(case_of(op, kernel_of(board)[0], (x,)))
            expected.append(reference(op, CMSIS_NN, (x,)))
    rig.check(board, cases, expected)


def largest(board: Target, sign: int) -> Conv2d:
    """All weights are 127 or -127, and what the kernel makes of a whole window of one channel, twice the sum with DSP and
    four times the bias and inputs with Helium, is the last number of 32 bits."""
    kernel, width = kernel_of(board)
    op = conv2d((1, 5, 4, 24), 4, (3, 3), padding=(1, 1, 1, 1), low=-(2**15), x_bounds=(0, width - 1))
    weights = constant_value("w", np.full_like(op.weights.constant, sign * 127), op.weights.type.quant)
    largest = 2**29 - 1 if kernel is MVE else 2**30 - (sign > 0)
    bias = largest - (width - 1) * 127 * 9 * 24
    y = op.y.like("y", quant=PerTensor(op.x.scale * max(op.weights.type.quant.scales) * 2.0**15))
    biases = constant_value("b", np.array([sign * bias, 0, 0, 0], np.int32))
    return replace(op, weights=weights, bias=biases, y=y)


@pytest.mark.parametrize("sign", [-1, 1])
@pytest.mark.parametrize("board", [M33, M55], **NAMES)
def test_the_largest_sums_of_all(board: Target, sign: int) -> None:
    op, kernel = largest(board, sign), kernel_of(board)[0]
    assert all_ok(kernel.check(op, CMSIS_NN))
    data = list(images(op, 0))
    expected = [reference(op, CMSIS_NN, (x,)) for x in data]
    assert len({y[0, 2, 2, 0] for y in expected}) > 1
    rig.check(board, [case_of(op, kernel, (x,)) for x in data], expected)
    further = np.zeros(4, np.int32)
    further[0] = sign
    beyond = replace(op, bias=constant_value("b", op.bias.constant + further))
    refused = "halved sums" if board is M55 else "sums"
    assert [v.rule for v in failed_rules(kernel.check(beyond, CMSIS_NN))] == [refused]
    assert chosen(beyond, board) == ("conv2d_3x3_16_mve" if board is M55 else "conv2d_wide_16_dsp")


def graph_of(op: Conv2d) -> Graph:
    return Graph("g", op.activations, (op,), op.results)


def isa_of(board: Target) -> Isa:
    return Isa.MVE if board is M55 else Isa.DSP


def chosen(op: Conv2d, board: Target, optimize: Any = "speed") -> str:
    return choose_kernels(graph_of(op), isa_of(board), optimize)[0].kernel.name


@pytest.mark.parametrize("board", [M33, M55], **NAMES)
def test_operands_that_may_be_larger_have_another_kernel(board: Target) -> None:
    kernel, width = kernel_of(board)
    op = conv2d((1, 16, 16, 16), 16, (3, 3), seed=1, padding=(1, 1, 1, 1))
    assert chosen(replace(op, x_bounds=(-7, width - 8)), board) == kernel.name
    for bounds in (None, (-7, width - 7), (1, width)):  # padding is 0
        wider = replace(op, x_bounds=bounds)
        assert [v.rule for v in failed_rules(kernel.check(wider, CMSIS_NN))] == ["operand"]
        assert chosen(wider, board) != kernel.name


@pytest.mark.parametrize("board", [M33, M55], **NAMES)
def test_small_code_has_no_weights_that_are_larger(board: Target) -> None:
    kernel, width = kernel_of(board)
    op = conv2d((1, 16, 16, 16), 16, (3, 3), seed=1, x_bounds=(0, width - 1))
    assert chosen(op, board, "size") == ("conv2d_3x3_16_mve" if board is M55 else "conv2d_16_dsp")
    growth = kernel.extra_flash(op)
    assert growth == (23 if board is M55 else 15) * 16 * 16 + (0 if board is M55 else 4 * 16)
    fast, small = (
        lower(graph_of(op), isa_of(board), optimize).constant_bytes for optimize in ("speed", "size")
    )
    assert fast - small == growth


@pytest.mark.parametrize(
    ("board", "channels", "most"), [(M33, 50, MOST_FLASH), (M55, 264, mve.MOST_FLASH)], ids=["dsp", "mve"]
)
def test_prepared_weights_take_a_bounded_part_of_flash(board: Target, channels: int, most: int) -> None:
    kernel, width = kernel_of(board)
    step = 4 if board is M55 else 2
    within, beyond = (
        conv2d((1, 8, 8, 16), out, (3, 3), x_bounds=(0, width - 1)) for out in (channels, channels + step)
    )
    assert kernel.extra_flash(within) <= most < kernel.extra_flash(beyond)
    assert not failed_rules(kernel.check(within, CMSIS_NN))
    assert [v.rule for v in failed_rules(kernel.check(beyond, CMSIS_NN))] == ["further flash"]


@pytest.mark.parametrize(("board", "most"), [(M33, 82), (M55, 25.6)], ids=["dsp", "mve"])
def test_estimates_are_close_and_instructions_few(board: Target, most: float) -> None:
    """For a result of 16 channels, the direct kernel with DSP has 72 products of words and this one 48; with Helium 18
    products of vectors, and this one 8."""
    kernel, width = kernel_of(board)
    fields = {"padding": (1, 1, 1, 1), "x_bounds": (0, width - 1)}
    sizes = ((1, 8, 8, 16, 16), (1, 32, 32, 16, 16), (2, 9, 5, 8, 8), (1, 1, 30, 8, 4), (1, 7, 7, 24, 20))
    ops = [conv2d(size[:4], size[4], (3, 3), seed=1, **fields) for size in sizes]
    runs = rig.run(board, [case_of(op, kernel, (next(images(op, 0)),)) for op in ops])
    for op, run in zip(ops, runs, strict=True):
        assert kernel.work is not None
        assert abs(kernel.work(op) / run.instructions - 1) < CLOSE, op.x.shape
    assert runs[1].instructions < most * ops[1].y.type.elements
