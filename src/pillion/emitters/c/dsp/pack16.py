# SPDX-License-Identifier: Apache-2.0
"""Constants of the DSP kernels of layers with 16-bit operands (kernels/dsp) in the order of their loops."""

from __future__ import annotations

import numpy as np

from pillion.emitters.c.accumulators import Int8Array, Int32Array
from pillion.emitters.c.layers16 import channels_16, weight_rows
from pillion.ir.types import Array
from pillion.ops.layer import Layer

NIBBLES = ((4, 0), (6, 2), (5, 1), (7, 3))
"""The inputs of the lower and the upper half of each byte of a word of weights."""


PLACES, OFFSETS = np.array([16, 1, 4096, 256]), np.array([8, 8, 0, 8])
"""The positions of the weights of four outputs in a halfword, and the numbers added to them first."""


def fours(weights: Int8Array) -> Int32Array:
    """Returns weights [outputs, inputs] as [outputs, steps] words of four, in the order 0 2 1 3."""
    padded = np.pad(weights, ((0, 0), (0, -weights.shape[1] % 4)))
    ordered = padded.reshape(len(weights), -1, 4)[:, :, [0, 2, 1, 3]]
    return np.ascontiguousarray(ordered).reshape(len(weights), -1).view(np.int32)


def in_16_bits(weights: Int8Array) -> Int32Array:
    """Returns weights [outputs, inputs] as words of two, an even number for each output."""
    padded = np.pad(weights, ((0, 0), (0, -weights.shape[1] % 4)))
    return np.ascontiguousarray(padded.astype(np.int16)).view(np.int32)


def eights(weights: Int8Array) -> Int32Array:
    """Returns weights of 4 bits [outputs, inputs] as [outputs, steps] words of eight."""
    padded = np.pad(weights, ((0, 0), (0, -weights.shape[1] % 8))).reshape(len(weights), -1, 8)
    low, high = (padded[:, :, list(half)] for half in zip(*NIBBLES, strict=True))
    return np.ascontiguousarray(high << 4 | low & 15).view(np.int32).reshape(len(weights), -1)


def upper_word_factors(op: Layer) -> Int32Array:
    """Returns the factor of each channel: a result is the upper word of a sum times its factor, rounded half up."""
    return channels_16(op).multipliers << 1


def fours_of(column: Int8Array | Int32Array) -> Int32Array:
    """Returns the rows of a column in groups of four outputs, as [groups, 4, row], filled up with zeros."""
    rows = column.reshape(len(column), -1)
    return np.pad(rows, ((0, -len(rows) % 4), (0, 0))).reshape(-1, 4, rows.shape[1]).astype(np.int32)


def channel_stream(op: Layer, weights: Int32Array) -> Int32Array:
    """Returns the stream of a layer: for each output a bias, words of weights, and a factor."""
    columns = np.asarray(op.bias.constant, np.int32), weights, upper_word_factors(op)
    return np.column_stack(columns).astype(np.int32).reshape(-1)


def pairs_of_four(op: Layer) -> tuple[int, Int32Array]:
    """Returns the fours of inputs of a layer, and its stream in groups of four outputs, two of which share a halfword and a
    sum of 64 bits (kernels/dsp/linear_s16_dsp.c)."""
    weights, biases = _weights_of_four(op, 4), _biases_of_four(op).astype(np.int64)
    halfwords = (
        (256 * weights[:, :, 1::2] + weights[:, :, ::2] + 128).reshape(len(weights), -1, 4, 2).swapaxes(2, 3)
    )
    both = 256 * biases[:, 1::2] + biases[:, ::2]
    sums = np.stack([both, both >> 32, biases[:, ::2]], axis=2).reshape(len(weights), -1)
    return _stream_of_four(op, halfwords.reshape(len(weights), -1), sums)


def halfwords_of_four(op: Layer) -> tuple[int, Int32Array]:
    """Returns the eights of inputs of a layer with weights of 4 bits, and its stream, in which a halfword holds the weights
    of four outputs, and which has the sums that these begin with (kernels/dsp/linear_s16_dsp.c) in place of biases."""
    first, second, third, fourth = _biases_of_four(op).astype(np.int64).T
    upper = 16 * third + fourth
    sums = np.stack([256 * upper + 16 * first + second, second, upper, fourth], axis=1)
    return _stream_of_four(op, (_weights_of_four(op) + OFFSETS) @ PLACES, sums)


def masked_halfwords_of_four(op: Layer) -> tuple[int, Int32Array]:
    """Returns packed weights that masks extract from a halfword, with unchanged biases."""
    return _stream_of_four(op, (_weights_of_four(op) + 8) @ (1, 16, 256, 4096), _biases_of_four(op))


def _weights_of_four(op: Layer, inputs: int = 8) -> Int32Array:
    """Returns the weights of each four outputs as [groups, inputs filled up to a multiple, outputs]."""
    rows = weight_rows(op)
    return fours_of(np.pad(rows, ((0, 0), (0, -rows.shape[1] % inputs)))).swapaxes(1, 2)


def _biases_of_four(op: Layer) -> Int32Array:
    return fours_of(np.asarray(op.bias.constant, np.int32))[:, :, 0]


def _stream_of_four(op: Layer, halfwords: Array, sums: Array) -> tuple[int, Int32Array]:
    factors = fours_of(upper_word_factors(op))[:, :, 0]
    words = np.ascontiguousarray(halfwords.astype(np.int16)).view(np.int32)
    return halfwords.shape[1] // 8, np.hstack([sums.astype(np.int32), words, factors]).reshape(-1)
