# SPDX-License-Identifier: Apache-2.0
"""The rules of NXP's converter, one row per rule: its ops, its limit and its source.

Sources: "converter" is the behaviour of NXP's converter as a release of its ExecuTorch backend encodes it; "quantizer" is a
guarantee of that backend's quantizer; "IR" is a limit of the TFLite form. `rules_by_generation` has the rules that hold for some
generations of the converter only."""

from __future__ import annotations

from collections.abc import Iterator

from pillion import ops
from pillion.devices import predicates
from pillion.devices.device import Limit, NpuRule, RuleRow, rules_from
from pillion.devices.neutron import limits as limits
from pillion.devices.neutron.generations import NAMES, NEWEST, OLD_FLOW, Generation
from pillion.devices.neutron.limits import MAX_WINDOW, NeutronGeometry
from pillion.devices.neutron.old_flow import SOURCE as OLD
from pillion.devices.neutron.old_flow import multiples, old_flow_rows
from pillion.devices.op_groups import CONVOLUTIONS, PAIRS, POOLS, RESIZES, SHARED, WEIGHTED
from pillion.ir.op import Op

CONVERTER, QUANTIZER, IR = "converter, ExecuTorch 1.5.1", "quantizer, ExecuTorch 1.5.1", "IR, TFLite"
PUBLISHED = "eight published results of converter 1.x"

SAME = (*SHARED, ops.Mean, ops.ReduceSum)
SUPPORTED: tuple[type[Op], ...] = (
    *(*WEIGHTED, ops.BatchMatmul, ops.Add, ops.Sub, ops.Mul, ops.Lut, ops.Prelu, ops.Clamp, ops.Softmax),
    *(*RESIZES, *SAME),
)
"""Other ops stay on the core: the converter has no integer division, and segments begin and end in int8 of one
scale."""


def _window_limit(attribute: str) -> Limit:
    return predicates.sides_at_most(MAX_WINDOW, attribute, f"height and width at most {MAX_WINDOW}")


def _rank_limit(most: int) -> Limit:
    return predicates.at_most(most, lambda op: op.y.type.rank)


def _channels(op: ops.Softmax) -> int:
    return op.y.shape[-1]


def rules(geometry: NeutronGeometry, generation: Generation = NEWEST) -> tuple[NpuRule, ...]:
    """Returns all rules of a Neutron of this size for a generation of the converter."""
    dependent = [row for row, names in rules_by_generation(geometry) if generation.name in names]
    return rules_from((*_convolution_rules(geometry), *dependent, *OTHERS))


def rules_by_generation(geometry: NeutronGeometry) -> Iterator[tuple[RuleRow, tuple[str, ...]]]:
    """Yields the rules that depend on the converter's generation, each with the names of its generations."""
    for row in old_flow_rows(geometry.macs):
        yield row, OLD_FLOW
    new = NAMES[len(OLD_FLOW) :]
    most = limits.MAX_OLD_SOFTMAX_CHANNELS // geometry.pipelines - 1
    yield (
        (ops.Softmax, "flow", Limit("SDK 2.2 or later", lambda op: ("an older one", False)), PUBLISHED),
        NAMES[:1],
    )
    yield (ops.Softmax, "blocks", multiples(geometry.macs, lambda op: op.y.shape[-1:]), OLD), OLD_FLOW
    yield (ops.Softmax, "channels", predicates.at_most(most, _channels), OLD), OLD_FLOW
    yield (
        (ops.Softmax, "channels", predicates.at_most(limits.MAX_SOFTMAX_CHANNELS, _channels), CONVERTER),
        new,
    )
    for names, functions, source in limits.FUNCTIONS:
        listed = tuple(sorted(functions, key=lambda function: function.value))
        yield (ops.Lut, "function", predicates.function_among(listed), source), names


def _convolution_rules(geometry: NeutronGeometry) -> Iterator[RuleRow]:
    dot_product = limits.dot_product_length(geometry)
    yield from TENSORS
    yield from (
        (CONVOLUTIONS, field, _window_limit(field), CONVERTER) for field in ("kernel", "stride", "dilation")
    )
    yield CONVOLUTIONS, "dot_product", dot_product, CONVERTER
    yield CONVOLUTIONS, "zero_point", predicates.require_symmetric_weights, QUANTIZER
    yield (
        ops.Conv2d,
        "groups",
        predicates.attribute_equals(1, "groups", "1 (a pass splits others)"),
        CONVERTER,
    )
    one = predicates.attribute_equals(1, "depth_multiplier", "1 (a pass expands others)")
    yield ops.DepthwiseConv2d, "multiplier", one, CONVERTER
    yield ops.TransposeConv2d, "kernel", _window_limit("kernel"), CONVERTER
    yield ops.TransposeConv2d, "stride", limits.require_stride_within_kernel, CONVERTER
    yield ops.TransposeConv2d, "dilation", predicates.sides_at_most(1, "dilation", "1"), CONVERTER
    yield ops.TransposeConv2d, "padding", limits.require_padding_within_kernel, CONVERTER
    yield ops.TransposeConv2d, "dot_product", dot_product, CONVERTER
    yield ops.TransposeConv2d, "zero_point", predicates.require_symmetric_weights, QUANTIZER


TENSORS: tuple[RuleRow, ...] = (
    (SUPPORTED, "dtype", predicates.int8_activations, CONVERTER),
    (SUPPORTED, "shape", limits.supported_shapes, IR),
    (SAME, "parameters", predicates.same_quantization, CONVERTER),
    (PAIRS, "broadcast", limits.one_broadcast_operand, CONVERTER),
    (WEIGHTED, "constants", predicates.constant_weights, CONVERTER),
)
_NO_PADDING = predicates.require_zeros("padding", "none (padding must not count in the average)")
_NEITHER = Limit("neither align_corners nor half_pixel", limits.resize_mode)
_EITHER = Limit("align_corners or half_pixel", limits.resize_mode)
_ROWS = predicates.at_most(limits.MAX_SOFTMAX_ROWS, predicates.softmax_rows)
_ELEMENTS = predicates.at_most(limits.MAX_SOFTMAX_ELEMENTS, lambda op: op.y.type.elements)
OTHERS: tuple[RuleRow, ...] = (
    (ops.BatchMatmul, "zero_points", limits.require_symmetric_operands, CONVERTER),
    (ops.Linear, "zero_point", predicates.require_symmetric_weights, QUANTIZER),
    (ops.Linear, "weights", predicates.per_tensor_weights, QUANTIZER),
    (ops.AvgPool2d, "kernel", _window_limit("kernel"), CONVERTER),
    (POOLS, "stride", _window_limit("stride"), CONVERTER),
    (ops.AvgPool2d, "padding", _NO_PADDING, CONVERTER),
    (RESIZES, "factor", limits.resize_factor, CONVERTER),
    (ops.ResizeNearest, "mode", _NEITHER, IR),
    (ops.ResizeBilinear, "mode", _EITHER, IR),
    (ops.Lut, "output", predicates.fixed_output_quantization, IR),
    (ops.Lut, "table", predicates.require_total_function, IR),
    (ops.Add, "scale", limits.large_sum_scale, IR),
    (ops.Clamp, "bounds", limits.require_effective_clamp, CONVERTER),
    (ops.Clamp, "form", predicates.representable_bounds, CONVERTER),
    (ops.Softmax, "rows", _ROWS, CONVERTER),
    (ops.Softmax, "elements", _ELEMENTS, CONVERTER),
    (ops.Softmax, "output", predicates.softmax_scale, IR),
    (ops.Slice, "step", limits.require_unit_steps, IR),
    (ops.Reshape, "rank", _rank_limit(limits.MAX_RESHAPE_RANK), IR),
    (ops.Transpose, "rank", _rank_limit(limits.MAX_TRANSPOSE_RANK), IR),
    (ops.Pad, "rank", _rank_limit(limits.MAX_PAD_RANK), IR),
)
