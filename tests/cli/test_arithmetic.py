# SPDX-License-Identifier: Apache-2.0
"""`--arithmetic`: whose bits a program computes, said by name, and what that changes, said in numbers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from shell import Call

import pillion as api
from pillion.compile_options import PlacementOptions
from pillion.emitters.tflite import emit
from pillion.errors import PillionError
from pillion.ir.graph import Graph
from pillion.ir.numerics import Arithmetic
from pillion.ops import Linear
from pillion.ops.example_values import conv_bias, conv_weights, make_op, value
from pillion.targets import TARGETS

NAMES = tuple(one.value for one in Arithmetic)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A layer of scales that tie: one sum in sixteen or fewer is rounded otherwise when it is rounded twice."""
    x, weights = value("x", (4, 64), 2.0**-5, 3), conv_weights((32, 64), 0, 1, power_of_two=True)
    y = value("y", (), float(x.scale * weights.channel_scales.max() * 16), -7)
    op = make_op(Linear, y, x=x, weights=weights, bias=conv_bias(x, weights, 32, 1))
    path = tmp_path / "layer.tflite"
    path.write_bytes(emit(Graph("layer", (op.x,), (op,), (op.y,), Arithmetic.TFLITE)))
    return path


@pytest.mark.turns(3)
@pytest.mark.parametrize("name", NAMES)
def test_a_program_computes_in_the_arithmetic_that_is_named(file: Path, name: str) -> None:
    program = api.compile(str(file), target="cortex-m55", arithmetic=name)  # type: ignore[arg-type]  # one of them
    assert program.graph.arithmetic.value == program.arithmetic == name
    x = np.random.default_rng(0).integers(-128, 128, (4, 64), np.int8)
    found = program.graph.replace(arithmetic=Arithmetic(name)).reference(x)
    np.testing.assert_array_equal(program.run(x, on="host")[0], found[0])


def test_changes_are_counted_against_the_models_own_arithmetic(file: Path) -> None:
    program = api.compile(str(file), target="cortex-m33", arithmetic="cmsis-nn")
    found = program.change_of_arithmetic(5, seed=3)
    assert found is not None
    assert (found.own, found.asked, found.inputs) == (Arithmetic.TFLITE, Arithmetic.CMSIS_NN, 5)
    own, samples = api.compile(str(file), target="cortex-m33"), np.random.default_rng(3)
    different = inputs = largest = 0
    for _ in range(5):
        x = samples.integers(-128, 128, (4, 64)).astype(np.int8)
        gap = np.abs(program.run(x)[0].astype(int) - own.run(x)[0].astype(int))
        different, inputs, largest = (
            different + int((gap > 0).sum()),
            inputs + bool(gap.any()),
            max(largest, int(gap.max())),
        )
    assert (found.different, found.inputs_different, found.largest) == (different, inputs, largest)
    assert found.elements == 5 * 4 * 32
    assert different > 0
    assert [one.op.kind for one in found.ops] == ["linear"]


def test_the_models_own_arithmetic_changes_nothing(file: Path) -> None:
    for name in (None, "tflite"):
        program = api.compile(str(file), target="cortex-m33", arithmetic=name)  # type: ignore[arg-type]  # or none
        assert program.change_of_arithmetic() is None


def test_arithmetic_option_lists_the_changed_ops(file: Path, tmp_path: Path, pillion: Call) -> None:
    words = ("compile", "-m", file, "-t", "cortex-m55", "-o", tmp_path / "x.pte", "--arithmetic", "cmsis-nn")
    facts = pillion(*words, "--json").facts
    assert (facts["arithmetic"], facts["own_arithmetic"]) == ("cmsis-nn", "tflite")
    assert facts["change"]["different"] > 0
    assert facts["change"]["ops"][0]["different"] > 0
    said = pillion(*words).out
    assert f"{facts['change']['different']:,} of {facts['change']['numbers']:,} numbers" in said
    assert "by 1 at most" in said
    assert "1 linear, most in" in said


def test_no_change_is_listed_without_the_arithmetic_option(file: Path, tmp_path: Path, pillion: Call) -> None:
    facts = pillion("compile", "-m", file, "-t", "cortex-m55", "-o", tmp_path / "x.pte", "--json").facts
    assert facts["arithmetic"] == "tflite"
    assert "change" not in facts


def test_that_of_an_npu_has_a_name_on_a_chip_without_one(file: Path, pillion: Call) -> None:
    """What the NPU computes, a core alone computes too, under the name that the device has for it."""
    for target in TARGETS.values():
        if target.npu is None or target.npu.arithmetic is not Arithmetic.TFLITE_INTEGER:
            continue
        program = api.compile(str(file), target=target.name, placement=PlacementOptions(only_npu=True))
        assert program.arithmetic == target.npu.arithmetic.value
        alone = api.compile(str(file), target="cortex-m55", arithmetic="tflite-integer")
        x = np.random.default_rng(5).integers(-128, 128, (4, 64), np.int8)
        np.testing.assert_array_equal(program.run(x)[0], alone.run(x)[0])
        break
    else:
        pytest.fail("no NPU computes so")
    facts = pillion(
        "explain", "-m", file, "-t", "cortex-m55", "--arithmetic", "tflite-integer", "--json"
    ).facts
    assert {row["arithmetic"] for row in facts["ops"]} == {facts["arithmetic"]} == {"tflite-integer"}


@pytest.mark.nightly
def test_verify_takes_it(file: Path, pillion: Call) -> None:
    answer = pillion("verify", "-m", file, "-t", "cortex-m55", "--arithmetic", "cmsis-nn", "--samples", "1")
    assert answer.code == 0, answer.err


def test_a_file_for_litert_computes_as_litert_does(file: Path, tmp_path: Path, pillion: Call) -> None:
    out = tmp_path / "y.tflite"
    answer = pillion("compile", "-m", file, "-t", "cortex-m55", "-o", out, "--arithmetic", "cmsis-nn")
    assert answer.code == 2
    assert "leave --arithmetic out" in answer.err
    assert not out.exists()
    assert pillion("compile", "-m", file, "-t", "cortex-m55", "-o", out).code == 0


def test_an_unknown_one_is_refused_before_any_work(pillion: Call) -> None:
    answer = pillion("compile", "-m", "x.tflite", "-t", "cortex-m55", "-o", "y/", "--arithmetic", "float")
    assert answer.code == 2
    assert "cmsis-nn, tflite, tflite-integer" in answer.err
    with pytest.raises(PillionError, match="is not known"):
        api.compile("x.tflite", target="cortex-m55", arithmetic="float")  # type: ignore[arg-type]  # that is the test


def test_files_that_hold_multipliers_have_no_other(pillion: Call) -> None:
    path = Path(__file__).parents[1] / "importers" / "foreign" / "mlp_m55.pte"
    answer = pillion("explain", "-m", path, "-t", "cortex-m55", "--arithmetic", "tflite")
    assert answer.code == 2
    assert "leave --arithmetic tflite out" in answer.err
    assert pillion("explain", "-m", path, "-t", "cortex-m55", "--arithmetic", "cmsis-nn").code == 0


@pytest.mark.torch
@pytest.mark.nightly
def test_models_of_pytorch_take_the_arithmetic_of_litert() -> None:
    net = Path(__file__).with_name("small_net.py")
    program = api.compile(f"{net}:Net", target="cortex-m33", arithmetic="tflite")
    assert program.own_arithmetic is Arithmetic.CMSIS_NN
    found = program.change_of_arithmetic(2)
    assert found is not None
    assert (found.asked, found.inputs) == (Arithmetic.TFLITE, 2)
    assert program.verify(1).ok
