# SPDX-License-Identifier: Apache-2.0
"""Finds the frames of samples that a Fourier transform reads, whatever operators cut and weigh them."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.fx import Graph, Node

from pillion.importers.torch import fx_nodes as fx
from pillion.importers.torch.fx_nodes import aten
from pillion.importers.torch.rewrite.spectra import WINDOWED, frame_params
from pillion.modules.filters import BIQUADS
from pillion.ops.frames import LEAST_POINTS, MOST_POINTS

ROOTS = (*WINDOWED, aten._fft_r2c.default)
MOVES = {
    *(aten.view, aten.reshape, aten._unsafe_view, aten.unsqueeze, aten.squeeze),
    *(aten.slice, aten.flip, aten.cat, aten.pad, aten.constant_pad_nd, aten.reflection_pad1d),
}
"""Operators that may stand between an input of the model and its frames."""


@dataclass(frozen=True)
class Frames:
    """The frames that a transform reads: their signal, window and hop, the points of the FFT, and whether frames are the
    last axis of the spectrum."""

    root: Node
    x: Node
    window: Tensor
    hop: int
    points: int
    frames_last: bool

    @property
    def shape(self) -> tuple[int, int, int]:
        """The sizes of all spectra: signals, frames and bins."""
        *lead, samples = fx.shape_of(self.x)
        return math.prod(lead), (samples - len(self.window)) // self.hop + 1, self.points // 2 + 1

    def spectrum(self, rows: Tensor) -> Tensor:
        """Returns the transform's result, computed from the spectra [signals, frames, bins]."""
        return (rows.transpose(1, 2) if self.frames_last else rows).reshape(fx.shape_of(self.root))


def transforms(graph: Graph) -> Iterator[Frames]:
    """Yields the transforms of signals that may have 16 bits."""
    for root in fx.calls(graph, ROOTS):
        frames = frames_of(root)
        if frames is not None and has_16_bits(frames.x):
            yield frames


def noise(*shape: int) -> Tensor:
    """Returns random spectra [..., bins] of real signals: their first and last bins are real."""
    spectra = torch.randn(*shape, dtype=torch.complex64, generator=torch.Generator().manual_seed(0))
    spectra.imag[..., [0, -1]] = 0
    return spectra


def upstream(node: Node) -> Iterator[Node]:
    """Yields a node and the calls that it depends on, up to the transforms."""
    waiting, seen = [node], {node}
    while waiting:
        current = waiting.pop()
        yield current
        fresh = [n for n in current.all_input_nodes if n not in seen]
        seen.update(fresh)
        waiting += fresh if current.target not in ROOTS else []


def frames_of(root: Node) -> Frames | None:
    """Returns the frames of a transform, whose window loses the zeros at its end; None for frames of other forms."""
    frames = _frames_of_stft(root) if root.target in WINDOWED else _frames_of_rfft(root)
    if (
        frames is None
        or not LEAST_POINTS <= frames.points <= MOST_POINTS
        or frames.points & (frames.points - 1)
    ):
        return None
    size, used = len(frames.window), int(frames.window.nonzero().max()) + 1 if frames.window.any() else 0
    samples = fx.shape_of(frames.x)[-1]
    if not used or (samples - size) // frames.hop != (samples - used) // frames.hop:
        return frames if used else None
    return Frames(root, frames.x, frames.window[:used], frames.hop, frames.points, frames.frames_last)


def _frames_of_stft(root: Node) -> Frames | None:
    size, hop, window = frame_params(root)
    x: Any = root.args[0]
    if window is None or fx.named_argument(root, "onesided") is False or not fx.is_tensor(x):
        return None
    if root.target is aten.stft.center and fx.named_argument(root, "center"):
        return None  # torch.export pads before a transform without `center`
    window = window / size**0.5 if fx.named_argument(root, "normalized") else window
    return Frames(root, x, window, hop, size, True)


def _frames_of_rfft(root: Node) -> Frames | None:
    arguments: Any = root.args
    x, axes, mode, onesided = arguments
    points = fx.shape_of(x)[-1]
    if [axis % len(fx.shape_of(x)) for axis in axes] != [len(fx.shape_of(x)) - 1] or mode or not onesided:
        return None
    if x.target is aten.constant_pad_nd.default and not any(x.args[1][2:]) and x.args[1][0] == 0:
        x = x.args[0]
    size = fx.shape_of(x)[-1]
    window = torch.ones(size, dtype=torch.float64)
    if x.target is aten.mul.Tensor and fx.is_constant(x.args[1]):
        weights = fx.evaluate_constant(x.args[1]).double()
        if weights.numel() not in (1, size):
            return None
        x, window = x.args[0], window * weights.reshape(-1)
    hop = size
    if x.target is aten.unfold.default:
        x, axis, _, hop = x.args
        if axis % len(fx.shape_of(x)) != len(fx.shape_of(x)) - 1:
            return None
    return Frames(root, x, window, hop, points, False)


def has_16_bits(x: Node, replaced: Collection[Node] = ()) -> bool:
    """Whether a signal is a (perhaps padded) input of the model that no call reads but one and the replaced ones, or
    comes from filters with 16-bit results."""
    made, filtered = set(upstream(x)), set()
    for node in made:
        if node.target is BIQUADS:
            filtered |= set(upstream(node))
    rest = made - filtered
    if any(n.op != "placeholder" and getattr(n.target, "overloadpacket", None) not in MOVES for n in rest):
        return False
    readers = {node: node.users.keys() - set(replaced) for node in made}
    is_read_once = len(readers[x]) == 1 and all(made >= readers[node] for node in made - {x})
    return bool(filtered) or is_read_once
