# SPDX-License-Identifier: Apache-2.0
"""Files that are not read are told what they are as a whole, with a way out."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from net_file import litert
from tflite_file import File, weights

import pillion
from pillion.errors import PillionError
from pillion.host_io.atomic_files import output_suffix, suffix_of
from pillion.importers.tflite import read
from pillion.importers.tflite.listing import list_operators
from pillion.schemas import tflite
from pillion.schemas.flatbuffer import write_flatbuffer
from pillion.schemas.tflite import ElementType
from pillion.targets import NPUS, compiled_operators

FLOAT = {"type": ElementType.FLOAT32, "quantization": None}
WIDE = {"type": ElementType.INT16, "zero": 0}


def custom(name: str) -> tflite.Model:
    model = File("CUSTOM").input(2, 3).output(2, 3).model()
    model.operator_codes[0].custom_code = name
    return model


def chain(*codes: str, **fields: object) -> tflite.Model:
    """Operators one behind the other, all of one operand."""
    model = File(codes[0]).input(2, 3, **fields).output(2, 3, **fields).model()
    graph = model.subgraphs[0]
    for number, code in enumerate(codes[1:], 2):
        tensor = copy.copy(graph.tensors[-1])
        tensor.name = f"t{number}"
        graph.tensors.append(tensor)
        found = tflite.OPERATOR_NUMBERS[code]
        model.operator_codes.append(
            tflite.OperatorCode(builtin_code=found, deprecated_builtin_code=min(found, 127))
        )
        graph.operators.append(
            tflite.Operator(opcode_index=number - 1, inputs=[number - 1], outputs=[number])
        )
    graph.outputs = [len(graph.tensors) - 1]
    return model


def refused(model: tflite.Model) -> PillionError:
    with pytest.raises(PillionError) as caught:
        read(write_flatbuffer(model, tflite.IDENTIFIER), compiled_operators())
    error = caught.value
    assert all((error.what, error.rule, error.here, error.help))
    return error


@pytest.mark.parametrize("name", [*compiled_operators(), "edgetpu-custom-op"])
def test_a_file_for_an_npu_is_told_to_come_from_before(name: str) -> None:
    error = refused(custom(name))
    assert "was compiled for" in error.what
    assert name in error.here
    assert "before that step" in error.help


def test_every_npu_lists_its_file_operators() -> None:
    assert all(npu.file_operators for npu in NPUS.values())


def test_all_operators_that_are_not_read_are_counted() -> None:
    error = refused(chain("ABS", "FLOOR", "ABS", "FLOOR", "SEGMENT_SUM"))
    assert "2 × FLOOR, 1 × SEGMENT_SUM, of 5 operators" in error.here
    assert {line.split()[1] for line in error.help.splitlines()} == {"FLOOR", "SEGMENT_SUM"}


def branch() -> tflite.Model:
    model = chain("IF")
    model.subgraphs *= 3
    return model


def hybrid() -> tflite.Model:
    quant = tflite.Quantization(scale=[0.1], zero_point=[0])
    layer = File("FULLY_CONNECTED").input(2, 3, **FLOAT)
    layer.constant(weights(5, 3), ElementType.INT8, quantization=quant)
    return layer.absent().output(2, 5, **FLOAT).model()


CASES: dict[str, tuple[Callable[[], tflite.Model], str, str]] = {
    "float": (lambda: chain("ABS", "ABS", **FLOAT), "computes in float", "representative_dataset"),
    "hybrid": (hybrid, "int8 weights and float activations", "representative_dataset"),
    "branch": (branch, "branches or loops", "unrolled"),
    "flex": (lambda: custom("FlexErf"), "not read", "SELECT_TF_OPS"),
    "signal": (lambda: custom("SignalStacker"), "not read", "docs/guide/sound.md"),
    "custom": (lambda: custom("Mine"), "not read", "cut the model before it"),
    "stablehlo": (lambda: chain("STABLEHLO_ADD"), "not read", "another set"),
}
"""A file of each kind, what it is called, and what the way out is. A row goes when its files are read."""


@pytest.mark.parametrize("kind", CASES)
def test_each_kind_of_file_has_its_own_sentence(kind: str) -> None:
    make, what, help = CASES[kind]
    error = refused(make())
    assert what in error.what
    assert help in error.help


def test_operators_without_a_form_of_sixteen_bits_are_named() -> None:
    error = refused(chain("RELU", "HARD_SWISH", "RELU", **WIDE))
    assert "operator 1, HARD_SWISH" in error.here
    assert "16-bit tensors" in error.rule
    assert "int8 activations" in error.help


def test_several_refusals_are_said_at_once() -> None:
    """Equal ones once, with their count."""
    model = chain("SOFTMAX", "SOFTMAX", "SOFTMAX")
    for operator in model.subgraphs[0].operators:
        operator.options = tflite.SoftmaxOptions(beta=0.5)
        operator.options_type = tflite.OPTION_NUMBERS[tflite.SoftmaxOptions]
    error = refused(model)
    assert error.what == "3 operators cannot be read"
    assert error.rule == "beta is 1"
    assert error.here.startswith("3 ×, first SOFTMAX `t1`: 0.5")
    assert len(error.help.splitlines()) == 1


def test_damaged_files_are_reported_as_damaged() -> None:
    model = custom("x")
    model.subgraphs[0].operators[0].opcode_index = 7
    with pytest.raises(PillionError, match="not a valid TensorFlow Lite file"):
        read(write_flatbuffer(model, tflite.IDENTIFIER), compiled_operators())


def test_lite_is_another_name() -> None:
    assert suffix_of("a/Net.LITE") == suffix_of("net.tflite") == output_suffix(Path("net.lite")) == ".tflite"


@pytest.mark.parametrize("code", ["ADD", "MAXIMUM", "CONCATENATION"])
def test_operators_on_int8_and_uint8_at_once_are_refused_as_litert_refuses_them(code: str) -> None:
    file = File(code).input(2, 3, type=ElementType.UINT8).input(2, 3)
    raw = file.output(*((4, 3) if code == "CONCATENATION" else (2, 3))).bytes()
    with pytest.raises(PillionError, match="all int8 or all uint8"):
        read(raw)
    with pytest.raises(RuntimeError, match="type"):
        litert(raw)


def test_hybrid_files_are_called_so(tmp_path: Path) -> None:
    for model, words in ((hybrid(), "weights of 8 bits"), (chain("ABS", **FLOAT), "computes in float$")):
        (tmp_path / "net.tflite").write_bytes(write_flatbuffer(model, tflite.IDENTIFIER))
        with pytest.raises(PillionError) as caught:
            pillion.compile(tmp_path / "net.tflite", target="cortex-m33")
        assert re.search(words, caught.value.what)


def test_every_operator_that_is_not_read_has_its_sentence() -> None:
    """All of the format: read, refused for a reason of its own, or of a set of which there is one sentence."""
    unsaid = [
        one.name
        for one in list_operators()
        if not one.is_read and not one.note and not one.name.startswith("STABLEHLO_")
    ]
    assert not unsaid
