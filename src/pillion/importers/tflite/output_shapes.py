# SPDX-License-Identifier: Apache-2.0
"""Computes the shapes of results as LiteRT does: from operands, constants and options, never from declared
shapes. These rules are for operators that become reshapes and slices; other ops infer their own shape."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from pillion.codecs.tflite.geometry import axis_of, strides
from pillion.codecs.tflite.read_operator import ReadOperator
from pillion.importers.tflite.loop_analysis import subgraph
from pillion.importers.tflite.model import has_open_size, tensor_of
from pillion.ir.types import Shape, Value
from pillion.schemas import tflite

OUTPUT_STATE = 18
"""The index of an LSTM's output state operand."""
Rule = Callable[[ReadOperator], Sequence[Shape]]


def with_computed_shapes(call: ReadOperator) -> ReadOperator:
    """Returns the operator with computed shapes of its results."""
    rule = SHAPES.get(call.code)
    if rule is None:
        return call
    shapes = rule(call)
    if len(shapes) != len(call.outputs):
        raise call.refuse(f"there are {len(shapes)} results", len(call.outputs))
    results = zip(call.outputs, shapes, strict=True)
    return replace(call, outputs=tuple(with_shape(call, y, shape) for y, shape in results))


def with_shape(call: ReadOperator, y: Value, shape: Shape) -> Value:
    """Returns a result with its computed shape. Raises if the declared shape differs, unless the file leaves
    a size open (-1 in the signature)."""
    if y.shape == shape:
        return y
    if y not in call.open:
        raise call.refuse(f"the result has the shape {list(shape)}", f"the file declares {y!r}")
    result = Value(y.name, replace(y.type, shape=shape))
    call.bind(y, result)
    return result


def _broadcast_shapes(call: ReadOperator) -> list[Shape]:
    shapes = [call.operand(number).shape for number in range(len(call.inputs))]
    try:
        return [np.broadcast_shapes(*shapes)]
    except ValueError:
        raise call.refuse("the shapes of operands fit each other", shapes) from None


def _first_operand_shape(call: ReadOperator) -> list[Shape]:
    return [call.operand(0).shape]


def _same_shapes(call: ReadOperator) -> list[Shape]:
    shapes = {call.operand(number).shape for number in range(len(call.inputs))}
    if len(shapes) != 1:
        raise call.refuse("operands have one shape", [list(s) for s in shapes])
    return [*shapes]


def _reshape_shapes(call: ReadOperator) -> list[Shape]:
    """Returns the shape in the second operand, or in the options if that is omitted; one size may be -1."""
    operand = call.optional(1)
    sizes = (
        call.integers(1) if operand is not None else list(call.options_as(tflite.ReshapeOptions).new_shape)
    )
    elements, known = call.operand(0).type.elements, math.prod(n for n in sizes if n != -1)
    if sizes.count(-1) > 1 or min(sizes, default=1) < -1 or (-1 in sizes and (not known or elements % known)):
        raise call.refuse(f"a shape for {elements} elements", sizes)
    return [tuple(elements // known if n == -1 else n for n in sizes)]


def _squeeze_shapes(call: ReadOperator) -> list[Shape]:
    shape = call.operand(0).shape
    axes = {axis_of(call, a, len(shape)) for a in call.options_as(tflite.SqueezeOptions).squeeze_dims}
    if any(shape[axis] != 1 for axis in axes):
        raise call.refuse("only axes of size 1 are dropped", f"{sorted(axes)} of {list(shape)}")
    return [tuple(n for axis, n in enumerate(shape) if n != 1 or (axes and axis not in axes))]


def _expand_dims_shapes(call: ReadOperator) -> list[Shape]:
    shape = call.operand(0).shape
    axis = _single_axis(call, call.integers(1), len(shape) + 1)
    return [(*shape[:axis], 1, *shape[axis:])]


def _single_axis(call: ReadOperator, axes: Sequence[int], rank: int) -> int:
    if len(axes) != 1:
        raise call.refuse("there is one axis", list(axes))
    return axis_of(call, axes[0], rank)


def _split_shapes(call: ReadOperator) -> list[Shape]:
    shape, count = call.operand(1).shape, call.options_as(tflite.SplitOptions).num_splits
    axis = _single_axis(call, call.integers(0), len(shape))
    if count < 1 or shape[axis] % count:
        raise call.refuse(f"axis {axis} has equal parts", f"{list(shape)} in {count} parts")
    return [_replace_axis_size(shape, axis, shape[axis] // count)] * count


def _split_v_shapes(call: ReadOperator) -> list[Shape]:
    shape, sizes = call.operand(0).shape, call.constant(1).constant.ravel().tolist()
    axis = _single_axis(call, call.integers(2), len(shape))
    rest = shape[axis] - sum(n for n in sizes if n != -1)
    count = call.options_as(tflite.SplitVOptions).num_splits
    if count != len(sizes):
        raise call.refuse(f"there are {count} sizes", sizes)
    if sizes.count(-1) > 1 or min(sizes, default=0) < -1 or rest < 0 or (rest and -1 not in sizes):
        raise call.refuse(f"the parts have {shape[axis]} elements along axis {axis}", sizes)
    return [_replace_axis_size(shape, axis, rest if n == -1 else n) for n in sizes]


def _replace_axis_size(shape: Shape, axis: int, size: int) -> Shape:
    return (*shape[:axis], size, *shape[axis + 1 :])


def _pack_shapes(call: ReadOperator) -> list[Shape]:
    options, (shape,) = call.options_as(tflite.PackOptions), _same_shapes(call)
    if options.values_count != len(call.inputs):
        raise call.refuse(f"there are {options.values_count} operands", len(call.inputs))
    axis = axis_of(call, options.axis, len(shape) + 1)
    return [(*shape[:axis], len(call.inputs), *shape[axis:])]


def _unpack_shapes(call: ReadOperator) -> list[Shape]:
    options, shape = call.options_as(tflite.UnpackOptions), call.operand(0).shape
    axis = axis_of(call, options.axis, len(shape))
    if options.num != shape[axis]:
        raise call.refuse(f"there are {shape[axis]} results", options.num)
    return [(*shape[:axis], *shape[axis + 1 :])] * shape[axis]


def _slice_shapes(call: ReadOperator) -> list[Shape]:
    shape, begin, sizes = call.operand(0).shape, call.integers(1), call.integers(2)
    if not len(begin) == len(sizes) == len(shape):
        raise call.refuse(f"begin and size have {len(shape)} numbers", f"{begin}, {sizes}")
    taken = tuple(d - b if n == -1 else n for d, b, n in zip(shape, begin, sizes, strict=True))
    if any(b < 0 or n < 1 or b + n > d for d, b, n in zip(shape, begin, taken, strict=True)):
        raise call.refuse(f"the slice lies inside {list(shape)}", f"{begin}, {sizes}")
    return [taken]


def _strided_slice_shapes(call: ReadOperator) -> list[Shape]:
    return [strides(call, call.operand(0).shape, call.options_as(tflite.StridedSliceOptions)).shape]


def _space_to_depth_shapes(call: ReadOperator) -> list[Shape]:
    n, h, w, c = _image_shape(call)
    block = call.options_as(tflite.SpaceToDepthOptions).block_size
    if block < 1 or h % block or w % block:
        raise call.refuse("rows and columns are whole blocks", f"{[n, h, w, c]} in blocks of {block}")
    return [(n, h // block, w // block, c * block**2)]


def _depth_to_space_shapes(call: ReadOperator) -> list[Shape]:
    n, h, w, c = _image_shape(call)
    block = call.options_as(tflite.DepthToSpaceOptions).block_size
    if block < 1 or c % block**2:
        raise call.refuse("channels are whole blocks", f"{[n, h, w, c]} in blocks of {block}")
    return [(n, h * block, w * block, c // block**2)]


def _image_shape(call: ReadOperator) -> Shape:
    shape = call.operand(0).shape
    if len(shape) != 4:
        raise call.refuse("an image has 4 axes", list(shape))
    return shape


def _gather_shapes(call: ReadOperator) -> list[Shape]:
    options, shape, numbers = (
        call.options_as(tflite.GatherOptions),
        call.operand(0).shape,
        call.operand(1).shape,
    )
    axis, batch = axis_of(call, options.axis, len(shape)), options.batch_dims
    batch = batch + len(numbers) if batch < 0 else batch
    if not 0 <= batch <= min(axis, len(numbers)) or shape[:batch] != numbers[:batch]:
        raise call.refuse("batch axes are before the axis, and axes of the numbers", f"axis {axis}, {batch}")
    return [(*shape[:axis], *numbers[batch:], *shape[axis + 1 :])]


def _tile_shapes(call: ReadOperator) -> list[Shape]:
    shape, counts = call.operand(0).shape, call.integers(1)
    if len(counts) != len(shape) or min(counts, default=1) < 1:
        raise call.refuse(f"there are {len(shape)} counts, each at least 1", counts)
    return [tuple(d * count for d, count in zip(shape, counts, strict=True))]


def _fill_shapes(call: ReadOperator) -> list[Shape]:
    sizes = call.integers(0)
    if min(sizes, default=1) < 1:
        raise call.refuse("sizes are positive", sizes)
    return [tuple(sizes)]


def _linear_shapes(call: ReadOperator) -> list[Shape]:
    options, x, weights = call.options_as(tflite.FullyConnectedOptions), call.operand(0), call.operand(1)
    if weights.type.rank != 2 or not weights.shape[1] or x.type.elements % weights.shape[1]:
        raise call.refuse("weights are [out, in], and the operand is rows of them", f"{x!r}, {weights!r}")
    out, features = weights.shape
    if not options.keep_num_dims:
        return [(x.type.elements // features, out)]
    if x.shape[-1:] != (features,):
        raise call.refuse(f"rows have {features} elements", repr(x))
    return [(*x.shape[:-1], out)]


def _loop_shapes(call: ReadOperator) -> list[Shape]:
    """Returns the shapes that the body returns; where the body leaves them open, those of the operands."""
    body = subgraph(call, call.options_as(tflite.WhileOptions).body_subgraph_index)
    if len(body.outputs) != len(call.inputs):
        raise call.refuse(
            "a loop hands on as much as it takes", f"{len(call.inputs)} and {len(body.outputs)}"
        )
    tensors = [tensor_of(body, number) for number in body.outputs]
    return [
        call.operand(number).shape if has_open_size(tensor) else tuple(tensor.shape)
        for number, tensor in enumerate(tensors)
    ]


def _lstm_shapes(call: ReadOperator) -> list[Shape]:
    x, state = call.operand(0), call.operand(OUTPUT_STATE)
    if x.type.rank != 3 or state.type.rank != 2:
        raise call.refuse("the input has three axes, the state two", f"{x!r}, {state!r}")
    return [(*x.shape[:2], state.shape[1])]


SHAPES: Mapping[str, Rule] = {
    **dict.fromkeys(("BITWISE_XOR", "RIGHT_SHIFT", "SQUARED_DIFFERENCE"), _broadcast_shapes),
    "ADD_N": _same_shapes,
    **dict.fromkeys(
        ("NEG", "ABS", "SIGN", "CUMSUM", "REVERSE_SEQUENCE", "ZEROS_LIKE", "CAST"), _first_operand_shape
    ),
    "RESHAPE": _reshape_shapes,
    "SQUEEZE": _squeeze_shapes,
    "EXPAND_DIMS": _expand_dims_shapes,
    "SPLIT": _split_shapes,
    "SPLIT_V": _split_v_shapes,
    "PACK": _pack_shapes,
    "UNPACK": _unpack_shapes,
    "SLICE": _slice_shapes,
    "STRIDED_SLICE": _strided_slice_shapes,
    "SPACE_TO_DEPTH": _space_to_depth_shapes,
    "DEPTH_TO_SPACE": _depth_to_space_shapes,
    "GATHER": _gather_shapes,
    "TILE": _tile_shapes,
    "FILL": _fill_shapes,
    "FULLY_CONNECTED": _linear_shapes,
    "UNIDIRECTIONAL_SEQUENCE_LSTM": _lstm_shapes,
    "WHILE": _loop_shapes,
}
"""The rules, by operator name."""
