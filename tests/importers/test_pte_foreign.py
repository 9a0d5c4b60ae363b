# SPDX-License-Identifier: Apache-2.0
"""Programs of ExecuTorch's own Cortex-M flow: what Pillion reads computes what its calls compute in ExecuTorch's runtime with our kernels, to the byte."""

from __future__ import annotations

import importlib.util
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from pte_seeds import FOREIGN

from pillion.errors import PillionError
from pillion.importers.pte import read
from pillion.ir.types import Array
from pillion.loaded import Loaded, load
from pillion.ops.samples import random_like

RUNTIME = pytest.mark.skipif(
    importlib.util.find_spec("executorch") is None, reason="pip install 'pillion[executorch]'"
)


def samples(loaded: Loaded) -> list[list[Array]]:
    return [[random_like(v, seed) for v in loaded.program.graph.inputs] for seed in range(3)]


def assert_alike(loaded: Loaded, on: str) -> None:
    """The reference and another executor."""
    for arrays in samples(loaded):
        _, wanted = loaded.run(arrays, "reference")
        _, got = loaded.run(arrays, on)
        for ours, theirs in zip(wanted.outputs, got.outputs, strict=True):
            assert (ours.shape, ours.dtype) == (theirs.shape, theirs.dtype)
            np.testing.assert_array_equal(ours.view(np.uint8), theirs.view(np.uint8))


@RUNTIME
@pytest.mark.parametrize("path", FOREIGN, ids=lambda path: path.stem)
def test_the_runtime_gives_the_references_bytes(path: Path) -> None:
    assert_alike(load(path), "executorch")


@pytest.mark.slow
@pytest.mark.parametrize("path", FOREIGN, ids=lambda path: path.stem)
def test_the_c_code_gives_the_references_bytes(path: Path) -> None:
    assert_alike(load(path), "host")


@pytest.mark.qemu
@pytest.mark.slow
def test_a_board_gives_the_references_bytes() -> None:
    path = next(path for path in FOREIGN if path.stem == "res_m55")
    assert_alike(load(path, "mps3-an547"), "mps3-an547")


def kinds(stem: str) -> Counter[str]:
    path = next(path for path in FOREIGN if path.stem == stem)
    return Counter(op.kind for op in read(path).graph.ops)


def test_no_bytes_are_moved_for_layouts() -> None:
    assert kinds("res_m55")["transpose"] == 0


def test_hard_swish_of_two_calls_is_one_table() -> None:
    """A minimum and a product of one tensor; and what goes through float and back."""
    assert kinds("acts_m55") == {
        "quantize": 1, "conv2d": 3, "lut": 4, "max_pool2d": 1, "transpose_conv2d": 1, "dequantize": 1
    }  # fmt: skip
    assert kinds("res_m55")["dequantize"] == 1


def test_both_forms_of_linear_are_one_graph() -> None:
    """Helium's has the zero point's share in its bias."""
    first, second = (read(path).graph.ops for path in FOREIGN if path.stem in ("mlp_m33", "mlp_m55"))
    for a, b in zip(first, second, strict=True):
        if a.kind == "linear":
            assert np.array_equal(a.bias.constant, b.bias.constant)  # type: ignore[attr-defined]  # both have weights


def test_unknown_operators_are_named_all_at_once() -> None:
    raw = next(path for path in FOREIGN if path.stem == "res_m55").read_bytes()
    for name, other in ((b"softmax", b"softmix"), (b"quantized_add", b"quantized_odd")):
        assert name in raw
        raw = raw.replace(b"cortex_m::" + name, b"cortex_m::" + other)
    with pytest.raises(PillionError, match="2 kinds of instruction") as refusal:
        read(raw)
    assert "cortex_m::softmix.out, 1 times" in refusal.value.here
    assert "cortex_m::quantized_odd.out, 1 times" in refusal.value.here
    assert refusal.value.help


@RUNTIME
@pytest.mark.slow
@pytest.mark.torch
@pytest.mark.parametrize("core", ["M55", "M4", "M0PLUS"])
@pytest.mark.parametrize("name", ["res", "acts", "se", "mlp", "bmm", "group"])
def test_programs_made_on_the_spot(name: str, core: str, tmp_path: Path) -> None:
    pytest.importorskip("tosa_serializer", reason="tosa-tools is not installed: make setup")
    from executorch_flow import program

    path = tmp_path / f"{name}.pte"
    path.write_bytes(program(name, core, seed=11))
    assert_alike(load(path), "executorch")
