# SPDX-License-Identifier: Apache-2.0
"""ONNX files: float ones are quantized, those with quantize nodes keep their numbers; the rest is refused."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import pillion
from pillion.errors import PillionError
from pillion.importers.torch.onnx import OPSETS, load_onnx
from pillion.importers.torch.onnx.file_module import KNOWN
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


def test_float_files_compute_as_torch(tmp_path: Path) -> None:
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


def test_onnx_ops_keep_the_names_of_the_file(tmp_path: Path) -> None:
    names = ["/0/Conv", "", "training.0", "0_Conv", "node_" + "long" * 500]
    values = ["x", *"abcd", "y"]
    nodes = [
        helper.make_node("Sigmoid", values[i : i + 1], values[i + 1 : i + 2], name=name)
        for i, name in enumerate(names)
    ]
    path = saved(tmp_path / "net.onnx", nodes, {})
    module, inputs = load_onnx(path)
    found = [name for name, _ in module.named_children()]
    assert found[:3] == ["operator_0_0_Conv", "operator_1_Sigmoid", "operator_2_training_0"]
    assert len({*found}) == 5
    assert max(map(len, found)) < 1100
    graph = pillion.compile(path, target="cortex-m55", calibrate=[inputs]).graph
    assert [value.name for value in graph.inputs] == ["x"]
    assert {op.source for op in graph.ops} <= {"", *(f"net.onnx:{i} {name}" for i, name in enumerate(found))}


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "a free dimension": ({"shape": ("batch", 3, "rows", 11)}, "--input-size 96, with your sizes"),
    "free dimensions": ({"shape": (1, 3, "rows", None)}, "free dimensions rows, axis 3"),
    "an opset": ({"opset": 6}, "version_converter"),
    "float16": ({"type": onnx.TensorProto.FLOAT16}, "inputs are float32"),
    "a huge input": ({"shape": (1, 3, 1 << 30, 1 << 30)}, "268,435,456"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_unsupported_files_are_refused(tmp_path: Path, case: str) -> None:
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


def test_unsupported_operators_are_refused(tmp_path: Path) -> None:
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


@pytest.mark.parametrize(("size", "rows"), [(7, 7), ((7, 7), 7), ((5, 9), None)])
def test_free_dimensions_have_a_size_from_outside(tmp_path: Path, size: Any, rows: int | None) -> None:
    path = conv(tmp_path / "net.onnx", shape=("batch", 3, "rows", 11))
    if rows is None:
        with pytest.raises(PillionError, match="has the free dimension rows"):
            load_onnx(path, size)
    else:
        assert load_onnx(path, size)[1][0].shape == (1, 3, rows, 11)
    program = pillion.compile(path, target="cortex-m55", input_size=(7, 7))
    assert program.graph.inputs[0].shape == (1, 3, 7, 11)
    with pytest.raises(PillionError, match="leave --input-size out"):
        load_onnx(conv(tmp_path / "fixed.onnx"), 7)


class Layers(torch.nn.Module):
    """One recurrent layer, and a layer on its last step."""

    def __init__(self, kind: Any, **more: Any) -> None:
        super().__init__()
        self.layer = kind(6, 8, batch_first=True, **more)
        self.last = torch.nn.Linear(16 if more.get("bidirectional") else 8, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(self.layer(x)[0][:, -1])


RECURRENT: dict[str, Layers] = {}
torch.manual_seed(0)
for kind in (torch.nn.LSTM, torch.nn.GRU, torch.nn.RNN):
    RECURRENT[kind.__name__] = Layers(kind)
    RECURRENT[f"{kind.__name__} both ways, twice"] = Layers(kind, bidirectional=True, num_layers=2)
RECURRENT["rectified"] = Layers(torch.nn.RNN, nonlinearity="relu")
RECURRENT["without biases"] = Layers(torch.nn.LSTM, bias=False)


@pytest.mark.turns(3)
@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::DeprecationWarning")
@pytest.mark.parametrize("name", RECURRENT)
def test_recurrent_layers(tmp_path: Path, name: str) -> None:
    net, x = RECURRENT[name].eval(), torch.randn(1, 9, 6)
    torch.onnx.export(net, (x,), str(tmp_path / "net.onnx"), opset_version=17, dynamo=False)
    module, _ = load_onnx(tmp_path / "net.onnx")
    with torch.no_grad():
        torch.testing.assert_close(module(x)[0], net(x), atol=1e-5, rtol=1e-5)
    samples = [(torch.randn(1, 9, 6),) for _ in range(4)] + [(x,)]
    program = pillion.compile(tmp_path / "net.onnx", target="cortex-m33", calibrate=samples)
    wanted, made = net(x).detach().numpy(), np.asarray(program.run(x.numpy()))
    assert np.array_equal(made, np.asarray(program.run(x.numpy(), on="host")))
    assert 10 * np.log10(float((wanted**2).sum() / ((wanted - made) ** 2).sum())) > 20
    assert any(op.source.startswith("net.onnx:") for op in program.graph.ops)


def branch(name: str, kind: str) -> Any:
    result = helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None)
    return helper.make_graph([helper.make_node(kind, ["x"], [name])], name, [], [result])


@pytest.mark.parametrize("taken", [True, False])
def test_a_branch_whose_condition_is_known_is_taken(tmp_path: Path, taken: bool) -> None:
    nodes = [
        helper.make_node("If", ["c"], ["b"], then_branch=branch("t", "Relu"), else_branch=branch("e", "Neg")),
        helper.make_node("Abs", ["b"], ["y"]),
    ]
    module, (x,) = load_onnx(saved(tmp_path / "net.onnx", nodes, {"c": np.array(taken)}))
    torch.testing.assert_close(module(x)[0], x.relu() if taken else x.abs())
    nodes[:0] = [
        helper.make_node("ReduceMax", ["x"], ["m"], keepdims=0),
        helper.make_node("Greater", ["m", "z"], ["c"]),
    ]
    with pytest.raises(PillionError, match="its condition depends on the inputs"):
        load_onnx(saved(tmp_path / "net.onnx", nodes, {"z": np.float32(0)}))


def test_chains_of_constants_have_a_limit(tmp_path: Path) -> None:
    """Each doubles its operand, so that 40 small nodes ask for 2^40 elements."""
    nodes = [helper.make_node("Concat", [f"c{n}", f"c{n}"], [f"c{n + 1}"], axis=0) for n in range(40)]
    nodes += [helper.make_node("ReduceSum", ["c40"], ["s"]), helper.make_node("Add", ["x", "s"], ["y"])]
    with pytest.raises(PillionError, match="268,435,456"):
        load_onnx(saved(tmp_path / "net.onnx", nodes, {"c0": np.ones(1, np.float32)}))


def test_unknown_attributes_and_inputs_are_refused(tmp_path: Path) -> None:
    node = helper.make_node("Relu", ["x"], ["y"], mystery=3)
    with pytest.raises(PillionError, match="mystery is 3"):
        load_onnx(saved(tmp_path / "net.onnx", [node], {}))
    with pytest.raises(PillionError, match="`nobody` is computed by no operator"):
        load_onnx(saved(tmp_path / "net.onnx", [helper.make_node("Add", ["x", "nobody"], ["y"])], {}))


def test_shares_of_a_step_that_our_softmax_lacks(tmp_path: Path) -> None:
    """onnxruntime gives softmax steps of 1/255; ours has 1/256, and its result is rescaled."""
    scales = {"sx": np.float32(0.05), "zx": np.uint8(128), "sy": np.float32(1 / 255), "zy": np.uint8(0)}
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "sx", "zx"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "sx", "zx"], ["d"]),
        helper.make_node("Softmax", ["d"], ["s"], axis=-1),
        helper.make_node("QuantizeLinear", ["s", "sy", "zy"], ["p"]),
        helper.make_node("DequantizeLinear", ["p", "sy", "zy"], ["y"]),
    ]
    path = saved(tmp_path / "net.onnx", nodes, scales, (1, 9))
    program = pillion.compile(path, target="cortex-m55")
    x = RANDOM.normal(size=(1, 9)).astype(np.float32)
    found = np.asarray(program.run(x))
    assert np.array_equal(found, np.asarray(program.run(x, on="host")))
    expected = load_onnx(path)[0](torch.from_numpy(x))[0].numpy()
    assert np.abs(found - expected).max() <= 1.001 / 255


def test_a_pad_whose_value_is_quantized(tmp_path: Path) -> None:
    scales = {"s": np.float32(0.02), "z": np.int8(3)}
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "s", "z"], ["d"]),
        helper.make_node("DequantizeLinear", ["v", "s", "z"], ["dv"]),
        helper.make_node("Pad", ["d", "pads", "dv"], ["padded"]),
        helper.make_node("QuantizeLinear", ["padded", "s", "z"], ["p"]),
        helper.make_node("DequantizeLinear", ["p", "s", "z"], ["y"]),
    ]
    constants = {**scales, "v": np.int8(53), "pads": np.array([0, 0, 1, 0, 0, 0, 0, 2])}
    program = pillion.compile(saved(tmp_path / "net.onnx", nodes, constants), target="cortex-m55")
    found = program.run(np.zeros((1, 3, 7, 11), np.float32))[0]
    assert found.shape == (1, 3, 8, 13)
    assert np.allclose(found[:, :, 0], 1.0)  # (53 - 3) steps of 0.02
    assert np.allclose(found[:, :, 1:, :11], 0.0)


def test_weights_alone_are_quantized(tmp_path: Path) -> None:
    """Without quantize nodes the file computes in float32, and its integer weights are numbers."""
    constants = {"w": WEIGHTS, "s": np.float32(1 / 500), "z": np.int8(0)}
    nodes = [
        helper.make_node("DequantizeLinear", ["w", "s", "z"], ["d"]),
        helper.make_node("Conv", ["x", "d"], ["y"], name="a QuantizeLinear in a name"),
    ]
    path = saved(tmp_path / "net.onnx", nodes, constants)
    module, (x,) = load_onnx(path)
    wanted = torch.nn.functional.conv2d(x, torch.from_numpy(WEIGHTS / np.float32(500))).numpy()
    np.testing.assert_allclose(module(x)[0].numpy(), wanted, atol=1e-5)
    found = pillion.compile(path, target="cortex-m55", calibrate=[(x,)]).run(x.numpy())[0]
    assert 10 * np.log10(float((wanted**2).sum() / ((wanted - found) ** 2).sum())) > 30


PAGES = Path(__file__).parents[2] / "docs"


def test_onnx_page_lists_supported_operators() -> None:
    page = (PAGES / "guide" / "onnx.md").read_text("utf-8")
    listed = page.partition("## What is read")[2].partition("## What is refused")[0].rpartition("\n\n`")[2]
    assert re.findall(r"(\w+)`", listed) == sorted(KNOWN)
    for text in (page, (PAGES / "limits.md").read_text("utf-8")):
        assert f"psets {OPSETS[0]} to {OPSETS[-1]}" in text


def test_constants_of_nodes_lie_in_the_file(tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(np.ones(4, np.float32).tobytes())
    tensor = onnx.numpy_helper.from_array(np.ones(4, np.float32), "t")
    onnx.external_data_helper.set_external_data(tensor, location="secret")
    tensor.ClearField("raw_data")
    nodes = [
        helper.make_node("Constant", [], ["c"], value=tensor),
        helper.make_node("Add", ["x", "c"], ["y"]),
    ]
    with pytest.raises(PillionError, match="lies in another file"):
        load_onnx(saved(tmp_path / "net.onnx", nodes, {}, (1, 4)))


def graph_of(*nodes: Any) -> Any:
    result = helper.make_tensor_value_info("t", onnx.TensorProto.FLOAT, None)
    return helper.make_graph(list(nodes), "branch", [], [result])


BRANCHES = {
    "an operator of another domain": (
        [graph_of(helper.make_node("Gelu", ["x"], ["t"], domain="com.example"))],
        "operator of `com.example`",
    ),
    "no branch": ([], "an If has no then_branch"),
    "one name in two branches": ([graph_of(helper.make_node("Neg", ["x"], ["t"]))] * 2, "`t` is made twice"),
}


@pytest.mark.parametrize("case", BRANCHES)
def test_unsupported_branches_are_refused(tmp_path: Path, case: str) -> None:
    branches, words = BRANCHES[case]
    nodes = [helper.make_node("If", ["c"], [f"b{i}"], then_branch=g) for i, g in enumerate(branches)]
    nodes = nodes or [helper.make_node("If", ["c"], ["b0"])]
    nodes.append(helper.make_node("Neg", ["b0"], ["y"]))
    with pytest.raises(PillionError, match=words):
        load_onnx(saved(tmp_path / "net.onnx", nodes, {"c": np.array(True)}))


@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
def test_zero_points_that_are_left_out(tmp_path: Path, dtype: type) -> None:
    """Integers keep their type, and zero is 0 in it."""
    constants = {"w": np.array([0, 1, 7, 100], dtype), "s": np.float32(0.5)}
    nodes = [
        helper.make_node("DequantizeLinear", ["w", "s"], ["d"]),
        helper.make_node("Add", ["x", "d"], ["y"]),
    ]
    module, (x,) = load_onnx(saved(tmp_path / "net.onnx", nodes, constants, (1, 4)))
    torch.testing.assert_close(module(x)[0] - x, torch.tensor([[0.0, 0.5, 3.5, 50.0]]))
    made = helper.make_node("QuantizeLinear", ["x", "s"], ["q"])
    nodes = [made, helper.make_node("DequantizeLinear", ["q", "s"], ["y"])]
    with pytest.raises(PillionError, match="may be int8 or uint8"):
        load_onnx(saved(tmp_path / "net.onnx", nodes, {"s": np.float32(0.5)}, (1, 4)))


def test_slopes_go_along_the_axes_that_they_broadcast_to(tmp_path: Path) -> None:
    """As many columns as channels: a vector belongs to the columns."""
    slopes = {"w": np.array([0.1, 0.2, 0.3], np.float32)}
    node = helper.make_node("PRelu", ["x", "w"], ["y"])
    module, (x,) = load_onnx(saved(tmp_path / "net.onnx", [node], slopes, (1, 3, 5, 3)))
    wanted = torch.where(x < 0, x * torch.from_numpy(slopes["w"]), x)
    torch.testing.assert_close(module(x)[0], wanted)
