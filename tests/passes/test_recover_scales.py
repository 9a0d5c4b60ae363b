# SPDX-License-Identifier: Apache-2.0
"""Scales of programs that hold multipliers: ops compute the same with them, and NPUs take them."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path

import numpy as np
import pytest

from explicit_multipliers import unscaled
from importers.pte_seeds import FOREIGN
from pillion.importers.pte import read
from pillion.ir.graph import Graph
from pillion.ir.op import Op, ScaledOp, why_multipliers_explicit
from pillion.ir.types import PerChannel, PerTensor, UnknownScale, Value, constant_value
from pillion.ir.verify import verify_graph
from pillion.ops import Add, Conv2d, Linear, Minimum, Mul, Pad, Softmax, Sub
from pillion.ops.example_values import make_op, random_like, value
from pillion.passes import recover_scales

LEFT = {
    "acts_m55": {"conv2d": 2, "lut": 4, "max_pool2d": 1, "transpose_conv2d": 1},  # tables, which say no scale
    "bmm_m55": {"batch_matmul": 1},  # LiteRT rounds the product of its scales
    "div_m55_15": {"div": 1, "lut": 1},
    "se_m55": {"conv2d": 1, "reshape": 1, "lut": 1, "mul": 1},  # a sixth of a scale, and a product
}
"""The ops of ExecuTorch's own programs without scales that give their multipliers; none of the others."""
RNG = np.random.default_rng(5)


def as_read(op: Op) -> Op:
    """The op as programs of others have it, but with the scales of its operands and result."""
    assert isinstance(op, ScaledOp)
    stripped = unscaled(op)
    kept = zip((*stripped.activations, *stripped.results), (*op.activations, *op.results), strict=True)
    return stripped.substitute(dict(kept))


def without_scales(graph: Graph, *known: Value) -> Graph:
    """The graph, of which only these scales are known."""
    weights = {op.weights for op in graph.ops if isinstance(op, (Conv2d, Linear))}
    hidden = {
        v: dataclasses.replace(v, type=dataclasses.replace(v.type, quant=UnknownScale(v.zero_point)))
        for v in graph.values.values()
        if isinstance(v.type.quant, PerTensor) and v not in weights and v not in known
    }
    ops = tuple(as_read(op) if isinstance(op, ScaledOp) else op for op in graph.ops)
    return verify_graph(graph.replace(ops=ops).substitute(hidden))


def layer(x: Value, name: str, channels: int, scale: float, zero_point: int = 3) -> Op:
    """A layer of one pixel with a scale for each channel."""
    data = RNG.integers(-127, 128, (channels, 1, 1, x.shape[3])).astype(np.int8)
    weights = constant_value(f"{name}_w", data, PerChannel(tuple(RNG.uniform(1e-3, 0.01, channels)), 0))
    bias = constant_value(f"{name}_b", RNG.integers(-999, 999, channels).astype(np.int32))
    return make_op(Conv2d, value(name, (), scale, zero_point), x=x, weights=weights, bias=bias)


def residual() -> Graph:
    """Branches whose scales lie octaves apart meet in a sum, a difference and a product; the product's scale is known."""
    x = value("x", (2, 3, 5, 4), 0.0371, -7)
    a = layer(x, "a", 7, 0.0113)
    b = layer(a.results[0], "b", 7, 0.917)
    c = make_op(Add, value("c", (), 1.03, 1), a=a.results[0], b=b.results[0])
    padded = make_op(
        Pad,
        c.results[0].like("d", shape=()),
        x=c.results[0],
        before=(0, 1, 0, 0),
        after=(0, 0, 1, 0),
        value=1,
    )
    e = layer(padded.results[0], "e", 7, 0.00071, -128)
    f = make_op(Sub, value("f", (), 1.7, 0), a=padded.results[0], b=e.results[0])
    return Graph("residual", (x,), (a, b, c, padded, e, f), f.results)


def explicit(graph: Graph) -> dict[str, str]:
    return {op.name: why for op in graph.ops if (why := why_multipliers_explicit(op))}


def assert_same_bytes(first: Graph, second: Graph) -> None:
    inputs = [random_like(v, 3) for v in first.inputs]
    for a, b in zip(first.reference(*inputs), second.reference(*inputs), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("path", FOREIGN, ids=lambda path: path.stem)
def test_programs_of_executorch(path: Path) -> None:
    graph = read(path).graph
    recovered = verify_graph(recover_scales(graph))
    left: dict[str, int] = {}
    for op in recovered.ops:
        if why_multipliers_explicit(op):
            left[op.kind] = left.get(op.kind, 0) + 1
    assert left == LEFT.get(path.stem, {})
    assert [op.attributes.get("explicit") for op in recovered] == [
        op.attributes.get("explicit") for op in graph
    ]
    assert_same_bytes(graph, recovered)


def test_branches_share_octaves() -> None:
    """With the scales of both ends, every scale comes back as it was."""
    graph = residual()
    hidden = without_scales(graph, *graph.inputs, *graph.outputs)
    assert len(explicit(hidden)) == len(graph.ops)
    recovered = verify_graph(recover_scales(hidden))
    assert explicit(recovered) == {}
    assert {v.name: v.type.quant for v in recovered.values.values()} == {
        v.name: v.type.quant for v in graph.values.values()
    }
    assert_same_bytes(graph, recovered)


def test_scales_that_others_read_are_not_made_up() -> None:
    """Those of inputs and outputs: their mantissas may follow, their octaves do not."""
    graph = residual()
    of_output = recover_scales(without_scales(graph, *graph.outputs))
    assert list(explicit(of_output)) == ["a"]
    assert explicit(of_output)["a"].startswith("`x` has no scale, and the multipliers are ")
    of_input = recover_scales(without_scales(graph, *graph.inputs))
    assert set(explicit(of_input)) == {op.name for op in graph.ops}
    assert isinstance(of_input.outputs[0].type.quant, UnknownScale)
    for recovered in (of_output, of_input):
        assert_same_bytes(graph, verify_graph(recovered))


def test_octaves_between_layers_are_free() -> None:
    x = value("x", (2, 3, 5, 4), 0.0371, -7)
    a = layer(x, "a", 9, 11.3)
    b = layer(a.results[0], "b", 7, 0.01)
    graph = Graph("chain", (x,), (a, b), b.results)
    recovered = verify_graph(recover_scales(without_scales(graph, x, *b.results)))
    assert explicit(recovered) == {}
    made = recovered.values["a"].scale
    assert 0.5 < made / x.scale < 2
    assert math.log2(11.3 / made) == pytest.approx(round(math.log2(11.3 / made)), abs=1e-6)
    assert_same_bytes(graph, recovered)


def test_products_softmaxes_and_constants() -> None:
    """A product of two results, a minimum with a constant, a softmax that says the scale of its operand."""
    x = value("x", (2, 5), 2.0**-5, 4)
    weights = constant_value("w", RNG.integers(-127, 128, (7, 5)).astype(np.int8), PerTensor(2.0**-7))
    bias = constant_value("b", RNG.integers(-999, 999, 7).astype(np.int32))
    a = make_op(Linear, value("a", (), 2.0**-3, 0), x=x, weights=weights, bias=bias)
    limit = constant_value("limit", np.full((1, 7), 9, np.int8), a.results[0].type.quant)
    m = make_op(Minimum, a.results[0].like("m", shape=()), a=a.results[0], b=limit)
    z = value("z", (2, 1), 2.0**-6, -3)
    p = make_op(Mul, value("p", (), 2.0**-4, 1), a=m.results[0], b=z)
    s = make_op(Softmax, value("s", (), 2.0**-8, -128), x=p.results[0])
    graph = Graph("product", (x, z), (a, m, p, s), s.results)
    recovered = verify_graph(recover_scales(without_scales(graph, z, *s.results)))
    assert list(explicit(recovered)) == ["a"], "nothing says the scale of its operand"
    assert [recovered.values[name].scale for name in ("a", "m", "p")] == [2.0**-3, 2.0**-3, 2.0**-4]
    assert_same_bytes(graph, recovered)


def test_programs_with_scales_stay() -> None:
    graph = residual()
    assert recover_scales(graph) is graph
