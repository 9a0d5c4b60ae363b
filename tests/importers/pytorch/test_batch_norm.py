# SPDX-License-Identifier: Apache-2.0
"""Batch norms: folded where that is right, integer everywhere, the same numbers always."""

from __future__ import annotations

import copy
import itertools

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from norm_models import LAYERS, NORMS, UNFOLDABLE, Other, Pair, set_statistics
from quantized_graphs import quantized, random_inputs, targets
from torch import Tensor, nn
from training_loops import batches, train

import pillion
from nightly import part_of
from pillion.importers.torch import capture
from pillion.importers.torch.rewrite import (
    canonical_clamps,
    constant_folding,
    decompose,
    functionalize,
    synonyms,
)
from pillion.importers.torch.rewrite.batch_norm import fold_batch_norms
from pillion.importers.torch.rewrite.pipeline import rewrite_for_quantization
from pillion.ir.types import Array

pytestmark = pytest.mark.slow


def assert_same(got: object, want: object) -> None:
    """Before and after the fold. Measured: 1.7e-6 at most, in some thousand random layers; sums that cancel lose more than others."""
    torch.testing.assert_close(got, want, atol=5e-6, rtol=2e-6)


def folded(module: nn.Module, *inputs: Tensor) -> torch.fx.GraphModule:
    """The graph after the pass alone; its results are those of the module, and a second run changes nothing."""
    module.eval()
    graph = capture.export(module, inputs).module(check_guards=False)
    assert fold_batch_norms(graph)
    graph.recompile()
    with torch.no_grad():
        assert_same(graph(*inputs), module(*inputs))
    code = graph.code
    assert not fold_batch_norms(graph)
    graph.recompile()
    assert graph.code == code
    return graph


def names(graph: torch.fx.GraphModule) -> list[str]:
    kept = [str(n.target) for n in graph.graph.nodes if n.op == "call_function"]
    return [name.removeprefix("aten.").rpartition(".")[0] for name in kept]


@pytest.mark.turns(4)
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("name", LAYERS)
def test_folds_into_the_layer(name: str, bias: bool) -> None:
    model = Pair(name, bias).eval()
    (x,) = random_inputs(model.shape)
    graph = rewrite_for_quantization(capture.export(model, (x,)).module(check_guards=False))
    layers = [kind for kind in names(graph) if kind not in ("pad", "reshape", "permute", "slice")]
    assert len(layers) == 1, names(
        graph
    )  # in groups, transposed convolutions are others whose pixels are laid out
    with torch.no_grad():
        assert_same(graph(x), model(x))


@pytest.mark.turns(4)
@settings(max_examples=40, deadline=None)
@given(
    layer=st.sampled_from(sorted(set(LAYERS) - {"same"})),  # that becomes a plain convolution first
    bias=st.booleans(),
    affine=st.booleans(),
    eps=st.sampled_from([1e-5, 1e-6, 1e-3, 0.5]),
    momentum=st.sampled_from([0.1, 0.0, None]),
    seed=st.integers(0, 2**16),
    second_user=st.booleans(),
)
def test_any_norm_folds_or_stays_right(
    layer: str, bias: bool, affine: bool, eps: float, momentum: float | None, seed: int, second_user: bool
) -> None:
    model = Pair(layer, bias, second_user, eps=eps, momentum=momentum, affine=affine)
    set_statistics(model.norm, seed)
    graph = folded(model, *random_inputs(model.shape, seed=seed))
    assert "batch_norm" not in names(graph)
    count = sum(name.startswith(("conv", "linear")) for name in names(graph))
    assert count == (2 if second_user else 1)


@pytest.mark.turns(3)
@pytest.mark.parametrize("kind", UNFOLDABLE)
def test_other_norms_become_depthwise(kind: str) -> None:
    graph = folded(Other(kind), *random_inputs(UNFOLDABLE[kind]))
    found = [n for n in graph.graph.nodes if "conv2d" in str(n.target) and n.args[-1] == 3]
    assert len(found) == (2 if kind in ("shared", "alone_nc") else 1)


@pytest.mark.turns(7)
@pytest.mark.parametrize("kind", UNFOLDABLE)
def test_other_norms_are_integer(kind: str) -> None:
    assert quantized(Other(kind), *random_inputs(UNFOLDABLE[kind])).float_ops == ()


@pytest.mark.turns(3)
@pytest.mark.parametrize("flow", ["ptq", "qat"])
@pytest.mark.parametrize("shape", [(700, 3), (40, 3, 17), (1, 3, 31, 17), (2, 3, 3, 17, 7)])
def test_a_norm_alone_is_exact_to_one_step(shape: tuple[int, ...], flow: str) -> None:
    """The compiled integers against the float norm of the rounded input, in steps of the result.

    Measured in these eight cases: none of 15,726 outputs is more than 0.509 steps away, where 0.5 is rounding itself."""
    model = nn.Sequential(set_statistics(NORMS[max(1, len(shape) - 2)](3))).eval()
    (x,) = random_inputs(shape)
    if flow == "ptq":
        program = pillion.compile(model, (x,), target="imxrt700", calibrate=[(x,)])
    else:
        trained = pillion.prepare_qat(model, (x,), "imxrt700")
        train(trained, batches((x,), 4))
        program = pillion.compile(trained, (x,), target="imxrt700")
        state = trained.rounding.state_dict()
        model.load_state_dict({key: state[key] for key in model.state_dict()})
    steps = _steps_from_float(program, model, x)
    assert steps.max() < 0.51
    assert (steps <= 1).mean() >= 0.99


def _steps_from_float(program: pillion.Program, model: nn.Module, x: Tensor) -> Array:
    """Values beyond the result's range end at its bounds in float, too."""
    values = {v.name: array for v, array in program.graph.reference_values(x.numpy()).items()}
    ops = program.graph.ops
    first, last = ops[0].results[0], ops[-1].operands[0]
    rounded = (values[first.name].astype(np.float64) - first.quant.zero_point) * first.quant.scale
    with torch.no_grad():
        exact = model.double()(torch.from_numpy(rounded)).numpy() / last.quant.scale + last.quant.zero_point
    return np.abs(values[last.name] - np.clip(exact, -128, 127))


def test_norm_without_statistics_is_reported() -> None:
    program = quantized(
        nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4, track_running_stats=False)),
        *random_inputs((1, 3, 7, 7)),
    )
    assert [op.op for op in program.float_ops] == ["aten.native_batch_norm.default"]
    assert "statistics" in program.float_ops[0].reason


def test_shared_weights_are_not_folded_twice() -> None:
    """One convolution with two norms: each use has weights of its own afterwards, the model's are as before."""

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = nn.Conv2d(3, 3, 3, padding=1)
            self.first, self.second = (set_statistics(nn.BatchNorm2d(3), seed) for seed in (1, 2))

        def forward(self, x: Tensor) -> Tensor:
            return self.second(self.conv(self.first(self.conv(x))))

    model = Net()
    before = copy.deepcopy(model.state_dict())
    graph = folded(model, *random_inputs((1, 3, 5, 7)))
    assert names(graph) == ["conv2d", "conv2d"]
    assert all(torch.equal(before[key], value) for key, value in model.state_dict().items())


@pytest.mark.parametrize(("order", "relu"), list(itertools.product(["conv", "norm"], [True, False])))
def test_chains(order: str, relu: bool) -> None:
    """conv-norm and norm-conv, with an activation that joins the right one."""
    conv, norm = nn.Conv2d(3, 3, 3, padding=1), set_statistics(nn.BatchNorm2d(3))
    pair = [conv, norm] if order == "conv" else [norm, nn.ReLU() if relu else nn.Identity(), conv]
    program = quantized(nn.Sequential(*pair, nn.ReLU()), *random_inputs((1, 3, 5, 7)))
    want = ["conv2d", "relu"] if order == "conv" else ["conv2d", *["relu"] * relu, "conv2d", "relu"]
    assert targets(program) == want


PASSES = (
    functionalize.functionalize,
    synonyms.drop_expansions,
    decompose.decompose,
    synonyms.replace_synonyms,
    functionalize.remove_identities,
    constant_folding.fold_constants,
    constant_folding.make_scalars_constants,
    constant_folding.use_linear,
    canonical_clamps.canonicalize_clamps,
)


@pytest.mark.turns(6)
@pytest.mark.parametrize("position", range(len(PASSES) + 1))
@pytest.mark.parametrize("name", part_of(["linear", "conv2d", "transposed", "shared", "linear_ncl"], 3))
def test_folding_has_no_place_that_it_must_have(name: str, position: int) -> None:
    """Among the other passes, folding may come anywhere: the same calls, the same numbers."""
    model = (Pair(name) if name in LAYERS else Other(name)).eval()
    inputs = random_inputs(LAYERS[name][1] if name in LAYERS else UNFOLDABLE[name])
    usual = rewrite_for_quantization(capture.export(model, inputs).module(check_guards=False))
    graph = capture.export(model, inputs).module(check_guards=False)
    for rewrite in (*PASSES[:position], fold_batch_norms, *PASSES[position:]):
        rewrite(graph)
    graph.recompile()
    assert sorted(names(graph)) == sorted(names(usual))
    with torch.no_grad():
        assert_same(graph(*inputs), model(*inputs))
