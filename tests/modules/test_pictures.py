# SPDX-License-Identifier: Apache-2.0
"""Modules of pictures: their bytes are those of their definitions, of PyTorch and of all programs."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

import pillion
from pillion import PillionError
from pillion.modules import (
    BayerToRgb,
    Crop,
    GrayToRgb,
    Normalize,
    Resize,
    Rgb565ToRgb,
    RgbToGray,
    Rotate,
    Yuv422ToRgb,
)

needs_cc = pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
Bytes = NDArray[np.int64]


def noise(*shape: int) -> Tensor:
    """Bytes in which the extremes are frequent."""
    mixed = torch.randint(-64, 320, shape)
    return mixed.clamp(0, 255).to(torch.uint8)


def yuv_by_hand(y: Bytes, u: Bytes, v: Bytes) -> Bytes:
    """The formulas of the docs."""
    u, v = u - 128, v - 128
    sums = (64 * y + 90 * v, 64 * y - 22 * u - 46 * v, 64 * y + 113 * u)
    return np.stack([np.clip((s + 32) >> 6, 0, 255) for s in sums], 1)


def yuyv_by_hand(lines: Bytes) -> Bytes:
    wide = [np.repeat(lines[..., first::4], 2, -1) for first in (1, 3)]
    return yuv_by_hand(lines[..., 0::2], *wide)


def vyuy_by_hand(lines: Bytes) -> Bytes:
    wide = [np.repeat(lines[..., first::4], 2, -1) for first in (2, 0)]
    return yuv_by_hand(lines[..., 1::2], *wide)


def rgb565_by_hand(words: Bytes) -> Bytes:
    red, green, blue = words >> 11, words >> 5 & 63, words & 31
    return np.stack([red << 3 | red >> 2, green << 2 | green >> 4, blue << 3 | blue >> 2], 1)


def gbrg_by_hand(mosaic: Bytes) -> Bytes:
    cell = [mosaic[:, row::2, column::2] for row in (0, 1) for column in (0, 1)]
    return np.stack([cell[2], (cell[0] + cell[3] + 1) >> 1, cell[1]], 1)


CASES: dict[str, tuple[nn.Module, tuple[int, ...], Callable[[Bytes], Bytes]]] = {
    "yuyv": (Yuv422ToRgb(), (2, 5, 28), yuyv_by_hand),
    "vyuy": (Yuv422ToRgb("vyuy"), (1, 7, 52), vyuy_by_hand),
    "rgb565": (Rgb565ToRgb(), (3, 5, 14), lambda x: rgb565_by_hand(x[..., 1::2] << 8 | x[..., 0::2])),
    "rgb565, high byte first": (
        Rgb565ToRgb(big_endian=True),
        (1, 3, 22),
        lambda x: rgb565_by_hand(x[..., 0::2] << 8 | x[..., 1::2]),
    ),
    "bayer": (BayerToRgb("gbrg"), (2, 6, 14), gbrg_by_hand),
    "grey to rgb": (GrayToRgb(), (2, 3, 7), lambda x: np.stack([x] * 3, 1)),
    "rgb to grey": (
        RgbToGray(),
        (2, 3, 5, 7),
        lambda x: (38 * x[:, :1] + 75 * x[:, 1:2] + 15 * x[:, 2:] + 64) >> 7,
    ),
    "part in the middle": (Crop(3, 5), (2, 3, 7, 8), lambda x: x[:, :, 2:5, 2:7]),
    "part": (Crop(3, 5, 4, 0), (1, 1, 7, 8), lambda x: x[:, :, 4:7, :5]),
    "turned to the left": (Rotate(1), (2, 3, 5, 7), lambda x: np.rot90(x, 1, (2, 3))),
    "turned to the right": (Rotate(-1), (1, 1, 5, 7), lambda x: np.rot90(x, -1, (2, 3))),
}


class Together(nn.Module):
    """All modules, each with an input and an output."""

    def __init__(self) -> None:
        super().__init__()
        self.parts = nn.ModuleList(module for module, _, _ in CASES.values())

    def forward(self, *inputs: Tensor) -> list[Tensor]:
        return [part(x) for part, x in zip(self.parts, inputs, strict=True)]


@needs_cc
@pytest.mark.slow
@pytest.mark.turns(2)
@pytest.mark.parametrize(("target", "board"), [("cortex-m33", "mps2-an505"), ("cortex-m55", "mps3-an547")])
def test_bytes_equal_the_formulas_everywhere(target: str, board: str) -> None:
    torch.manual_seed(1)
    inputs = tuple(noise(*shape) for _, shape, _ in CASES.values())
    program = pillion.compile(Together().eval(), inputs, target=target)
    given = [x.numpy() for x in inputs]
    results = zip(
        CASES,
        Together()(*inputs),
        *(program.run(*given, on=on) for on in ("reference", "host", board)),
        strict=True,
    )
    for (name, torchs, *others), x in zip(results, given, strict=True):
        wanted = CASES[name][2](x.astype(np.int64))
        for found in (torchs.numpy(), *others):
            assert found.dtype == np.uint8, name
            np.testing.assert_array_equal(found, wanted, name)


def test_formulas_are_within_a_step_of_real_numbers() -> None:
    """All bytes of brightness and of both colour differences, against BT.601 as JPEG has it."""
    y, u, v = (x.ravel() for x in np.meshgrid(*[np.arange(256)] * 3, indexing="ij"))
    found = yuv_by_hand(y, u, v)
    real = (y + 1.402 * (v - 128), y - 0.344136 * (u - 128) - 0.714136 * (v - 128), y + 1.772 * (u - 128))
    for channel, wanted in enumerate(real):
        assert np.abs(found[:, channel] - np.clip(np.rint(wanted), 0, 255)).max() <= 1
    red, green, blue = y, u, v
    grey = np.rint(0.299 * red + 0.587 * green + 0.114 * blue)
    assert np.abs(((38 * red + 75 * green + 15 * blue + 64) >> 7) - grey).max() <= 1


@needs_cc
@pytest.mark.slow
@pytest.mark.parametrize("by_rows", [False, True])
def test_a_camera_hands_over_its_lines(by_rows: bool, tmp_path: Path) -> None:
    """Raw lines of YUV from a file, seen by a network: whole, and line by line without a picture in memory."""
    torch.manual_seed(4)
    steps = (Yuv422ToRgb("uyvy"), Crop(31, 40), Normalize(0.5, 0.25), nn.Conv2d(3, 8, 3, 2), nn.ReLU())
    net = nn.Sequential(*steps, nn.Conv2d(8, 8, 3, 2), nn.AdaptiveAvgPool2d(1), nn.Flatten()).eval()
    noise(37, 96).numpy().tofile(tmp_path / "frame.raw")
    frame = np.fromfile(tmp_path / "frame.raw", np.uint8).reshape(1, 37, 24, 4)
    pairs = torch.from_numpy(frame).permute(0, 3, 1, 2)
    rows: dict[str, Any] = {"rows_in": True, "extra": "90%"} if by_rows else {"io_layout": "nhwc"}
    program = pillion.compile(net, pairs, target="cortex-m55", io_dtype="int8", progress=False, **rows)
    if by_rows:
        assert program.memory.arena_bytes < frame.size
    (scores,) = program.run(frame, on="reference")
    for on in ("host", "mps3-an547"):
        np.testing.assert_array_equal(program.run(frame, on=on)[0], scores)
    lines = net[0](torch.from_numpy(frame.reshape(1, 37, 96)))
    np.testing.assert_array_equal(net[0](pairs).numpy(), lines.numpy())
    np.testing.assert_array_equal(
        BayerToRgb()(pairs[:, :1, :36]).numpy(), BayerToRgb()(pairs[:, 0, :36]).numpy()
    )


class ByHand(nn.Module):
    """Bytes computed from bytes with other operators than our modules use."""

    def __init__(self) -> None:
        super().__init__()
        self.mix = nn.Conv2d(3, 2, 1)
        self.mix.weight.data = torch.randint(-64, 65, (2, 3, 1, 1)) / 32
        self.mix.bias.data = torch.tensor([3.25, -40.5])

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        halved = ((x.float() + 1) / 2).floor().to(torch.uint8) ^ 0x81
        folded = torch.where(x > 99, 255 - x.int(), x.int()).to(torch.uint8)
        mixed = (self.mix(x.float()) + 0.5).floor().clamp(0, 255).to(torch.uint8)
        padded = nn.functional.conv2d(x.float(), torch.full((3, 1, 3, 3), 0.125), None, 2, 1, 1, 3).int()
        wrapped = (x[:, :1].int() * 3 + x[:, 1:2].int()).to(torch.uint8)
        return halved, folded, mixed, padded.clamp(max=255).to(torch.uint8), torch.cat([halved, wrapped], 1)


@needs_cc
def test_byte_arithmetic_written_by_hand_is_exact() -> None:
    torch.manual_seed(2)
    net, x = ByHand().eval(), noise(2, 3, 7, 11)
    program = pillion.compile(net, (x,), target="cortex-m55")
    for on in ("reference", "host"):
        for found, wanted in zip(program.run(x.numpy(), on=on), net(x), strict=True):
            np.testing.assert_array_equal(found, wanted.numpy())
    kinds = [op.kind for op in program.graph.ops]
    assert kinds.count("lut") == 2
    assert {"conv2d", "depthwise_conv2d", "integer_arithmetic"} <= set(kinds)


@pytest.mark.parametrize(
    ("call", "rule"),
    [
        (lambda: Yuv422ToRgb("yuvy"), "order is yuyv"),
        (lambda: Yuv422ToRgb("yuuy"), "order is yuyv"),
        (lambda: BayerToRgb("rgbg"), "pattern is rggb"),
        (lambda: Crop(0, 3), "above 0"),
        (lambda: Crop(3, 9)(noise(1, 3, 7, 8)), "inside the picture"),
        (lambda: Resize(0, 3), "1 or more"),
        (lambda: Normalize(0.5, [0.2, 0.0]), "std above 0"),
        (lambda: Yuv422ToRgb()(noise(1, 3, 6)), "multiple of 4"),
        (lambda: BayerToRgb()(noise(1, 3, 6)), "multiple of 2"),
        (lambda: Rgb565ToRgb()(torch.zeros(1, 3, 6)), "uint8"),
        (lambda: GrayToRgb()(noise(1, 1, 3, 6)), "3 axes"),
    ],
)
def test_tensors_that_are_no_pictures_are_refused(call: Callable[[], object], rule: str) -> None:
    with pytest.raises(PillionError, match=rule):
        call()
