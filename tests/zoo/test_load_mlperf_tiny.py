# SPDX-License-Identifier: Apache-2.0
"""tools/load_mlperf_tiny.py, on a folder that is made here from a net with its batch norms folded."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import flatbuffers
import numpy as np
import pytest
import torch
from ai_edge_litert import schema_py_generated as schema
from torch import nn

from pillion import zoo

pytestmark = pytest.mark.torch

TOOL = Path(__file__).parents[2] / "tools" / "load_mlperf_tiny.py"
TO_TFLITE = {"CONV_2D": (0, 2, 3, 1), "DEPTHWISE_CONV_2D": (1, 2, 3, 0), "FULLY_CONNECTED": (0, 1)}


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("load_mlperf_tiny", TOOL)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)  # dataclasses look themselves up
    spec.loader.exec_module(module)
    return module


def folded(model: nn.Module) -> list[tuple[str, np.ndarray[Any, Any], np.ndarray[Any, Any]]]:
    """TFLite's name of the op, weight and bias of every layer, each batch norm in the layer before it."""
    layers: list[tuple[str, np.ndarray[Any, Any], np.ndarray[Any, Any]]] = []
    for layer in model.modules():
        if isinstance(layer, nn.Conv2d | nn.Linear):
            bias = (
                np.zeros(len(layer.weight), np.float32) if layer.bias is None else layer.bias.detach().numpy()
            )
            layers.append((op_name(layer), layer.weight.detach().numpy(), bias))
        elif isinstance(layer, nn.BatchNorm1d | nn.BatchNorm2d):
            assert layer.running_var is not None
            assert layer.running_mean is not None
            op, weight, bias = layers.pop()
            gain = (layer.weight / torch.sqrt(layer.running_var + layer.eps)).detach().numpy()
            shift = (layer.bias - layer.running_mean * torch.from_numpy(gain)).detach().numpy()
            layers.append((op, weight * gain.reshape(-1, *[1] * (weight.ndim - 1)), bias * gain + shift))
    return layers


def op_name(layer: nn.Conv2d | nn.Linear) -> str:
    if isinstance(layer, nn.Linear):
        return "FULLY_CONNECTED"
    return "DEPTHWISE_CONV_2D" if layer.groups > 1 else "CONV_2D"


def write_folder(folder: Path, source: str, model: nn.Module) -> None:
    layers: list[dict[str, Any]] = []
    constants: dict[str, Any] = {}
    for index, (op, weight, bias) in enumerate(folded(model)):
        names = [f"{index:02}_{op.lower()}_{position}" for position in (1, 2)]
        constants |= dict(zip(names, (weight.transpose(TO_TFLITE[op]), bias), strict=True))
        layers.append({"op": op, "inputs": [{"activation": "x"}, *({"constant": name} for name in names)]})
    layers.append({"op": "SOFTMAX", "inputs": [{"activation": "x"}]})
    np.savez(folder / f"{source}_float.npz", **constants)
    (folder / f"{source}_float.json").write_text(json.dumps(layers))


def write_int8_twin(
    path: Path, values: list[np.ndarray[Any, Any]], scales: list[np.ndarray[Any, Any]]
) -> None:
    """As much of a TFLite file as holds the quantized weight of each operator."""
    model, graph = schema.ModelT(), schema.SubGraphT()
    model.buffers, graph.tensors, graph.operators = [], [], []
    for index, (value, scale) in enumerate(zip(values, scales, strict=True)):
        buffer, tensor, operator = schema.BufferT(), schema.TensorT(), schema.OperatorT()
        buffer.data = value.view(np.uint8).ravel()
        tensor.shape, tensor.buffer, tensor.quantization = (
            list(value.shape),
            index,
            schema.QuantizationParametersT(),
        )
        tensor.quantization.scale = scale.tolist()
        operator.inputs = [-1, index, -1]
        model.buffers.append(buffer)
        graph.tensors.append(tensor)
        graph.operators.append(operator)
    model.subgraphs = [graph]
    builder = flatbuffers.Builder()
    builder.Finish(model.Pack(builder), b"TFL3")
    path.write_bytes(bytes(builder.Output()))


@pytest.mark.turns(2)
@pytest.mark.parametrize("name", ["ds_cnn", "resnet8", "mobilenet_v1_025", "deep_autoencoder"])
def test_a_folded_net_gives_the_outputs_of_the_net(tmp_path: Path, tool: ModuleType, name: str) -> None:
    original, (x,) = zoo.build(name, seed=5)
    write_folder(tmp_path, tool.SOURCES[name], original)
    assert tool.main([str(tmp_path), name, "-o", str(tmp_path / "w.npz")]) == 0
    model, _ = zoo.build(name)
    zoo.load_weights(model, tmp_path / "w.npz")
    with torch.no_grad():
        torch.testing.assert_close(
            model(x), original(x), rtol=2e-5, atol=2e-5
        )  # measured: 1.1e-5, folding rounds in float32


def test_weights_that_are_int8_come_from_the_int8_model(tmp_path: Path, tool: ModuleType) -> None:
    original, _ = zoo.build("deep_autoencoder")
    write_folder(tmp_path, "ad", original)
    random = np.random.default_rng(0)
    values = [random.integers(-127, 128, weight.shape, dtype=np.int8) for _, weight, _ in folded(original)]
    scales = [random.uniform(0.01, 0.1, len(value)).astype(np.float32) for value in values]
    write_int8_twin(tmp_path / "ad_int8.tflite", values, scales)
    with np.load(tmp_path / "ad_float.npz") as archive:
        constants = dict(archive)
    constants["03_fully_connected_1"] = np.zeros((128, 128), np.int8)
    np.savez(tmp_path / "ad_float.npz", **constants)
    loaded = tool.trained_model(tmp_path, "deep_autoencoder")
    assert np.array_equal(loaded.body[3].linear.weight.detach().numpy(), values[3] * scales[3][:, None])
    assert np.array_equal(loaded.body[2].linear.weight.detach().numpy(), constants["02_fully_connected_1"])


@pytest.mark.parametrize("name", ["resnet8", "mobilenet_v1_025"])
def test_the_layers_of_another_model_are_refused(
    tmp_path: Path, tool: ModuleType, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    write_folder(tmp_path, tool.SOURCES[name], zoo.build("ds_cnn")[0])
    assert tool.main([str(tmp_path), name, "-o", str(tmp_path / "w.npz")]) == 2
    assert capsys.readouterr().err.startswith("error: ")
    assert not (tmp_path / "w.npz").exists()


def test_an_empty_folder_is_one_line(
    tmp_path: Path, tool: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    assert tool.main([str(tmp_path), "ds_cnn", "-o", str(tmp_path / "w.npz")]) == 2
    assert capsys.readouterr().err.count("\n") == 1
