# SPDX-License-Identifier: Apache-2.0
"""What is written where a kernel of the real library has a limit: another exact form, or a refusal with the limit."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import pillion
from judge.beyond import BOTH, PROGRAMS
from judge.machine import CORES, Core
from pillion.devices import cortex_m
from pillion.devices.cortex_m import Isa
from pillion.emitters.pte import emit
from pillion.emitters.pte.library_limits import LARGEST_SIDE, is_transposed_conv_exact, uses_matrix_transpose
from pillion.emitters.pte.movement import transposition_calls
from pillion.emitters.pte.node import NodeView, contiguous_view
from pillion.emitters.pte.scratch import ScratchWindow
from pillion.errors import PillionError
from pillion.ops.example_values import value

REFUSED = {
    "convolution of 65,537 columns",
    "depthwise convolution of 65,537 rows",
    "softmax of 512 equal numbers",
}
INPUTS = {"real numbers of 40,000 steps"}
"""What depends on the input: no program can be refused for it."""


@pytest.mark.parametrize("core", BOTH)
@pytest.mark.parametrize("name", sorted(PROGRAMS.keys() - INPUTS))
def test_pte_writer_refuses_sizes_past_each_limit(name: str, core: Core) -> None:
    found = PROGRAMS[name]()
    if name in REFUSED:
        with pytest.raises(PillionError) as refusal:
            emit(found.graph, cortex_m.CORES[CORES[core]])
        assert refusal.value.rule
        assert refusal.value.help
    elif core in found.cores:
        assert emit(found.graph, cortex_m.CORES[CORES[core]]) != found.program(core)


@pytest.mark.parametrize(
    ("rows", "columns", "isa", "axes"),
    [
        (3, 224 * 224, Isa.DSP, 2),
        (3, 224 * 224, Isa.MVE, 3),
        (224 * 224, 3, Isa.MVE, 2),
        (8, 9362, Isa.MVE, 2),
        (8, 9363, Isa.MVE, 3),
        (300, 9362, Isa.MVE, 2),
        (LARGEST_SIDE, 2, Isa.MVE, 2),
        (LARGEST_SIDE + 1, 2, Isa.MVE, 3),
        (2, LARGEST_SIDE, Isa.PORTABLE, 2),
        (2, LARGEST_SIDE + 1, Isa.PORTABLE, 3),
        (5, 10, Isa.MVE, 3),
        (5, 10, Isa.DSP, 2),
    ],
)
def test_matrices_are_transposed_by_the_kernel_that_can(rows: int, columns: int, isa: Isa, axes: int) -> None:
    x, y = contiguous_view(value("x", (rows, columns))), contiguous_view(value("y", (columns, rows)))
    (call,) = transposition_calls(x, (1, 0), y, isa)
    source, order = call.args
    assert isinstance(source, NodeView)
    assert len(source.sizes) == len(call.out.sizes) == axes
    assert order == ((1, 0) if axes == 2 else (0, 2, 1))
    assert uses_matrix_transpose(rows, columns, isa) == (axes == 2)


def window(kernel: int, stride: int, padding: int, channels: int = 3) -> ScratchWindow:
    return ScratchWindow(
        1, (4, 4), channels, (8, 8), 2, (kernel, kernel), (stride, stride), padding=(padding, padding)
    )


def test_transposed_convolutions_that_the_library_computes() -> None:
    assert is_transposed_conv_exact(window(2, 2, 0))
    assert is_transposed_conv_exact(window(4, 2, 2))
    assert not is_transposed_conv_exact(window(3, 2, 1))
    assert not is_transposed_conv_exact(window(1, 2, 0))
    assert is_transposed_conv_exact(window(1, 2, 0, channels=17))
    assert not is_transposed_conv_exact(window(1, 3, 0, channels=17))


def test_operators_without_a_kernel_have_one_in_the_delegate(tmp_path: Path) -> None:
    larger = torch.nn.Upsample(scale_factor=2, mode="bilinear")
    program = pillion.compile(larger, torch.randn(1, 2, 3, 3), target="cortex-m55")
    with pytest.raises(PillionError, match="no exact ExecuTorch form") as refusal:
        program.save(tmp_path / "net.pte")
    assert refusal.value.help.startswith("--kernels pillion")
    program.save(tmp_path / "net.pte", kernels="pillion")
