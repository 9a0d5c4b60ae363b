# SPDX-License-Identifier: Apache-2.0
"""The reader of every supported kernel."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pillion.codecs.pte.signatures import EXPLICIT_LAYOUT
from pillion.importers.pte import elementwise, movement, windows
from pillion.importers.pte.instructions import ReadCall

CallReading = Callable[[ReadCall], None]

_BY_DIM_ORDER: Mapping[str, CallReading] = {
    "cortex_m::quantize_per_tensor.out": elementwise.quantize,
    "cortex_m::dequantize_per_tensor.out": elementwise.dequantize,
    "cortex_m::quantized_add.out": elementwise.add,
    "cortex_m::quantized_mul.out": elementwise.mul,
    "cortex_m::quantized_div.out": elementwise.div,
    "cortex_m::quantized_activation.out": elementwise.read_table_lookup,
    "cortex_m::minimum.out": elementwise.minimum,
    "cortex_m::maximum.out": elementwise.maximum,
    "aten::clamp.out": elementwise.clamp,
    "aten::hardtanh.out": elementwise.hardtanh,
    "aten::relu.out": elementwise.relu,
    "cortex_m::quantized_conv2d.out": windows.conv2d,
    "cortex_m::quantized_depthwise_conv2d.out": windows.depthwise_conv2d,
    "cortex_m::quantized_transpose_conv2d.out": windows.transpose_conv2d,
    "cortex_m::quantized_linear.out": windows.linear,
    "cortex_m::quantized_batch_matmul.out": windows.batch_matmul,
    "cortex_m::quantized_avg_pool2d.out": windows.avg_pool2d,
    "cortex_m::quantized_max_pool2d.out": windows.max_pool2d,
    "cortex_m::softmax.out": windows.softmax,
    "cortex_m::transpose.out": movement.transpose,
    "cortex_m::pad.out": movement.pad,
    "aten::permute_copy.out": movement.transpose,
    "aten::transpose_copy.int_out": movement.transpose_two,
    "aten::constant_pad_nd.out": movement.constant_pad,
    "aten::cat.out": movement.cat,
    "aten::slice_copy.Tensor_out": movement.slice_copy,
    "aten::select_copy.int_out": movement.select,
    "aten::expand_copy.out": movement.expand,
    "aten::view_copy.out": movement.read_view,
    "aten::clone.out": movement.read_memory_copy,
    "aten::squeeze_copy.dims_out": movement.read_squeeze,
    "aten::unsqueeze_copy.out": movement.read_unsqueeze,
    "dim_order_ops::_clone_dim_order.out": movement.change_dim_order,
    "dim_order_ops::_to_dim_order_copy.out": movement.change_dim_order,
}
TABLE: Mapping[str, CallReading] = {
    **_BY_DIM_ORDER,
    **{name: _BY_DIM_ORDER[same] for name, same in EXPLICIT_LAYOUT.items()},
}
"""The reader of each operator, by name and overload."""
