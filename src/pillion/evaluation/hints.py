# SPDX-License-Identifier: Apache-2.0
"""Hints for noisy layers, from the composition of their noise: an option of Pillion, or a change of the model."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pillion.data.sample import Array
from pillion.ir.op import Op
from pillion.ir.types import Value

PARTS = (0.2, 0.35, 0.5, 0.65, 0.8)
CLIPS = ((1.0, 1.0), *((p, 1.0) for p in PARTS), *((1.0, p) for p in PARTS), *((p, p) for p in PARTS))
"""Fractions of a tensor's lower and upper range that are tried; the whole range first."""
DOMINANT_SHARE = 0.5
LEAST_GAIN_DB = 3.0
"""Least gain in the tensor's signal-to-noise ratio for a hint."""
UNEVEN_CHANNEL_RATIO = 16.0
"""Ratio of the largest to a typical channel from which channels count as uneven."""
TRAIN = "pillion train, or pillion.prepare_qat: train the model with int8 in the loop"


@dataclass(frozen=True)
class Hint:
    """The reason for a layer's noise, and a remedy."""

    reason: str
    help: str
    is_option: bool
    """Whether the remedy is an option; otherwise the model must change."""


@dataclass
class NoisyTensor:
    """Noise statistics of a tensor, summed over samples."""

    noise: float = 0.0
    """Noise of the layer."""
    rounding: float = 0.0
    """Noise from rounding the exact result, saturation included."""
    saturated: float = 0.0
    """Part of `rounding` from values beyond the range."""
    low: float = np.inf
    high: float = -np.inf
    clipped: Array | None = None
    """Rounding noise for each range in `CLIPS`."""
    channels: Array | None = None
    """Largest magnitude per channel."""

    def add(self, real: Array, alone: Array, rounded: Array, value: Value) -> None:
        """Adds one sample: the float result, the layer's result, and the float result rounded."""
        low, high = _representable_range(value)
        error = (rounded - real) ** 2
        self.noise += float(((alone - real) ** 2).sum())
        self.rounding += float(error.sum())
        beyond = (real < low - value.scale / 2) | (real > high + value.scale / 2)
        self.saturated += float(error[beyond].sum())
        self.low, self.high = min(self.low, float(real.min())), max(self.high, float(real.max()))
        noises = np.array([_rounding_noise(real, below * low, above * high) for below, above in CLIPS])
        self.clipped = noises if self.clipped is None else self.clipped + noises
        if real.ndim > 1:
            magnitudes = np.abs(real).reshape(-1, real.shape[-1]).max(axis=0)
            known = self.channels
            self.channels = magnitudes if known is None else np.maximum(known, magnitudes)


def _representable_range(value: Value) -> tuple[float, float]:
    """Returns the smallest and largest representable numbers of a tensor."""
    low, high = value.dtype.bounds
    return (low - value.zero_point) * value.scale, (high - value.zero_point) * value.scale


def _rounding_noise(real: Array, low: float, high: float) -> float:
    """Returns the noise of rounding to 256 levels of a range."""
    step = (high - low) / 255
    levels = np.rint(real / step)
    error = np.clip(levels, round(low / step), round(high / step)) * step - real
    return float(np.einsum("i,i", error.ravel(), error.ravel()))


def hint_of(op: Op, value: Value, tensor: NoisyTensor, shares_with: str = "") -> Hint:
    """Returns the hint for the dominant noise. `shares_with` names the op at which the tensor shares its scale."""
    if not tensor.noise:
        return Hint("nothing is lost", "", True)
    low, high = _representable_range(value)
    if tensor.saturated > DOMINANT_SHARE * tensor.noise:
        return Hint(
            f"values from {tensor.low:.3g} to {tensor.high:.3g}, calibrated for {low:.3g} to {high:.3g}",
            "--calibrate with data that reaches them",
            True,
        )
    if tensor.rounding > DOMINANT_SHARE * tensor.noise:
        return _range_hint(op, tensor, value, shares_with)
    return Hint("the rounding of its weights" if op.macs else "its arithmetic in integers", TRAIN, True)


def _range_hint(op: Op, tensor: NoisyTensor, value: Value, shares_with: str) -> Hint:
    """Returns the hint for rounding noise, by how well the range fits the values."""
    low, high = _representable_range(value)
    levels = f"{2 ** (8 * value.dtype.size_bytes)} levels"
    used = (max(tensor.high, 0) - min(tensor.low, 0)) / (high - low)
    if used < DOMINANT_SHARE:
        return _unused_range_hint(used, levels, shares_with)
    assert tensor.clipped is not None
    best = int(np.argmin(tensor.clipped))
    gain = 10 * np.log10(max(tensor.clipped[0], 1e-300) / max(tensor.clipped[best], 1e-300))
    if gain > LEAST_GAIN_DB:
        low, high = CLIPS[best][0] * low, CLIPS[best][1] * high
        return Hint(
            f"few large values take the range: {low:.3g} to {high:.3g} would give the tensor {gain:.1f} dB more",
            f"change the model: clamp there, torch.clamp(x, {low:.3g}, {high:.3g}), and train on",
            False,
        )
    spread = _channel_magnitude_ratio(tensor)
    if spread > UNEVEN_CHANNEL_RATIO:
        return Hint(
            f"one channel is {spread:.0f} times as large as a usual one, and all share a scale",
            "change the model: equalize, dividing that channel's weights here and multiplying them in the layers behind"
            if op.macs
            else "change the model: bring the channels to one size before this",
            False,
        )
    return Hint(f"{levels}, well used", TRAIN, True)


def _unused_range_hint(used: float, levels: str, shares_with: str) -> Hint:
    reason = f"{used:.0%} of its {levels} are used"
    if shares_with:
        return Hint(
            f"{reason}: it shares a scale with what comes together in `{shares_with}`",
            "change the model: keep it apart, or scale it to the size of the others before they come together",
            False,
        )
    return Hint(f"{reason}: it was calibrated for larger values", "--calibrate with data like this", True)


def _channel_magnitude_ratio(tensor: NoisyTensor) -> float:
    channels = tensor.channels
    if channels is None or len(channels) < 2:
        return 1.0
    median = float(np.median(channels))
    return float(channels.max()) / median if median > 0 else 1.0
