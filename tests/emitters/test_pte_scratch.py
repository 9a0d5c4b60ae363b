# SPDX-License-Identifier: Apache-2.0
"""Scratch sizes are those of the library, asked through the wheel's own binding."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pytest

from pillion.devices.cortex_m import Isa
from pillion.emitters.pte import scratch
from pillion.emitters.pte.scratch import ScratchWindow

pytest.importorskip("executorch.backends.cortex_m", reason="pip install 'pillion[executorch]'")

CASES = 2000
SIDES = (1, 1, 2, 3, 4, 5, 7, 13)
CHANNELS = (1, 2, 3, 4, 7, 8, 16, 17, 33)


@pytest.fixture(scope="module")
def library() -> Any:
    from executorch.backends.cortex_m.library import cmsis_nn

    return cmsis_nn


OF_CORES = [isa for isa in Isa if isa is not Isa.HOST]
"""ExecuTorch has one form of kernels for all cores without the DSP extension, whichever Pillion has for them."""


def backend(library: Any, isa: Isa) -> Any:
    return {Isa.MVE: library.Backend.MVE, Isa.DSP: library.Backend.DSP}.get(isa, library.Backend.SCALAR)


def windows(seed: int) -> Iterator[ScratchWindow]:
    """Convolutions of all kinds, images of one row among them."""
    rng = random.Random(seed)
    for _ in range(CASES):
        kernel, stride, dilation = (
            (rng.choice(c), rng.choice(c)) for c in ((1, 1, 2, 3, 5), (1, 1, 2, 3), (1, 1, 1, 2))
        )
        padding = (rng.randrange(3), rng.randrange(3))
        image = (rng.choice(SIDES), rng.choice(SIDES))
        axes = zip(image, kernel, stride, dilation, padding, strict=True)
        result = [(size + 2 * p - d * (k - 1) - 1) // s + 1 for size, k, s, d, p in axes]
        if min(result) >= 1:
            channels = (rng.choice(CHANNELS), rng.choice(CHANNELS))
            yield ScratchWindow(
                rng.choice((1, 1, 2)),
                image,
                channels[0],
                (result[0], result[1]),
                channels[1],
                kernel,
                stride,
                padding,
                dilation,
            )


def asked(window: ScratchWindow) -> dict[str, Any]:
    return {
        "input_nhwc": [window.batch, *window.image, window.in_channels],
        "output_nhwc": [window.batch, *window.result, window.out_channels],
        "padding_hw": list(window.padding),
        "stride_hw": list(window.stride),
        "dilation_hw": list(window.dilation),
    }


@pytest.mark.parametrize("isa", OF_CORES)
def test_conv2d(library: Any, isa: Isa) -> None:
    for window in windows(1):
        weights = [window.out_channels, *window.kernel, window.in_channels]
        wanted = library.convolve_wrapper_buffer_size(
            backend(library, isa), library.DataType.A8W8, filter_nhwc=weights, **asked(window)
        )
        assert scratch.conv2d_scratch_bytes(window, isa) == wanted, window


@pytest.mark.parametrize("isa", OF_CORES)
def test_depthwise_conv2d(library: Any, isa: Isa) -> None:
    rng = random.Random(2)
    for window in windows(2):
        multiplier = rng.choice((1, 1, 2, 3, 5, 9))
        out = window.in_channels * multiplier
        window = ScratchWindow(
            1,
            window.image,
            window.in_channels,
            window.result,
            out,
            window.kernel,
            window.stride,
            window.padding,
            window.dilation,
        )
        wanted = library.depthwise_conv_wrapper_buffer_size(
            backend(library, isa),
            library.DataType.A8W8,
            filter_nhwc=[out, *window.kernel, 1],
            ch_mult=multiplier,
            **asked(window),
        )
        assert scratch.depthwise_conv2d_scratch_bytes(window, isa) == wanted, window


@pytest.mark.parametrize("isa", OF_CORES)
def test_transpose_conv2d(library: Any, isa: Isa) -> None:
    rng = random.Random(3)
    for _ in range(CASES):
        image, kernel, stride = (
            (rng.choice(c), rng.choice(c)) for c in ((1, 3, 5, 8), (1, 2, 3, 5), (1, 2, 3))
        )
        result = tuple((size - 1) * s + k for size, s, k in zip(image, stride, kernel, strict=True))
        window = ScratchWindow(
            1, image, rng.choice(CHANNELS), (result[0], result[1]), rng.choice(CHANNELS), kernel, stride
        )
        weights = [window.out_channels, *kernel, window.in_channels]
        words = {**asked(window), "filter_nhwc": weights, "padding_offsets_hw": [0, 0]}
        first = library.transpose_conv_buffer_size(backend(library, isa), library.DataType.A8W8, **words)
        del words["output_nhwc"]
        second = library.transpose_conv_reverse_conv_buffer_size(
            backend(library, isa), library.DataType.A8W8, **words
        )
        assert scratch.transpose_conv2d_scratch_bytes(window, isa) == (first, second), window


@pytest.mark.parametrize("isa", OF_CORES)
def test_pool_and_matmul(library: Any, isa: Isa) -> None:
    for channels in CHANNELS:
        wanted = library.avgpool_buffer_size(
            backend(library, isa), library.DataType.A8W8, dim_dst_width=3, ch_src=channels
        )
        assert scratch.avg_pool2d_scratch_bytes(channels, isa) == wanted
        rows = library.fully_connected_buffer_size(
            backend(library, isa), library.DataType.A8W8, filter_nhwc=[5, -1, -1, channels]
        )
        assert scratch.batch_matmul_scratch_bytes(channels, isa) == rows
