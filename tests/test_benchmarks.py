# SPDX-License-Identifier: Apache-2.0
"""The recorded figures keep their promises, and a figure that gets worse is noticed."""

from __future__ import annotations

import copy
import importlib.util
import json
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

BENCHMARKS = Path(__file__).resolve().parents[1] / "benchmarks"
RESULTS: dict[str, Any] = json.loads((BENCHMARKS / "results.json").read_text("utf-8"))
PEERS: dict[str, Any] = json.loads((BENCHMARKS / "peers.json").read_text("utf-8"))
MEASURED = [(label, core) for label, cores in RESULTS["models"].items() for core in cores]
MOST, MOST_OF_AUTOENCODER_ON_M33 = 0.36, 0.44
MOST_CODE, MOST_CODE_OF_LARGE = 13 * 1024, 16 * 1024
MOST_OF_DS_CNN_ON_M3 = 7_000_000
LARGE = ("mobilenet_v2", "mobilenet_v3_small", "mobilenet_v2@96")
MOST_STACK = 1200
LEAST_SPEED = 0.8
MOST_BYTES_OF_CHANNEL = 14
"""Of bias, multiplier, shift, padding and tables."""
WITH_FEWER_PRODUCTS, MOST_BYTES_PREPARED, MOST_CODE_OF_FEWER = "conv2d_winograd_dsp", 6 * 1024, 1024
"""The kernel whose weights of 3x3 are held prepared; what that takes beside the weights for each such layer, and its code."""

MOST_PROCESSOR_SECONDS = {"dense": 12, "chain": 30, "chain_tflite": 10, "chain_tflite_npu": 10, "wide": 15}
"""Of compiling nets that are large in one way each."""
MOST_MB = 1000
"""Of any of these, most of which is PyTorch with its modules and the float weights."""


def compare() -> ModuleType:
    spec = importlib.util.spec_from_file_location("compare", BENCHMARKS / "compare.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(("label", "core"), MEASURED)
def test_a_third_of_the_peer_s_instructions(label: str, core: str) -> None:
    ours, theirs = RESULTS["models"][label][core], PEERS["executorch"][label][core]
    most = MOST_OF_AUTOENCODER_ON_M33 if (label, core) == ("deep_autoencoder", "cortex-m33") else MOST
    assert ours["instructions"] <= most * theirs["instructions"]


@pytest.mark.parametrize(("label", "core"), MEASURED)
def test_small_code_and_stack(label: str, core: str) -> None:
    figures = RESULTS["models"][label][core]
    most = MOST_CODE_OF_LARGE if label in LARGE else MOST_CODE
    assert figures["code_bytes"] <= most + MOST_CODE_OF_FEWER * min(1, prepared(figures))
    assert figures["stack_bytes"] <= MOST_STACK


def prepared(figures: dict[str, Any]) -> int:
    """The layers whose weights are held prepared."""
    return sum(op["kernel"] == WITH_FEWER_PRODUCTS for op in figures["ops"])


@pytest.mark.parametrize(("label", "core"), MEASURED)
def test_constants_are_hardly_more_than_weights(label: str, core: str) -> None:
    figures = RESULTS["models"][label][core]
    most = figures["weights"] + MOST_BYTES_OF_CHANNEL * figures["output_channels"]
    assert figures["constant_bytes"] <= most + MOST_BYTES_PREPARED * prepared(figures)


def test_cores_without_simd() -> None:
    figures = RESULTS["scalar"]
    assert figures["ds_cnn"]["cortex-m3"]["instructions"] <= MOST_OF_DS_CNN_ON_M3
    for cores in figures.values():
        assert cores["cortex-m3"]["instructions"] < cores["cortex-m0"]["instructions"]
        assert all(f["code_bytes"] <= MOST_CODE and f["stack_bytes"] <= MOST_STACK for f in cores.values())


LEAST_GAINS = {
    "ds_cnn, stride 2": ("--hop 2", 9),
    "ds_cnn, stride 1": ("--hop 1", 18),
    "dilated": ("--hop 1", 15),
}
"""How many times less a run of a stream takes than one over the whole window."""
MOST_SHARES = {"cortex-m55": 1.15, "cortex-m33": 1.4}
"""Of a causal net, in parts of what a frame takes of a run over all of them."""


@pytest.mark.parametrize("core", MOST_SHARES)
def test_streams_take_a_share_of_the_windows_instructions(core: str) -> None:
    for label, (way, least) in LEAST_GAINS.items():
        figures = RESULTS["streams"][label][core]
        assert figures["whole"]["instructions"] >= least * figures[way]["instructions"]
        assert figures[way]["arena_bytes"] < figures["whole"]["arena_bytes"]
    causal = RESULTS["streams"]["causal"][core]
    of_a_frame = {way: one["mean_instructions"] / one["frames"] for way, one in causal.items()}
    assert max(of_a_frame.values()) <= MOST_SHARES[core] * of_a_frame["whole"]


def test_a_stream_that_waits_for_frames_takes_less_on_average() -> None:
    figures = RESULTS["streams"]["ds_cnn, stride 2"]["cortex-m55"]["--hop 1"]
    assert figures["mean_instructions"] * 2 == pytest.approx(figures["instructions"], abs=1)


def test_figures_are_of_all_ops() -> None:
    for cores in RESULTS["models"].values():
        for figures in cores.values():
            assert sum(op["instructions"] for op in figures["ops"]) == figures["instructions"]
            assert sum(op["macs"] for op in figures["ops"]) == figures["macs"]


def test_benchmark_comparison_accepts_equal_results() -> None:
    assert compare().worse(RESULTS, RESULTS) == []


@pytest.mark.parametrize(("factor", "noticed"), [(1.005, False), (1.02, True), (0.5, False)])
@pytest.mark.parametrize("part", ["models", "size", "micro"])
def test_worse_figures_are_noticed(part: str, factor: float, noticed: bool) -> None:
    now = copy.deepcopy(RESULTS)
    figures = (
        now[part]["cortex-m55"]["add 48x48x24"] if part == "micro" else now[part]["ds_cnn"]["cortex-m55"]
    )
    figures["instructions"] = int(factor * figures["instructions"])
    assert len(compare().worse(RESULTS, now)) == noticed


@pytest.mark.parametrize("net", MOST_PROCESSOR_SECONDS)
def test_large_nets_compile_in_time_and_memory(net: str) -> None:
    figures = RESULTS["seconds"][net]
    assert figures["processors"] <= MOST_PROCESSOR_SECONDS[net]
    assert figures["peak_mb"] <= MOST_MB


def test_as_fast_as_litert_on_a_computer() -> None:
    """By the kernels for vectors: MobileNetV2 takes at most 1 / 0.8 of the time of LiteRT's default kernels."""
    figures = RESULTS["host"]["models"]["mobilenet_v2"]
    assert figures["native_ms"] <= figures["litert_default_ms"] / LEAST_SPEED
