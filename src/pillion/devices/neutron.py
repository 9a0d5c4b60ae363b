# SPDX-License-Identifier: Apache-2.0
"""NXP's eIQ Neutron: what its converter takes, as data. The docs table, `explain`, errors and tests read these rules.

Sources: "converter" is the behaviour of NXP's converter (flow of SDK 3.1.2 and later) as its ExecuTorch backend encodes it;
"quantizer" is what that backend's quantizer guarantees; "IR" is what the TFLite form can express. Cycles are estimates from
the published geometry (pipelines x MACs per cycle); no public simulator confirms them."""

from __future__ import annotations

import math
from dataclasses import dataclass

from pillion.devices.device import Device, Look, Rule, rules_for
from pillion.errors import PillionError
from pillion.ir.op import Op
from pillion.ir.types import DType, PerChannel, PerTensor, Value
from pillion.ir.wishes import Wishes
from pillion.ops import (
    Add,
    AvgPool2d,
    Clamp,
    Concat,
    Conv2d,
    DepthwiseConv2d,
    Function,
    Linear,
    Lut,
    Maximum,
    MaxPool2d,
    Mean,
    Minimum,
    Mul,
    Pad,
    Reshape,
    Slice,
    Softmax,
    Sub,
    Transpose,
)
from pillion.ops.lut_tflite import ACTIVATIONS, activation_levels, tflite_entries
from pillion.ops.matmul import BatchMatmul
from pillion.ops.prelu import Prelu
from pillion.ops.reduce import ReduceMax, ReduceMin, ReduceSum
from pillion.ops.resize import Resize, ResizeBilinear, ResizeNearest
from pillion.ops.transpose_conv import TransposeConv2d

MAX_WINDOW = 4096
"""Largest kernel, stride and dilation along one axis."""
MAX_DOT_PRODUCT = 65535
"""Largest kernel_h · kernel_w · input channels (rounded up to the MACs of a pipeline)."""
MAX_TRANSPOSE_CONV_STRIDE = 2
RESIZE_FACTORS = (1, 2, 4, 8)
"""Of height and width, each on its own."""
MAX_SOFTMAX_CHANNELS = 2040
MAX_SOFTMAX_ROWS = 4096
MAX_SOFTMAX_ELEMENTS = 524288
MAX_RESHAPE_RANK = 7
MAX_TRANSPOSE_RANK = 6
MAX_PAD_RANK = 5
MAX_RANK = 8
"""Of any tensor in the TFLite form."""

FUNCTIONS = (
    Function.ABS,
    Function.EXP,
    Function.HARDSWISH,
    Function.LEAKY_RELU,
    Function.LOG,
    Function.NEG,
    Function.RSQRT,
    Function.SIGMOID,
    Function.TANH,
)

CONVERTER, QUANTIZER, IR = "converter", "quantizer", "IR"


@dataclass(frozen=True)
class Geometry:
    """Dot-product units side by side, and multiply-accumulates of each per cycle."""

    pipelines: int
    macs: int


# --- what rules look at -----------------------------------------------------------------------------------------------


def _at_most(limit: int, numbers: tuple[int, ...]) -> tuple[object, bool]:
    return "x".join(map(str, numbers)), max(numbers) <= limit


def _activations_int8(op: Op) -> tuple[object, bool]:
    values = (*(v for v in op.operands if v.dtype is not DType.INT32), *op.results)
    found = sorted({v.dtype.value for v in values})
    return ", ".join(found), found == ["int8"]


def _same_parameters(op: Op) -> tuple[object, bool]:
    quants = list(dict.fromkeys(v.type.quant for v in (*op.operands, *op.results)))
    return "the same" if len(quants) == 1 else f"{len(quants)} different", len(quants) == 1


def _broadcast(op: Op) -> tuple[object, bool]:
    result = op.results[0].type.elements
    found = [v.type.elements for v in op.operands]
    return " and ".join(map(str, found)) + f" for {result}", result in found


def _constants(*values: Value) -> tuple[object, bool]:
    computed = [v.name for v in values if not v.is_constant]
    return f"computed: {', '.join(computed)}" if computed else "constant", not computed


def _per_tensor(value: Value) -> tuple[object, bool]:
    per_channel = isinstance(value.type.quant, PerChannel) and len(set(value.type.quant.scales)) > 1
    return "per channel" if per_channel else "per tensor", not per_channel


def _dot_product(op: Op, geometry: Geometry) -> tuple[object, bool]:
    channels = -(-op.x.shape[3] // geometry.macs) * geometry.macs  # type: ignore[attr-defined]  # convolutions only
    size = math.prod(op.kernel) * channels  # type: ignore[attr-defined]
    return size, size <= MAX_DOT_PRODUCT


def _clamp_survives(op: Op) -> tuple[object, bool]:
    """The converter removes bounds that no value of the operand can cross, and fails where nothing is left. Bounds are
    compared before they are saturated: two that lie beyond the same end leave a constant."""
    assert isinstance(op, Clamp)
    low = [op.low] if op.low > -128 or op.low == op.y.zero_point else []
    high = [op.high] if op.high < 127 else []
    levels = [_level_of(op.x, (bound - op.y.zero_point) * op.y.scale) for bound in (*low, *high)]
    return " and ".join(map(str, levels)) or "no bound", any(-128 < level < 127 for level in levels)


def _level_of(value: Value, real: float) -> int:
    return round(real / value.scale) + value.zero_point


def _clamp_form(op: Op) -> tuple[object, bool]:
    """The relu family may change the scale; any other pair of bounds becomes minimum and maximum."""
    assert isinstance(op, Clamp)
    if op.x.type.quant == op.y.type.quant:
        return "the same scale", True
    family = (name for name in RELU_FAMILY if activation_levels(name, op.y.quant) == (op.low, op.high))
    found = next(family, None)
    return (found.lower(), True) if found else ("other bounds and another scale", False)


RELU_FAMILY = tuple(name for name in ACTIVATIONS if name != "NONE")


def _fixed_output(op: Op) -> tuple[object, bool]:
    assert isinstance(op, Lut)
    found = (op.y.scale, op.y.zero_point)
    return f"scale {found[0]:g}, zero point {found[1]}", op.function.fixed_output in (None, found)


def _table_defined(op: Op) -> tuple[object, bool]:
    assert isinstance(op, Lut)
    try:
        tflite_entries(op)
    except PillionError as error:
        return error.here, False
    return "defined", True


def _sum_scale(op: Op) -> tuple[object, bool]:
    assert isinstance(op, Add)
    largest = max(op.a.scale, op.b.scale)
    return f"{op.y.scale:g} of {largest:g}", op.rescale[2].shift <= 0


def _rank_at_most(limit: int) -> Look:
    return lambda op: (op.results[0].type.rank, op.results[0].type.rank <= limit)


def _tensor_shapes(op: Op) -> tuple[object, bool]:
    shapes = [v.shape for v in (*op.operands, *op.results)]
    wrong = [shape for shape in shapes if len(shape) > MAX_RANK or 0 in shape]
    return list(wrong[0]) if wrong else "such shapes", not wrong


def _symmetric(value: Value) -> tuple[object, bool]:
    zero_point = 0 if isinstance(value.type.quant, PerChannel) else value.zero_point
    return zero_point, zero_point == 0


def _both_symmetric(op: Op) -> tuple[object, bool]:
    assert isinstance(op, BatchMatmul)
    found = [v.type.quant for v in (op.a, op.b)]
    zero_points = [q.zero_point if isinstance(q, PerTensor) else None for q in found]
    return " and ".join(map(str, zero_points)), zero_points == [0, 0]


def _short_stride(op: Op) -> tuple[object, bool]:
    assert isinstance(op, TransposeConv2d)
    limits = (min(MAX_TRANSPOSE_CONV_STRIDE, k) for k in op.kernel)
    fits = all(s <= limit for s, limit in zip(op.stride, limits, strict=True))
    return f"{op.stride} for a kernel of {op.kernel}", fits


def _little_padding(op: Op) -> tuple[object, bool]:
    assert isinstance(op, TransposeConv2d)
    fits = all(p < k for p, k in zip(op.padding, (*op.kernel, *op.kernel), strict=True))
    return f"{op.padding} for a kernel of {op.kernel}", fits


def _resize_factor(op: Op) -> tuple[object, bool]:
    """With aligned corners the distance between the outer pixels counts."""
    assert isinstance(op, Resize)
    less = int(op.align_corners)
    axes = [(before - less, after - less) for before, after in zip(op.x.shape[1:3], op.size, strict=True)]
    fits = all(before > 0 and after in [before * f for f in RESIZE_FACTORS] for before, after in axes)
    return " and ".join(f"{after}/{before}" for before, after in axes), fits


def _resize_mode(op: Op) -> tuple[object, bool]:
    assert isinstance(op, Resize)
    found = "align_corners" if op.align_corners else "half_pixel" if op.half_pixel else "neither"
    return found, (found == "neither") == isinstance(op, ResizeNearest)


def _softmax_rows(op: Op) -> tuple[object, bool]:
    rows = math.prod(op.results[0].shape[:-1])
    return rows, rows <= MAX_SOFTMAX_ROWS


# --- the rules --------------------------------------------------------------------------------------------------------

CONVOLUTIONS = (Conv2d, DepthwiseConv2d)
RESIZES = (ResizeNearest, ResizeBilinear)
REDUCTIONS = (Mean, ReduceSum, ReduceMax, ReduceMin)
SHARED = (AvgPool2d, MaxPool2d, *REDUCTIONS, Minimum, Maximum, Concat, Slice, Pad, Reshape, Transpose)
PAIRS = (Add, Sub, Mul, Minimum, Maximum)
PRODUCTS = (*CONVOLUTIONS, TransposeConv2d, Linear, BatchMatmul)
SUPPORTED: tuple[type[Op], ...] = (*PRODUCTS, Add, Sub, Mul, Lut, Prelu, Clamp, Softmax, *RESIZES, *SHARED)


def _convolution_rules(geometry: Geometry) -> list[Rule]:
    limit = f"height and width at most {MAX_WINDOW}"
    size = f"kernel height · width · channels (to a multiple of {geometry.macs}) at most {MAX_DOT_PRODUCT}"
    return [
        *rules_for(
            CONVOLUTIONS,
            "constants",
            "constant weights and bias",
            lambda o: _constants(o.weights, o.bias),
            CONVERTER,
        ),
        *rules_for(CONVOLUTIONS, "kernel", limit, lambda o: _at_most(MAX_WINDOW, o.kernel), CONVERTER),
        *rules_for(CONVOLUTIONS, "stride", limit, lambda o: _at_most(MAX_WINDOW, o.stride), CONVERTER),
        *rules_for(CONVOLUTIONS, "dilation", limit, lambda o: _at_most(MAX_WINDOW, o.dilation), CONVERTER),
        *rules_for(CONVOLUTIONS, "dot_product", size, lambda o: _dot_product(o, geometry), CONVERTER),
        *rules_for(
            (*CONVOLUTIONS, Linear),
            "zero_point",
            "weights with zero point 0",
            lambda o: _symmetric(o.weights),
            QUANTIZER,
        ),
        Rule(
            Conv2d,
            "groups",
            "1 (others are split beforehand)",
            lambda o: (o.groups, o.groups == 1),
            CONVERTER,
        ),
        Rule(
            DepthwiseConv2d,
            "multiplier",
            "1",
            lambda o: (o.depth_multiplier, o.depth_multiplier == 1),
            CONVERTER,
        ),
    ]


def _transpose_convolution_rules(geometry: Geometry) -> list[Rule]:
    size = f"kernel height · width · channels (to a multiple of {geometry.macs}) at most {MAX_DOT_PRODUCT}"
    stride = f"height and width at most {MAX_TRANSPOSE_CONV_STRIDE} and those of the kernel"
    kernel = f"height and width at most {MAX_WINDOW}"
    return [
        Rule(
            TransposeConv2d,
            "constants",
            "constant weights and bias",
            lambda o: _constants(o.weights, o.bias),
            CONVERTER,
        ),
        Rule(TransposeConv2d, "kernel", kernel, lambda o: _at_most(MAX_WINDOW, o.kernel), CONVERTER),
        Rule(TransposeConv2d, "stride", stride, _short_stride, CONVERTER),
        Rule(TransposeConv2d, "dilation", "1", lambda o: _at_most(1, o.dilation), CONVERTER),
        Rule(TransposeConv2d, "padding", "smaller than the kernel", _little_padding, CONVERTER),
        Rule(TransposeConv2d, "dot_product", size, lambda o: _dot_product(o, geometry), CONVERTER),
        Rule(
            TransposeConv2d,
            "zero_point",
            "weights with zero point 0",
            lambda o: _symmetric(o.weights),
            QUANTIZER,
        ),
    ]


def _resize_rules() -> list[Rule]:
    factor = f"height and width times one of {', '.join(map(str, RESIZE_FACTORS))} (less one pixel, if corners are aligned)"
    return [
        *rules_for(RESIZES, "factor", factor, _resize_factor, CONVERTER),
        Rule(ResizeNearest, "mode", "neither align_corners nor half_pixel", _resize_mode, IR),
        Rule(ResizeBilinear, "mode", "align_corners or half_pixel", _resize_mode, IR),
    ]


def _rules(geometry: Geometry) -> tuple[Rule, ...]:
    limit = f"height and width at most {MAX_WINDOW}"
    names = ", ".join(f.value for f in FUNCTIONS)
    return (
        *rules_for(SUPPORTED, "dtype", "int8", _activations_int8, CONVERTER),
        *rules_for(SUPPORTED, "shape", f"tensors of at most {MAX_RANK} axes, none empty", _tensor_shapes, IR),
        *rules_for(
            SHARED,
            "parameters",
            "the same scale and zero point for operands and result",
            _same_parameters,
            CONVERTER,
        ),
        *rules_for(
            PAIRS, "broadcast", "one operand with as many elements as the result", _broadcast, CONVERTER
        ),
        *_convolution_rules(geometry),
        *_transpose_convolution_rules(geometry),
        Rule(BatchMatmul, "zero_points", "zero point 0 for both operands", _both_symmetric, CONVERTER),
        *_resize_rules(),
        Rule(
            Linear,
            "constants",
            "constant weights and bias",
            lambda o: _constants(o.weights, o.bias),
            CONVERTER,
        ),
        Rule(Linear, "weights", "one scale for all weights", lambda o: _per_tensor(o.weights), QUANTIZER),
        Rule(AvgPool2d, "kernel", limit, lambda o: _at_most(MAX_WINDOW, o.kernel), CONVERTER),
        *rules_for(
            (AvgPool2d, MaxPool2d), "stride", limit, lambda o: _at_most(MAX_WINDOW, o.stride), CONVERTER
        ),
        Rule(
            AvgPool2d,
            "padding",
            "none (what lies outside must not count)",
            lambda o: (o.padding, not any(o.padding)),
            CONVERTER,
        ),
        Rule(Lut, "function", f"one of {names}", lambda o: (o.function.value, o.function in FUNCTIONS), IR),
        Rule(Lut, "output", "sigmoid from -128 in steps of 1/256, tanh around 0 of 1/128", _fixed_output, IR),
        Rule(Lut, "table", "values that 32 bits hold", _table_defined, IR),
        Rule(Add, "scale", "a result in steps of more than 2^-19 of the larger operand's", _sum_scale, IR),
        Rule(
            Clamp,
            "bounds",
            "at least one bound strictly inside the operand's -128 to 127",
            _clamp_survives,
            CONVERTER,
        ),
        Rule(
            Clamp,
            "form",
            "a relu, relu6, relu_n1_to_1 or relu_0_to_1, or bounds that keep the scale",
            _clamp_form,
            CONVERTER,
        ),
        Rule(
            Softmax,
            "channels",
            f"at most {MAX_SOFTMAX_CHANNELS}",
            lambda o: _at_most(MAX_SOFTMAX_CHANNELS, o.results[0].shape[-1:]),
            CONVERTER,
        ),
        Rule(Softmax, "rows", f"at most {MAX_SOFTMAX_ROWS}", _softmax_rows, CONVERTER),
        Rule(
            Softmax,
            "elements",
            f"at most {MAX_SOFTMAX_ELEMENTS}",
            lambda o: _at_most(MAX_SOFTMAX_ELEMENTS, (o.results[0].type.elements,)),
            CONVERTER,
        ),
        Rule(Slice, "step", "1 along every axis", lambda o: (o.step, set(o.step) <= {1}), IR),
        Rule(Reshape, "rank", f"at most {MAX_RESHAPE_RANK}", _rank_at_most(MAX_RESHAPE_RANK), IR),
        Rule(Transpose, "rank", f"at most {MAX_TRANSPOSE_RANK}", _rank_at_most(MAX_TRANSPOSE_RANK), IR),
        Rule(Pad, "rank", f"at most {MAX_PAD_RANK}", _rank_at_most(MAX_PAD_RANK), IR),
    )


# --- the cost ---------------------------------------------------------------------------------------------------------

DISPATCH_CYCLES = 2000
"""Starting the NPU and waiting for it (an estimate)."""
BYTES_PER_CYCLE = 8
"""Between SRAM and the NPU (an estimate)."""


def _estimate(op: Op, geometry: Geometry) -> int:
    """Cycles of one op: dot products in blocks of pipelines x MACs, or bytes moved, whichever is more."""
    moved = sum(v.type.size_bytes for v in (*op.operands, *op.results)) // BYTES_PER_CYCLE
    match op:
        case Conv2d() | Linear():
            depth = op.macs // op.y.type.elements
            blocks = -(-op.y.shape[-1] // geometry.pipelines) * -(-depth // geometry.macs)
            return max(moved, op.y.type.elements // op.y.shape[-1] * blocks)
        case BatchMatmul():
            blocks = -(-op.columns // geometry.pipelines) * -(-op.depth // geometry.macs)
            return max(moved, op.a.shape[0] * op.rows * blocks)
        case TransposeConv2d():
            blocks = -(-op.out_channels // geometry.pipelines) * -(-op.in_channels // geometry.macs)
            return max(moved, op.x.type.elements // op.in_channels * math.prod(op.kernel) * blocks)
        case DepthwiseConv2d():
            return max(moved, op.macs // geometry.pipelines)
        case Reshape():
            return 0
        case _:
            return moved


WISHES = Wishes(
    symmetric_operands=frozenset({"batch_matmul"}),
    shared=frozenset({"mean", "reduce_max", "reduce_min"}),
    per_tensor_weights=frozenset({"linear"}),
)
"""What the rules above need of the quantizer. Not for sums: in the steps of a sum nothing is left of what it sums up, so
a sum stays on the CPU."""


def neutron(name: str, geometry: Geometry) -> Device:
    """A Neutron of some size."""
    return Device(
        name=name,
        summary=f"NXP eIQ Neutron, {geometry.pipelines} x {geometry.macs} MAC per cycle",
        ops=frozenset(SUPPORTED),
        rules=_rules(geometry),
        estimate=lambda op: _estimate(op, geometry),
        dispatch_cycles=DISPATCH_CYCLES,
        wishes=WISHES,
    )


N3_64 = neutron("neutron-n3-64", Geometry(8, 8))
N1_16 = neutron("neutron-n1-16", Geometry(4, 4))
