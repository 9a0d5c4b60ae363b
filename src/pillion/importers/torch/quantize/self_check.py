# SPDX-License-Identifier: Apache-2.0
"""Compares the quantized model with the float model on calibration samples and warns of large losses."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.fx import GraphModule, Node

from pillion.errors import warn
from pillion.importers.torch.fx_nodes import operator_name, source_line
from pillion.importers.torch.quantize.bias_correction import NodeByNodeRun, Outputs
from pillion.importers.torch.quantize.quantized_program import DEQUANTIZE, QUANTIZE

LEAST_DB = 15.0
"""Signal-to-noise ratio below which an output counts as lost."""
MOST_CHANGED = 0.05
"""Tolerated fraction of samples that change their class; one of few samples."""
GOOD_DB = 40.0
"""Ratio above which noise is ignored; every int8 tensor has some."""
SAMPLES = 4
"""Samples used to locate the loss."""
IN_8_BITS = "--min-quality 30dB takes 16 bits where they count, --precision int16 everywhere; "
HELP = "`pillion compare` with data shows each layer; more typical calibration data, --ranges, --equalize or training with rounding (`pillion train`) may help"


def warn_of_loss(
    rounded: GraphModule,
    in_float: GraphModule,
    samples: Sequence[tuple[Tensor, ...]],
    answers: tuple[Outputs, Outputs],
    outputs: int,
    *,
    has_16_bits: bool = False,
) -> None:
    """Warns if quantization drowns an output in noise or changes classes. `answers` are the outputs of the float
    and the quantized model; only the first `outputs` are judged, the rest are states."""
    real, quantized = answers
    columns = list(zip(zip(*real, strict=True), zip(*quantized, strict=True), strict=True))[:outputs]
    for number, (expected, got) in enumerate(columns):
        ratio = signal_to_noise_db(expected, got)
        changed = _changed_classes(expected, got, samples)
        lost = []
        if ratio is not None and ratio < LEAST_DB:
            lost.append(f"leaves {ratio:.1f} dB of output {number}")
        if changed > max(1, MOST_CHANGED * len(expected)):
            lost.append(
                f"changes the largest score of output {number} in {changed} of {len(expected)} samples"
            )
        if lost:
            where = _describe_worst_tensor(rounded, in_float, samples[:SAMPLES])
            warn(
                f"quantization {' and '.join(lost)} ({len(expected)} calibration samples against float). {where}What helps: {'' if has_16_bits else IN_8_BITS}{HELP}"
            )


def signal_to_noise_db(wanted: Sequence[Tensor], got: Sequence[Tensor]) -> float | None:
    """Returns the signal-to-noise ratio in decibels; None without signal or noise, or for integers."""
    if not all(x.is_floating_point() and bool(torch.isfinite(x).all()) for x in (*wanted, *got)):
        return None
    signal = sum(float(x.double().square().sum()) for x in wanted)
    noise = sum(float((x.double() - y.double()).square().sum()) for x, y in zip(wanted, got, strict=True))
    return 10 * float(torch.log10(torch.tensor(signal / noise))) if signal and noise else None


def _changed_classes(
    expected: Sequence[Tensor], got: Sequence[Tensor], samples: Sequence[tuple[Tensor, ...]]
) -> int:
    """Returns the number of samples with another largest score; 0 if the output is no row of scores."""
    first = expected[0]
    is_scores = first.is_floating_point() and first.dim() == 2 and first.shape[0] == 1 and first.shape[1] > 1
    if not is_scores or any(x.shape == first.shape for x in samples[0]):
        return 0
    return sum(int(x.argmax()) != int(y.argmax()) for x, y in zip(expected, got, strict=True))


def _describe_worst_tensor(
    rounded: GraphModule, in_float: GraphModule, samples: Sequence[tuple[Tensor, ...]]
) -> str:
    """Describes the tensor at which the signal-to-noise ratio drops most below its operands'."""
    real, by_name = NodeByNodeRun(in_float, samples), {node.name: node for node in in_float.graph.nodes}
    walk, ratios = NodeByNodeRun(rounded, samples), dict[Node, float]()
    worst, most = None, 0.0
    with torch.no_grad():
        for item in real.order:
            real.compute(item)
        for item in walk.order:
            walk.compute(item)
            for node in [item] if isinstance(item, Node) else item.ends:
                counterpart = by_name.get(_float_node_name(node))
                ratio = (
                    _tensor_signal_to_noise(real.values.get(counterpart), walk.values[node])
                    if counterpart is not None
                    else None
                )
                before = min((ratios.get(n, GOOD_DB) for n in node.all_input_nodes), default=GOOD_DB)
                ratios[node] = before if ratio is None else min(ratio, GOOD_DB)
                if before - ratios[node] > most:
                    worst, most = (node, before, ratios[node]), before - ratios[node]
            walk.forget(item)
    return _describe_loss(*worst) if worst else ""


def _tensor_signal_to_noise(real: Sequence[object] | None, quantized: Sequence[object]) -> float | None:
    both = zip(real or (), quantized, strict=False)
    pairs = [
        (x, y) for x, y in both if isinstance(x, Tensor) and isinstance(y, Tensor) and x.shape == y.shape
    ]
    return signal_to_noise_db(*zip(*pairs, strict=True)) if pairs else None


def _float_counterpart(node: Node) -> Node:
    """Returns the float node that a quantized node corresponds to."""
    while node.target in DEQUANTIZE | QUANTIZE and isinstance(node.args[0], Node):
        node = node.args[0]
    return node


def _float_node_name(node: Node) -> str:
    return "" if node.target in QUANTIZE else _float_counterpart(node).name


def _describe_loss(node: Node, before: float, after: float) -> str:
    counterpart = _float_counterpart(node)
    line = source_line(counterpart)
    what = f"input `{counterpart.name}`" if counterpart.op == "placeholder" else operator_name(counterpart)
    how = "its result is rounded to int8" if node is not counterpart else "it is computed"
    most = "40 dB or more" if before >= GOOD_DB else f"{before:.1f} dB"
    return f"Most is lost where {how}: {what}{f' ({line})' if line else ''}, {most} before, {after:.1f} dB behind. "
