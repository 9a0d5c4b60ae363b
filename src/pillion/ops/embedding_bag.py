# SPDX-License-Identifier: Apache-2.0
"""Embedding bags: rows of a table with a scale for each, looked up and added in one op."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from pillion.ir import numerics
from pillion.ir.access import Access, identity_access
from pillion.ir.numerics import Arithmetic, Int64Array
from pillion.ir.op import Op, op, operand, require_dtype, require_rank, result
from pillion.ir.types import Array, DType, PerChannel, PerTensor, Shape, TensorType, Value, constant_value
from pillion.ops.example_values import ZERO_POINTS, conv_weights, make_op

MOST_WORDS = 2**20
"""The maximum number of rows in a bag; their 64-bit sum is exact."""


@op("embedding_bag")
class EmbeddingBag(Op):
    """Adds or averages rows of a constant table [rows, elements]; the last axis of the indices is a bag, or every index
    one of its own. Each row has its own scale: it is multiplied by a 31-bit integer, and the 64-bit sum is rounded once, half up.

    Indices below 0 count as 0, indices behind the last row as the last row."""

    is_identity = False

    table: Value = operand()
    indices: Value = operand()
    y: Value = result()
    mean: bool = False
    is_lookup: bool = False
    """Whether every index is a bag: rows are not added."""

    @property
    def bag_shape(self) -> Shape:
        """The axes of the indices that are no bag."""
        return self.indices.shape if self.is_lookup else self.indices.shape[:-1]

    @property
    def words(self) -> int:
        """The number of rows in a bag."""
        return 1 if self.is_lookup else self.indices.shape[-1]

    @property
    def macs(self) -> int:
        return self.words * self.y.type.elements

    @property
    def ratios(self) -> NDArray[np.float64]:
        """The ratio of each row's scale to the result's."""
        scales = np.broadcast_to(self.table.channel_scales, (self.table.shape[0],))
        return np.asarray(scales / (self.y.scale * (self.words if self.mean else 1)), np.float64)

    @property
    def places(self) -> int:
        """The fraction bits of all multipliers."""
        return numerics.shared_fraction_bits(self.ratios)

    @property
    def multipliers(self) -> NDArray[np.int32]:
        """The multiplier of each row, with `places` fraction bits."""
        return numerics.to_fixed_point(self.ratios, self.places).astype(np.int32)

    @property
    def offset(self) -> int:
        """The constant added to the sum: the zero point, and one half for rounding."""
        return (self.y.zero_point << self.places) + (1 << self.places >> 1)

    def access(self, operand: Value) -> Access:
        if operand is self.table:
            return identity_access(operand, (0, 1), "they are taken by their numbers")
        return identity_access(operand, () if self.is_lookup else {operand.type.rank - 1}, "they are added")

    def check_scales(self, arithmetic: Arithmetic) -> None:
        if self.places < 1:
            raise ValueError(
                f"a row in steps of {2.0**numerics.MULTIPLIER_BITS:.3g} of the result's, or more"
            )

    def infer(self) -> TensorType:
        return TensorType((*self.bag_shape, self.table.shape[-1]), self.y.dtype)

    def check(self) -> None:
        require_dtype(self, self.indices, DType.INT32)
        require_rank(self, self.table, 2)
        if not (self.indices.type.rank or self.is_lookup) or not 0 < self.words <= MOST_WORDS:
            raise self.refuse(f"1 to {MOST_WORDS:,} words in a bag", list(self.indices.shape))
        if not self.table.shape[0]:
            raise self.refuse("the table has a row at least", list(self.table.shape))
        if self.y.dtype is not DType.FLOAT32:
            require_dtype(self, self.y, DType.INT8)
            if self.table.dtype is not DType.INT4:
                require_dtype(self, self.table, DType.INT8)
            quant = self.table.type.quant
            if not isinstance(quant, PerChannel) or quant.axis != 0:
                raise self.refuse("a scale for each row of the table", quant)

    def reference(self, arithmetic: Arithmetic, *operands: Array) -> Array:
        table, numbers = operands
        rows = np.clip(numbers.reshape(*self.bag_shape, self.words), 0, table.shape[0] - 1)
        scaled = table[rows].astype(np.int64) * self.multipliers[rows].astype(np.int64)[..., None]
        sums: Int64Array = scaled.sum(axis=-2) + self.offset
        return np.clip(sums >> self.places, *DType.INT8.bounds).astype(np.int8)

    @classmethod
    def examples(cls) -> Iterator[Op]:
        cases = (
            ((11, 7), (2, 5), False),
            ((5, 33), (3, 1), True),
            ((40, 8), (16,), True),
            ((3, 9), (2, 3, 4), False),
            ((1, 1), (1, 2), False),
        )
        made = list[Op]()
        for number, (shape, numbers, mean) in enumerate(cases):
            table = conv_weights(shape, 0, number, power_of_two=number % 2 == 1)
            table = Value("table", table.type, table.data)
            indices = Value("indices", TensorType(numbers, DType.INT32))
            if number == 3:
                values = np.random.default_rng(number).integers(-2, shape[0] + 2, numbers).astype(np.int32)
                indices = constant_value("indices", values)
            quant = PerTensor((0.02, 2.0**-7, 0.003, 2.0**-4, 0.05)[number], ZERO_POINTS[number % 4])
            y = Value("y", TensorType((), DType.INT8, quant))
            made.append(make_op(cls, y, table=table, indices=indices, mean=mean))
        yield from made
        for number, bag in enumerate(made):
            fields = {"table": table_of_4_bits(bag.operands[0]), "indices": bag.operands[1]}
            yield make_op(cls, bag.results[0], **fields, is_lookup=number % 2 == 1)


def table_of_4_bits(table: Value) -> Value:
    """Returns the rows of an example's table in 4 bits, the first with the least and the largest number."""
    numbers = table.constant // 16
    numbers[0, :2] = (-8, 7)[: numbers.shape[1]]
    return constant_value(table.name, numbers, table.type.quant, DType.INT4)
