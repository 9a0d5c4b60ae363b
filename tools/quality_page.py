# SPDX-License-Identifier: Apache-2.0
"""docs/quality.md, from the recorded figures: benchmarks/quality.json."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
RECORD = ROOT / "benchmarks" / "quality.json"
Table = Callable[[list[str], list[list[str]]], str]
MARGIN, TRAINED_MARGIN = 1.0, 0.0
"""Decibels by which the best of the others may be ahead, of networks with random and with trained weights."""
LEAST_OF_STATES = 25.0
"""Decibels that a model which remembers reaches at least."""
TRAINED_NAME = ", trained"
CLASSES_MARGIN = 2 / 60
"""The part of the samples by which the best of the others may agree with float more often."""
PRECISION_RECORD = ROOT / "benchmarks" / "precision.json"
PRECISIONS: dict[str, dict[str, str]] = {
    "int8": {},
    "mixed": {"min_quality": "35dB"},
    "int16": {"precision": "int16"},
    "nearest": {"precision": "int16", "weight_rounding": "nearest"},
}
"""Ways to compile → their options."""
BOUNDED = {"max_time": "+29%"}
"""The options of networks that miss the goal with those of `mixed`: time is estimated to 1 %."""
WAYS = {"ours": "ours", "cortex_m": "Cortex-M", "xnnpack": "XNNPACK", "plain": "plain"}

INTRO = """# Quality of quantization

How near the outputs of int8 programs are to those of their float models: signal to noise in decibels, 6 dB are one bit. Ours beside three others on the same data:

- **ours**: what `pillion.compile(net, x, target="cortex-m55", calibrate=data)` answers, all of it in integers;
- **Cortex-M**: torchao's flow with the quantizer for Cortex-M that comes with ExecuTorch, simulated by PyTorch. What it does not annotate computes in float;
- **XNNPACK**: torchao's flow with the quantizer for XNNPACK that comes with ExecuTorch, a scale for each channel of weights, simulated by PyTorch.
  What it does not annotate (softmax, GELU, batch norms that stand alone, products of matrices) computes in float;
- **plain**: layers with int8 weights (a scale for each output) that read and make int8 tensors (one scale); all else computes in float.

The gate is ours ≥ the best of the others (- 1 dB with random weights), and the class of the float model as often as the best, but for two of 60 samples. Networks outside it are named
[below](#below), with the reason. `python benchmarks/quality.py` measures all again and fails where a network does not pass; `--update` records.
"""

TRAINED = """## Trained networks

Calibrated with 16 inputs, judged by up to 60 others. The examples are trained by their own `train.py`, the digits by `examples/digits`. Machines (autoencoder), persons (MobileNetV1),
objects (ResNet8) and words (DS-CNN) are those of MLPerf Tiny without the softmax at the end: `--trained FOLDER` names their float weights. Machines see the recorded log-mels of that benchmark,
persons and objects squares cut out of three photos, which are not what they were trained on, and words one recorded word, moved, louder or quieter, with noise. Behind the decibels: in how many of 100 samples the largest score is that of float.
"""

RANDOM = """## Random weights

The zoo, the examples, `benchmarks/quality_nets.py` and `benchmarks/quality_spectra.py`, with weights drawn at random and norms set up on data, calibrated with 8 inputs and judged by 6 others.
They say how carefully is rounded, not how accurate a trained model will be: `pillion eval` and `pillion compare` say that of yours. Recurrences are cells of linear layers
in a loop over 50 steps, with gates that remember long; plain keeps their cell states in float. Rows without a figure of Cortex-M were measured with the biases of the
float model (`--no-correct-biases`).
"""

STATES = """## States

Models that remember, over 240 steps: three signals calibrate, one after the other, and three others judge, each from the first state on. Behind the decibels of all steps: those of the
last 24. The others quantize one step, whose states are inputs and outputs. Plain keeps states in float, so the gate compares ours with Cortex-M and XNNPACK, and demands 25 dB; models below plain
are named. Calibrated with one signal, the Kalman filter has 18.4 dB: its states leave the range of that signal. A way without a figure rounds nothing in that model. Weights are drawn at random.
"""

SIXTEEN_BITS = """## Sixteen bits

Programs whose tensors have 8 bits, 16 bits where [35 dB need them](guide/precision.md#sixteen-bits), and 16 bits wherever ops have such forms; weights have 8 bits in all, and are [rounded for the samples](guide/precision.md#rounded-weights) that calibrate beside 16-bit tensors. The last columns are 16 bits
everywhere on a Cortex-M33, and with the nearest weights.
Calibrated with 32 inputs, of which each quarter judges the choice for programs that the others calibrate. Decibels are those with other samples, which the choice has not seen (its quality is a lower bound);
tensors with 16 bits; instructions on an emulated Cortex-M55, in parts of those in 8 bits. Where 35 dB are refused, the figures are those of the quality that the error names, in brackets, or of 16 bits everywhere if it names none.
"""

WHERE = """## What made the difference

Where noise comes from was found by rounding one tensor at a time:

| network | before | now | why |
|---|---|---|---|
| mobilenet_v1_025 | 3.9 | 11.9 | ranges of all that was seen spend levels on a few values: `--ranges auto` |
| mobilenet_v3_small | 7.9 | 12.5 | the same, and the levels below -3 before each hard-swish |
| resnet8 | 23.2 | 24.2 | `--ranges auto` |
| transformer | 35.1 | 36.0 | the levels far below zero before GELU |
| `vit_tiny` of timm, 64 x 64 pixels | 10.8 | 27.2 | [sums of 16 bits between norms](guide/quantization.md#sums-between-norms): plain has 27.5 |
| `test_vit` of timm | 2.0 | 27.8 | the same: plain has 24.0 |
| vision transformer | 20.0 | 29.1 | a class token is [added with the positions](guide/quantization.md#what-is-joined), not joined in the steps of patches |
| partial blocks | 21.8 | 29.5 | a sum keeps its steps beside [what it is joined with](guide/quantization.md#what-is-joined) |
| lstm, gru and minGRU of 50 steps | 30.4, 30.7, 28.2 | 37.1, 36.4, 39.3 | [states and what changes them have 16 bits](guide/sequences.md#what-int8-does-to-it), with room for twice their range: plain has 37.1, 32.0 and 39.8 |
| norms behind sums | 20.5 | 29.3 | sums of 16 bits that [layers read in 8](guide/quantization.md#sums-between-norms) |
| log power | 4.9 | 28.0 | squares are [added up in 32 bits](guide/quantization.md#power-and-magnitude) |
| digits, small | 33.1 | 41.4 | [results with few values have room](guide/quantization.md#results-with-few-values) beyond what eight inputs show |
| transformer, trained | 24.4 | 30.8 | the same for the means of words in front of the last layer: 16 inputs calibrate |
| Kalman filter, 240 steps | 32.7 | 49.5 | the same for what its states are computed from |
| attention whose scores reach ± 100 | 21.9 | 23.7 | [scores without shares](guide/quantization.md#softmax) are cut off: plain has 24.1 |
| soft-argmax over both axes | 20.8 | 27.6 | [weighted sums are layers](guide/quantization.md#weighted-sums): plain, whose answers are not rounded, has 34.9 |

Softmaxes are another cause: [attention and soft-argmax](guide/quantization.md#softmax) gain 2 to 21 dB by steps of their own. Files for other runtimes (`.pte`,
`.tflite`) and chips with an NPU keep steps of 1/256, and what these cost.
"""

BELOW = """## Below

Ours rounds every tensor, since the device computes in integers from end to end; the others leave parts in float.
"""

REASONS: dict[str, str] = {
    "soft-argmax": "of the six inputs that judge, two have larger coordinates, or a sharper peak, than the eight that calibrate: these are cut off, and plain, whose answers and shares are not rounded, has them",
    "ds_cnn": "biases that eight inputs correct do not fit the six that judge: 24.4 dB without the correction; trained, ours is the best",
    "linear_bn": "results get room for larger numbers than calibration saw, which the six inputs that judge do not have: 39.7 dB without it",
    "transformer": "the same: 36.0 dB without it; the trained one gains 6.6 dB",
    "Kalman filter, 240 steps": "the input has 8 bits: 56.1 dB with an input that is not rounded; plain rounds layers' operands alone, not the difference of input and position",
    "lstm cell, 240 steps": "the next hidden state, which is the output, has 8 bits: 43.1 dB with it not rounded; plain leaves it in float",
    "gru cell, 240 steps": "the new value's tanh has 8 bits: 42.6 dB with it not rounded, 43.2 with the layer in front of it not rounded; plain rounds that layer alone",
    "state space, 240 steps": "the output has 8 bits: 40.6 dB with it not rounded, 42.1 with weights alone rounded; plain leaves the output in float",
    "ConvLSTM, 240 steps": "the new value's tanh has 8 bits: on one signal 39.6 dB with it not rounded instead of 36.8, at most 38.7 with any other tensor; plain leaves it in float",
}
"""Why recorded networks are outside the gate, or below plain."""

GOAL_DB, GOAL_RATIO = 35.0, 1.3
MISSED: dict[str, str] = {
    "deep_autoencoder": "the layers of 640 inputs and of 640 outputs take 0.34 times more with 16 bits; if either reads 8 bits, all others in 16 reach 24.2 and 26.5 of 26.8 dB",
    "mobilenet_v3_small": "nearly all tensors are needed for 26.4 dB, and its 1x1 layers alone take 0.31 times more with 16 bits, at 14 instructions for 64 products",
    "yolo_two_heads": "the input and five tensors of the stem are worth 1.4 to 4.9 dB each, and alone take 0.31 times more with 16 bits",
}
"""Why recorded networks miss the goal of 16 bits."""


def passes(name: str, figures: dict[str, Any]) -> bool:
    """Whether a network's figures are within the gate. Models that remember are compared with the ways that round
    their states: plain keeps these in float."""
    margin = TRAINED_MARGIN if name.endswith(TRAINED_NAME) else MARGIN
    agree, end = figures.get("same_class"), figures.get("at_end")
    if end is not None:
        return all(
            least["ours"] >= LEAST_OF_STATES
            and _is_near_best({way: least[way] for way in least if way != "plain"}, margin)
            for least in ({way: figures[way] for way in WAYS if way in figures}, end)
        )
    return _is_near_best(figures, margin) and (agree is None or _is_near_best(agree, CLASSES_MARGIN + 1e-3))


def needs_reason(name: str, figures: dict[str, Any]) -> bool:
    """Whether a network is outside the gate, or below plain although plain is not its gate."""
    return not passes(name, figures) or ("at_end" in figures and not _is_near_best(figures, MARGIN))


def _is_near_best(figures: dict[str, float], margin: float) -> bool:
    return bool(figures["ours"] >= max(figures[way] for way in WAYS if way in figures) - margin)


def quality_page(table: Table) -> str:
    """The whole page."""
    record: dict[str, Any] = json.loads(RECORD.read_text("utf-8"))
    trained = {name: figures for name, figures in record.items() if name.endswith(TRAINED_NAME)}
    states = {name: figures for name, figures in record.items() if "at_end" in figures}
    others = {name: figures for name, figures in record.items() if name not in trained.keys() | states}
    below = [[name, REASONS[name]] for name, figures in record.items() if needs_reason(name, figures)]
    page = f"{INTRO}\n{TRAINED}\n{_figures(table, trained)}\n{RANDOM}\n{_figures(table, others)}\n"
    page += f"{SIXTEEN_BITS}\n{_precisions(table)}\n{_goals(table)}\n"
    page += f"{STATES}\n{_figures(table, states)}\n{WHERE}"
    return f"{page}\n{BELOW}\n{table(['network', 'why'], below)}" if below else page


def _precisions(table: Table) -> str:
    """The table of programs in 8, in as many as needed, and in 16 bits."""
    record: dict[str, Any] = json.loads(PRECISION_RECORD.read_text("utf-8"))
    rows = [
        [
            name,
            f"{one['int8']['db']:.1f}",
            *(against_int8(one[way], one["int8"]) for way in ("mixed", "int16")),
            f"{on_m33(one):.2f} ×",
            f"{one['nearest']['db']:.1f}",
        ]
        for name, one in record.items()
    ]
    return table(
        [
            "network",
            "8 bits",
            "`--min-quality 35dB`",
            "`--precision int16`",
            "on Cortex-M33",
            "nearest weights",
        ],
        rows,
    )


def _goals(table: Table) -> str:
    """Says how many networks reach the goal of 16 bits, and why others do not."""
    record: dict[str, Any] = json.loads(PRECISION_RECORD.read_text("utf-8"))
    count = sum(map(reaches_goal, record.values()))
    on_other = sum(on_m33(one) <= GOAL_RATIO for one in record.values())
    others = [
        [name, against_int8(one["bounded"], one["int8"]), MISSED.get(name, "reaches it")]
        for name, one in record.items()
        if "bounded" in one
    ]
    return (
        f"{count} of {len(record)} networks reach the goal on a Cortex-M55: 35 dB, or what 16 bits everywhere have with the nearest weights less 1 dB, "
        f"for at most 1.3 times the instructions of 8 bits. On a Cortex-M33, 16 bits everywhere take no more than that in {on_other} of them. "
        "Those whose program of `--min-quality` does not on a Cortex-M55:\n\n"
        + table(["network", f"`--max-time {BOUNDED['max_time']}`", "the goal"], others)
    )


def on_m33(one: dict[str, Any]) -> float:
    """Returns the instructions of 16 bits everywhere on a Cortex-M33, in parts of those of 8 bits."""
    return float(one["int16"]["on_m33"] / one["int8"]["on_m33"])


def reaches_goal(one: dict[str, Any]) -> bool:
    """Whether a program of a network has the quality of the goal for the instructions of the goal."""
    return any(
        one[way]["db"] >= min(GOAL_DB, one["nearest"]["db"] - 1)
        and one[way]["instructions"] <= GOAL_RATIO * one["int8"]["instructions"]
        for way in ("mixed", "bounded")
        if way in one
    )


def against_int8(one: dict[str, Any], narrow: dict[str, Any]) -> str:
    """Returns the figures of a network in another precision, and the quality that it was compiled for if 35 dB were refused."""
    instead = (
        f" (at {one['min_quality']})" if "min_quality" in one else " (refused)" if "refused" in one else ""
    )
    ratio = one["instructions"] / narrow["instructions"]
    return f"{one['db']:.1f} · {one['wide']} of {one['of']} · {ratio:.2f} ×{instead}"


def _figures(table: Table, record: dict[str, Any]) -> str:
    rows = [
        [
            name.removesuffix(TRAINED_NAME),
            *(_figure(figures, way) for way in WAYS),
            "yes" if passes(name, figures) else "no",
        ]
        for name, figures in record.items()
    ]
    return table(["network", *WAYS.values(), "within the gate"], rows)


def _figure(figures: dict[str, Any], way: str) -> str:
    if way not in figures:
        return "–"
    agree, end = figures.get("same_class", {}).get(way), figures.get("at_end", {}).get(way)
    shown = f"{figures[way]:.1f}"
    shown += f" · {100 * agree:.0f}" if agree is not None else ""
    return shown + (f" · {end:.1f}" if end is not None else "")
