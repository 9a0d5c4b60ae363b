# SPDX-License-Identifier: Apache-2.0
"""Fuses a spectrum, its power, weighted sums of it and their logarithm into one call, whatever operators compute them:
what lies between transform and logarithm is evaluated, and is a product with filters if it acts like one."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.fx import GraphModule, Node
from torch.fx.node import map_arg

from pillion.importers.torch.fx_nodes import (
    aten,
    call,
    calls,
    constant,
    evaluate_constant,
    insert_permutation,
    is_constant,
    is_tensor,
    named_argument,
    replace,
    shape_of,
    single_user,
)
from pillion.importers.torch.log_mel import log_mel
from pillion.importers.torch.rewrite.spectra import WINDOWED, frame_params
from pillion.ir.constraints import QuantizationConstraints
from pillion.modules.filters import BIQUADS
from pillion.ops.log_mel import LEAST_POINTS, MOST_POINTS

PER_DOUBLING = {
    aten.log.default: math.log(2),
    aten.log1p.default: math.log(2),
    aten.log10.default: math.log10(2),
    aten.log2.default: 1.0,
}
"""What a logarithm gains when its operand doubles."""
ROOTS = (*WINDOWED, aten._fft_r2c.default)
MOVES = {
    *(aten.view, aten.reshape, aten._unsafe_view, aten.unsqueeze, aten.squeeze),
    *(aten.slice, aten.flip, aten.cat, aten.pad, aten.constant_pad_nd, aten.reflection_pad1d),
}
"""Operators that may stand between an input of the model and its frames."""
RELATIVE, ABSOLUTE = 1e-3, 1e-5
"""Tolerances of float32 with which a computation acts like filters; the second one is relative to the largest sum."""


@dataclass(frozen=True)
class Frames:
    """The frames that a transform reads: their signal, window and hop, the points of the FFT, and whether frames are the
    last axis of the spectrum."""

    x: Node
    window: Tensor
    hop: int
    points: int
    frames_last: bool


@dataclass(frozen=True)
class Logarithm:
    """A logarithm with what is added to its operand before, and the multiplication and addition behind it."""

    operand: Node
    end: Node
    slope: float
    intercept: float = 0.0
    offset: float = 0.0
    floor: float = 0.0


def fuse_log_mels(
    module: GraphModule, constraints: QuantizationConstraints | None, *, training: bool
) -> None:
    """Fuses logarithms of mel spectra of signals that nothing else reads, if signals may enter in 16 bits."""
    if training or constraints is None or not constraints.int16_inputs:
        return
    for node in calls(module.graph, PER_DOUBLING):
        if not node._erased:
            logarithm = _logarithm(node)
            root = next((n for n in _upstream(logarithm.operand) if n.target in ROOTS), None)
            frames = _frames(root) if root is not None else None
            if root is not None and frames is not None and _has_16_bits(frames.x):
                _fuse(root, frames, logarithm)
    module.graph.eliminate_dead_code()


def _fuse(root: Node, frames: Frames, logarithm: Logarithm) -> None:
    inner = _between(root, logarithm.operand)
    found = None if inner is None else _filters(root, frames, inner, logarithm.operand)
    if found is None:
        return
    filters, bands_last = found
    end, window = logarithm.end, frames.window.to(torch.float32)
    constants = constant(end, window, f"{end.name}_window"), constant(end, filters, f"{end.name}_filters")
    numbers = logarithm.slope, logarithm.intercept, logarithm.offset, logarithm.floor
    y = call(end, log_mel, frames.x, *constants, frames.hop, *numbers)
    rank = len(shape_of(y))
    if not bands_last:
        y = insert_permutation(end, y, [*range(rank - 2), rank - 1, rank - 2])
    replace(end, call(end, aten.reshape.default, y, list(shape_of(end))))


def _logarithm(node: Node) -> Logarithm:
    """Returns a logarithm with the numbers before and behind it."""
    operand: Any = node.args[0]
    before: dict[str, float | None] = {"offset": 1.0} if node.target is aten.log1p.default else {}
    if not before and operand.op == "call_function" and single_user(operand) is node:
        inner, other = operand.args[0], operand.args[1] if len(operand.args) > 1 else None
        if operand.target is aten.add.Tensor and _number(other) is not None and not operand.kwargs:
            before, operand = {"offset": _number(other)}, inner
        elif operand.target is aten.clamp.default and len(operand.args) == 2 and _number(other) is not None:
            before, operand = {"floor": _number(other)}, inner
    target: Any = node.target
    slope, intercept, end = PER_DOUBLING[target], 0.0, node
    while True:
        user = single_user(end)
        number = _number(user.args[1]) if user is not None and len(user.args) == 2 else None
        if user is None or number is None or user.args[0] is not end or user.kwargs:
            break
        if user.target is aten.mul.Tensor:
            slope, intercept = slope * number, intercept * number
        elif user.target is aten.add.Tensor:
            intercept += number
        elif user.target is aten.sub.Tensor:
            intercept -= number
        elif user.target is aten.div.Tensor and number:
            slope, intercept = slope / number, intercept / number
        else:
            break
        end = user
    return Logarithm(operand, end, slope, intercept, **before)  # type: ignore[arg-type]  # numbers


def _number(argument: object) -> float | None:
    """Returns a number, or the only element of a constant."""
    if isinstance(argument, (int, float)):
        return float(argument)
    if isinstance(argument, Node) and is_constant(argument):
        tensor = evaluate_constant(argument)
        return float(tensor) if tensor.numel() == 1 else None
    return None


def _upstream(node: Node) -> Iterator[Node]:
    """Yields a node and the calls that it depends on, up to the transforms."""
    waiting, seen = [node], {node}
    while waiting:
        current = waiting.pop()
        yield current
        fresh = [n for n in current.all_input_nodes if n not in seen]
        seen.update(fresh)
        waiting += fresh if current.target not in ROOTS else []


def _frames(root: Node) -> Frames | None:
    """Returns the frames of a transform, whose window loses the zeros at its end; None if they are computed otherwise."""
    frames = _frames_of_stft(root) if root.target in WINDOWED else _frames_of_rfft(root)
    if (
        frames is None
        or not LEAST_POINTS <= frames.points <= MOST_POINTS
        or frames.points & (frames.points - 1)
    ):
        return None
    size, used = len(frames.window), int(frames.window.nonzero().max()) + 1 if frames.window.any() else 0
    samples = shape_of(frames.x)[-1]
    if not used or (samples - size) // frames.hop != (samples - used) // frames.hop:
        return frames if used else None
    return Frames(frames.x, frames.window[:used], frames.hop, frames.points, frames.frames_last)


def _frames_of_stft(root: Node) -> Frames | None:
    size, hop, window = frame_params(root)
    x: Any = root.args[0]
    if window is None or named_argument(root, "onesided") is False or not is_tensor(x):
        return None
    if root.target is aten.stft.center and named_argument(root, "center"):
        return None  # torch.export pads before a transform without `center`
    window = window / size**0.5 if named_argument(root, "normalized") else window
    return Frames(x, window, hop, size, True)


def _frames_of_rfft(root: Node) -> Frames | None:
    arguments: Any = root.args
    x, axes, mode, onesided = arguments
    points = shape_of(x)[-1]
    if [axis % len(shape_of(x)) for axis in axes] != [len(shape_of(x)) - 1] or mode or not onesided:
        return None
    if x.target is aten.constant_pad_nd.default and not any(x.args[1][2:]) and x.args[1][0] == 0:
        x = x.args[0]
    if x.target is not aten.mul.Tensor:
        return None
    frames, weights = x.args
    if not isinstance(frames, Node) or frames.target is not aten.unfold.default or not is_constant(weights):
        return None
    arguments = frames.args
    x, axis, size, hop = arguments
    window = evaluate_constant(weights).double().reshape(-1)
    if axis % len(shape_of(x)) != len(shape_of(x)) - 1 or len(window) != size:
        return None
    return Frames(x, window, hop, points, False)


def _has_16_bits(x: Node) -> bool:
    """Whether a signal is an input of the model, perhaps padded, that nothing else reads, or comes from filters with
    results of 16 bits."""
    made, filtered = set(_upstream(x)), set()
    for node in made:
        if node.target is BIQUADS:
            filtered |= set(_upstream(node))
    rest = made - filtered
    if any(n.op != "placeholder" and getattr(n.target, "overloadpacket", None) not in MOVES for n in rest):
        return False
    return bool(filtered) or (len(x.users) == 1 and all(made.issuperset(n.users) for n in made - {x}))


def _between(root: Node, end: Node) -> list[Node] | None:
    """Returns the calls between a transform and a tensor, in order; None if something else takes part in them."""
    inner = [root]
    for node in root.graph.nodes:
        if any(n in inner for n in node.all_input_nodes) and node in _upstream(end):
            if not all(n in inner or is_constant(n) for n in node.all_input_nodes):
                return None
            inner.append(node)
    escapes = any(user not in inner for node in inner for user in node.users if node is not end)
    return None if escapes or len(end.users) != 1 or end not in inner else inner[1:]


def _evaluation(root: Node, inner: list[Node], end: Node) -> Callable[[Tensor], Tensor]:
    """Returns the function that calls compute of a transform's result."""
    constants = {n: evaluate_constant(n) for node in inner for n in node.all_input_nodes if is_constant(n)}

    def result_of(spectrum: Tensor) -> Tensor:
        values: dict[Node, Any] = {**constants, root: spectrum}
        with torch.no_grad():
            for node in inner:
                args, kwargs = map_arg((node.args, node.kwargs), values.__getitem__)
                values[node] = node.target(*args, **kwargs)  # type: ignore[operator]  # a function
        return torch.as_tensor(values[end])

    return result_of


def _filters(root: Node, frames: Frames, inner: list[Node], end: Node) -> tuple[Tensor, bool] | None:
    """Returns the filters [bins, bands] that calls multiply the power of a spectrum with, and whether bands are the last
    axis of the result; None if they do something else."""
    result_of = _evaluation(root, inner, end)
    shape, bins = shape_of(root), frames.points // 2 + 1
    count = shape[-1] if frames.frames_last else shape[-2]
    signals, total = math.prod(shape[:-2]), math.prod(shape_of(end))
    if total % (signals * count) or not is_tensor(end):
        return None

    def with_frames(rows: Tensor) -> Tensor:
        """Returns a spectrum of which all signals have these frames [frames, bins]."""
        return (rows.t() if frames.frames_last else rows).expand(shape).to(torch.complex64)

    bands = total // (signals * count)
    random = torch.randn(count, bins, dtype=torch.complex64, generator=torch.Generator().manual_seed(0))
    for bands_last in (False, True):

        def rows_of(y: Tensor, bands_last: bool = bands_last) -> Tensor:
            rows = y.reshape(signals, *((count, bands) if bands_last else (bands, count)))
            return rows if bands_last else rows.transpose(1, 2)

        found = []
        for first in range(0, bins, count):
            units = torch.eye(bins)[first : first + count]
            padded = torch.cat([units, torch.zeros(count - len(units), bins)])
            found.append(rows_of(result_of(with_frames(padded)))[0, : len(units)])
        filters = torch.cat(found).to(torch.float32)
        wanted = random.abs().square() @ filters
        difference = (rows_of(result_of(with_frames(random))) - wanted).abs()
        largest = float(wanted.abs().max())
        if bool((difference <= RELATIVE * wanted.abs() + ABSOLUTE * largest).all()) and largest > 0:
            return (filters, bands_last) if bool((filters >= 0).all()) else None
    return None
