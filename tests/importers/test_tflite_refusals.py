# SPDX-License-Identifier: Apache-2.0
"""What is not read, and what is said of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tflite_file import File, per_channel, weights

from pillion.errors import PillionError
from pillion.importers.tflite import read
from pillion.schemas import tflite
from pillion.schemas.flatbuffer import write_flatbuffer
from pillion.schemas.tflite import Activation, ElementType, Padding


def quick(code: str, **fields: Any) -> File:
    return File(code).input(2, 3, **fields).output(2, 3)


def refused_files() -> dict[str, tuple[File, str]]:
    """Valid files that Pillion does not read, and what it says of them."""
    add = File("ADD").input(2, 3)
    blocks = tflite.Quantization(scale=[0.1], zero_point=[0], details_type=2)
    tanh = tflite.ConcatenationOptions(fused_activation=Activation.TANH)
    filters = File("CONV_2D", tflite.Conv2DOptions(stride_w=1, stride_h=1)).input(1, 5, 5, 2)
    slices = File("STRIDED_SLICE").input(7).constant([6]).constant([0]).constant([-1])
    return {
        "unknown operator": (quick("FLOOR"), "operators are among"),
        "custom operator": (quick("CUSTOM"), "operators are among"),
        "uint8": (
            File("ABS").input(2, 3, type=ElementType.UINT8).output(2, 3, type=ElementType.UINT8),
            "does not have this operator",
        ),
        "uint8 and int8": (quick("ABS", type=ElementType.UINT8), "all int8 or all uint8"),
        "int16": (quick("HARD_SWISH", type=ElementType.INT16, zero=0), "16-bit tensors"),
        "float16": (quick("ABS", type=ElementType.FLOAT16), "computes in float"),
        "float model": (quick("ABS", type=ElementType.FLOAT32, quantization=None), "computes in float"),
        "int8 without scales": (quick("ABS", quantization=None), "compute on int8"),
        "variable": (quick("ABS", is_variable=True), "tensors that live between runs"),
        "blockwise quantization": (quick("ABS", quantization=blocks), "scales and zero points"),
        "weights made at run time": (filters.input(2, 3, 3, 2).absent().output(1, 3, 3, 2), "is a constant"),
        "softmax with another beta": (
            File("SOFTMAX", tflite.SoftmaxOptions(beta=0.5)).input(2, 3).output(2, 3),
            "beta is 1",
        ),
        "fused tanh": (File("CONCATENATION", tanh).input(2).input(2).output(4), "no activation"),
        "concatenation of different scales": (
            File("CONCATENATION").input(2).input(2, scale=0.7).output(4),
            "share scale",
        ),
        "backwards": (slices.output(6), "steps are positive"),
        "fully connected that keeps no axes": (
            File("FULLY_CONNECTED")
            .input(2, 3, 4)
            .constant(weights(5, 4), ElementType.INT8, quantization=per_channel(5, 0))
            .output(2, 3, 5),
            "the result has the shape \\[6, 5\\]",
        ),
        "division into coarse steps": (File("DIV").input(2).input(2).output(2, scale=90.0), "every quotient"),
        "transposed convolution that is too small": (
            File("TRANSPOSE_CONV", tflite.TransposeConvOptions(padding=Padding.VALID, stride_h=2, stride_w=2))
            .constant([1, 5, 5, 2])
            .constant(weights(2, 3, 3, 2), ElementType.INT8, quantization=per_channel(2, 0))
            .input(1, 3, 3, 2)
            .output(1, 5, 5, 2),
            "VALID",
        ),
        "another size than the shape's": (
            File("RESIZE_BILINEAR").input(1, 3, 3, 1).constant([5, 5]).output(1, 5, 6, 1),
            "operand 1 is the shape",
        ),
        "reshape to two shapes": (
            File("RESHAPE").input(6).constant([3, -1]).output(2, 3),
            "the result has the shape",
        ),
        "wrong shape": (quick("TRANSPOSE").constant([1, 0]), "the result is int8\\[3, 2\\]"),
        "missing operand": (add.output(2, 3), "operand 1 is there"),
        "lost ratio": (File("MUL").input(2, scale=1e30).input(2, scale=1e30).output(2), "scale ratio"),
        "undefined exponential": (File("EXP").input(2, scale=9.0).output(2), "undefined"),
    }


@pytest.mark.parametrize(("file", "words"), [pytest.param(*v, id=k) for k, v in refused_files().items()])
def test_unsupported_operators_are_named(file: File, words: str) -> None:
    with pytest.raises(PillionError, match=words) as caught:
        read(file.bytes())
    assert all((caught.value.rule, caught.value.here, caught.value.help))


def test_control_flow_and_other_versions_are_named() -> None:
    model = quick("ABS").model()
    model.subgraphs *= 2
    with pytest.raises(PillionError, match="2 subgraphs") as several:
        read(write_flatbuffer(model, tflite.IDENTIFIER))
    assert "one function at a time" in several.value.help
    with pytest.raises(PillionError, match="schema version is 3, found 4"):
        read(write_flatbuffer(tflite.Model(version=4), tflite.IDENTIFIER))


@pytest.mark.parametrize(
    "raw", [b"", b"TFL3", b"\x7fELF\x02\x01\x01\0", bytes(100)], ids=["empty", "short", "elf", "zeros"]
)
def test_other_files_are_not_taken_for_models(raw: bytes) -> None:
    with pytest.raises(PillionError, match="not a valid TensorFlow Lite file"):
        read(raw)


def test_a_missing_file_is_one_clear_error(tmp_path: Path) -> None:
    with pytest.raises(PillionError, match="cannot be read"):
        read(tmp_path / "absent.tflite")
