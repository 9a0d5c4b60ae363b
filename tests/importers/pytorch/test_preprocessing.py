# SPDX-License-Identifier: Apache-2.0
"""Steps before a model, given with it: transforms of torchvision, modules, functions."""

from __future__ import annotations

import shutil
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import pillion
from pillion import PillionError
from pillion.importers.torch.preprocessing import as_steps
from pillion.modules import Normalize, Yuv422ToRgb

needs_cc = pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")


def transform(name: str, **attributes: Any) -> Any:
    """What looks like a transform of torchvision, which need not be installed."""
    kind = type(name, (nn.Module,), {"__module__": "torchvision.transforms.v2"})
    made = kind()
    vars(made).update(attributes)
    return made


def compose(*transforms: Any) -> Any:
    kind = type("Compose", (), {"__module__": "torchvision.transforms.transforms"})
    made = kind()
    made.transforms = list(transforms)
    return made


def resize(*size: int, **changes: Any) -> Any:
    given = {"size": list(size), "interpolation": "bilinear", "max_size": None, "antialias": False}
    return transform("Resize", **given | changes)


def noise(*shape: int) -> Tensor:
    return torch.randint(0, 256, shape, dtype=torch.uint8)


def net() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(3, 8, 3, 2), nn.ReLU(), nn.Flatten(), nn.LazyLinear(4)).eval()


STATISTICS = {"mean": [0.485, 0.456, 0.406], "std": [0.229, 0.224, 0.225]}
NUMBERS = (transform("ToDtype", dtype=torch.float32, scale=True), transform("Normalize", **STATISTICS))


@needs_cc
def test_transforms_are_part_of_the_program() -> None:
    torch.manual_seed(1)
    steps = compose(resize(19), transform("CenterCrop", size=(17, 19)), *NUMBERS)
    samples = [noise(1, 3, 27, 41) for _ in range(16)]
    model = net()
    model(torch.zeros(1, 3, 17, 19))
    program = pillion.compile(
        model, samples[0], target="cortex-m55", calibrate=samples, preprocess=steps, progress=False
    )
    assert program.graph.inputs[0].dtype.value == "uint8"
    by_hand = nn.functional.interpolate(samples[3], (19, int(19 * 41 / 27)), mode="bilinear")[
        :, :, 1:18, 4:23
    ]
    mean, std = (torch.tensor(STATISTICS[name])[:, None, None] for name in ("mean", "std"))
    wanted = model((by_hand.float() / 255 - mean) / std).detach().numpy()
    (found,) = program.run(samples[3].numpy())
    np.testing.assert_array_equal(program.run(samples[3].numpy(), on="host")[0], found)
    assert np.abs(found - wanted).max() < 0.05 * np.abs(wanted).max()
    kinds = [op.kind for op in program.graph.ops]
    assert "resize_bilinear" in kinds
    assert not {"mul", "sub", "depthwise_conv2d"} & set(kinds), "the normalization is in the first layer"


@needs_cc
@pytest.mark.parametrize("antialias", [False, True])
def test_sizes_are_close_to_real_ones(antialias: bool) -> None:
    """Within a step, and within three with antialiasing, whose two products have weights of 8 bits."""
    torch.manual_seed(2)
    smooth = nn.functional.interpolate(torch.rand(1, 3, 9, 7), (60, 80), mode="bilinear") * 255
    picture = (smooth + 9 * torch.randn_like(smooth)).clamp(0, 255).to(torch.uint8)
    program = pillion.compile(as_steps([resize(33, 49, antialias=antialias)]), picture, target="cortex-m33")
    real = nn.functional.interpolate(picture.float(), (33, 49), mode="bilinear", antialias=antialias)
    found = program.run(picture.numpy())[0].astype(np.float32)
    assert np.abs(found - real.round().numpy()).max() <= (3 if antialias else 1)


def test_modules_and_functions_are_steps_too() -> None:
    torch.manual_seed(3)
    model, lines = net(), noise(1, 17, 76)
    model(torch.zeros(1, 3, 17, 19))
    camera = Yuv422ToRgb()
    steps = [lambda x: camera(x).narrow(3, 7, 19), Normalize(0.5, 0.25)]
    program = pillion.compile(model, lines, target="cortex-m55", preprocess=steps, progress=False)
    assert program.graph.name == "sequential"
    wanted = model(steps[1](steps[0](lines))).detach().numpy()
    assert np.abs(program.run(lines.numpy())[0] - wanted).max() < 0.05 * np.abs(wanted).max()


@pytest.mark.parametrize(
    ("steps", "rule"),
    [
        (compose(transform("RandomHorizontalFlip", p=0.5)), "torchvision's Resize, CenterCrop"),
        (resize(48, interpolation="bicubic"), "bilinear or nearest"),
        (resize(48, max_size=50), "bilinear or nearest"),
        (transform("ToDtype", dtype=torch.float32, scale=False), "scale=True"),
        (transform("ConvertImageDtype", dtype=torch.float16), "float32"),
        (3, "a module, a function"),
    ],
)
def test_steps_that_no_program_has_are_refused(steps: Any, rule: str) -> None:
    with pytest.raises(PillionError, match=rule) as caught:
        pillion.compile(net(), noise(1, 3, 8, 8), target="cortex-m33", preprocess=steps)
    assert "pillion.modules" in caught.value.help


def test_the_picture_is_bytes() -> None:
    with pytest.raises(PillionError, match="in bytes, as the camera"):
        pillion.compile(net(), torch.zeros(1, 3, 8, 8), target="cortex-m33", preprocess=list(NUMBERS))


def test_torchvision_itself() -> None:
    pytest.importorskip("torchvision")
    from torchvision.transforms import v2

    picture = noise(2, 3, 31, 41)
    steps = v2.Compose(
        [
            v2.Grayscale(3),
            v2.Resize(24, antialias=False),
            v2.CenterCrop(21),
            v2.ToDtype(torch.float32, scale=True),
        ]
    )
    assert float((as_steps(steps)(picture) - steps(picture)).abs().max()) * 255 < 2.01
