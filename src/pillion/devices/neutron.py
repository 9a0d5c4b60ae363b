# SPDX-License-Identifier: Apache-2.0
"""NXP's eIQ Neutron: what its converter takes, as data. The docs table, `explain`, errors and tests read these rules.

Sources: "converter" is the behaviour of NXP's converter (flow of SDK 3.1.2 and later) as its ExecuTorch backend encodes it;
"quantizer" is what that backend's quantizer guarantees; "IR" is what the TFLite form can express. Cycles are estimates from
the published geometry (pipelines x MACs per cycle); no public simulator confirms them."""

from __future__ import annotations

import math

from pillion.devices import neutron_limits as limits
from pillion.devices.device import Device, Rule, rules_for
from pillion.devices.neutron_limits import Geometry
from pillion.ir.op import Op
from pillion.ir.wishes import Wishes
from pillion.ops import (
    Add,
    AvgPool2d,
    Clamp,
    Concat,
    Conv2d,
    DepthwiseConv2d,
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
from pillion.ops.matmul import BatchMatmul
from pillion.ops.prelu import Prelu
from pillion.ops.reduce import ReduceMax, ReduceMin, ReduceSum
from pillion.ops.resize import ResizeBilinear, ResizeNearest
from pillion.ops.transpose_conv import TransposeConv2d

CONVERTER, QUANTIZER, IR = "converter", "quantizer", "IR"
"""Where a rule comes from."""

# --- the rules --------------------------------------------------------------------------------------------------------

CONVOLUTIONS = (Conv2d, DepthwiseConv2d)
RESIZES = (ResizeNearest, ResizeBilinear)
REDUCTIONS = (Mean, ReduceSum, ReduceMax, ReduceMin)
SHARED = (AvgPool2d, MaxPool2d, *REDUCTIONS, Minimum, Maximum, Concat, Slice, Pad, Reshape, Transpose)
PAIRS = (Add, Sub, Mul, Minimum, Maximum)
PRODUCTS = (*CONVOLUTIONS, TransposeConv2d, Linear, BatchMatmul)
SUPPORTED: tuple[type[Op], ...] = (*PRODUCTS, Add, Sub, Mul, Lut, Prelu, Clamp, Softmax, *RESIZES, *SHARED)


def _convolution_rules(geometry: Geometry) -> list[Rule]:
    limit = f"height and width at most {limits.MAX_WINDOW}"
    size = f"kernel height · width · channels (to a multiple of {geometry.macs}) at most {limits.MAX_DOT_PRODUCT}"
    return [
        *rules_for(
            CONVOLUTIONS,
            "constants",
            "constant weights and bias",
            lambda o: limits.constants(o.weights, o.bias),
            CONVERTER,
        ),
        *rules_for(
            CONVOLUTIONS, "kernel", limit, lambda o: limits.at_most(limits.MAX_WINDOW, o.kernel), CONVERTER
        ),
        *rules_for(
            CONVOLUTIONS, "stride", limit, lambda o: limits.at_most(limits.MAX_WINDOW, o.stride), CONVERTER
        ),
        *rules_for(
            CONVOLUTIONS,
            "dilation",
            limit,
            lambda o: limits.at_most(limits.MAX_WINDOW, o.dilation),
            CONVERTER,
        ),
        *rules_for(CONVOLUTIONS, "dot_product", size, lambda o: limits.dot_product(o, geometry), CONVERTER),
        *rules_for(
            (*CONVOLUTIONS, Linear),
            "zero_point",
            "weights with zero point 0",
            lambda o: limits.symmetric(o.weights),
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
    size = f"kernel height · width · channels (to a multiple of {geometry.macs}) at most {limits.MAX_DOT_PRODUCT}"
    stride = f"height and width at most {limits.MAX_TRANSPOSE_CONV_STRIDE} and those of the kernel"
    kernel = f"height and width at most {limits.MAX_WINDOW}"
    return [
        Rule(
            TransposeConv2d,
            "constants",
            "constant weights and bias",
            lambda o: limits.constants(o.weights, o.bias),
            CONVERTER,
        ),
        Rule(
            TransposeConv2d,
            "kernel",
            kernel,
            lambda o: limits.at_most(limits.MAX_WINDOW, o.kernel),
            CONVERTER,
        ),
        Rule(TransposeConv2d, "stride", stride, limits.short_stride, CONVERTER),
        Rule(TransposeConv2d, "dilation", "1", lambda o: limits.at_most(1, o.dilation), CONVERTER),
        Rule(TransposeConv2d, "padding", "smaller than the kernel", limits.little_padding, CONVERTER),
        Rule(TransposeConv2d, "dot_product", size, lambda o: limits.dot_product(o, geometry), CONVERTER),
        Rule(
            TransposeConv2d,
            "zero_point",
            "weights with zero point 0",
            lambda o: limits.symmetric(o.weights),
            QUANTIZER,
        ),
    ]


def _resize_rules() -> list[Rule]:
    factor = f"height and width times one of {', '.join(map(str, limits.RESIZE_FACTORS))} (less one pixel, if corners are aligned)"
    return [
        *rules_for(RESIZES, "factor", factor, limits.resize_factor, CONVERTER),
        Rule(ResizeNearest, "mode", "neither align_corners nor half_pixel", limits.resize_mode, IR),
        Rule(ResizeBilinear, "mode", "align_corners or half_pixel", limits.resize_mode, IR),
    ]


def _rules(geometry: Geometry) -> tuple[Rule, ...]:
    limit = f"height and width at most {limits.MAX_WINDOW}"
    names = ", ".join(f.value for f in limits.FUNCTIONS)
    return (
        *rules_for(SUPPORTED, "dtype", "int8", limits.activations_int8, CONVERTER),
        *rules_for(
            SUPPORTED,
            "shape",
            f"tensors of at most {limits.MAX_RANK} axes, none empty",
            limits.tensor_shapes,
            IR,
        ),
        *rules_for(
            SHARED,
            "parameters",
            "the same scale and zero point for operands and result",
            limits.same_parameters,
            CONVERTER,
        ),
        *rules_for(
            PAIRS, "broadcast", "one operand with as many elements as the result", limits.broadcast, CONVERTER
        ),
        *_convolution_rules(geometry),
        *_transpose_convolution_rules(geometry),
        Rule(BatchMatmul, "zero_points", "zero point 0 for both operands", limits.both_symmetric, CONVERTER),
        *_resize_rules(),
        Rule(
            Linear,
            "constants",
            "constant weights and bias",
            lambda o: limits.constants(o.weights, o.bias),
            CONVERTER,
        ),
        Rule(
            Linear, "weights", "one scale for all weights", lambda o: limits.per_tensor(o.weights), QUANTIZER
        ),
        Rule(AvgPool2d, "kernel", limit, lambda o: limits.at_most(limits.MAX_WINDOW, o.kernel), CONVERTER),
        *rules_for(
            (AvgPool2d, MaxPool2d),
            "stride",
            limit,
            lambda o: limits.at_most(limits.MAX_WINDOW, o.stride),
            CONVERTER,
        ),
        Rule(
            AvgPool2d,
            "padding",
            "none (what lies outside must not count)",
            lambda o: (o.padding, not any(o.padding)),
            CONVERTER,
        ),
        Rule(
            Lut,
            "function",
            f"one of {names}",
            lambda o: (o.function.value, o.function in limits.FUNCTIONS),
            IR,
        ),
        Rule(
            Lut,
            "output",
            "sigmoid from -128 in steps of 1/256, tanh around 0 of 1/128",
            limits.fixed_output,
            IR,
        ),
        Rule(Lut, "table", "values that 32 bits hold", limits.table_defined, IR),
        Rule(
            Add, "scale", "a result in steps of more than 2^-19 of the larger operand's", limits.sum_scale, IR
        ),
        Rule(
            Clamp,
            "bounds",
            "at least one bound strictly inside the operand's -128 to 127",
            limits.clamp_survives,
            CONVERTER,
        ),
        Rule(
            Clamp,
            "form",
            "a relu, relu6, relu_n1_to_1 or relu_0_to_1, or bounds that keep the scale",
            limits.clamp_form,
            CONVERTER,
        ),
        Rule(
            Softmax,
            "channels",
            f"at most {limits.MAX_SOFTMAX_CHANNELS}",
            lambda o: limits.at_most(limits.MAX_SOFTMAX_CHANNELS, o.results[0].shape[-1:]),
            CONVERTER,
        ),
        Rule(Softmax, "rows", f"at most {limits.MAX_SOFTMAX_ROWS}", limits.softmax_rows, CONVERTER),
        Rule(
            Softmax,
            "elements",
            f"at most {limits.MAX_SOFTMAX_ELEMENTS}",
            lambda o: limits.at_most(limits.MAX_SOFTMAX_ELEMENTS, (o.results[0].type.elements,)),
            CONVERTER,
        ),
        Rule(Slice, "step", "1 along every axis", lambda o: (o.step, set(o.step) <= {1}), IR),
        Rule(
            Reshape,
            "rank",
            f"at most {limits.MAX_RESHAPE_RANK}",
            limits.rank_at_most(limits.MAX_RESHAPE_RANK),
            IR,
        ),
        Rule(
            Transpose,
            "rank",
            f"at most {limits.MAX_TRANSPOSE_RANK}",
            limits.rank_at_most(limits.MAX_TRANSPOSE_RANK),
            IR,
        ),
        Rule(Pad, "rank", f"at most {limits.MAX_PAD_RANK}", limits.rank_at_most(limits.MAX_PAD_RANK), IR),
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
