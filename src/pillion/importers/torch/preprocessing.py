# SPDX-License-Identifier: Apache-2.0
"""Puts steps of pictures in front of a model: a module, a function, or transforms of torchvision, which are recognized by
their names and attributes."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.export import ExportedProgram

from pillion.errors import PillionError
from pillion.host_io.user_code import file_and_function, run_user_code
from pillion.importers.torch.quantize.converted_program import is_converted
from pillion.importers.torch.train.qat_module import QatModule
from pillion.importers.torch.user_inputs import as_inputs
from pillion.modules import Crop, Normalize, RgbToGray

RULE = (
    "a module, a function of a tensor, or transforms of torchvision that answer the same for the same picture"
)
SPEC_RULE = "--preprocess file.py:name names a module, a function or transforms"


class Preprocessed(nn.Module):
    """Calls a model with a picture that went through the steps before it."""

    def __init__(self, steps: nn.Module, model: nn.Module) -> None:
        super().__init__()
        self.preprocess, self.model = steps, model

    def forward(self, picture: Tensor) -> Any:
        """Returns the model's outputs for a picture of the camera."""
        return self.model(self.preprocess(picture))


class _Call(nn.Module):
    """Calls a function."""

    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, picture: Tensor) -> Tensor:
        """Returns the function's result."""
        return self.function(picture)


class _Resize(nn.Module):
    """Resizes to a height and a width, or the shorter side to a size."""

    def __init__(self, size: Iterable[int], mode: str, antialias: bool) -> None:
        super().__init__()
        self.size, self.mode, self.antialias = tuple(size), mode, antialias

    def forward(self, picture: Tensor) -> Tensor:
        """Returns the resized picture."""
        height, width = picture.shape[-2:]
        if len(self.size) == 2:
            size = self.size
        elif height <= width:
            size = self.size[0], int(self.size[0] * width / height)
        else:
            size = int(self.size[0] * height / width), self.size[0]
        if not self.antialias:
            return F.interpolate(picture, size, mode=self.mode)
        return F.interpolate(picture.float(), size, mode=self.mode, antialias=True)


class _Scale(nn.Module):
    """Converts bytes to numbers from 0 to 1."""

    def forward(self, picture: Tensor) -> Tensor:
        """Returns the numbers."""
        return picture.float() / 255


class _Standardize(Normalize):
    """Subtracts a mean and divides by a deviation."""

    def forward(self, picture: Tensor) -> Tensor:
        """Returns the numbers."""
        return (picture - self.mean) / self.std


def preprocessed(
    model: Any, example_inputs: tuple[Tensor, ...], given: Any
) -> tuple[Preprocessed, tuple[Tensor, ...]]:
    """Returns a model preceded by the given steps, and its example inputs: those of the file with the steps if it has
    any."""
    if isinstance(model, QatModule) or is_converted(model):
        raise PillionError(
            "steps before a model that has its ranges",
            rule="--preprocess goes with models that Pillion quantizes after training",
            here=f"{given}",
            help="put the steps into the module: nn.Sequential(steps, net), then train or convert it",
        )
    if isinstance(given, (str, os.PathLike)):
        spec = os.fspath(given)
        file, found = file_and_function(spec, SPEC_RULE, "--preprocess file.py:transform")
        given = run_user_code(found, spec) if isinstance(found, type) else found
        inputs = getattr(file.module, "example_inputs", None)
        if inputs is not None:
            inputs = run_user_code(inputs, f"{file.path}:example_inputs") if callable(inputs) else inputs
            example_inputs = as_inputs(inputs, f"{file.path}:example_inputs")
    _require_picture(example_inputs)
    module = model.module() if isinstance(model, ExportedProgram) else model
    return Preprocessed(as_steps(given), module).train(module.training), example_inputs


def _require_picture(inputs: tuple[Tensor, ...]) -> None:
    if len(inputs) != 1 or inputs[0].dtype != torch.uint8:
        raise PillionError(
            "the camera's picture is not known",
            rule="with --preprocess, the example input is one picture in bytes, as the camera gives it",
            here=", ".join(f"{str(x.dtype).removeprefix('torch.')}{list(x.shape)}" for x in inputs),
            help="beside the transform write\n    def example_inputs():\n        return torch.zeros(1, 3, 120, 160, dtype=torch.uint8)",
        )


def as_steps(given: Any) -> nn.Module:
    """Returns steps as a module. Transforms of torchvision are replaced by modules of bytes."""
    kind = type(given)
    if isinstance(given, (list, tuple)) or kind.__name__ in ("Compose", "Sequential"):
        return nn.Sequential(*map(as_steps, getattr(given, "transforms", given)))
    if kind.__module__.startswith("torchvision."):
        make = TRANSFORMS.get(kind.__name__)
        if make is None:
            raise _refusal(kind.__name__, f"torchvision's {', '.join(TRANSFORMS)}", repr(given))
        return make(given)
    if isinstance(given, nn.Module):
        return given
    if callable(given) and not isinstance(given, type):
        return _Call(given)
    raise _refusal("what is given", RULE, repr(given))


def _refusal(what: str, rule: str, here: str) -> PillionError:
    return PillionError(
        f"{what} cannot be a step of a program",
        rule=rule,
        here=here.splitlines()[0],
        help="leave out what is for training alone (random ones), or write the step as a module: modules of pillion.modules, or F.interpolate, slices and arithmetic on uint8 [batch, channels, height, width]",
    )


def _resize(given: Any) -> nn.Module:
    mode = str(getattr(given.interpolation, "value", given.interpolation))
    size = [given.size] if isinstance(given.size, int) else list(given.size or ())
    if mode not in ("bilinear", "nearest", "nearest-exact") or not size or given.max_size is not None:
        raise _refusal(
            "Resize",
            "its interpolation is bilinear or nearest, its size is given, max_size is not",
            repr(given),
        )
    return _Resize(size, mode, mode == "bilinear" and given.antialias not in (None, False))


def _center_crop(given: Any) -> nn.Module:
    height, width = (given.size, given.size) if isinstance(given.size, int) else given.size
    return Crop(height, width)


def _to_type(given: Any) -> nn.Module:
    dtype = getattr(given, "dtype", torch.float32)
    if dtype is torch.uint8:
        return nn.Identity()
    if dtype is not torch.float32 or not getattr(given, "scale", True):
        raise _refusal(
            type(given).__name__, "its dtype is float32, and bytes become 0 to 1 (scale=True)", repr(given)
        )
    return _Scale()


def _grayscale(given: Any) -> nn.Module:
    copies = _Call(lambda x: x.repeat(1, 3, 1, 1))
    return nn.Sequential(RgbToGray(), *[copies] * (given.num_output_channels == 3))


TRANSFORMS: dict[str, Callable[[Any], nn.Module]] = {
    "Resize": _resize,
    "CenterCrop": _center_crop,
    "Grayscale": _grayscale,
    "Lambda": lambda given: _Call(getattr(given, "lambd", None) or given.function),
    **dict.fromkeys(("ToTensor", "ConvertImageDtype", "ToDtype"), _to_type),
    "Normalize": lambda given: _Standardize(given.mean, given.std),
    **dict.fromkeys(("PILToTensor", "ToImage", "ToPureTensor"), lambda given: nn.Identity()),
}
"""torchvision's transforms by class name."""
