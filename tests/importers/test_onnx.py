# SPDX-License-Identifier: Apache-2.0
"""ONNX files: float ones are quantized, those with quantize nodes keep their numbers; the rest is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import pillion
from pillion.errors import PillionError
from pillion.importers.torch.onnx import load_onnx
from pillion.ir.types import PerTensor

onnx = pytest.importorskip("onnx")
helper = onnx.helper

RANDOM = np.random.default_rng(0)
WEIGHTS = RANDOM.integers(-127, 128, (5, 3, 3, 3)).astype(np.int8)


def saved(
    path: Path, nodes: list[Any], constants: dict[str, Any], shape: Any = (1, 3, 7, 11), **more: Any
) -> Path:
    """Writes a graph from `x` to `y`."""
    x = helper.make_tensor_value_info("x", more.pop("type", onnx.TensorProto.FLOAT), shape)
    y = helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, None)
    tensors = [onnx.numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()]
    graph = helper.make_graph(nodes, "net", [x], [y], tensors)
    opset = [helper.make_opsetid("", more.pop("opset", 17))]
    onnx.save(helper.make_model(graph, opset_imports=opset), str(path), **more)
    return path


def conv(path: Path, **more: Any) -> Path:
    w = WEIGHTS.astype(np.float32) / 500
    node = helper.make_node("Conv", ["x", "w"], ["c"], auto_pad="SAME_UPPER", strides=[2, 2])
    return saved(path, [node, helper.make_node("Relu", ["c"], ["y"])], {"w": w}, **more)


def test_a_float_file_computes_what_torch_computes(tmp_path: Path) -> None:
    path = conv(tmp_path / "net.onnx")
    module, (x,) = load_onnx(path)
    w = torch.from_numpy(WEIGHTS.astype(np.float32) / 500)
    padded = torch.nn.functional.pad(x, (1, 1, 1, 1))
    expected = torch.nn.functional.conv2d(padded, w, stride=2).relu()
    torch.testing.assert_close(module(x)[0], expected)
    program = pillion.compile(path, target="cortex-m55", calibrate=[(x,)])
    found = program.run(x.numpy())
    error = expected.numpy() - np.asarray(found)
    assert 10 * np.log10(float((expected.numpy() ** 2).sum() / (error**2).sum())) > 30


@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
def test_quantize_nodes_keep_their_numbers(tmp_path: Path, dtype: type) -> None:
    shift = 128 if dtype is np.uint8 else 0
    zeros = {"zx": dtype(-5 + shift), "zy": dtype(-128 + shift)}
    scales = {"sx": np.float32(0.02), "sy": np.float32(0.04)}
    channels = {"sw": np.linspace(0.001, 0.003, 5, dtype=np.float32), "zw": np.zeros(5, np.int8)}
    bias = {"b": np.arange(5, dtype=np.int32), "sb": np.float32(0.02) * channels["sw"]}
    bias["zb"] = np.zeros(5, np.int32)
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "sx", "zx"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "sx", "zx"], ["d"]),
        helper.make_node("DequantizeLinear", ["w", "sw", "zw"], ["dw"], axis=0),
        helper.make_node("DequantizeLinear", ["b", "sb", "zb"], ["db"], axis=0),
        helper.make_node("Conv", ["d", "dw", "db"], ["c"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c"], ["r"]),
        helper.make_node("QuantizeLinear", ["r", "sy", "zy"], ["p"]),
        helper.make_node("DequantizeLinear", ["p", "sy", "zy"], ["y"]),
    ]
    path = saved(tmp_path / "q.onnx", nodes, {"w": WEIGHTS, **zeros, **scales, **channels, **bias})
    program = pillion.compile(path, target="cortex-m55")
    formats = [value.type.quant for value in program.graph.values.values()]
    for scale, zero in ((0.02, -5), (0.04, -128)):
        assert PerTensor(float(np.float32(scale)), zero) in formats
    x = RANDOM.normal(size=(1, 3, 7, 11)).astype(np.float32)
    found = np.asarray(program.run(x))
    expected = load_onnx(path)[0](torch.from_numpy(x))[0].numpy()
    assert np.abs(found - expected).max() <= 0.0401  # one step


def test_names_are_those_of_the_file(tmp_path: Path) -> None:
    names = ["/0/Conv", "", "training.0", "0_Conv", "node_" + "long" * 500]
    values = ["x", *"abcd", "y"]
    nodes = [
        helper.make_node("Sigmoid", values[i : i + 1], values[i + 1 : i + 2], name=name)
        for i, name in enumerate(names)
    ]
    path = saved(tmp_path / "net.onnx", nodes, {})
    module, inputs = load_onnx(path)
    found = [name for name, _ in module.named_children()]
    assert found[:3] == ["node_0_Conv", "node_Sigmoid", "node_training_0"]
    assert len({*found}) == 5
    assert max(map(len, found)) < 1100
    graph = pillion.compile(path, target="cortex-m55", calibrate=[inputs]).graph
    assert [value.name for value in graph.inputs] == ["x"]
    assert {op.source for op in graph.ops} <= {"", *(f"module {name}" for name in found)}


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "a free dimension": ({"shape": ("batch", 3, 7, 11)}, "--dim_param batch --dim_value 1"),
    "an opset": ({"opset": 6}, "version_converter"),
    "float16": ({"type": onnx.TensorProto.FLOAT16}, "inputs are float32"),
    "a huge input": ({"shape": (1, 3, 1 << 30, 1 << 30)}, "268,435,456"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_files_that_are_refused(tmp_path: Path, case: str) -> None:
    more, words = REFUSED[case]
    with pytest.raises(PillionError, match=words):
        load_onnx(conv(tmp_path / "net.onnx", **more))


def test_no_other_file_is_opened(tmp_path: Path) -> None:
    path = conv(tmp_path / "net.onnx", save_as_external_data=True, location="net.data", size_threshold=0)
    model = onnx.load(path, load_external_data=False)
    model.graph.initializer[0].external_data[0].value = "../../etc/passwd"
    path.write_bytes(model.SerializeToString())
    with pytest.raises(PillionError, match="weights in another file"):
        load_onnx(path)


def test_operators_that_are_not_read(tmp_path: Path) -> None:
    nodes = [helper.make_node("Mystery", ["x"], ["y"], domain="com.example")]
    with pytest.raises(PillionError, match="Mystery"):
        load_onnx(saved(tmp_path / "net.onnx", nodes, {}))
    nodes = [helper.make_node("Expand", ["x", "s"], ["y"])]
    with pytest.raises(PillionError, match="passes"):
        load_onnx(saved(tmp_path / "net.onnx", nodes, {"s": np.array([1 << 40, 3, 7, 11])}))


def test_damaged_files(tmp_path: Path) -> None:
    whole = conv(tmp_path / "net.onnx").read_bytes()
    path = tmp_path / "cut.onnx"
    for end in range(1, len(whole) - 1, 97):
        path.write_bytes(whole[:end])
        with pytest.raises(PillionError):
            load_onnx(path)
