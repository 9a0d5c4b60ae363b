# SPDX-License-Identifier: Apache-2.0
"""The limits of NXP's eIQ Neutron."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from pillion.devices.device import Found, Limit, limit
from pillion.devices.neutron.generations import OLD_FLOW
from pillion.devices.neutron.old_flow import SOURCE as OLD
from pillion.devices.op_groups import MOVES
from pillion.devices.predicates import quantized_level_of
from pillion.ir.op import Op
from pillion.ir.types import PerTensor
from pillion.ops import Add, BatchMatmul, Clamp, Function, Slice
from pillion.ops.resize import Resize, ResizeNearest
from pillion.ops.transpose_conv import TransposeConv2d

MAX_WINDOW = 4096
"""The largest kernel, stride and dilation along one axis."""
MAX_DOT_PRODUCT = 65535
"""The largest kernel height · kernel width · input channels (rounded up to the MACs of a pipeline)."""
MAX_TRANSPOSE_CONV_STRIDE = 2
RESIZE_FACTORS = (1, 2, 4, 8)
"""The scale factors of height and width, independent of each other."""
MAX_SOFTMAX_CHANNELS = 2040
MAX_OLD_SOFTMAX_CHANNELS = 16384
"""The bound of the old flow, divided among the pipelines."""
MAX_SOFTMAX_ROWS = 4096
MAX_SOFTMAX_ELEMENTS = 524288
MAX_RESHAPE_RANK = 7
MAX_TRANSPOSE_RANK = 6
MAX_PAD_RANK = 5
MAX_RANK = 8
"""The largest rank of any tensor in TFLite form."""

_OLD = (Function.ABS, Function.LEAKY_RELU, Function.NEG, Function.SIGMOID, Function.TANH)
_NEW = (*_OLD, Function.EXP, Function.LOG)
FUNCTIONS = (
    (OLD_FLOW, _OLD, OLD),
    (("3.1",), _NEW, "converter, ExecuTorch 1.4.1"),
    (("3.2",), (*_NEW, Function.HARDSWISH, Function.RSQRT), "converter, ExecuTorch 1.5.1 with SDK 3.2.0"),
)
"""The functions by generation of the converter, and where that comes from."""


@dataclass(frozen=True)
class NeutronGeometry:
    """The size of an NPU: parallel dot-product units (pipelines), and multiply-accumulates of each per
    cycle."""

    pipelines: int
    macs: int


def dot_product_length(geometry: NeutronGeometry) -> Limit:
    """Limits the length of dot products, with channels rounded up to whole blocks of this NPU."""

    def found(op: Any) -> Found:
        size = math.prod(op.kernel) * (-(-op.x.shape[3] // geometry.macs) * geometry.macs)
        return size, size <= MAX_DOT_PRODUCT

    channels = f"channels (to a multiple of {geometry.macs})"
    return Limit(f"kernel height · width · {channels} at most {MAX_DOT_PRODUCT}", found)


@limit("at least one bound strictly inside the operand's -128 to 127")
def require_effective_clamp(op: Clamp) -> Found:
    """The converter keeps a clamp: it removes bounds that no value of the operand can cross, and fails if none is
    left. Bounds are compared before saturation, because two bounds beyond the same end leave a constant."""
    low = [op.low] if op.low > -128 or op.low == op.y.zero_point else []
    high = [op.high] if op.high < 127 else []
    levels = [quantized_level_of(op.x, (bound - op.y.zero_point) * op.y.scale) for bound in (*low, *high)]
    return " and ".join(map(str, levels)) or "no bound", any(-128 < level < 127 for level in levels)


@limit("a result scale of more than 2^-19 of the larger operand scale")
def large_sum_scale(op: Add) -> Found:
    """Requantization of a sum never shifts left."""
    return f"{op.y.scale:g} of {max(op.a.scale, op.b.scale):g}", op.rescale[2].shift <= 0


@limit(f"tensors of at most {MAX_RANK} axes, none empty")
def supported_shapes(op: Op) -> Found:
    """Moves of scalars would have empty tensors as parameters."""
    shapes = [v.shape for v in (*op.operands, *op.results)]
    wrong = [shape for shape in shapes if len(shape) > MAX_RANK or 0 in shape]
    if isinstance(op, MOVES) and not op.y.shape:
        wrong.append(())
    return list(wrong[0]) if wrong else "supported shapes", not wrong


@limit("one operand with as many elements as the result")
def one_broadcast_operand(op: Op) -> Found:
    """Only one operand is broadcast."""
    result = op.results[0].type.elements
    counts = [v.type.elements for v in op.operands]
    return " and ".join(map(str, counts)) + f" for {result}", result in counts


@limit("zero point 0 for both operands")
def require_symmetric_operands(op: BatchMatmul) -> Found:
    """Both operands of a matrix product are quantized symmetrically."""
    quants = [v.type.quant for v in (op.a, op.b)]
    zero_points = [q.zero_point if isinstance(q, PerTensor) else None for q in quants]
    return " and ".join(map(str, zero_points)), zero_points == [0, 0]


@limit(f"height and width at most {MAX_TRANSPOSE_CONV_STRIDE} and those of the kernel")
def require_stride_within_kernel(op: TransposeConv2d) -> Found:
    """The stride of a transposed convolution leaves no gaps between kernels."""
    sides = zip(op.stride, op.kernel, strict=True)
    fits = all(s <= min(MAX_TRANSPOSE_CONV_STRIDE, k) for s, k in sides)
    return f"{op.stride} for a kernel of {op.kernel}", fits


@limit("smaller than the kernel")
def require_padding_within_kernel(op: TransposeConv2d) -> Found:
    """Every pixel of a transposed convolution contributes to its result."""
    fits = all(p < k for p, k in zip(op.padding, (*op.kernel, *op.kernel), strict=True))
    return f"{op.padding} for a kernel of {op.kernel}", fits


_FACTORS = ", ".join(map(str, RESIZE_FACTORS))


@limit(f"height and width scaled by one of {_FACTORS} (between corner pixels with align_corners)")
def resize_factor(op: Resize) -> Found:
    """An image grows by a supported factor along each axis."""
    less = int(op.align_corners)
    axes = [(before - less, after - less) for before, after in zip(op.x.shape[1:3], op.size, strict=True)]
    fits = all(before > 0 and after in [before * f for f in RESIZE_FACTORS] for before, after in axes)
    return " and ".join(f"{after}/{before}" for before, after in axes), fits


def resize_mode(op: Resize) -> Found:
    """Returns the corner alignment of a resize, and whether the NPU has it for this kind."""
    mode = "align_corners" if op.align_corners else "half_pixel" if op.half_pixel else "neither"
    return mode, (mode == "neither") == isinstance(op, ResizeNearest)


@limit("1 along every axis")
def require_unit_steps(op: Slice) -> Found:
    """A slice leaves nothing out."""
    return op.step, set(op.step) <= {1}
