# SPDX-License-Identifier: Apache-2.0
"""The models for `-m NAME`, with random weights. Listing them does not import torch."""

from __future__ import annotations

import difflib
import importlib
import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pillion.errors import PillionError
from pillion.host_io.atomic_files import MODEL_FILES

if TYPE_CHECKING:
    from torch import Tensor, nn

    from pillion.zoo.weights import load_weights, save_weights

__all__ = ["MODELS", "ZooModel", "build", "find", "load_weights", "random_inputs", "save_weights", "want"]

# The batches for batch norm statistics: enough samples at the resolution of the net
# (zero padding shifts the means of small images), but never seconds of work.
STATISTICS_NUMBERS = 3 * 3 * 224 * 224
STATISTICS_SAMPLES = 32
STATISTICS_SIDE = 256

MAX_SIDE = 4096
"""The largest side of an input in pixels."""


@dataclass(frozen=True)
class ZooModel:
    """One model of the zoo: its names, its input, and its class as `module:Class`."""

    name: str
    summary: str
    input_shape: tuple[int, ...]
    factory: str
    aliases: tuple[str, ...] = ()
    resizable: bool = False

    def shape_for(self, input_size: int | tuple[int, int] | None) -> tuple[int, ...]:
        """Returns the input shape at another resolution (height and width, or one number for both)."""
        if input_size is None:
            return self.input_shape
        size = (input_size, input_size) if isinstance(input_size, int) else tuple(input_size)
        if len(size) != 2 or not all(1 <= pixels <= MAX_SIDE for pixels in size):
            raise PillionError(
                f"{input_size} is not a size of a picture",
                rule=f"one number, or height and width, from 1 to {MAX_SIDE}",
                here=f"for {self.name}",
                help=f"{self.name} is made for {self.input_shape[-2]}x{self.input_shape[-1]}",
            )
        shape = (*self.input_shape[:2], *size)
        if shape != self.input_shape and not self.resizable:
            raise PillionError(
                f"{self.name} has a fixed input",
                rule=f"input shape {self.input_shape}",
                here=f"input size {input_size}",
                help=f"leave the size out, or take one of {', '.join(_resizable_models())}",
            )
        return shape


_ALL = (
    ZooModel(
        "ds_cnn",
        "keyword spotting, MLPerf Tiny: depthwise-separable CNN, 2.7 M MACs",
        (1, 1, 49, 10),
        "pillion.zoo.ds_cnn:DsCnn",
    ),
    ZooModel(
        "resnet8",
        "image classification, MLPerf Tiny: 3 residual blocks, 12.5 M MACs",
        (1, 3, 32, 32),
        "pillion.zoo.resnet8:ResNet8",
    ),
    ZooModel(
        "mobilenet_v1_025",
        "person detection, MLPerf Tiny: MobileNetV1 of width 0.25, 7.5 M MACs",
        (1, 3, 96, 96),
        "pillion.zoo.mobilenet_v1:MobileNetV1",
    ),
    ZooModel(
        "deep_autoencoder",
        "anomaly detection, MLPerf Tiny: 10 dense layers, 0.26 M MACs",
        (1, 640),
        "pillion.zoo.autoencoder:DeepAutoencoder",
    ),
    ZooModel(
        "mobilenet_v2",
        "MobileNetV2, 1000 classes: inverted residuals, relu6, 301 M MACs at 224x224",
        (1, 3, 224, 224),
        "pillion.zoo.mobilenet_v2:MobileNetV2",
        aliases=("mv2",),
        resizable=True,
    ),
    ZooModel(
        "mobilenet_v3_small",
        "MobileNetV3-Small, 1000 classes: squeeze-and-excite, hard-swish, 57 M MACs at 224x224",
        (1, 3, 224, 224),
        "pillion.zoo.mobilenet_v3:MobileNetV3Small",
        aliases=("mv3", "mobilenet_v3"),
        resizable=True,
    ),
    ZooModel(
        "unet",
        "segmentation: U-Net of widths 16, 32, 64, 96 with skips, 2 classes, 290 M MACs at 96x96",
        (1, 3, 96, 96),
        "pillion.zoo.unet:UNet",
        resizable=True,
    ),
    ZooModel(
        "yolo_two_heads",
        "detection: strided convolutions, gathered blocks, two heads, 54 M MACs at 160x160",
        (1, 3, 160, 160),
        "pillion.zoo.yolo:TwoHeads",
        aliases=("yolo",),
        resizable=True,
    ),
    ZooModel(
        "conv_bn_relu",
        "toy: one 3x3 convolution with batch norm and relu",
        (1, 3, 16, 16),
        "pillion.zoo.toys:ConvBnRelu",
        resizable=True,
    ),
    ZooModel("linear_bn", "toy: dense, batch norm, relu, dense", (1, 32), "pillion.zoo.toys:LinearBn"),
    ZooModel(
        "separable_residual",
        "toy: a depthwise-separable block with a shortcut, mean, dense",
        (1, 3, 32, 32),
        "pillion.zoo.toys:SeparableResidual",
        resizable=True,
    ),
)
MODELS: dict[str, ZooModel] = {entry.name: entry for entry in _ALL}
_BY_ANY_NAME = {name: entry for entry in _ALL for name in (entry.name, *entry.aliases)}


def __getattr__(name: str) -> Any:
    """Imports the weight functions at the first use, because they need numpy."""
    if name in ("load_weights", "save_weights"):
        from pillion.zoo import weights

        return getattr(weights, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def find(name: str) -> ZooModel | None:
    """Returns the model of that name or alias, or None."""
    return _BY_ANY_NAME.get(name)


def build(
    name: str, input_size: int | tuple[int, int] | None = None, seed: int = 0
) -> tuple[nn.Module, tuple[Tensor, ...]]:
    """Returns a model in eval mode and example inputs, determined by the seed."""
    import torch

    from pillion.zoo import random_weights

    entry = require_model(name)
    shape = entry.shape_for(input_size)
    module, _, class_name = entry.factory.partition(":")
    factory = getattr(importlib.import_module(module), class_name)
    with torch.random.fork_rng(devices=[]):  # constructors of torch layers draw from the global generator
        model: nn.Module = factory()
    random_weights.initialize_weights(model, _statistics_shape(shape), seed)
    return model, (
        random_weights.normal_like(
            shape, random_weights.seeded_generator(seed, random_weights.RandomStream.EXAMPLE)
        ),
    )


def random_inputs(
    name: str, count: int, input_size: int | tuple[int, int] | None = None, seed: int = 0
) -> list[tuple[Tensor, ...]]:
    """Returns inputs distributed like the example of `build`, for calibration; a larger count extends
    them."""
    from pillion.zoo import random_weights

    shape = require_model(name).shape_for(input_size)
    source = random_weights.seeded_generator(seed, random_weights.RandomStream.INPUTS)
    return [(random_weights.normal_like(shape, source),) for _ in range(count)]


def require_model(name: str) -> ZooModel:
    """Returns the model of that name or alias; raises if it does not exist."""
    entry = find(name)
    if entry is None:
        close = difflib.get_close_matches(name, _BY_ANY_NAME, n=1)
        raise PillionError(
            f"no model is called {name}",
            rule=f"one of {', '.join(MODELS)}; or {MODEL_FILES}",
            here="a folder" if Path(name).is_dir() else "neither a name of the zoo nor of a file",
            help=f"did you mean {close[0]}?" if close else "`pillion models` lists the zoo",
        )
    return entry


def _resizable_models() -> list[str]:
    return [entry.name for entry in _ALL if entry.resizable]


def _statistics_shape(shape: tuple[int, ...]) -> tuple[int, ...]:
    channels, *sides = shape[1:]
    sample = (channels, *(min(side, STATISTICS_SIDE) for side in sides))
    return (min(STATISTICS_SAMPLES, STATISTICS_NUMBERS // math.prod(sample)), *sample)
