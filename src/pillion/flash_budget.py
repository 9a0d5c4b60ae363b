# SPDX-License-Identifier: Apache-2.0
"""Gives layers 4-bit weights until a program fits its flash, in the order of least output damage per saved byte.
Damage is measured on samples; rounding errors are compensated (`passes.four_bit_weights`)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import inf, log10
from operator import attrgetter, itemgetter

import numpy as np

from pillion.errors import PillionError
from pillion.host_io.progress import stage
from pillion.ir.flash_choice import FlashChoice, FlashSize
from pillion.ir.graph import Graph
from pillion.ir.op import Op
from pillion.ir.types import Array, Value
from pillion.ops.layer import Layer
from pillion.ops.scan import Scan
from pillion.passes.four_bit_weights import (
    LayerInputs,
    Table,
    as_large_as_with_4_bits,
    bytes_saved,
    has_table_for_4_bits,
    may_have_4_bits,
    with_4_bits,
    with_table_of_4_bits,
)

RANKING = 2
"""Samples that rank layers."""
HELD_BACK = 4
"""Every fourth sample judges and calibrates nothing, from this many samples on."""
MOST, FEW, MOST_BYTES = 64, 16, 1 << 29
"""Most samples to use; the reference runs each several times. Samples with many bytes of tensors are limited
further."""
Values = dict[Value, Array]
Candidate = Layer | Table


@dataclass(frozen=True)
class FlashSample:
    """The inputs of a program, the real outputs of the float model, and the states that it begins with."""

    inputs: Sequence[Array]
    wanted: Mapping[Value, Array]
    states: Sequence[Array] = ()
    follows: bool = False
    """Whether each sample continues with the states that the previous one left."""


class FlashSearch:
    """Ranks the layers of a graph, and gives 4 bits to as many as a flash size needs. Programs of the same graph
    share the measurements."""

    def __init__(self, graph: Graph, samples: Sequence[FlashSample], other_ways: str = "") -> None:
        self.graph, self.other_ways = graph, other_ways
        if graph.states:
            self.judging, self.calibrating = samples, samples
        else:
            tensors = sum(v.type.size_bytes for op in graph.ops for v in op.results)
            samples = samples[: min(MOST, max(FEW, MOST_BYTES // max(tensors, 1)))]
            self.judging = samples[HELD_BACK - 1 :: HELD_BACK] or samples
            others = [s for number, s in enumerate(samples, start=1) if number % HELD_BACK]
            self.calibrating = others if len(samples) >= HELD_BACK else samples
        has_bags = not graph.arithmetic.is_tflite
        self.holders: dict[Candidate, Op] = {
            layer: op
            for op in graph.ops
            for layer in _layers_in(op)
            if may_have_4_bits(layer) or (has_bags and has_table_for_4_bits(layer))
        }
        """The ops of the graph that are layers, read tables, or are loops with such ops."""
        self.damages: dict[Candidate, float] = {}
        self.graphs: dict[tuple[tuple[Candidate, ...], bool], Graph] = {}
        """Cache of rounded layers, by their set of 4-bit layers and by whether they compensate earlier layers."""

    @cached_property
    def values(self) -> list[Values]:
        """All tensors of the graph, for each sample that calibrates."""
        return list(_runs(self.graph, self.calibrating))

    @cached_property
    def quality_of_8_bits(self) -> float:
        """The quality of the graph as it is."""
        return self.quality(self.graph)

    def within(
        self,
        limit: int,
        flash_of: Callable[[Graph], FlashSize],
        takes: Callable[[Candidate], bool] = lambda op: True,
    ) -> tuple[Graph, FlashChoice]:
        """Returns the graph with as many layers of 4 bits as the limit needs, and the choice; raises if all are not
        enough."""
        before = size = flash_of(self.graph)
        graph, chosen, after = self.graph, tuple[Candidate, ...](), self.quality_of_8_bits
        candidates = [op for op in self.holders if takes(op)]
        ranked = self.ranked(candidates) if before.bytes > limit else ()
        nearest_limit = limit
        while size.bytes > limit:
            chosen = self._chosen(ranked, before, nearest_limit, flash_of)
            made = [self.converted(chosen, fits) for fits in (True, False)]
            sized = [(flash_of(one), one) for one in made]
            judged = [(self.quality(one), bytes_, one) for bytes_, one in sized if bytes_.bytes <= limit]
            smallest = min((bytes_ for bytes_, _ in sized), key=attrgetter("bytes"))
            if judged:
                after, size, graph = max(judged, key=itemgetter(0))
            elif len(chosen) == len(ranked):
                raise self._too_small(limit, before, smallest, len(candidates))
            nearest_limit -= smallest.bytes - limit
        names = tuple(op.name for op in chosen)
        return graph, FlashChoice(
            limit,
            before.bytes,
            size.bytes,
            self.quality_of_8_bits,
            after,
            names,
            len(candidates),
            size.code is not None,
        )

    def _chosen(
        self,
        ranked: Sequence[Candidate],
        before: FlashSize,
        limit: int,
        flash_of: Callable[[Graph], FlashSize],
    ) -> tuple[Candidate, ...]:
        """Returns as many of the ranked layers as the limit needs with the nearest weights of 4 bits, all if they are not
        enough, but none that it does not need."""
        size, count = before, 0
        while size.bytes > limit and count < len(ranked):
            count += self._count_to_save(ranked[count:], size.bytes - limit)
            size = flash_of(self.as_large(ranked[:count]))
        chosen = tuple(ranked[:count])
        for op in sorted(chosen, key=lambda one: -self.damages[one]):
            if bytes_saved(op) <= limit - size.bytes:
                less = tuple(one for one in chosen if one is not op)
                larger = flash_of(self.as_large(less))
                chosen, size = (less, larger) if larger.bytes <= limit else (chosen, size)
        return chosen

    @staticmethod
    def _count_to_save(layers: Sequence[Candidate], wanted: int) -> int:
        """Returns the number of layers, from the first, that save the required bytes; all if they save fewer."""
        saved = np.cumsum([bytes_saved(op) for op in layers])
        return min(int(np.searchsorted(saved, wanted)) + 1, len(layers))

    def ranked(self, candidates: Sequence[Candidate]) -> tuple[Candidate, ...]:
        """Returns the candidates, least damage per saved byte first."""
        unknown = [op for op in candidates if op not in self.damages]
        with stage("ranking layers", len(unknown)) as advance:
            for number, op in enumerate(unknown, start=1):
                self.damages[op] = self._damage(op)
                advance(number, len(unknown))
        return tuple(sorted(candidates, key=lambda op: self.damages[op] / bytes_saved(op)))

    def _damage(self, op: Candidate) -> float:
        """Returns the noise of all outputs over their signal if one layer has 4 bits."""
        holder = self.holders[op]
        coarse = self._rounded(op, holder, self.values[:RANKING])
        signal, noise = 0.0, 0.0
        for values, changed in self._changed(holder, coarse):
            for y in self.graph.outputs:
                own = values[y].astype(np.float64)
                signal += float(np.square(own - own.mean()).sum())
                noise += float(np.square(own - changed.get(y, values[y]).astype(np.float64)).sum())
        return noise / max(signal, 1e-30)

    def _changed(self, holder: Op, coarse: Op) -> Iterator[tuple[Values, Values]]:
        """Yields tensors of samples, and those that another op changes; of all steps if they go on to later ones."""
        place = self.graph.ops.index(holder)
        before, behind = self.graph.ops[:place], self.graph.ops[place + 1 :]
        if self.graph.states:
            changed_graph = self.graph.replace(ops=(*before, coarse, *behind))
            yield from zip(self.values, _runs(changed_graph, self.calibrating), strict=True)
            return
        for values in self.values[:RANKING]:
            changed = coarse.compute(self.graph.arithmetic, values)
            for later in behind:
                if any(v in changed for v in later.operands):
                    changed |= later.compute(self.graph.arithmetic, {**values, **changed})
            yield values, changed

    def _rounded(self, op: Op, holder: Op, values: Sequence[Values], fits: bool = False) -> Op:
        """Returns an op with its layer or table in 4 bits, rounded for the inputs that earlier layers make of the
        samples."""
        if has_table_for_4_bits(op):
            return _with_layer(holder, op, with_table_of_4_bits(op))
        assert may_have_4_bits(op)
        inputs, exact = LayerInputs(op, len(values)), self.holders[op]
        for made, wanted in zip(values, self.values, strict=False):
            x = _operand(op, holder, made, self.graph)
            inputs.add(x, None if made is wanted else _operand(op, exact, wanted, self.graph))
        return _with_layer(holder, op, with_4_bits(op, inputs, fits))

    def as_large(self, chosen: Collection[Candidate]) -> Graph:
        """Returns the graph with 4 bits in these layers, rounded to the nearest level."""
        ops = list[Op]()
        for op in self.graph.ops:
            made: Op = op
            for layer in [one for one in chosen if self.holders[one] is op]:
                made = _with_layer(made, layer, as_large_as_with_4_bits(layer))
            ops.append(made)
        return self.graph.replace(ops=tuple(ops))

    def converted(self, chosen: tuple[Candidate, ...], fits: bool = True) -> Graph:
        """Returns the graph with 4 bits in these layers, each rounded for the inputs that earlier layers make. If
        `fits`, each also compensates the errors of earlier layers."""
        if not chosen:
            return self.graph
        if (chosen, fits) in self.graphs:
            return self.graphs[chosen, fits]
        wanted, ops, done = set[Op](chosen), list[Op](), 0
        given = [{v: values[v] for v in self.graph.sources} for values in self.values]
        with stage("rounding to 4 bits", len(chosen)) as advance:
            for op in self.graph.ops:
                made: Op = op
                for layer in [one for one in _layers_in(op) if one in wanted]:
                    made = self._rounded(layer, made, given, fits)
                    done += 1
                    advance(done, len(chosen))
                for values in given:
                    values |= made.compute(self.graph.arithmetic, values)
                ops.append(made)
        self.graphs[chosen, fits] = self.graph.replace(ops=tuple(ops))
        return self.graphs[chosen, fits]

    def quality(self, graph: Graph) -> float:
        """Returns the least signal-to-noise ratio of all outputs against float, in dB."""
        signal, noise = dict[Value, float](), dict[Value, float]()
        for sample, values in zip(self.judging, _runs(graph, self.judging), strict=True):
            for y, wanted in sample.wanted.items():
                real = wanted.astype(np.float64)
                got = values[y].astype(np.float64)
                got = got if y.type.quant is None else (got - y.zero_point) * y.scale
                signal[y] = signal.get(y, 0.0) + float(np.square(real).sum())
                noise[y] = noise.get(y, 0.0) + float(np.square(real - got).sum())
        ratios = [10 * log10(signal[y] / noise[y]) for y in signal if signal[y] > 0 and noise[y] > 0]
        return min(ratios, default=inf)

    def _too_small(self, limit: int, before: FlashSize, reached: FlashSize, candidates: int) -> PillionError:
        return PillionError(
            f"`{self.graph.name}` does not fit {limit} bytes of flash",
            rule="--max-flash is at least code and constants with weights of 4 bits in all layers that may have them: convolutions, fully connected layers and tables of embeddings on the core, gates of recurrent layers included",
            here=f"{before} with 8 bits, {reached} with 4 bits in all {candidates} layers",
            help=f"--max-flash {min(before.bytes, reached.bytes)}, {self.other_ways}--optimize size for less code, or a smaller model",
        )


def _runs(graph: Graph, samples: Sequence[FlashSample]) -> Iterator[Values]:
    """Yields all tensors of each sample, with states carried along where samples are consecutive."""
    states: Sequence[Array] = ()
    for sample in samples:
        states = states if sample.follows else sample.states
        values = graph.reference_values(*sample.inputs, states=states)
        states = [values[state.after] for state in graph.states]
        yield values


def _layers_in(op: Op) -> Sequence[Op]:
    """Returns an op, or the ops of a loop's step."""
    return op.body.ops if isinstance(op, Scan) else (op,)


def _operand(layer: Layer, holder: Op, values: Mapping[Value, Array], graph: Graph) -> Array:
    """Returns the operand of a layer, of all steps in a loop."""
    if not isinstance(holder, Scan):
        return values[layer.x]
    steps = holder.step_values(graph.arithmetic, *holder.operand_arrays(values))
    return np.concatenate([step[layer.x] for step in steps])


def _with_layer(holder: Op, old: Candidate, new: Candidate) -> Op:
    """Returns an op with another layer, which may be the op itself."""
    if not isinstance(holder, Scan):
        return new
    ops = tuple(new if op is old else op for op in holder.body.ops)
    return replace(holder, body=holder.body.replace(ops=ops))
