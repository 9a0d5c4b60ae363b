# SPDX-License-Identifier: Apache-2.0
"""Scales for programs that hold multipliers in their place. A scale is a mantissa and an exponent: the multipliers of layers
determine mantissas, and leave exponents open, which sums, products and known scales tie."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator

from pillion.ir.graph import Graph, UniqueNames
from pillion.ir.op import Op, Quantization
from pillion.ir.scale_search import find_scale, weight_scales
from pillion.ir.types import PerChannel, PerTensor, Quant, UnknownScale, Value, constant_value
from pillion.ops import BatchMatmul, DepthwiseConv2d, Mul, Softmax
from pillion.ops.elementwise import AddOrSub
from pillion.ops.layer import Layer
from pillion.ops.softmax import INPUT_BITS, LARGEST_STEP, SMALLEST_STEP

Product = (Mul, BatchMatmul)
DISTINCT = 5
"""With this many different multipliers, a layer usually leaves one scale; with fewer, several, and another op may
need a certain one."""


def recover_scales(graph: Graph) -> Graph:
    """Finds scales that give the multipliers of programs that hold no scales, such as ExecuTorch's own, because NPUs take
    scales. An op without such scales stays as it is; multipliers and outputs stay in any case."""
    if not any(isinstance(v.type.quant, UnknownScale) for v in graph.values.values()):
        return graph
    quants = _Recovery(graph).quantizations()
    values = {
        v: Value(v.name, dataclasses.replace(v.type, quant=quant), v.data) for v, quant in quants.items()
    }
    names = UniqueNames(graph.values)
    recovered = graph.substitute(values)
    return recovered.replace(ops=tuple(_with_scaled_constants(op, names) for op in recovered.ops))


def _with_scaled_constants(op: Op, names: UniqueNames) -> Op:
    """Returns the op with scales for its weights, and for constants that share the scale of its result."""
    y = op.results[0].type.quant
    if isinstance(op, Layer) and isinstance(op.weights.type.quant, UnknownScale):
        return _with_weight_scales(op)
    if op.quantization is not Quantization.SHARED or not isinstance(y, PerTensor):
        return op
    constants = [v for v in op.operands if v.is_constant and isinstance(v.type.quant, UnknownScale)]
    return op.substitute({v: constant_value(names.fresh(v.name), v.constant, y) for v in constants})


def _with_weight_scales(op: Layer) -> Op:
    if not (
        op.explicit and isinstance(op.x.type.quant, PerTensor) and isinstance(op.y.type.quant, PerTensor)
    ):
        return op
    scales = weight_scales(op.explicit, op.x.scale, op.y.scale)
    if scales is None:
        return op
    axis = 3 if isinstance(op, DepthwiseConv2d) else 0
    quant: Quant = PerTensor(scales[0]) if len(scales) == 1 else PerChannel(scales, axis)
    return op.substitute({op.weights: constant_value(op.weights.name, op.weights.constant, quant)})


FARTHEST = 60
"""The largest exponents of scales that are taken: products of two are still numbers of 32 bits."""
Relation = tuple[tuple[tuple[Value, int], ...], float]
"""Scales with their powers, and the number that their product is."""


def _relations(op: Op) -> Iterator[Relation]:
    """Yields the equations between the scales of an op's operands and result that its multipliers give."""
    if isinstance(op, Softmax) and op.explicit and SMALLEST_STEP < op.explicit[0].real < LARGEST_STEP:
        yield ((op.x, 1),), math.ldexp(op.explicit[0].real, INPUT_BITS - 31)
    elif isinstance(op, Product) and op.explicit:
        yield ((op.a, 1), (op.b, 1), (op.y, -1)), op.explicit[0].real
    elif isinstance(op, AddOrSub) and op.explicit:
        first, second, out = (m.real for m in op.explicit)
        large, small, ratio = (op.a, op.b, second) if first >= second else (op.b, op.a, first)
        yield ((small, 1), (large, -1)), 2 * ratio
        yield ((large, 1), (op.y, -1)), math.ldexp(out, op.left_shift - 1)


class _Recovery:
    """The known scales of a graph."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.same_scale: dict[Value, Value] = {}
        """A value → another one with the same scale."""
        self.mantissas: dict[Value, float] = {}
        """From 1 to 2."""
        self.exponents = _Exponents()
        for op in graph.ops:
            if op.quantization is Quantization.SHARED:
                self._join([v for v in (*op.results, *op.activations) if v.is_quantized])
        for v in graph.values.values():
            if isinstance(v.type.quant, PerTensor):
                self.mantissas[self.representative(v)] = _mantissa(v.scale)
                self.exponents.determine(self.representative(v), _exponent(v.scale))
        self.relations = [
            (self._powers(terms), number) for op in graph.ops for terms, number in _relations(op) if number
        ]
        self._find_mantissas()
        self._find_exponents()

    def _join(self, values: list[Value]) -> None:
        """Lets values share one scale, unless they are known to differ."""
        if len({v.type.quant for v in values if isinstance(v.type.quant, PerTensor)}) < 2:
            for v in values[1:]:
                one, other = self.representative(v), self.representative(values[0])
                self.same_scale.update({one: other} if one is not other else {})

    def representative(self, v: Value) -> Value:
        """Returns the value that stands for all with the same scale."""
        while v in self.same_scale:
            v = self.same_scale[v]
        return v

    def quantizations(self) -> dict[Value, PerTensor]:
        """Returns the scales that were unknown."""
        found = {}
        for v in self.graph.values.values():
            one, quant = self.representative(v), v.type.quant
            exponent = self.exponents.exponent(one)
            if exponent is None or one not in self.mantissas or abs(exponent) > FARTHEST:
                continue
            if isinstance(quant, UnknownScale):
                found[v] = PerTensor(math.ldexp(self.mantissas[one], exponent), quant.zero_point)
        return found

    def _powers(self, terms: tuple[tuple[Value, int], ...]) -> dict[Value, int]:
        powers: dict[Value, int] = {}
        for v, power in terms:
            powers[self.representative(v)] = powers.get(self.representative(v), 0) + power
        return {v: power for v, power in powers.items() if power}

    def _find_mantissas(self) -> None:
        """Goes from relations to layers that have to be searched, the certain ones first."""
        layers = [op for op in self.graph.ops if isinstance(op, Layer) and op.explicit]
        layers.sort(key=lambda op: len(set(op.explicit)) < DISTINCT)
        while True:
            while any([self._learn_mantissa(*relation) for relation in self.relations]):
                pass
            ends = ((op, self.representative(op.x), self.representative(op.y)) for op in layers)
            ready = (one for one in ends if (one[1] in self.mantissas) != (one[2] in self.mantissas))
            op, x, y = next(ready, (None, None, None))
            if op is None or x is None or y is None:
                return
            layers.remove(op)
            likely = sorted({*self.mantissas.values()})
            known = {"x": self.mantissas.get(x), "y": self.mantissas.get(y)}
            found = find_scale(op.explicit, **known, likely=likely)
            if found is not None:
                self.mantissas[y if x in self.mantissas else x] = found

    def _learn_mantissa(self, powers: dict[Value, int], number: float) -> bool:
        """Learns the only unknown mantissa of a relation. Returns whether there was one."""
        unknown = [v for v in powers if v not in self.mantissas]
        if len(unknown) != 1 or abs(powers[unknown[0]]) != 1:
            return False
        scale = self._without_known(powers, number) ** powers[unknown[0]]
        self.mantissas[unknown[0]] = _mantissa(PerTensor(_mantissa(scale)).scale)
        return True

    def _without_known(self, powers: dict[Value, int], number: float) -> float:
        """Returns a relation's number without the known mantissas."""
        for v, power in powers.items():
            number /= self.mantissas.get(v, 1.0) ** power
        return number

    def _find_exponents(self) -> None:
        """Chooses the undetermined exponents, in running order: a layer's result is about as large as its operand.
        The scales of the program's own inputs and outputs are never chosen, because others read them."""
        open_ends = [self.representative(v) for v in (*self.graph.sources, *self.graph.sinks)]
        known = [(p, n) for p, n in self.relations if all(v in self.mantissas for v in p)]
        equations = [
            (powers, round(math.log2(self._without_known(powers, number)))) for powers, number in known
        ]
        layers = [op for op in self.graph.ops if isinstance(op, Layer)]
        pairs = [(op.y, op.x) for op in layers] + [(op.x, op.y) for op in layers]
        values = [v for v in map(self.representative, self.graph.values.values()) if v in self.mantissas]
        while True:
            while any([self.exponents.add_equation(*equation) for equation in equations]):
                pass
            references = {self.exponents.reference(v)[0] for v in open_ends}
            free = [v for v in values if self.exponents.reference(v)[0] not in {None, *references}]
            if not free:
                return
            near = (
                (self.representative(v), self.exponents.exponent(self.representative(o))) for v, o in pairs
            )
            choice = next(((v, e) for v, e in near if v in free and e is not None), (free[0], 0))
            self.exponents.determine(*choice)


class _Exponents:
    """Exponents of values, each the exponent of another value and a difference; None has the exponent 0."""

    def __init__(self) -> None:
        self.relative: dict[Value, tuple[Value | None, int]] = {}

    def reference(self, v: Value) -> tuple[Value | None, int]:
        """Returns the value that others follow, and the difference from it."""
        at: Value | None = v
        total = 0
        while at is not None and at in self.relative:
            at, difference = self.relative[at]
            total += difference
        return at, total

    def exponent(self, v: Value) -> int | None:
        """Returns the exponent of a value, if it is determined."""
        reference, difference = self.reference(v)
        return difference if reference is None else None

    def determine(self, v: Value, exponent: int) -> None:
        """Determines an exponent, if it is not."""
        self.add_equation({v: 1}, exponent)

    def add_equation(self, powers: dict[Value, int], total: int) -> bool:
        """Takes an equation, sum(power · exponent) = total, if one unknown follows from it. Returns whether one does."""
        terms: dict[Value, int] = {}
        for v, power in powers.items():
            reference, difference = self.reference(v)
            total -= power * difference
            if reference is not None:
                terms[reference] = terms.get(reference, 0) + power
        terms = {v: power for v, power in terms.items() if power}
        if sorted(terms.values()) == [-1, 1]:
            other, v = sorted(terms, key=terms.__getitem__)
            self.relative[v] = (other, total)
        elif len(terms) == 1 and set(terms.values()) <= {-1, 1}:
            ((v, power),) = terms.items()
            self.relative[v] = (None, power * total)
        else:
            return False
        return True


def _mantissa(scale: float) -> float:
    """Returns the mantissa of a scale, from 1 to 2."""
    return 2 * math.frexp(scale)[0]


def _exponent(scale: float) -> int:
    """Returns the exponent that goes with the mantissa."""
    return math.frexp(scale)[1] - 1
