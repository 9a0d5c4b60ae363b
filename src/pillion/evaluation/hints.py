# SPDX-License-Identifier: Apache-2.0
"""What would help a layer, by what its noise is made of. Options of Pillion are named as they are typed; all else is said to be a change of the model."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pillion.data.sample import Array
from pillion.ir.op import Op
from pillion.ir.types import Value

PARTS = (0.2, 0.35, 0.5, 0.65, 0.8)
CLIPS = ((1.0, 1.0), *((p, 1.0) for p in PARTS), *((1.0, p) for p in PARTS), *((p, p) for p in PARTS))
"""Parts of the lower and of the upper end of a tensor's range that are tried in its place, all of it first."""
MOSTLY = 0.5
CLEARLY_DB = 3.0
"""What a change must bring to the tensor's own signal to noise to be named."""
UNEVEN = 16.0
"""How many times a usual channel the largest one is, where channels are called uneven."""
TRAIN = "pillion train, or pillion.prepare_qat: train the model with int8 in the loop"


@dataclass(frozen=True)
class Hint:
    """The reason of a layer's noise, and what would help: an option, or a change of the model."""

    reason: str
    help: str
    is_option: bool
    """Whether Pillion has it; else the model has to be changed."""


@dataclass
class Tensor:
    """What is known of a tensor and its noise: sums over samples."""

    noise: float = 0.0
    """The layer's."""
    rounding: float = 0.0
    """The part that would be left if only the result were rounded, saturated values included."""
    saturated: float = 0.0
    """The part of that from values beyond the range."""
    low: float = np.inf
    high: float = -np.inf
    clipped: Array | None = None
    """The noise of rounding with a part of the range, for each of `CLIPS`."""
    channels: Array | None = None
    """The largest magnitude in each channel."""

    def add(self, real: Array, alone: Array, rounded: Array, value: Value) -> None:
        """Takes in one sample: what float gives, what the layer gives, and what float gives rounded."""
        low, high = _range(value)
        error = (rounded - real) ** 2
        self.noise += float(((alone - real) ** 2).sum())
        self.rounding += float(error.sum())
        beyond = (real < low - value.scale / 2) | (real > high + value.scale / 2)
        self.saturated += float(error[beyond].sum())
        self.low, self.high = min(self.low, float(real.min())), max(self.high, float(real.max()))
        noises = np.array([_noise_in(real, below * low, above * high) for below, above in CLIPS])
        self.clipped = noises if self.clipped is None else self.clipped + noises
        if real.ndim > 1:
            magnitudes = np.abs(real).reshape(-1, real.shape[-1]).max(axis=0)
            known = self.channels
            self.channels = magnitudes if known is None else np.maximum(known, magnitudes)


def _range(value: Value) -> tuple[float, float]:
    """The smallest and the largest number that a tensor holds."""
    low, high = value.dtype.bounds
    return (low - value.zero_point) * value.scale, (high - value.zero_point) * value.scale


def _noise_in(real: Array, low: float, high: float) -> float:
    """The noise of rounding to 256 levels of a range."""
    step = (high - low) / 255
    levels = np.rint(real / step)
    error = np.clip(levels, round(low / step), round(high / step)) * step - real
    return float(np.einsum("i,i", error.ravel(), error.ravel()))


def hint_of(op: Op, value: Value, tensor: Tensor, shares_with: str = "") -> Hint:
    """Gives the reason that weighs most. A tensor may share its scale with others, which come together in the op of that name."""
    if not tensor.noise:
        return Hint("nothing is lost", "", True)
    low, high = _range(value)
    if tensor.saturated > MOSTLY * tensor.noise:
        return Hint(
            f"values from {tensor.low:.3g} to {tensor.high:.3g}, calibrated for {low:.3g} to {high:.3g}",
            "--calibrate with data that reaches them",
            True,
        )
    if tensor.rounding > MOSTLY * tensor.noise:
        return _of_range(op, tensor, low, high, shares_with)
    return Hint("the rounding of its weights" if op.macs else "its arithmetic in integers", TRAIN, True)


def _of_range(op: Op, tensor: Tensor, low: float, high: float, shares_with: str) -> Hint:
    """Where most noise is that of 256 levels: whether they lie where the values are."""
    used = (max(tensor.high, 0) - min(tensor.low, 0)) / (high - low)
    if used < MOSTLY:
        return _unused(used, shares_with)
    assert tensor.clipped is not None
    best = int(np.argmin(tensor.clipped))
    gain = 10 * np.log10(max(tensor.clipped[0], 1e-300) / max(tensor.clipped[best], 1e-300))
    if gain > CLEARLY_DB:
        low, high = CLIPS[best][0] * low, CLIPS[best][1] * high
        return Hint(
            f"few large values take the range: {low:.3g} to {high:.3g} would give the tensor {gain:.1f} dB more",
            f"change the model: clamp there, torch.clamp(x, {low:.3g}, {high:.3g}), and train on",
            False,
        )
    spread = _spread(tensor)
    if spread > UNEVEN:
        return Hint(
            f"one channel is {spread:.0f} times as large as a usual one, and all share a scale",
            "change the model: equalize, dividing that channel's weights here and multiplying them in the layers behind"
            if op.macs
            else "change the model: bring the channels to one size before this",
            False,
        )
    return Hint("256 levels, well used", TRAIN, True)


def _unused(used: float, shares_with: str) -> Hint:
    reason = f"{used:.0%} of its 256 levels are used"
    if shares_with:
        return Hint(
            f"{reason}: it shares a scale with what comes together in `{shares_with}`",
            "change the model: keep it apart, or scale it to the size of the others before they come together",
            False,
        )
    return Hint(f"{reason}: it was calibrated for larger values", "--calibrate with data like this", True)


def _spread(tensor: Tensor) -> float:
    channels = tensor.channels
    if channels is None or len(channels) < 2:
        return 1.0
    usual = float(np.median(channels))
    return float(channels.max()) / usual if usual > 0 else 1.0
