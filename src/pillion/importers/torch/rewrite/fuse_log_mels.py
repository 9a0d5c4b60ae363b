# SPDX-License-Identifier: Apache-2.0
"""Fuses a spectrum, its power, weighted sums of it and their logarithm into one call, whatever operators compute
them. The calls between transform and logarithm are evaluated, and count as a product with filters if they act like
one."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.fx import GraphModule, Node
from torch.fx.node import map_arg

from pillion.importers.torch import fx_nodes as fx
from pillion.importers.torch.fx_nodes import aten
from pillion.importers.torch.log_mel import log_mel
from pillion.importers.torch.rewrite.sample_frames import (
    ROOTS,
    Frames,
    frames_of,
    has_16_bits,
    noise,
    upstream,
)
from pillion.ir.constraints import QuantizationConstraints

PER_DOUBLING = {
    aten.log.default: math.log(2),
    aten.log1p.default: math.log(2),
    aten.log10.default: math.log10(2),
    aten.log2.default: 1.0,
}
"""Increase of a logarithm when its operand doubles."""
RELATIVE, ABSOLUTE = 1e-3, 1e-5
"""Tolerances of float32 with which a computation acts like filters; the second one is relative to the largest sum."""


@dataclass(frozen=True)
class Logarithm:
    """A logarithm with the number added to its operand, and the multiplication and addition that follow."""

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
    for node in fx.calls(module.graph, PER_DOUBLING):
        if not node._erased:
            logarithm = _logarithm(node)
            root = next((n for n in upstream(logarithm.operand) if n.target in ROOTS), None)
            frames = frames_of(root) if root is not None else None
            if root is not None and frames is not None and has_16_bits(frames.x):
                _fuse(root, frames, logarithm)
    module.graph.eliminate_dead_code()


def _fuse(root: Node, frames: Frames, logarithm: Logarithm) -> None:
    inner = between(root, logarithm.operand)
    if inner is None or len(logarithm.operand.users) != 1:
        return
    found = _filters(frames, evaluation(root, inner, logarithm.operand), logarithm.operand)
    if found is None:
        return
    filters, bands_last, power = found
    end, window = logarithm.end, frames.window.to(torch.float32)
    constants = (
        fx.constant(end, window, f"{end.name}_window"),
        fx.constant(end, filters, f"{end.name}_filters"),
    )
    numbers = power, logarithm.slope, logarithm.intercept, logarithm.offset, logarithm.floor
    y = fx.call(end, log_mel, frames.x, *constants, frames.hop, *numbers)
    rank = len(fx.shape_of(y))
    if not bands_last:
        y = fx.insert_permutation(end, y, [*range(rank - 2), rank - 1, rank - 2])
    fx.replace(end, fx.call(end, aten.reshape.default, y, list(fx.shape_of(end))))


def _operand(node: Node) -> tuple[Node, float, dict[str, float]]:
    """Returns the operand of a logarithm, its power, and the offset or floor before."""
    operand: Any = node.args[0]
    if node.target is aten.log1p.default:
        return operand, 1.0, {"offset": 1.0}
    power = 1.0
    if operand.target is aten.sqrt.default and fx.single_user(operand) is not None:
        operand, power = operand.args[0], 0.5
    if operand.op == "call_function" and fx.single_user(operand) is not None and len(operand.args) == 2:
        inner, other = operand.args
        number = _number(other)
        if operand.target is aten.add.Tensor and number is not None and not operand.kwargs:
            return inner, power, {"offset": number}
        if operand.target is aten.clamp.default and number is not None:
            return inner, power, {"floor": number}
    return operand, power, {}


def _logarithm(node: Node) -> Logarithm:
    """Returns a logarithm with the numbers before and behind it."""
    operand, power, before = _operand(node)
    target: Any = node.target
    slope, intercept, end = PER_DOUBLING[target] * power, 0.0, node
    while True:
        user = fx.single_user(end)
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
    return Logarithm(operand, end, slope, intercept, **before)


def _number(argument: object) -> float | None:
    """Returns a number, or the only element of a constant."""
    if isinstance(argument, (int, float)):
        return float(argument)
    if isinstance(argument, Node) and fx.is_constant(argument):
        tensor = fx.evaluate_constant(argument)
        return float(tensor) if tensor.numel() == 1 else None
    return None


def between(root: Node, end: Node) -> list[Node] | None:
    """Returns the calls between a transform and a tensor, in order; None if something else takes part in them."""
    inner = [root]
    for node in root.graph.nodes:
        if any(n in inner for n in node.all_input_nodes) and node in upstream(end):
            if not all(n in inner or fx.is_constant(n) for n in node.all_input_nodes):
                return None
            inner.append(node)
    escapes = any(user not in inner for node in inner for user in node.users if node is not end)
    return None if escapes or end not in inner else inner[1:]


def evaluation(root: Node, inner: list[Node], end: Node) -> Callable[[Tensor], Tensor]:
    """Returns the function that calls compute of a transform's result."""
    constants = {
        n: fx.evaluate_constant(n) for node in inner for n in node.all_input_nodes if fx.is_constant(n)
    }

    def result_of(spectrum: Tensor) -> Tensor:
        values: dict[Node, Any] = {**constants, root: spectrum}
        with torch.no_grad():
            for node in inner:
                args, kwargs = map_arg((node.args, node.kwargs), values.__getitem__)
                values[node] = node.target(*args, **kwargs)  # type: ignore[operator]  # a function
        return torch.as_tensor(values[end])

    return result_of


def _filters(
    frames: Frames, result_of: Callable[[Tensor], Tensor], end: Node
) -> tuple[Tensor, bool, int] | None:
    """Returns the filters [bins, bands] that calls multiply magnitudes with, whether bands are the last axis of the
    result, and the power to which they raise magnitudes before; None if they do something else."""
    signals, count, bins = frames.shape
    total = math.prod(fx.shape_of(end))
    if total % (signals * count) or not fx.is_tensor(end):
        return None

    def result_of_rows(rows: Tensor) -> Tensor:
        """Returns the result for a spectrum whose signals all have these frames [frames, bins]."""
        return result_of(frames.spectrum(rows.to(torch.complex64).expand(frames.shape)))

    bands = total // (signals * count)
    random = noise(count, bins)
    for bands_last in (False, True):

        def rows_of(y: Tensor, bands_last: bool = bands_last) -> Tensor:
            rows = y.reshape(signals, *((count, bands) if bands_last else (bands, count)))
            return rows if bands_last else rows.transpose(1, 2)

        found = []
        for first in range(0, bins, count):
            units = torch.eye(bins)[first : first + count]
            padded = torch.cat([units, torch.zeros(count - len(units), bins)])
            found.append(rows_of(result_of_rows(padded))[0, : len(units)])
        filters = torch.cat(found).to(torch.float32)
        for power in (2, 1):
            if acts_like(rows_of(result_of_rows(random)), random.abs() ** power @ filters):
                return (filters, bands_last, power) if bool((filters >= 0).all()) else None
    return None


def acts_like(found: Tensor, wanted: Tensor) -> bool:
    """Whether a computation gives the expected result within the tolerances, and not 0."""
    largest = float(wanted.abs().max())
    is_near = (found - wanted).abs() <= RELATIVE * wanted.abs() + ABSOLUTE * largest
    return bool(is_near.all()) and largest > 0
