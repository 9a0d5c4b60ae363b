# SPDX-License-Identifier: Apache-2.0
"""Conversions between real numbers and integers, and between integers of different scales."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from pillion.ir import numerics
from pillion.ir.numerics import Arithmetic
from pillion.ir.op import Op, Quantization, op, require_dtype
from pillion.ir.types import BYTES, Array, DType, PerChannel, PerTensor, TensorType, Value
from pillion.ops.elementwise import level_steps
from pillion.ops.example_values import ZERO_POINTS, float_value, make_op, rescale_examples, value
from pillion.ops.rowwise import Unary
from pillion.ops.wide_arithmetic import WideSum, has_16_bits

NORMAL = (2.0**-126, 2.0**126)
"""Scales that are normal float32 numbers, as are their reciprocals; some cores and compilers flush smaller ones to
zero."""


def require_normal(op: Op, value: Value) -> None:
    """Raises if a scale is too small or too large for float32 arithmetic."""
    scales = value.channel_scales
    low, high = NORMAL
    if scales.min() < low or scales.max() > high:
        raise op.refuse(
            f"the scale of `{value.name}` is from {low:.3g} to {high:.3g}: it and its reciprocal are normal float32 numbers",
            f"{scales.min():.3g} to {scales.max():.3g}" if len(scales) > 1 else f"{scales.min():.3g}",
            "quantize again with data that the model will see, or leave the conversion from and to float32 outside the model",
        )


@op("quantize", quantization=Quantization.NONE)
class Quantize(Unary):
    """Quantizes float32 to int8; inside the compiler also to int16.

    `cmsis-nn` multiplies by the float32 reciprocal of the scale and rounds ties to even; `tflite` divides in
    float32 and rounds ties away from zero. Both saturate; NaN becomes the zero point."""

    is_identity = False

    def infer(self) -> TensorType:
        return TensorType(self.x.shape, DType.INT16 if self.y.dtype is DType.INT16 else DType.INT8)

    def check(self) -> None:
        require_dtype(self, self.x, DType.FLOAT32)
        if self.y.is_quantized:
            require_normal(self, self.y)

    def reference(self, arithmetic: Arithmetic, *operands: Array) -> Array:
        x, scale = operands[0].astype(np.float32), np.float32(self.y.scale)
        with np.errstate(over="ignore", invalid="ignore"):
            if arithmetic.is_tflite:
                levels = numerics.round_half_away(x / scale)
            else:
                levels = np.rint(x * (np.float32(1) / scale)).astype(np.float64)
        low, high = self.y.dtype.bounds
        levels = np.clip(np.nan_to_num(levels, nan=0.0), 4 * low, 4 * high + 4).astype(np.int64)
        return np.clip(levels + self.y.zero_point, low, high).astype(self.y.dtype.numpy)

    @classmethod
    def examples(cls) -> Iterator[Op]:
        yield from _border_examples(cls)


@op("dequantize", quantization=Quantization.NONE)
class Dequantize(Unary):
    """Dequantizes int8 (or int32) to float32: (q - zero point) · scale."""

    is_identity = False

    def infer(self) -> TensorType:
        return TensorType(self.x.shape, DType.FLOAT32)

    def check(self) -> None:
        if not self.x.is_quantized:
            raise self.refuse("the operand is quantized", repr(self.x))
        require_normal(self, self.x)

    def reference(self, arithmetic: Arithmetic, *operands: Array) -> Array:
        match self.x.type.quant:
            case PerChannel(scales, axis):
                shape = [-1 if i == axis else 1 for i in range(self.x.type.rank)]
                return operands[0].astype(np.float32) * np.array(scales, np.float32).reshape(shape)
            case _:
                return (operands[0].astype(np.int32) - self.x.zero_point).astype(np.float32) * np.float32(
                    self.x.scale
                )

    @classmethod
    def examples(cls) -> Iterator[Op]:
        yield from _border_examples(cls)


@op("requantize", quantization=Quantization.NONE)
class Requantize(Unary):
    """Changes scale and zero point; converts between uint8 and int8, between int8 and int16, and from int16 to
    int32. To and from int16, unless arithmetic is `tflite`, 64 bits are rounded once, half up."""

    takes_int16 = True

    to: DType = DType.INT8

    @property
    def is_identity(self) -> bool:
        return self.x.type == self.y.type

    def has_own_int16_form(self, arithmetic: Arithmetic) -> bool:
        return has_16_bits((self.x, self.y)) and not arithmetic.is_tflite

    @property
    def int16_form(self) -> WideSum:
        """The op in our own 16-bit arithmetic, as a sum whose second operand does not count."""
        return WideSum(self.x, self.x, self.y, False, 0)

    def check_scales(self, arithmetic: Arithmetic) -> None:
        if self.has_own_int16_form(arithmetic):
            self.int16_form.check_scales()
        else:
            super().check_scales(arithmetic)

    def largest_sums(self) -> Iterator[tuple[int, int]]:
        yield level_steps(self.x), numerics.encode_multiplier(self.x.scale / self.y.scale).shift

    def infer(self) -> TensorType:
        return TensorType(self.x.shape, self.to)

    def check(self) -> None:
        types, pair = (*BYTES, DType.INT16), (self.x.dtype, self.to)
        if pair == (DType.INT16, DType.INT32):
            if self.y.zero_point:
                raise self.refuse("int32 results have zero point 0", self.y.zero_point)
            return
        if not set(pair) <= set(types) or set(pair) == {DType.UINT8, DType.INT16}:
            raise self.refuse(
                "operand and result are int8, uint8 or int16, and not uint8 and int16, or int16 and int32",
                " and ".join(t.value for t in pair),
            )

    def reference(self, arithmetic: Arithmetic, *operands: Array) -> Array:
        if self.has_own_int16_form(arithmetic):
            levels = self.int16_form.levels((operands[0], operands[0]))
        else:
            x = operands[0].astype(np.int64) - self.x.zero_point
            levels = numerics.scale_by(x, self.x.scale / self.y.scale) + self.y.zero_point
        return np.clip(levels, *self.to.bounds).astype(self.to.numpy)

    @classmethod
    def examples(cls) -> Iterator[Op]:
        yield from rescale_examples(cls, {}, {})
        for source, to, zeros in (
            (DType.UINT8, DType.INT8, (0, -128)),
            (DType.INT8, DType.UINT8, (-128, 0)),
            (DType.UINT8, DType.UINT8, (255, 130)),
        ):
            for scale in (0.05, 0.031, 2.0**-4):
                x = Value("x", TensorType((2, 3, 11), source, PerTensor(0.05, zeros[0])))
                y = Value("y", TensorType((), to, PerTensor(scale, zeros[1])))
                yield make_op(cls, y, x=x, to=to)
        for source, to in ((DType.INT16, DType.INT16), (DType.INT16, DType.INT8), (DType.INT8, DType.INT16)):
            for scale in (0.05, 0.031, 2.0**-4):
                x = Value("x", TensorType((2, 3, 11), source, PerTensor(0.05 if source is to else 2.0**-5)))
                y = Value("y", TensorType((), to, PerTensor(scale, 7 if to is DType.INT8 else 0)))
                yield make_op(cls, y, x=x, to=to)
        for scale in (0.0001, 2.0**-11, 0.3):
            x = Value("x", TensorType((2, 3, 11), DType.INT16, PerTensor(0.031)))
            yield make_op(cls, Value("y", TensorType((), DType.INT32, PerTensor(scale))), x=x, to=DType.INT32)


def _border_examples(cls: type[Op]) -> Iterator[Op]:
    for number, scale in enumerate((0.05, 2.0**-4, 1.0, 0.007)):
        quantized = value("x" if cls.kind == "dequantize" else "y", (2, 3, 11), scale, ZERO_POINTS[number])
        plain = float_value("y" if cls.kind == "dequantize" else "x", (2, 3, 11))
        first, second = (quantized, plain) if cls.kind == "dequantize" else (plain, quantized)
        yield make_op(cls, second, x=first)
