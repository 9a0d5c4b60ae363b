# SPDX-License-Identifier: Apache-2.0
"""The base class of convolutions and fully connected layers."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from itertools import chain
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from pillion.ir import numerics
from pillion.ir.numerics import Arithmetic, Multipliers
from pillion.ir.op import Op, ScaledOp, operand, require_dtype, result
from pillion.ir.types import Array, DType, Value, constant_value
from pillion.ops.example_values import with_4_bits, with_16_bit_results

LayerClass = TypeVar("LayerClass", bound="Layer")
BEYOND_SUMS = 2**47 - 2**31
"""The smallest number that no sum of 16-bit products and a bias of 64 bits reaches."""


class Layer(ScaledOp):
    """Sums products of an operand with weights, and a bias, and requantizes them. Multipliers are per output channel, or
    one for all."""

    is_identity = False
    weights_of_4_bits = False
    """Whether weights may have 4 bits."""

    x: Value = operand()
    weights: Value = operand()
    bias: Value = operand()
    y: Value = result()
    low: int = -128
    high: int = 127

    @property
    def weights_out_channels(self) -> int:
        """The number of output channels according to the weights."""
        return self.weights.shape[0]

    @property
    def weights_per_output(self) -> Array:
        """The weights as [out_channels, inputs]."""
        return self.weights.constant.reshape(self.weights.shape[0], -1)

    @property
    def widens(self) -> bool:
        """Whether the layer makes 16-bit results from 8-bit operands."""
        return self.x.dtype is DType.INT8 and self.y.dtype is DType.INT16

    @property
    def result_dtype(self) -> DType:
        """The type of the result."""
        return DType.INT16 if self.widens else self.x.dtype

    def has_own_int16_form(self, arithmetic: Arithmetic) -> bool:
        return self.widens

    @property
    def ratios(self) -> NDArray[np.float64]:
        """The accumulator's scale over the result's, per output channel."""
        scales = np.broadcast_to(self.weights.channel_scales, (self.weights_out_channels,))
        return np.asarray(self.x.scale * scales / self.y.scale, np.float64)

    @property
    def multipliers(self) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Mantissas and shifts of all output channels."""
        multipliers = self.effective_multipliers(Arithmetic.CMSIS_NN)
        return numerics.mantissas_and_shifts(multipliers, self.weights_out_channels)

    @property
    def numbers_of_multipliers(self) -> tuple[int, ...]:
        return 1, self.weights_out_channels

    def from_scales(self, arithmetic: Arithmetic) -> Multipliers:
        return numerics.encode_multipliers(self.ratios)

    def accumulators(self, x: Array, weights: Array, bias: Array) -> NDArray[np.int64]:
        """Returns the accumulators that are requantized."""
        raise NotImplementedError

    def reference(self, arithmetic: Arithmetic, *operands: Array) -> Array:
        """Requantizes the accumulators, adds the zero point, clamps."""
        return self.requantized(self.accumulators(*operands))

    def requantized(self, sums: NDArray[np.int64]) -> Array:
        """Returns the result: accumulators in steps of the result, with the zero point, clamped."""
        scale = numerics.requantize_to_16_bits if self.y.dtype is DType.INT16 else numerics.requantize
        levels = scale(sums, *self.multipliers) + self.y.zero_point
        return np.clip(levels, self.low, self.high).astype(self.y.dtype.numpy)

    @property
    def has_constant_sums(self) -> bool:
        """Whether the bounds of 8-bit sums are known: weights and biases are constants."""
        return self.x.dtype is DType.INT8 and self.weights.is_constant and self.bias.is_constant

    def largest_sums(self) -> Iterator[tuple[int, int]]:
        if self.has_constant_sums:
            yield from zip(self.largest_8_bit_sums.tolist(), self.multipliers[1].tolist(), strict=True)

    @property
    def largest_8_bit_sums(self) -> NDArray[np.int64]:
        """The largest accumulator of each output of a layer with 8-bit operands."""
        products = numerics.INT8_STEPS * numerics.row_magnitudes(self.weights_per_output)
        return np.asarray(products + np.abs(self.bias.constant.astype(np.int64)))

    @property
    def largest_16_bit_sums(self) -> NDArray[np.float64]:
        """The largest accumulator of each output of a layer with 16-bit operands; exact up to 2^53."""
        products = -DType.INT16.bounds[0] * numerics.row_magnitudes(self.weights_per_output)
        return np.asarray(products + np.abs(self.bias.constant.astype(np.float64)), np.float64)

    @property
    def largest_scaled_16_bit_sum(self) -> float:
        """The largest accumulator of a layer with 16-bit operands, in steps of the result, before clamping."""
        mantissas, shifts = self.multipliers
        scales = np.ldexp(mantissas.astype(np.float64), shifts - 31)
        return float((self.largest_16_bit_sums * scales).max(initial=0))

    def check_layer(self) -> None:
        """Raises if the layer has integers of wrong types, or an accumulator could exceed its bits."""
        if self.x.dtype not in (DType.INT8, DType.INT16):
            return
        self._check_weights()
        self._check_bias()
        require_symmetric(self, *(v for v in (self.x, self.y) if v.dtype is DType.INT16))
        if (
            self.y.dtype is DType.INT16
            and self.y.is_quantized
            and (rights := numerics.to_15_bits(*self.multipliers)[1]).min(initial=1) < 1
        ):
            rule, found = (
                "ratios of scales of 16-bit layers are below 2^15",
                f"up to 2^{15 - int(rights.min())}",
            )
            raise self.refuse(rule, found, "calibrate with data that the model will see")
        if self.has_constant_sums:
            self._check_accumulators()

    def _check_weights(self) -> None:
        """Raises unless weights are int8, or constants of 4 bits where the layer takes them."""
        if self.weights.dtype is not DType.INT4 or not self.weights_of_4_bits:
            require_dtype(self, self.weights, DType.INT8)
        elif not self.weights.is_constant:
            raise self.refuse("weights of 4 bits are constants", repr(self.weights))
        elif self.widens:
            raise self.refuse(
                "layers with weights of 4 bits read and make tensors of one width", repr(self.y)
            )

    def _check_bias(self) -> None:
        """Raises unless the bias is int32; or int64, if operands have 16 bits and sums can be multiplied."""
        if self.bias.dtype is not DType.INT64 or self.x.dtype is not DType.INT16:
            require_dtype(self, self.bias, DType.INT32)
        elif not (self.weights.is_constant and self.bias.is_constant):
            raise self.refuse("weights and biases of 64 bits are constants", repr(self.bias))
        elif (largest := self.largest_16_bit_sums.max(initial=0)) >= BEYOND_SUMS:
            help = "scale this layer's weights so that its biases are smaller"
            raise self.refuse("sums of 16-bit layers are below 2^47 - 2^31", f"up to {largest:.6g}", help)

    def _check_accumulators(self) -> None:
        """Raises if an accumulator could exceed 32 bits. The bound holds for partial sums, too."""
        weights = self.weights_per_output
        start = self.bias.constant.astype(np.int64) - self.x.zero_point * numerics.row_sums(weights)
        lowest, highest = (start + bound for bound in numerics.row_bounds(weights))
        outside = (lowest < numerics.INT32_MIN) | (highest > numerics.INT32_MAX)
        if outside.any():
            channel = int(np.argmax(outside))
            raise self.refuse(
                "sums fit 32 bits",
                f"from {lowest[channel]} to {highest[channel]} in channel {channel}",
                "calibrate with data that the model will see",
            )

    @classmethod
    def examples(cls) -> Iterator[Op]:
        made = list(cls._examples())
        of_4_bits = (with_4_bits(made), with_4_bits(made, DType.INT16)) if cls.weights_of_4_bits else ()
        return chain(made, *of_4_bits, with_16_bit_results(made))

    @classmethod
    def _examples(cls) -> Iterator[Op]:
        """Yields examples with weights of 8 bits, and results as wide as their operands."""
        raise NotImplementedError


def require_symmetric(op: Op, *values: Value) -> None:
    """Raises unless 16-bit tensors of a layer have the zero point 0."""
    for tensor in values:
        require_dtype(op, tensor, DType.INT16)
        if tensor.zero_point:
            raise op.refuse("16-bit operands and results of layers have the zero point 0", tensor.zero_point)


def zero_dead_channel_biases(op: LayerClass, fresh: Callable[[str], str]) -> LayerClass:
    """Replaces the biases of dead channels, whose multiplier is zero, by zeros. Converters saturate such biases,
    which would exceed the accumulator's range for no reason."""
    outputs = op.weights_out_channels
    if op.bias.shape != (outputs,) or op.y.shape[-1:] != (outputs,):  # the op's own check says so, after this
        return op
    try:
        idle = np.broadcast_to(op.multipliers[0] == 0, op.bias.shape)
    except ValueError:  # scales that no multiplier can reach: the op's own check says so
        return op
    if not idle.any():
        return op
    data = np.where(idle, 0, op.bias.constant)
    if data.min() >= numerics.INT32_MIN and data.max() <= numerics.INT32_MAX:
        data = data.astype(np.int32)
    return dataclasses.replace(op, bias=constant_value(fresh(op.bias.name), data, op.bias.type.quant))
