# SPDX-License-Identifier: Apache-2.0
"""Turn a trained MLPerf Tiny reference model into weights for the zoo.

    python tools/load_mlperf_tiny.py FOLDER ds_cnn -o ds_cnn.npz
    pillion compile -m ds_cnn --weights ds_cnn.npz ...

FOLDER holds, for each of kws, ic, vww and ad, `*_float.json` (the list of layers) and `*_float.npz` (their
constants in TFLite's layouts, batch norms folded). The batch norms of our nets become the identity
plus the bias. Where a float model itself stores a weight as int8 (kws does, without its scale), the weight is
taken from `*_int8.tflite`, which has a scale for each channel.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from pillion import zoo
from pillion.errors import PillionError

SOURCES = {"ds_cnn": "kws", "resnet8": "ic", "mobilenet_v1_025": "vww", "deep_autoencoder": "ad"}
TO_TORCH = {  # the order of the axes: OHWI to OIHW, 1HWO to O1HW, and O,I as it is
    "CONV_2D": (0, 3, 1, 2),
    "DEPTHWISE_CONV_2D": (3, 0, 1, 2),
    "FULLY_CONNECTED": (0, 1),
}

Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True)
class Slot:
    """A layer of our net that takes a weight, and the batch norm after it, if there is one."""

    name: str
    layer: nn.Conv2d | nn.Linear
    norm: nn.BatchNorm1d | nn.BatchNorm2d | None


@dataclass(frozen=True)
class Trained:
    """The weight, in PyTorch's layout, and the bias of one TFLite layer."""

    name: str
    weight: Array
    bias: Array


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="trained MLPerf Tiny models as weights for `pillion -m`")
    parser.add_argument("folder", type=Path, help="where *_float.json, *_float.npz and *_int8.tflite are")
    parser.add_argument("model", choices=SOURCES)
    parser.add_argument("-o", "--output", type=Path, required=True, help="the .npz to write")
    options = parser.parse_args(arguments)
    try:
        zoo.save_weights(trained_model(options.folder, options.model), options.output)
    except (PillionError, OSError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


def trained_model(folder: Path, name: str) -> nn.Module:
    """The zoo's model with the trained weights in it."""
    model, _ = zoo.build(name)
    slots, layers = list(_slots(model)), list(_layers(folder, SOURCES[name]))
    if len(slots) != len(layers):
        raise PillionError(
            f"{SOURCES[name]}_float.json is not a {name}",
            rule=f"{len(slots)} layers with weights",
            here=f"{len(layers)} layers with weights",
            help="take the file that belongs to this model",
        )
    with torch.no_grad():
        for slot, layer in zip(slots, layers, strict=True):
            _fill(slot, layer)
    return model


def _slots(model: nn.Module) -> Iterator[Slot]:
    """In the order of definition, which in the four nets is the order of the TFLite layers."""
    modules = [(name, m) for name, m in model.named_modules() if not list(m.children())]
    for (name, layer), (_, following) in zip(modules, [*modules[1:], ("", None)], strict=True):
        if isinstance(layer, nn.Conv2d | nn.Linear):
            norm = following if isinstance(following, nn.BatchNorm1d | nn.BatchNorm2d) else None
            yield Slot(name, layer, norm)


def _layers(folder: Path, source: str) -> Iterator[Trained]:
    with np.load(folder / f"{source}_float.npz", allow_pickle=False) as constants:
        for index, layer in enumerate(json.loads((folder / f"{source}_float.json").read_text())):
            if layer["op"] not in TO_TORCH:
                continue
            weight_name, bias_name = (entry["constant"] for entry in layer["inputs"][1:3])
            weight = constants[weight_name]
            if weight.dtype == np.int8:
                weight = _dequantized(folder / f"{source}_int8.tflite", index)
            yield Trained(weight_name, weight.transpose(TO_TORCH[layer["op"]]), constants[bias_name])


def _dequantized(tflite: Path, index: int) -> Array:
    """The weight of the operator at that index of an int8 model; the float model has the same operators."""
    from ai_edge_litert import schema_py_generated as schema

    model = schema.ModelT.InitFromPackedBuf(tflite.read_bytes())  # type: ignore[no-untyped-call]  # generated, without types
    graph = model.subgraphs[0]
    tensor = graph.tensors[graph.operators[index].inputs[1]]
    values = np.asarray(model.buffers[tensor.buffer].data).view(np.int8).reshape(tensor.shape)
    scales = np.asarray(tensor.quantization.scale, dtype=np.float32)
    axes = [1] * values.ndim
    axes[tensor.quantization.quantizedDimension] = len(scales)
    weight: Array = values * scales.reshape(axes)
    return weight


def _fill(slot: Slot, trained: Trained) -> None:
    if tuple(slot.layer.weight.shape) != trained.weight.shape:
        raise PillionError(
            f"{trained.name} does not fit {slot.name}",
            rule=f"weights of shape {tuple(slot.layer.weight.shape)}",
            here=f"shape {trained.weight.shape}",
            help="take the file that belongs to this model",
        )
    slot.layer.weight.copy_(torch.from_numpy(trained.weight.copy()))
    bias = torch.from_numpy(trained.bias.copy())
    if slot.norm is None:
        assert slot.layer.bias is not None
        slot.layer.bias.copy_(bias)
    else:
        _make_identity(slot.norm)
        slot.norm.bias.copy_(bias)


def _make_identity(norm: nn.BatchNorm1d | nn.BatchNorm2d) -> None:
    """`(x - 0) / sqrt((1 - eps) + eps) * 1`, up to the rounding of the square root."""
    assert norm.running_mean is not None
    assert norm.running_var is not None
    norm.running_mean.zero_()
    norm.running_var.fill_(1 - norm.eps)
    norm.weight.fill_(1)


if __name__ == "__main__":
    sys.exit(main())
