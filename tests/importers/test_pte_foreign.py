# SPDX-License-Identifier: Apache-2.0
"""Programs of ExecuTorch's own Cortex-M flow: what Pillion reads computes what its calls compute in ExecuTorch's runtime with our kernels, to the byte."""

from __future__ import annotations

import re
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pte_seeds import FOREIGN

import pillion
from installed_executorch import INSTALLED, IS_INSTALLED
from nightly import in_turn, part_of
from pillion import zoo
from pillion.boards.board import find_board
from pillion.codecs.pte.signatures import argument_names
from pillion.compile_options import PlacementOptions
from pillion.compiler import load
from pillion.errors import PillionError
from pillion.importers.pte import read
from pillion.importers.pte.table import TABLE
from pillion.ir.types import Array
from pillion.ops import Segment
from pillion.ops.example_values import random_like
from pillion.partition.ledger import ProcessingUnit
from pillion.program import Program

RUNTIME = pytest.mark.skipif(not IS_INSTALLED, reason="pip install 'pillion[executorch]'")


def samples(loaded: Program) -> list[list[Array]]:
    return [[random_like(v, seed) for v in loaded.graph.inputs] for seed in range(3)]


def assert_alike(loaded: Program, on: str) -> None:
    """The reference and another executor."""
    for arrays in samples(loaded):
        wanted, got = loaded.run(*arrays), loaded.run(*arrays, on=on)
        for ours, theirs in zip(wanted, got, strict=True):
            assert (ours.shape, ours.dtype) == (theirs.shape, theirs.dtype)
            np.testing.assert_array_equal(ours.view(np.uint8), theirs.view(np.uint8))


FORMS = {
    "1.4": {"res_m33", "res_m55", "se_m55"},
    "1.5": {path.stem for path in FOREIGN if path.stem.endswith("_15")},
}
"""The files that run in one version of ExecuTorch alone: their calls have other arguments, or operators of 1.5."""


@RUNTIME
@pytest.mark.parametrize("path", FOREIGN, ids=lambda path: path.stem)
def test_the_runtime_gives_the_references_bytes(path: Path) -> None:
    """A file for another version is refused, as on the chip."""
    if any(path.stem in stems for version, stems in FORMS.items() if version != INSTALLED):
        with pytest.raises(PillionError, match=r"--runtime|error code of ExecuTorch"):
            assert_alike(load(path), "executorch")
    else:
        assert_alike(load(path), "executorch")


@RUNTIME
def test_all_operators_of_the_installed_library_are_known() -> None:
    """With as many arguments as we write and read, and in our plug-in, which shall hide no difference."""
    from pillion.run.executorch.runtime import host
    from pillion.run.executorch.wheel import find_wheel

    declared = (find_wheel().folder / "backends/cortex_m/ops/operators.yaml").read_text("utf-8")
    found = {
        name: arguments.count(", ") + 1
        for name, arguments in re.findall(r"func: (\S+?)\((.*), \*, ", declared)
    }
    assert len(found) >= 17
    assert {name: len(argument_names(name, count)) for name, count in found.items()} == found
    assert set(found) <= set(TABLE)
    ours = {name for name in host().module._get_operator_names() if name.startswith("cortex_m::")}
    assert ours == set(found)


@pytest.mark.turns(4)
@pytest.mark.slow
@pytest.mark.parametrize("path", FOREIGN, ids=lambda path: path.stem)
def test_the_c_code_gives_the_references_bytes(path: Path) -> None:
    assert_alike(load(path), "host")


@pytest.mark.qemu
@pytest.mark.slow
@pytest.mark.nightly
def test_a_board_gives_the_references_bytes() -> None:
    path = next(path for path in FOREIGN if path.stem == "res_m55")
    assert_alike(load(path, board=find_board("mps3-an547")), "mps3-an547")


def kinds(stem: str) -> Counter[str]:
    path = next(path for path in FOREIGN if path.stem == stem)
    return Counter(op.kind for op in read(path).graph.ops)


def test_no_bytes_are_moved_for_layouts() -> None:
    assert kinds("res_m55")["transpose"] == 0


def test_explicit_layouts_are_read_as_dim_orders_are() -> None:
    """All operators of windows; the file with sizes in NHWC has transpositions around them."""
    explicit = kinds("windows_nhwc_m55_15")
    assert explicit.pop("transpose") == 2
    assert explicit == kinds("windows_m55_15")


def test_a_quotient_keeps_its_ratio() -> None:
    """It is no part of the scales, which the file does not hold."""
    program = compiled("div_m55_15", "cortex-m55")
    (quotient,) = (op for op in program.graph.ops if op.kind == "div")
    assert quotient.attributes["explicit_ratio"] == pytest.approx(1.0, abs=3)
    with pytest.raises(PillionError, match="has no tflite arithmetic"):
        compiled("div_m55_15", "cortex-m55", arithmetic="tflite")


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


def compiled(stem: str, target: str, **options: Any) -> Program:
    path = next(path for path in FOREIGN if path.stem == stem)
    return pillion.compile(path, target=target, **options)


@pytest.mark.parametrize("path", FOREIGN, ids=lambda path: path.stem)
def test_reading_takes_no_search(path: Path) -> None:
    """Their slowest takes 5 ms; half a minute was once the most for one file."""
    begin = time.process_time()
    read(path)
    assert time.process_time() - begin < 0.5


NPUS = ("imxrt700", "cortex-m55+ethos-u55-128")
WITHOUT_SCALES = {
    "acts_m55": {"lut.scales", "conv2d.scales", "max_pool2d.scales", "transpose_conv2d.scales"},
    "bmm_m55": {"batch_matmul.scales"},
    "div_m55_15": {"div.supported", "lut.scales"},
    "se_m55": {"conv2d.scales", "reshape.scales", "lut.scales", "mul.scales"},
}
WITH_TABLES = ("mlp_m33", "mlp_m55", "res_m33", "res_m55", "res_nhwc_m55_15")
BORDERS = ("quantize", "dequantize", "transpose")
ON_CORE = {
    "imxrt700": WITHOUT_SCALES | {stem: {"lut.function"} for stem in WITH_TABLES},
    "cortex-m55+ethos-u55-128": WITHOUT_SCALES,
}
"""The rules that keep ops on the core, but for those at borders."""


@pytest.mark.parametrize("target", NPUS)
@pytest.mark.parametrize("path", FOREIGN, ids=lambda path: path.stem)
def test_npus_compute_the_same_bytes(path: Path, target: str) -> None:
    """With scales that give the multipliers; what has none stays on the core, and tables that the NPU does not have."""
    program = pillion.compile(path, target=target, placement=PlacementOptions(prefer_npu=True))
    plain = load(path)
    on_npu = any(isinstance(op, Segment) for op in program.graph.ops)
    executors = ["reference", *(["npu"] if on_npu and "ethos" in target else [])]
    for arrays in samples(plain):
        for on in executors:
            for wanted, found in zip(plain.run(*arrays), program.run(*arrays, on=on), strict=True):
                np.testing.assert_array_equal(wanted.view(np.uint8), found.view(np.uint8))
    left = {
        e.deciding.rule for e in program.ledger if e.unit is ProcessingUnit.CPU and e.op.kind not in BORDERS
    }
    assert left == ON_CORE[target].get(path.stem, set())


@RUNTIME
@pytest.mark.slow
@pytest.mark.nightly
@pytest.mark.torch
@pytest.mark.parametrize(("model", "size"), [("ds_cnn", None), ("resnet8", None), ("mobilenet_v2", 96)])
def test_npus_run_all_layers_of_the_zoo(model: str, size: int | None, tmp_path: Path) -> None:
    """As ExecuTorch's own flow writes them; between the borders the core has tables at most."""
    pytest.importorskip("tosa_serializer", reason="tosa-tools is not installed: make setup")
    from executorch_flow import lowered

    module, example = zoo.build(model, size)
    path = tmp_path / f"{model}.pte"
    path.write_bytes(lowered(module.eval(), example, "M55"))
    plain = load(path)
    for target in NPUS:
        program = pillion.compile(path, target=target)
        left = {op.kind for op in program.graph.ops if not isinstance(op, Segment)}
        assert left <= {"quantize", "dequantize"} | (
            {"linear", "softmax", "lut"} if target == "imxrt700" else set()
        )
        for arrays in samples(plain):
            for on in ("reference", "npu") if "ethos" in target else ("reference",):
                for wanted, found in zip(plain.run(*arrays), program.run(*arrays, on=on), strict=True):
                    np.testing.assert_array_equal(wanted.view(np.uint8), found.view(np.uint8))


def test_an_op_without_scales_is_refused_where_the_npu_is_demanded() -> None:
    with pytest.raises(PillionError, match="cannot run on the NPU") as refusal:
        compiled("se_m55", "imxrt700", placement=PlacementOptions(only_npu=True))
    assert "`t55` has no scale, and the multipliers are 1110578205*2^-37" in refusal.value.here


def test_compiled_for_another_core_the_bytes_stay() -> None:
    for stem in ("se_m55", "acts_m55"):
        path = next(path for path in FOREIGN if path.stem == stem)
        for arrays in samples(load(path)):
            wanted, found = (
                load(path).run(*arrays),
                compiled(stem, "cortex-m33").run(*arrays),
            )
            for ours, theirs in zip(wanted, found, strict=True):
                np.testing.assert_array_equal(ours, theirs)


def test_a_tflite_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PillionError, match="conv2d `t38` has no exact TFLite form") as refusal:
        compiled("res_m55", "cortex-m55").save(tmp_path / "m.tflite")
    assert refusal.value.here.startswith("`t38` has no scale")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.turns(4)
@RUNTIME
@pytest.mark.slow
@pytest.mark.torch
@pytest.mark.parametrize(
    ("name", "core"),
    part_of(in_turn(["res", "acts", "se", "mlp", "bmm", "group", "div"], ["M55", "M4", "M0PLUS"]), 3),
)
def test_programs_made_on_the_spot(name: str, core: str, tmp_path: Path) -> None:
    pytest.importorskip("tosa_serializer", reason="tosa-tools is not installed: make setup")
    from executorch_flow import program

    path = tmp_path / f"{name}.pte"
    if (name, INSTALLED) == ("div", "1.4"):
        pytest.skip("ExecuTorch 1.4 has no division")
    path.write_bytes(program(name, core, seed=11))
    assert_alike(load(path), "executorch")
