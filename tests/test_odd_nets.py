# SPDX-License-Identifier: Apache-2.0
"""Small nets as people write them: every one is answered as PyTorch answers it, or refused in four parts."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn.utils import parametrizations

import pillion
from pillion.errors import PillionError

pytestmark = pytest.mark.torch

Shape = tuple[int, ...]
NEAR = 0.04
"""Of the largest value of a result: a few steps of int8."""


class Call(nn.Module):
    """A function as a module, with the layers that it uses."""

    def __init__(self, function: Callable[..., Any], /, **layers: Any) -> None:
        super().__init__()
        self.function = function
        for name, layer in layers.items():
            setattr(self, name, layer)

    def forward(self, *inputs: Tensor) -> Any:
        return self.function(self, *inputs)


def numbers(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def parameter(*shape: int) -> nn.Parameter:
    return nn.Parameter(numbers(*shape, seed=1))


def tensors_of(result: Any) -> list[Tensor]:
    return [leaf for leaf in torch.utils._pytree.tree_leaves(result) if isinstance(leaf, Tensor)]


def check_answers(module: nn.Module, inputs: tuple[Tensor, ...]) -> None:
    """Every result has PyTorch's shape and is near to PyTorch's."""
    with torch.no_grad():
        wanted = [t.numpy() for t in tensors_of(module.eval()(*(x.clone() for x in inputs)))]
    found = pillion.compile(module, inputs, target="cortex-m33").run(
        *(x.detach().contiguous() for x in inputs)
    )
    assert [a.shape for a in found] == [a.shape for a in wanted]
    for ours, theirs in zip(found, wanted, strict=True):
        assert np.abs(ours - theirs).max() <= NEAR * np.abs(theirs).max() + 1e-12


def check_refusal(module: nn.Module, inputs: tuple[Any, ...], words: str) -> None:
    """In four parts, with these words somewhere."""
    with pytest.raises(PillionError) as refused:
        pillion.compile(module, inputs, target="cortex-m33")
    error = refused.value
    assert all((error.what, error.rule, error.here, error.help)), str(error)
    assert words in str(error)


def function(
    body: Callable[..., Any], *shapes: Shape, **layers: Any
) -> tuple[Callable[..., Any], tuple[Shape, ...], dict[str, Any]]:
    return body, shapes, layers


linear = nn.Linear(3, 3)
RIGHT: dict[str, Any] = {
    # One image or signal, without a batch.
    "average pool of one image": function(lambda m, x: F.avg_pool2d(x, 2), (3, 6, 6)),
    "padded average pool of one image": function(lambda m, x: F.avg_pool2d(x, 3, 1, 1), (3, 6, 6)),
    "the same, padding not counted": function(
        lambda m, x: F.avg_pool2d(x, 3, 1, 1, count_include_pad=False), (3, 6, 6)
    ),
    "the same, partial windows": function(lambda m, x: F.avg_pool2d(x, 3, 2, 1, ceil_mode=True), (3, 6, 6)),
    "largest of one image": function(lambda m, x: F.max_pool2d(x, 3, 2, 1), (3, 6, 6)),
    "adaptive pool of one image": function(lambda m, x: F.adaptive_avg_pool2d(x, (2, 3)), (3, 6, 6)),
    "convolution of one image": function(lambda m, x: m.c(x).relu(), (3, 6, 6), c=nn.Conv2d(3, 4, 3)),
    "the same size of one image": function(
        lambda m, x: m.c(x), (3, 6, 6), c=nn.Conv2d(3, 4, 3, padding="same")
    ),
    "convolution of one signal": function(lambda m, x: m.c(x), (3, 6), c=nn.Conv1d(3, 4, 3)),
    "transposed convolution of one image": function(
        lambda m, x: m.c(x), (3, 6, 6), c=nn.ConvTranspose2d(3, 4, 3)
    ),
    "transposed convolution of one signal": function(
        lambda m, x: m.c(x), (3, 6), c=nn.ConvTranspose1d(3, 4, 3)
    ),
    "pools of one signal": function(lambda m, x: F.max_pool1d(F.avg_pool1d(x, 3, 1, 1), 2), (3, 8)),
    "adaptive pool of one signal": function(lambda m, x: F.adaptive_avg_pool1d(x, 2), (3, 6)),
    "attention over one sequence": function(lambda m, x: m.a(x, x, x), (5, 8), a=nn.MultiheadAttention(8, 2)),
    "masked attention with its weights": function(
        lambda m, x: m.a(x, x, x, attn_mask=torch.ones(5, 5).triu(1) == 1),
        (1, 5, 8),
        a=nn.MultiheadAttention(8, 2, batch_first=True),
    ),
    # Sums of products.
    "addmm, scaled": function(
        lambda m, x: torch.addmm(m.b, x, m.w, beta=2, alpha=0.5), (2, 3), w=parameter(3, 4), b=parameter(4)
    ),
    "addmm of an input": function(lambda m, x, y: torch.addmm(y, x, m.w), (2, 3), (4,), w=parameter(3, 4)),
    "baddbmm": function(lambda m, x, y: torch.baddbmm(m.b, x, y), (2, 3, 4), (2, 4, 5), b=parameter(1, 1, 5)),
    "baddbmm times nothing": function(
        lambda m, x, y: torch.baddbmm(m.b, x, y, beta=0.0, alpha=0.5), (2, 3, 4), (2, 4, 5), b=parameter(1)
    ),
    "addbmm": function(lambda m, x, y: torch.addbmm(m.b, x, y), (2, 3, 4), (2, 4, 5), b=parameter(5)),
    "addmv": function(lambda m, x: torch.addmv(m.b, m.w, x), (3,), w=parameter(4, 3), b=parameter(1)),
    "addr": function(lambda m, x, y: torch.addr(m.b, x, y), (3,), (4,), b=parameter(1)),
    "addcmul": function(lambda m, x, y: torch.addcmul(x, x, y, value=0.5), (3, 4), (3, 4)),
    "lerp": function(lambda m, x, y: torch.lerp(x, y, 0.3), (3, 4), (3, 4)),
    # Shapes.
    "a number": function(lambda m, x: x * 2, ()),
    "softmax of a number": function(lambda m, x: x.softmax(0) + x, ()),
    "slope of a number": function(lambda m, x: m.p(x), (), p=nn.PReLU()),
    "a vector": function(lambda m, x: x.softmax(0), (5,)),
    "six axes": function(lambda m, x: x.permute(5, 4, 3, 2, 1, 0) * 2, (1, 2, 3, 2, 2, 2)),
    "six axes broadcast": function(lambda m, x, y: x + y, (2, 1, 3, 1, 2, 2), (1, 3, 1, 2, 1, 2)),
    "kernel larger than the image": function(
        lambda m, x: m.c(x), (1, 1, 3, 3), c=nn.Conv2d(1, 2, 5, padding=2)
    ),
    "stride larger than the image": function(
        lambda m, x: m.c(x), (1, 1, 3, 3), c=nn.Conv2d(1, 2, 1, stride=70000)
    ),
    "dilated past the image": function(
        lambda m, x: m.c(x), (1, 1, 4, 4), c=nn.Conv2d(1, 2, 3, dilation=4, padding=4)
    ),
    "odd groups": function(lambda m, x: m.c(x), (1, 9, 5, 5), c=nn.Conv2d(9, 15, 3, groups=3)),
    "nothing beside something": function(lambda m, x: torch.cat([x[:, 0:0], x], 1), (2, 3)),
    # Inputs and results.
    "one input twice": function(lambda m, x: x + x - x * x, (2, 3)),
    "unused input": function(lambda m, x, y: x * 2, (2, 3), (2, 3)),
    "result that is an input": function(lambda m, x: (x, x * 2), (2, 3)),
    "one result twice": function(lambda m, x: (lambda y: (y, y))(x * 2), (2, 3)),
    "results in a dict": function(lambda m, x: {"a": x * 2, "b": [x + 1, (x.relu(),)]}, (2, 3)),
    "results that are views": function(lambda m, x: (x.view(6), x.t()), (2, 3)),
    "in place": function(lambda m, x: (x.add_(1), F.relu_(x)), (2, 3)),
    "written into a slice": function(lambda m, x: (lambda y: (y.__setitem__(0, 0.0), y)[1])(x * 1), (2, 3)),
    # Modules.
    "one layer twice": function(lambda m, x: m.a(m.b(x)), (2, 3), a=linear, b=linear),
    "tied weights": function(lambda m, x: F.linear(m.l(x), m.l.weight.t()), (2, 3), l=nn.Linear(3, 4)),
    "weight norm": function(lambda m, x: m.l(x), (2, 3), l=parametrizations.weight_norm(nn.Linear(3, 4))),
    "spectral norm": function(lambda m, x: m.l(x), (2, 3), l=parametrizations.spectral_norm(nn.Linear(3, 4))),
    "dropout": function(lambda m, x: m.d(m.l(x)), (2, 3), l=nn.Linear(3, 4), d=nn.Dropout(0.5)),
    "300 letters": function(lambda m, x: getattr(m, "n" * 300)(x), (2, 3), **{"n" * 300: nn.Linear(3, 4)}),
}


@pytest.mark.turns(6)
@pytest.mark.parametrize("name", RIGHT)
def test_odd_nets_compute_as_pytorch(name: str) -> None:
    body, shapes, layers = RIGHT[name]
    check_answers(Call(body, **layers), tuple(numbers(*shape, seed=i) for i, shape in enumerate(shapes)))


@pytest.mark.parametrize("name", ["weight norm", "spectral norm"])
def test_trained_parametrizations_are_computed(name: str) -> None:
    """Their weights are several results of a call on parameters, until training is over."""
    body, shapes, layers = RIGHT[name]
    x = numbers(*shapes[0])
    trained = pillion.prepare_qat(Call(body, **layers), (x,), target="cortex-m33")
    trained(x)
    program = pillion.compile(trained, (x,), target="cortex-m33")
    with torch.no_grad():
        wanted = trained.eval()(x).numpy()
    assert np.abs(program.run(x)[0] - wanted).max() <= NEAR * np.abs(wanted).max()


INPUTS = {
    "not contiguous": numbers(3, 2).t(),
    "expanded": numbers(1, 3).expand(4, 3),
    "with a gradient": numbers(2, 3).requires_grad_(),
}


@pytest.mark.parametrize("name", INPUTS)
def test_any_tensor_is_an_input(name: str) -> None:
    check_answers(Call(lambda m, x: x * 2), (INPUTS[name],))


REFUSED: dict[str, tuple[Any, str]] = {
    "sampled where the input says": (
        function(lambda m, x, y: F.grid_sample(x, y, align_corners=False), (1, 3, 4, 4), (1, 4, 4, 2)),
        "aten.grid_sampler",
    ),
    "nothing": (function(lambda m, x: x[:, 0:0], (2, 3)), "no elements"),
    "no features": (function(lambda m, x: m.l(x), (2, 3), l=nn.Linear(3, 0)), "no elements"),
    "sum of nothing": (function(lambda m, x: x[:, 0:0].sum() + x, (2, 3)), "no elements"),
    "no input": (function(lambda m, x: x * 2, (0, 3)), "at least one element"),
    "kernel larger than the padded image": (
        function(lambda m, x: m.c(x), (1, 1, 3, 3), c=nn.Conv2d(1, 2, 5)),
        "Kernel size",
    ),
    "a number out of a tensor": (function(lambda m, x: x * x.sum().item(), (2, 3)), "computed from tensors"),
    "a result that is no tensor": (function(lambda m, x: (x * 2, None), (2, 3)), "not a tensor"),
    "a result that is constant": (function(lambda m, x: torch.ones(3), (2, 3)), "constant"),
    "a branch": (function(lambda m, x: x * 2 if x.sum() > 0 else x, (2, 3)), "control flow"),
    "integers inside": (function(lambda m, x: (x.int() * 2).float(), (2, 3)), "aten.to.dtype"),
    "half a model": (function(lambda m, x: m.l(x), (2, 3), l=nn.Linear(3, 4).half()), "same dtype"),
    "written into an attribute": (
        function(lambda m, x: (m.b.add_(1), x * m.b)[1], (2, 3), b=torch.zeros(3)),
        "writes into a tensor",
    ),
    "a number compared": (
        function(lambda m, x: torch.where(x > x.sum().item(), x, 2.0), (2, 3)),
        "aten._local_scalar_dense",
    ),
    "a place compared": (
        function(lambda m, x: torch.where(x > x.argmax().item(), x, 2.0), (2, 3)),
        "aten._local_scalar_dense",
    ),
    "not finite": (function(lambda m, x: x.relu().log(), (2, 3)), "not finite"),
    "infinite constant": (function(lambda m, x: x * math.inf, (2, 3)), "not finite"),
    "padded with nothing that is a number": (
        function(lambda m, x: F.pad(x, (1, 1), value=math.nan), (1, 3, 4)),
        "not finite",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_unsupported_nets_are_refused(name: str) -> None:
    (body, shapes, layers), words = REFUSED[name]
    check_refusal(Call(body, **layers), tuple(numbers(*shape) for shape in shapes), words)


OTHER_TYPES = {
    torch.float16: "float32",
    torch.float64: "float32",
    torch.complex64: "float32",
}


@pytest.mark.parametrize("dtype", OTHER_TYPES, ids=str)
def test_no_reals_are_computed_from_inputs_of_other_types(dtype: torch.dtype) -> None:
    check_refusal(Call(lambda m, x: x * 2), (torch.ones(2, 3).to(dtype),), OTHER_TYPES[dtype])


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64], ids=str)
def test_whole_numbers_are_computed_as_they_are(dtype: torch.dtype) -> None:
    x = torch.tensor([[0, -7, 2**29], [5, 1, -(2**30)]], dtype=dtype)
    program = pillion.compile(Call(lambda m, x: x * 2 + 1), x, target="cortex-m33")
    np.testing.assert_array_equal(program.run(x, on="reference")[0], (x * 2 + 1).numpy())


@pytest.mark.parametrize("dtype", [torch.bool, torch.int64], ids=str)
def test_inputs_of_other_types_are_made_real(dtype: torch.dtype) -> None:
    """That is the way out that the refusal names."""
    check_answers(Call(lambda m, x: x.float() * 2), (torch.tensor([[0, 1, 1], [1, 0, 0]]).to(dtype),))


BOUNDS = st.sampled_from([None, -math.inf, math.inf, math.nan, -0.5, 0.0, 0.25, 1e30])
CLAMPS: dict[str, Callable[[Tensor, float | None, float | None], Tensor]] = {
    "clamp": lambda x, low, high: x.clamp(low, high),
    "hardtanh": lambda x, low, high: F.hardtanh(
        x, -math.inf if low is None else low, math.inf if high is None else high
    ),
    "extrema": lambda x, low, high: torch.minimum(
        torch.maximum(x, torch.tensor(-math.inf if low is None else low)),
        torch.tensor([math.inf if high is None else high]),
    ),
    "tensors": lambda x, low, high: x.clamp(
        None if low is None else torch.tensor(low), None if high is None else torch.full((3,), high)
    ),
    "twice": lambda x, low, high: x.clamp(low, high).clamp(-0.25, 0.1),
    "in place, of a layer": lambda x, low, high: F.linear(x, torch.eye(3)).clamp_(low, high),
}


@pytest.mark.turns(3)
@settings(max_examples=50, deadline=None, derandomize=True)
@given(st.sampled_from(list(CLAMPS)), BOUNDS, BOUNDS)
def test_any_bounds_of_a_clamp(way: str, low: float | None, high: float | None) -> None:
    x = numbers(5, 3)
    module = Call(lambda m, x: CLAMPS[way](x, low, high))
    try:
        wanted = module(x.clone())
    except (
        RuntimeError,
        ValueError,
    ):  # PyTorch's own: no bound at all, or bounds in the wrong order
        check_refusal(module, (x,), "")
        return
    if bool(torch.isfinite(wanted).all()):
        check_answers(module, (x,))
    else:
        check_refusal(module, (x,), "")


LAYERS: dict[str, tuple[Callable[..., Tensor], Shape, Shape]] = {
    "linear": (F.linear, (2, 3), (4, 3)),
    "linear of a sequence": (F.linear, (2, 5, 3), (4, 3)),
    "one feature": (F.linear, (2, 3), (1, 3)),
    "conv1d": (F.conv1d, (1, 3, 6), (4, 3, 3)),
    "conv2d": (F.conv2d, (1, 3, 6, 6), (4, 3, 3, 3)),
    "conv_transpose1d": (F.conv_transpose1d, (1, 3, 6), (3, 4, 3)),
    "conv_transpose2d": (F.conv_transpose2d, (1, 3, 6, 6), (3, 4, 3, 3)),
    "addmm": (lambda x, w, b: torch.addmm(b, x, w.t()), (2, 3), (4, 3)),
}
BIASES: tuple[Shape, ...] = ((), (1,), (4,), (1, 1), (1, 4), (2, 1), (2, 4))


def exists(name: str, shape: Shape) -> bool:
    """Does PyTorch know a layer with such a bias?"""
    layer, image, weight = LAYERS[name]
    try:
        layer(numbers(*image), numbers(*weight), numbers(*shape))
    except RuntimeError:
        return False
    return True


WITH_BIAS = [(name, shape) for name in LAYERS for shape in BIASES if exists(name, shape)]


@pytest.mark.turns(5)
@pytest.mark.parametrize("computed", [False, True], ids=["constant", "an input"])
@pytest.mark.parametrize(("name", "shape"), WITH_BIAS, ids=str)
def test_any_shape_of_a_bias(name: str, shape: Shape, computed: bool) -> None:
    layer, image, weight = LAYERS[name]
    x, w, b = numbers(*image), parameter(*weight), numbers(*shape, seed=2)
    if computed:
        check_answers(Call(lambda m, x, b: layer(x, m.w, b), w=w), (x, b))
    else:
        check_answers(Call(lambda m, x: layer(x, m.w, m.b), w=w, b=nn.Parameter(b)), (x,))


@pytest.mark.parametrize("length", [255, 256, 3000])
def test_long_names(length: int, tmp_path: Any) -> None:
    """Of modules, classes and programs; whatever is written has names that file systems take."""
    module = type("N" * length, (nn.Sequential,), {})()
    module.add_module("m" * length, nn.Linear(3, 4))
    x = numbers(2, 3)
    check_answers(module, (x,))
    program = pillion.compile(module, (x,), target="cortex-m33")
    for place in ("net.pte", "net.tflite", "firmware"):
        program.save(tmp_path / place)
    assert all(np.array_equal(*pair) for pair in zip(program.run(x), program.run(x, on="host"), strict=True))
