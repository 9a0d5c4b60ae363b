# SPDX-License-Identifier: Apache-2.0
"""The declared part of the TFLite format, field by field against LiteRT's own classes, and files that lie."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from flatbuffers.builder import Builder

from pillion.schemas import tflite
from pillion.schemas.flatbuffer import MalformedError, Table, read_root_table, write_flatbuffer

OTHER_NAMES = {
    "options": "builtinOptions",
    "options_type": "builtinOptionsType",
    "is_sparse": "sparsity",
    "projection_clip": "projClip",
    "fused_activation": "fusedActivationFunction",
    "filter_w": "filterWidth",
    "filter_h": "filterHeight",
    "dilation_w": "dilationWFactor",
    "dilation_h": "dilationHFactor",
}
"""Where our name of a field is not the format's in another spelling."""
OTHER_CLASSES = {
    "Quantization": "QuantizationParameters",
    "SequenceLstmOptions": "UnidirectionalSequenceLSTMOptions",
    "SvdfOptions": "SVDFOptions",
}
"""The same for tables."""

TABLES = [
    tflite.Model,
    tflite.OperatorCode,
    tflite.SubGraph,
    tflite.Tensor,
    tflite.Quantization,
    tflite.Buffer,
]
TABLES += [tflite.Operator, *tflite.OPTIONS.values()]


def foreign_name(name: str) -> str:
    if name in OTHER_NAMES:
        return OTHER_NAMES[name]
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


def sample(cls: type[Table]) -> Table:
    """A table whose fields all differ from their defaults."""
    values = {"scalar": 1, "numbers": [1, 2, 3], "text": "word"}
    fields: dict[str, Any] = {}
    for name, number, kind, default in cls.layout:
        if kind.form == "scalar":
            fields[name] = (not default) if kind.code == "?" else number + 2
        elif kind.form in values:
            fields[name] = values[kind.form]
    return cls(**fields)


@pytest.mark.parametrize("cls", TABLES, ids=lambda cls: cls.__name__)
def test_schema_fields_survive_a_round_trip(cls: type[Table]) -> None:
    schema = pytest.importorskip("ai_edge_litert.schema_py_generated")
    name = OTHER_CLASSES.get(cls.__name__, cls.__name__)
    made = sample(cls)
    theirs = getattr(schema, f"{name}T").InitFromPackedBuf(write_flatbuffer(made, b"TFL3"))
    for field, _, kind, _ in cls.layout:
        if kind.form in ("scalar", "numbers", "text"):
            found = getattr(theirs, foreign_name(field))
            found = found.decode() if isinstance(found, bytes) else found
            assert (found.tolist() if kind.form == "numbers" else found) == getattr(made, field), field
    assert read_root_table(cls, write_flatbuffer(made, b"TFL3"), b"TFL3") == made


def test_numbers_of_operators_types_and_options() -> None:
    schema = pytest.importorskip("ai_edge_litert.schema_py_generated")
    for name, number in tflite.OPERATOR_NUMBERS.items():
        assert getattr(schema.BuiltinOperator, name) == number
    for number, cls in tflite.OPTIONS.items():
        assert getattr(schema.BuiltinOptions, OTHER_CLASSES.get(cls.__name__, cls.__name__)) == number
    pairs = (
        (tflite.ElementType, "TensorType"),
        (tflite.Padding, "Padding"),
        (tflite.Activation, "ActivationFunctionType"),
    )
    for ours, theirs in pairs:
        assert all(getattr(getattr(schema, theirs), member.name) == member for member in ours)


def test_nested_tables_come_back() -> None:
    tensors = [
        tflite.Tensor(shape=[2, 3], name=f"t{n}", quantization=tflite.Quantization(scale=[0.5]))
        for n in range(3)
    ]
    options = tflite.Conv2DOptions(stride_w=2, fused_activation=1)
    operator = tflite.Operator(inputs=[0, -1], outputs=[2], options_type=1, options=options)
    model = tflite.Model(
        version=3, subgraphs=[tflite.SubGraph(tensors=tensors, operators=[operator], name="né")]
    )
    assert read_root_table(tflite.Model, write_flatbuffer(model, b"TFL3"), b"TFL3") == model


def test_options_of_an_unknown_kind_are_left_out() -> None:
    operator = tflite.Operator(options_type=200, options=tflite.SoftmaxOptions(beta=2.0))
    assert read_root_table(
        tflite.Operator, write_flatbuffer(operator, b"TFL3"), b"TFL3"
    ) == dataclasses.replace(operator, options=None)


def test_a_file_of_another_kind_is_named() -> None:
    with pytest.raises(MalformedError, match="TFL3"):
        read_root_table(tflite.Model, b"\0\0\0\0ELF!", b"TFL3")


def test_every_truncation_is_noticed() -> None:
    whole = write_flatbuffer(tflite.Model(version=3, description="d", buffers=[tflite.Buffer()] * 2), b"TFL3")
    for length in range(len(whole)):
        with pytest.raises(MalformedError):
            read_root_table(tflite.Model, whole[:length], b"TFL3")


def test_offsets_that_all_point_to_one_table_do_not_multiply_it() -> None:
    """Many subgraphs that are all the same one, of many tensors that are all the same one: 16 kB of file
    would otherwise become 4,000,000 tensors."""
    builder = Builder(1024)
    builder.StartObject(1)
    tensors = vector_of_one(builder, builder.EndObject(), 2000)
    builder.StartObject(1)
    builder.PrependUOffsetTRelativeSlot(0, tensors, 0)
    subgraphs = vector_of_one(builder, builder.EndObject(), 2000)
    builder.StartObject(3)
    builder.PrependUOffsetTRelativeSlot(2, subgraphs, 0)
    builder.Finish(builder.EndObject(), file_identifier=b"TFL3")
    with pytest.raises(MalformedError, match="more elements"):
        read_root_table(tflite.Model, bytes(builder.Output()), b"TFL3")


def vector_of_one(builder: Builder, table: int, count: int) -> int:
    builder.StartVector(4, count, 4)
    for _ in range(count):
        builder.PrependUOffsetTRelative(table)
    return builder.EndVector()
