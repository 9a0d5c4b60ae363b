# SPDX-License-Identifier: Apache-2.0
"""Replaces spectra of 16-bit samples by one call: a call for magnitudes or powers where these are computed, otherwise
for real and imaginary parts."""

from __future__ import annotations

import math

import torch
from torch.fx import GraphModule, Node

from pillion.errors import warn
from pillion.importers.torch import fx_nodes as fx
from pillion.importers.torch.fx_nodes import aten
from pillion.importers.torch.log_mel import spectra
from pillion.importers.torch.rewrite.complex_pairs import is_complex
from pillion.importers.torch.rewrite.fuse_log_mels import acts_like, between, evaluation
from pillion.importers.torch.rewrite.sample_frames import Frames, noise, transforms
from pillion.ir.constraints import QuantizationConstraints

WIDER = "--io-dtype int16 or --precision int16 an FFT of 16-bit samples computes it, many times as exactly, for fewer instructions (C projects, program images, --kernels pillion)"
"""How spectra become an op of their own."""


def fuse_spectra(module: GraphModule, constraints: QuantizationConstraints | None, *, training: bool) -> None:
    """Replaces spectra of signals that nothing else reads, if signals may enter in 16 bits; warns if they may not."""
    if training or constraints is None:
        return
    for frames in transforms(module.graph):
        if constraints.int16_inputs:
            _fuse(frames, *(_magnitudes(frames) or (frames.root, 0, frames.frames_last, 1.0)))
        else:
            warn(
                f"the spectrum `{frames.root.name}` is computed of 8 bits, as a product with all waves: with {WIDER}"
            )
    module.graph.eliminate_dead_code()


def _fuse(frames: Frames, end: Node, power: int, frames_last: bool, factor: float) -> None:
    window = (frames.window * factor ** (1 / max(power, 1))).to(torch.float32)
    y = fx.call(
        end,
        spectra,
        frames.x,
        fx.constant(end, window, f"{end.name}_window"),
        frames.hop,
        frames.points,
        power,
    )
    if frames_last:
        rank = len(fx.shape_of(y)) - (not power)
        order = [*range(rank - 2), rank - 1, rank - 2, *[rank] * (not power)]
        y = fx.insert_permutation(end, y, order)
    shape = list(fx.shape_of(end))
    if power:
        fx.replace(end, fx.call(end, aten.reshape.default, y, shape))
    else:
        pairs = fx.call(end, aten.reshape.default, y, [*shape, 2])
        fx.replace(end, fx.call(end, aten.view_as_complex.default, pairs))


def _magnitudes(frames: Frames) -> tuple[Node, int, bool, float] | None:
    """Returns the last call that computes magnitudes or powers of a spectrum, if nothing else reads it, with the
    power, whether frames are the last axis, and a factor; otherwise None."""
    signals, count, bins = frames.shape
    random = noise(signals, count, bins)
    spectrum, found = frames.spectrum(random), None
    for node in fx.calls(frames.root.graph):
        is_one = fx.is_tensor(node) and not is_complex(node)
        if not is_one or math.prod(fx.shape_of(node)) != signals * count * bins:
            continue
        inner = between(frames.root, node)
        match = (
            None if inner is None else _match(node, random, evaluation(frames.root, inner, node)(spectrum))
        )
        if match is None and found is not None:
            break
        found = match or found
    return found


def _match(node: Node, random: torch.Tensor, result: torch.Tensor) -> tuple[Node, int, bool, float] | None:
    """Returns the power, the axis of the frames and the factor for which a result equals the magnitudes of noise."""
    for frames_last in (True, False):
        for power in (1, 2):
            exact = random.abs() ** power
            wanted = (exact.transpose(1, 2) if frames_last else exact).reshape(-1)
            factor = float(result.reshape(-1) @ wanted / wanted.square().sum())
            if factor > 0 and acts_like(result.reshape(-1), wanted * factor):
                return node, power, frames_last, factor
    return None
