# SPDX-License-Identifier: Apache-2.0
"""Changes to ops that may satisfy a rule of the NPU: words for the user, and the changed op. Whether they do is judged
elsewhere; data of changed weights does not matter, so it takes no memory."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator

import numpy as np

from pillion.devices.neutron import changes_of_images as more
from pillion.devices.neutron import limits as limits
from pillion.devices.retyped import Change, Changes, fitted, retyped, with_quant
from pillion.ir.op import Op
from pillion.ir.types import DType, PerChannel, PerTensor, Shape, TensorType, Value
from pillion.ops import (
    Clamp,
    Conv2d,
    DepthwiseConv2d,
    Function,
    Linear,
    Lut,
    Pad,
    Reshape,
    Softmax,
    Transpose,
)
from pillion.ops.conv import Convolution
from pillion.ops.pool import Pool


def _window(field: str) -> Changes:
    def change(op: Op) -> Iterator[Change]:
        if field in op.attributes:
            old = getattr(op, field)
            new = tuple(min(n, limits.MAX_WINDOW) for n in old)
            yield f"{field} {old} → {new}", fitted(dataclasses.replace(op, **{field: new}))  # type: ignore[arg-type]  # any field

    return change


def _kernel(op: Op) -> Iterator[Change]:
    """Of convolutions it is in the shape of the weights."""
    yield from _window("kernel")(op)
    if isinstance(op, Convolution):
        first, *_, last = op.weights.shape
        new = tuple(min(n, limits.MAX_WINDOW) for n in op.kernel)
        weights = retyped(op.weights, (first, *new, last))
        yield f"kernel {op.kernel} → {new}", fitted(op.substitute({op.weights: weights}))


def _fewer_channels(op: Op) -> Iterator[Change]:
    """As many as fit, in blocks of a pipeline of the smaller or of the larger NPU; else a smaller kernel."""
    if not isinstance(op, (Conv2d, DepthwiseConv2d)):
        return
    for block in (4, 8):
        channels = limits.MAX_DOT_PRODUCT // math.prod(op.kernel) // block * block
        if channels:
            yield f"input channels {op.in_channels} → {channels}", _with_channels(op, channels)
    side = math.isqrt(limits.MAX_DOT_PRODUCT // (-(-op.in_channels // 8) * 8))
    kernel = tuple(min(side, k) for k in op.kernel)
    if side:
        weights = retyped(op.weights, (op.weights.shape[0], *kernel, op.weights.shape[3]))
        yield f"kernel {op.kernel} → {kernel}", fitted(dataclasses.replace(op, weights=weights))


def _with_channels(op: Conv2d | DepthwiseConv2d, channels: int) -> Op:
    first, height, width, _ = op.weights.shape
    x = retyped(op.x, (*op.x.shape[:3], channels))
    if isinstance(op, Conv2d):
        weights = retyped(op.weights, (first, height, width, channels // op.groups))
        return dataclasses.replace(op, x=x, weights=weights)
    return _with_filters(dataclasses.replace(op, x=x), channels * op.depth_multiplier)


def _with_filters(op: DepthwiseConv2d, count: int) -> Op:
    quant = _one_scale(op.weights)
    weights = retyped(op.weights, (*op.weights.shape[:3], count), quant)
    bias = retyped(op.bias, (count,), PerTensor(quant.scale * op.x.scale))
    return fitted(dataclasses.replace(op, weights=weights, bias=bias))


def _one_scale(weights: Value) -> PerTensor:
    return PerTensor(float(weights.channel_scales.max()))


def _one_group(op: Op) -> Iterator[Change]:
    if isinstance(op, Conv2d):
        weights = retyped(op.weights, (*op.weights.shape[:3], op.in_channels))
        yield f"groups {op.groups} → 1", dataclasses.replace(op, weights=weights, groups=1)


def _one_filter(op: Op) -> Iterator[Change]:
    if isinstance(op, DepthwiseConv2d):
        words = f"output channels {op.out_channels} → {op.in_channels}, as many as input channels"
        yield words, _with_filters(op, op.in_channels)


def _per_tensor(op: Op) -> Iterator[Change]:
    if isinstance(op, Linear) and isinstance(op.weights.type.quant, PerChannel):
        weights = with_quant(op.weights, _one_scale(op.weights))
        yield "weights with one scale (quantize for this target)", dataclasses.replace(op, weights=weights)


def _weights_around_zero(op: Op) -> Iterator[Change]:
    if isinstance(op, (Convolution, Linear)):
        weights = with_quant(op.weights, _one_scale(op.weights))
        yield "weights with zero point 0 (quantize them symmetrically)", op.substitute({op.weights: weights})


def _constant(op: Op) -> Iterator[Change]:
    if isinstance(op, (Convolution, Linear)):
        values = [v for v in (op.weights, op.bias) if not v.is_constant]
        held = {
            v: dataclasses.replace(v, data=np.broadcast_to(v.dtype.numpy.type(0), v.shape)) for v in values
        }
        yield f"constant {' and '.join(v.name for v in values)}", op.substitute(held)


def _softmax(what: str, shape: Callable[[int, int], Shape]) -> Changes:
    """Another number of rows or of channels, from the present numbers of both."""

    def change(op: Op) -> Iterator[Change]:
        if isinstance(op, Softmax):
            channels = op.x.shape[-1]
            rows = op.x.type.elements // channels
            new = shape(rows, channels)
            old, now = (rows, new[0]) if what == "rows" else (channels, new[1])
            yield f"{what} {old} → {now}", op.substitute({v: retyped(v, new) for v in (op.x, op.y)})

    return change


def _rows(channels: int) -> int:
    return min(limits.MAX_SOFTMAX_ROWS, limits.MAX_SOFTMAX_ELEMENTS // channels)


def _unpadded(op: Op) -> Iterator[Change]:
    """Where the window fits into the image itself."""
    if isinstance(op, (Convolution, Pool)):
        bare: Convolution | Pool = dataclasses.replace(op, padding=(0, 0, 0, 0))  # type: ignore[call-arg]  # of both
        if min(bare.output_shape) > 0:
            yield "no padding (or count_include_pad=True)", fitted(bare)


def _unit_steps(op: Op) -> Iterator[Change]:
    if "step" in op.attributes:
        yield "step 1", dataclasses.replace(op, step=tuple(1 for _ in op.attributes["step"]))  # type: ignore[call-arg]  # it has the attribute


def _same_parameters(op: Op) -> Iterator[Change]:
    quant = op.results[0].type.quant
    if quant is not None:
        same = {v: with_quant(v, quant) for v in op.operands}
        yield (
            "one scale and zero point for operands and result (as the quantizer gives them)",
            op.substitute(same),
        )


def _repeated(op: Op) -> Iterator[Change]:
    """One operand written out to the shape of the result: the one that lacks less."""
    shape = op.results[0].shape
    operand = max(op.operands, key=lambda v: v.type.elements)
    words = f"{operand.name} {list(operand.shape)} → {list(shape)}"
    yield words, op.substitute({operand: retyped(operand, shape)})


def _joined_axes(op: Op) -> Iterator[Change]:
    """One axis less at a time. Which axes are joined is the user's choice: the NPU only counts them."""
    rank = op.results[0].type.rank
    for fewer in range(rank - 1, 0, -1):
        words = f"axes {rank} → {fewer} (join some)"
        match op:
            case Reshape():
                shape = (*op.y.shape[: fewer - 1], math.prod(op.y.shape[fewer - 1 :]))
                yield words, dataclasses.replace(op, y=retyped(op.y, shape))
            case Transpose():
                order = tuple(a for a in op.order if a < fewer)
                x = retyped(op.x, op.x.shape[:fewer])
                yield words, fitted(dataclasses.replace(op, x=x, order=order))
            case Pad():
                x = retyped(op.x, op.x.shape[:fewer])
                before, after = op.before[:fewer], op.after[:fewer]
                yield words, fitted(dataclasses.replace(op, x=x, before=before, after=after))


def _hinge_inside(op: Op) -> Iterator[Change]:
    """A bound that no value crosses would be crossed if the operand's range went further."""
    if not isinstance(op, Clamp):
        return
    for zero_point in (op.x.zero_point + 1, op.x.zero_point - 1):
        if not -128 < zero_point < 127:
            continue
        quant = PerTensor(op.x.scale, zero_point)
        changed = {op.x: with_quant(op.x, quant)}
        words = f"an operand with values beyond the bound: its zero point {op.x.zero_point} → {zero_point}"
        yield words, op.substitute(changed)
        moved = max(-128, min(127, op.low + zero_point - op.x.zero_point))
        same = {op.x: with_quant(op.x, quant), op.y: with_quant(op.y, quant)}
        yield words, dataclasses.replace(op.substitute(same), low=moved)  # type: ignore[call-arg]  # ops with bounds


def _same_scale(op: Op) -> Iterator[Change]:
    if isinstance(op, Clamp) and isinstance(op.x.type.quant, PerTensor):
        quant = op.x.quant
        levels = [
            (b - op.y.zero_point) * op.y.scale / quant.scale + quant.zero_point for b in (op.low, op.high)
        ]
        low, high = (max(-128, min(127, round(level))) for level in levels)
        yield (
            "the operand's scale and zero point for the result",
            dataclasses.replace(op, y=with_quant(op.y, quant), low=low, high=high),
        )


NEAREST = {
    Function.SILU: Function.HARDSWISH,
    Function.GELU: Function.HARDSWISH,
    Function.GELU_TANH: Function.HARDSWISH,
    Function.ELU: Function.LEAKY_RELU,
}
"""Functions of the NPU with which models are built where they cannot have these."""


def _other_function(op: Op) -> Iterator[Change]:
    nearest = NEAREST.get(op.function) if isinstance(op, Lut) else None
    if isinstance(op, Lut) and nearest:
        changed = dataclasses.replace(op, function=nearest)
        if nearest.fixed_output:
            changed = dataclasses.replace(changed, y=with_quant(op.y, PerTensor(*nearest.fixed_output)))
        yield f"{op.function.value} → {nearest.value} in the model (trained with it)", changed


def _fixed_output(op: Op) -> Iterator[Change]:
    if isinstance(op, Lut) and op.function.fixed_output:
        scale, zero_point = op.function.fixed_output
        y = with_quant(op.y, PerTensor(scale, zero_point))
        yield (
            f"a result of scale {scale:g}, zero point {zero_point} (as the quantizer gives it)",
            dataclasses.replace(op, y=y),
        )


def _coarser_result(op: Op) -> Iterator[Change]:
    y = op.results[0]
    for power in range(1, 64):
        quant = PerTensor(y.scale * 2.0**power, y.zero_point)
        words = (
            f"a result of scale {y.scale:g} → {quant.scale:g} (calibrate with data that the model will see)"
        )
        yield words, op.substitute({y: with_quant(y, quant)})


def _as_int8(op: Op) -> Iterator[Change]:
    wide = [v for v in (*op.operands, *op.results) if v.dtype not in (DType.INT8, DType.INT32)]
    changed = {v: _int8(v) for v in wide}
    yield "int8 (quantize the model)", op.substitute(changed)


def _int8(value: Value) -> Value:
    quant = (
        value.type.quant
        if isinstance(value.type.quant, PerTensor) and -128 <= value.zero_point < 128
        else PerTensor(0.1)
    )
    data = None if value.data is None else np.broadcast_to(np.int8(0), value.shape)
    return Value(value.name, TensorType(value.shape, DType.INT8, quant), data)


CHANGES: dict[str, tuple[Changes, ...]] = {
    "dtype": (_as_int8,),
    "constants": (_constant,),
    "kernel": (_kernel,),
    "stride": (_window("stride"), more.shorter_stride),
    "dilation": (_window("dilation"), more.no_dilation),
    "dot_product": (_fewer_channels, more.fewer_channels),
    "groups": (_one_group,),
    "multiplier": (_one_filter,),
    "weights": (_per_tensor,),
    "zero_point": (_weights_around_zero,),
    "channels": (_softmax("channels", lambda rows, _: (rows, limits.MAX_SOFTMAX_CHANNELS)),),
    "rows": (_softmax("rows", lambda _, channels: (_rows(channels), channels)),),
    "elements": (_softmax("rows", lambda _, channels: (_rows(channels), channels)),),
    "padding": (more.less_padding, _unpadded),
    "step": (_unit_steps,),
    "parameters": (_same_parameters,),
    "broadcast": (_repeated,),
    "rank": (_joined_axes,),
    "bounds": (_hinge_inside,),
    "form": (_same_scale,),
    "function": (_other_function,),
    "output": (_fixed_output,),
    "table": (_coarser_result,),
    "scale": (_coarser_result,),
    "factor": (more.nearest_size,),
    "mode": (more.other_mode,),
    "zero_points": (more.symmetric_operands,),
}
"""Name of a rule → changes that might satisfy it, smallest first."""


def changes_for(rule: str, op: Op) -> Iterator[Change]:
    """What might satisfy one rule; nothing where only another model would."""
    return (change for changes in CHANGES.get(rule, ()) for change in changes(op))
