# SPDX-License-Identifier: Apache-2.0
"""The rules that turn observed ranges into the ranges of the program, in order. Decibels are examples: one network
each, with and without the rule."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from torch.fx import GraphModule

from pillion.importers.torch.quantize.bias_headroom import add_bias_headroom
from pillion.importers.torch.quantize.concat_ranges import merge_concat_ranges
from pillion.importers.torch.quantize.function_ranges import calibrate_functions
from pillion.importers.torch.quantize.headroom import add_headroom
from pillion.importers.torch.quantize.int16_states import use_int16_states
from pillion.importers.torch.quantize.int16_sums import use_int16_sums
from pillion.importers.torch.quantize.known_ranges import widen_index_ranges
from pillion.importers.torch.quantize.noise_floor import raise_noise_floor
from pillion.importers.torch.quantize.outlier_clipping import choose_ranges
from pillion.importers.torch.quantize.precision import use_int16_tensors
from pillion.importers.torch.quantize.saturation import clip_saturated_ranges
from pillion.importers.torch.quantize.small_factors import lower_factor_scales
from pillion.importers.torch.quantize.softmax_inputs import clip_softmax_inputs
from pillion.importers.torch.quantize.weight_scales import LARGEST_FACTOR, choose_weight_scales
from pillion.importers.torch.quantize.written_states import (
    StateMemory,
    share_state_ranges,
    widen_written_states,
)
from pillion.importers.torch.rewrite.clamp_masks import clamp_masks
from pillion.ir.constraints import QuantizationConstraints


@dataclass(frozen=True)
class Calibrated:
    """A graph whose observers have seen the calibration data."""

    prepared: GraphModule
    ranges: str
    constraints: QuantizationConstraints
    memory: StateMemory | None = None
    """The states of a model that writes to its buffers."""
    int16: tuple[str, ...] = ()
    """The names of tensors that the user wants in int16."""
    fits_weights: bool = False
    """Whether weights are rounded for the samples, with the scales that suit them."""


@dataclass(frozen=True)
class RangePolicy:
    """Sets ranges or formats of some tensors from the calibration data."""

    name: str
    tensors: str
    effect: str
    reason: str
    """Why, with the measured gain."""
    apply: Callable[[Calibrated], None]


def apply_policies(policies: Iterable[RangePolicy], calibrated: Calibrated) -> None:
    """Applies some rules in order."""
    for policy in policies:
        policy.apply(calibrated)


RANGES = (
    RangePolicy(
        "int16 sums",
        "sums that a norm reads, and the sums in front of them",
        "are int16 if int8 noise exceeds 37 dB below a row's variance",
        "a small row beside large ones keeps its direction: 6.9 to 19.1 dB for a class token",
        lambda c: use_int16_sums(c.prepared, c.constraints) if c.memory is None else None,
    ),
    RangePolicy(
        "clipping",
        "all observed tensors",
        "clips rare values if that saves 0.8 dB (`auto`), always (`mse`), or one in 10,000 (`percentile`)",
        "finer steps for all other values; the bound of 0.8 dB is where no net of the zoo loses",
        lambda c: choose_ranges(c.prepared, c.ranges),
    ),
    RangePolicy(
        "weight scales",
        "weights with a scale for each channel, beside 16-bit tensors",
        f"have steps up to {100 * (LARGEST_FACTOR - 1):.0f} % coarser than their largest weight needs, if these round them better",
        "few weights are often near all steps of some scale: 32.5 to 35.4 dB for depthwise layers",
        lambda c: choose_weight_scales(c.prepared) if c.fits_weights else None,
    ),
    RangePolicy(
        "function ranges",
        "results of sigmoid and tanh",
        "take the observed range if it holds both answers",
        "finer steps than those of the whole function: 44.3 to 45.0 dB",
        lambda c: calibrate_functions(c.prepared) if c.ranges == "auto" else None,
    ),
    RangePolicy(
        "headroom",
        "results of which calibration saw few values",
        "get headroom for the extremes that further samples are expected to have",
        "nothing corrects clipping: 24.4 to 30.8 dB for a trained transformer with 16 samples",
        lambda c: add_headroom(c.prepared) if c.ranges == "auto" else None,
    ),
    RangePolicy(
        "known ranges",
        "indices, and functions of them",
        "contain all possible values",
        "places that calibration did not meet are not clipped: 2.3 to 54.2 dB",
        lambda c: widen_index_ranges(c.prepared),
    ),
    RangePolicy(
        "noise floor",
        "means and sums",
        "are at least as wide as their operand's rounding noise",
        "the mean of centred data has no useful range; no kernel could follow it",
        lambda c: raise_noise_floor(c.prepared),
    ),
    RangePolicy(
        "masks",
        "constants added to scores in front of a softmax",
        "are raised to 12 below the lowest score",
        "-1e9 would leave the scores no step: no kernel could add it; 33.8 dB with the rule",
        lambda c: clamp_masks(c.prepared),
    ),
    RangePolicy(
        "softmax operands",
        "scores that softmaxes alone read",
        "end where shares vanish",
        "steps for scores that count: 31.1 to 31.9 dB",
        lambda c: clip_softmax_inputs(c.prepared),
    ),
    RangePolicy(
        "saturation",
        "operands of functions alone",
        "end where the functions are flat",
        "steps where functions change: 32.8 to 33.7 dB for a hard-swish",
        lambda c: clip_saturated_ranges(c.prepared),
    ),
    RangePolicy(
        "concatenations",
        "operands of concatenations, and these",
        "share one range if each is 2/3 of it",
        "saves one or two instructions per element for at most 3.5 dB",
        lambda c: merge_concat_ranges(c.prepared),
    ),
)
"""Rules that set ranges."""
FORMATS = (
    RangePolicy(
        "shared states",
        "buffers that forward writes to",
        "read and written values share one range",
        "integers persist from run to run: 32.2 to 43.5 dB",
        lambda c: share_state_ranges(c.prepared, c.memory) if c.memory else None,
    ),
    RangePolicy(
        "factor scales",
        "tiny constant factors of huge tensors",
        "may have smaller scales than others",
        "they would become zero: 0.6 to 35.8 dB",
        lambda c: lower_factor_scales(c.prepared),
    ),
    RangePolicy(
        "bias headroom",
        "weights of channels that are nearly zero",
        "are widened until the int32 bias fits",
        "no kernel could add a bias beyond int32; 40.8 dB with the rule",
        lambda c: add_bias_headroom(c.prepared),
    ),
    RangePolicy(
        "int16 states",
        "states of loops that add smaller changes",
        "are int16, with the changes",
        "rounding would accumulate: 23.4 to 44.6 dB after 40 steps",
        lambda c: use_int16_states(c.prepared, c.constraints) if "*" not in c.int16 else None,
    ),
    RangePolicy(
        "int16 buffers",
        "buffers that change by fewer than 16 steps per run",
        "are int16",
        "a running mean keeps up: 37.5 to 43.5 dB after 200 runs",
        lambda c: widen_written_states(c.prepared, c.constraints, c.memory) if c.memory else None,
    ),
    RangePolicy(
        "int16 tensors",
        "results that `--precision` or `--int16` names",
        "are int16, symmetric, if all ops that share their range have 16-bit forms",
        "256 times finer steps where the user wants them",
        lambda c: use_int16_tensors(c.prepared, c.int16, c.constraints.image_bits),
    ),
)
"""Rules that set formats by the ranges, after these were checked."""
