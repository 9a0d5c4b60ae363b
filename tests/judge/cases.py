# SPDX-License-Identifier: Apache-2.0
"""Programs for the judge: one op each, of every kind that is emitted, small ones and such as cross what 15 and 16 bits hold."""

from __future__ import annotations

import math
from typing import Any

from fuzz.choices import Choices, from_seed
from fuzz.grow import Grower, Unfit
from fuzz.recipes import conv_weights, recipe_of, weighted
from pillion.emitters.pte.table import TABLE
from pillion.ir.graph import Graph
from pillion.ir.numerics import Arithmetic
from pillion.ir.op import Op
from pillion.ir.types import Shape, Value
from pillion.ops import ALL_OPS, Reshape, Segment, TransposeConv2d

KINDS: dict[str, type[Op]] = {
    cls.kind: cls for cls in ALL_OPS if TABLE.get(cls) and cls not in (Reshape, Segment)
}
"""Every kind of op that becomes kernel calls."""
LONG = (255, 256, 257, 4095, 4096, 8191, 9362, 9363, 32767, 32768, 32769, 65535, 65536, 65537, 70001)
"""Sizes of one axis: around what 8, 15 and 16 bits hold, and where eight rows of it reach 16 bits."""
SIDES = (181, 182, 224, 256, 257, 300, 96)
"""Of images whose pixels are about so many."""
FEW = (1, 2, 3, 4, 5, 7, 8, 9)
LARGEST, MOST_MACS = 260_000, 6_000_000
"""Elements of a large value, and what an emulated core multiplies in a second or two."""
TRIES = 40


class Wide(Grower):
    """Grows values of which one in three is large, or none."""

    def __init__(self, choices: Choices, smallish: int = 0) -> None:
        super().__init__(choices, Arithmetic.CMSIS_NN, smallish or LARGEST)
        self.most_macs = MOST_MACS
        self.most_of_small = smallish or 3000
        how = choices.pick(("small", "small", "small", "small", "long", "image"))
        self.how = "small" if smallish else how

    def shape(self, rank: int | None = None) -> Shape:
        rank = self.choices.pick((4, 3, 2, 4, 1, 4, 5)) if rank is None else rank
        if self.how == "small":
            largest, self.largest = self.largest, self.most_of_small
            small = super().shape(rank)
            self.largest = largest
            return small
        made = self._long(rank) if self.how == "long" or rank < 3 else self._image(rank)
        return made

    def _long(self, rank: int) -> Shape:
        """One axis of a notable size, the others as small as they have to be."""
        size, at = self.choices.pick(LONG), self.choices.integer(0, max(rank - 1, 0))
        shape = [size if i == at else self.choices.pick(FEW) for i in range(rank)]
        for i in range(rank):
            if i != at and math.prod(shape) > self.largest:
                shape[i] = 1
        return tuple(shape)

    def _image(self, rank: int) -> Shape:
        """Sides whose product is notable, few channels."""
        h, w = self.choices.pick(SIDES), self.choices.pick(SIDES)
        channels = self.choices.pick(tuple(c for c in FEW if h * w * c <= self.largest) or (1,))
        sides = (channels, h, w) if self.choices.one_in(3) else (h, w, channels)
        return (*(1,) * (rank - 3), *sides)


def upsampled(grower: Grower, cls: type[TransposeConv2d]) -> Value:
    """As recipes make it, with paddings of all sizes that the window has room for."""

    def shaped(grower: Grower, x: Value, fields: dict[str, Any]) -> tuple[Shape, int]:
        shape, axis = conv_weights(grower, x, fields)
        high, wide = (grower.choices.integer(0, k - 1) for k in shape[1:3])
        if not grower.choices.one_in(4):
            fields["padding"] = (high, wide, high, wide)
            fields["output_padding"], fields["dilation"] = (0, 0), (1, 1)
        return shape, axis

    return weighted(4, shaped)(grower, cls)


def case(kind: str, seed: int, smallish: int = 0) -> Graph | None:
    """The program of a seed, of few elements where asked for; None if none of its tries made a valid op."""
    choices = from_seed(hash_of(kind, seed))
    cls = KINDS[kind]
    recipe = upsampled if cls is TransposeConv2d else recipe_of(cls)
    for _ in range(TRIES):
        grower = Wide(choices, smallish)
        try:
            recipe(grower, cls)
        except (Unfit, IndexError):
            continue
        if any(op.kind == kind for op in grower.ops):
            return grower.graph(f"{kind}{seed}")
    return None


def hash_of(kind: str, seed: int) -> int:
    """A seed of its own for each kind."""
    return 1_000_003 * seed + int.from_bytes(kind.encode(), "little") % 999_983
