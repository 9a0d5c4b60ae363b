# SPDX-License-Identifier: Apache-2.0
"""Models in, int8 graphs out: nothing left in float, every rule kept, the numbers near those of the float model."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from quantized_graphs import (
    check_graph,
    noise,
    parameters,
    quantized,
    random_inputs,
    result_parameters,
    targets,
)
from torch import Tensor, nn
from torch.nn import functional as F

from nightly import part_of
from pillion import zoo
from pillion.importers.torch import capture
from pillion.importers.torch.quantize.ptq import ptq
from pillion.ir.constraints import QuantizationConstraints

pytestmark = pytest.mark.slow


class Call(nn.Module):
    """A function as a module, with some layers for it to use."""

    def __init__(self, function: Callable[..., object]) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.function = function
        self.conv = nn.Conv2d(8, 8, 3, padding=1)
        self.conv2 = nn.Conv2d(8, 8, 1)
        self.conv1d = nn.Conv1d(7, 5, 3)
        self.transposed = nn.ConvTranspose2d(8, 6, 3, stride=2)
        self.grouped = nn.ConvTranspose2d(8, 6, 3, stride=2, groups=2)
        self.embedding = nn.Embedding(7, 5)
        self.linear = nn.Linear(7, 9)
        self.prelu = nn.PReLU(8)
        self.table = nn.Parameter(torch.randn(1, 8, 1, 1))
        self.matrix = nn.Parameter(torch.randn(7, 4))

    def forward(self, *inputs: Tensor) -> object:
        return self.function(self, *inputs)


IMAGE = (1, 8, 5, 7)
CASES: dict[str, tuple[Callable[..., object], tuple[tuple[int, ...], ...]]] = {
    "conv": (lambda m, x: m.conv(x), (IMAGE,)),
    "conv_batch": (lambda m, x: m.conv(x), ((3, 8, 5, 7),)),
    "conv1d": (lambda m, x: m.conv1d(x), ((2, 7, 11),)),
    "conv_same": (lambda m, x: F.conv2d(x, m.conv.weight, padding="same", dilation=2), (IMAGE,)),
    "conv_same_even": (lambda m, x: F.conv2d(x, m.conv.weight[:, :, :2], padding="same"), (IMAGE,)),
    "conv_computed_weight": (lambda m, x: F.conv2d(x, m.conv.weight * m.table), (IMAGE,)),
    "transposed": (lambda m, x: F.relu(m.transposed(x)), (IMAGE,)),
    "linear": (lambda m, x: m.linear(x), ((2, 3, 7),)),
    "matmul_constant": (lambda m, x: x @ m.matrix, ((2, 3, 7),)),
    "addmm_constant": (lambda m, x: torch.addmm(m.matrix[0], x, m.matrix), ((3, 7),)),
    "relu": (lambda m, x: F.relu(x), (IMAGE,)),
    "conv_relu_inplace": (lambda m, x: F.relu(m.conv(x), inplace=True), (IMAGE,)),
    "conv_relu6": (lambda m, x: F.relu6(m.conv(x)), (IMAGE,)),
    "conv_hardtanh_inplace": (lambda m, x: F.hardtanh_(m.conv(x)), (IMAGE,)),
    "conv_clamps": (lambda m, x: m.conv(x).clamp_min(-0.25).clamp_max(0.5), (IMAGE,)),
    "conv_min_max": (
        lambda m, x: torch.minimum(torch.maximum(m.conv(x), torch.tensor(0.0)), torch.tensor(6.0)),
        (IMAGE,),
    ),
    "conv_pool_relu": (lambda m, x: F.relu(F.max_pool2d(m.conv(x), 2)), (IMAGE,)),
    "conv_relu_two_users": (lambda m, x: [F.relu(c := m.conv(x)), m.conv2(c)], (IMAGE,)),
    "relu_pool_cat": (
        lambda m, x: torch.cat([F.max_pool2d(F.relu(m.conv(x)), 3, 1, 1), m.conv2(x), x], 1),
        (IMAGE,),
    ),
    "residual": (lambda m, x: F.relu(x + m.conv2(F.relu(m.conv(x)))), (IMAGE,)),
    "squeeze_excite": (
        lambda m, x: x * F.hardsigmoid(m.conv2(F.relu(m.conv2(F.adaptive_avg_pool2d(m.conv(x), 1))))),
        (IMAGE,),
    ),
    "shuffle": (
        lambda m, x: (
            torch.cat([(p := x.chunk(2, 1))[0], F.relu(m.conv2(torch.cat([p[1], p[0]], 1)))], 1)
            .view(1, 2, 6, 5, 7)
            .transpose(1, 2)
            .flatten(1, 2)
        ),
        (IMAGE,),
    ),
    "channel_shuffle": (lambda m, x: torch.channel_shuffle(m.conv(x), 4), (IMAGE,)),
    "split_sizes": (lambda m, x: torch.cat(torch.split(m.conv(x), [3, 5], 1)[::-1], 1), (IMAGE,)),
    "unbind_stack": (lambda m, x: torch.stack(list(m.conv(x).unbind(1))[::-1], 2), (IMAGE,)),
    "mean": (lambda m, x: m.conv(x).mean([2, 3]), (IMAGE,)),
    "mean_all": (lambda m, x: m.conv(x).mean(), (IMAGE,)),
    "sum": (lambda m, x: m.conv(x).sum((1, 3), keepdim=True), (IMAGE,)),
    "amax": (lambda m, x: m.conv(x).amax((2, 3)), (IMAGE,)),
    "adaptive": (lambda m, x: F.adaptive_avg_pool2d(x, (2, 1)), ((1, 8, 6, 7),)),
    "avg_pool": (lambda m, x: F.avg_pool2d(x, 3, 2, 1, count_include_pad=False), (IMAGE,)),
    "pools_1d": (lambda m, x: F.max_pool1d(F.avg_pool1d(m.conv1d(x), 2), 2), ((1, 7, 13),)),
    "flatten_linear": (lambda m, x: m.linear(m.conv(x).flatten(1)[:, :7]), (IMAGE,)),
    "permute": (lambda m, x: m.linear(m.conv(x).permute(0, 2, 1, 3)), (IMAGE,)),
    "select": (lambda m, x: m.conv(x)[:, 2, -1], (IMAGE,)),
    "strided_slice": (lambda m, x: m.conv(x)[:, 1::2, ::3], (IMAGE,)),
    "pad": (lambda m, x: F.pad(m.conv(x), (1, 0, 2, 3)), (IMAGE,)),
    "pad_value": (lambda m, x: F.pad(m.conv(x), (1, 0), value=-3.0), (IMAGE,)),
    "pad_sigmoid": (lambda m, x: F.pad(torch.sigmoid(x), (1, 0), value=-3.0), (IMAGE,)),
    "nearest": (lambda m, x: F.interpolate(m.conv(x), scale_factor=2), (IMAGE,)),
    "bilinear": (lambda m, x: F.interpolate(m.conv(x), (9, 11), mode="bilinear"), (IMAGE,)),
    "pixel_shuffle": (lambda m, x: F.pixel_unshuffle(F.pixel_shuffle(m.conv(x), 2), 2), (IMAGE,)),
    "attention": (
        lambda m, x: torch.softmax(x @ x.transpose(-2, -1) / math.sqrt(7), -1) @ x,
        ((2, 3, 7),),
    ),
    "attention_op": (lambda m, x: F.scaled_dot_product_attention(x, x * 2, m.linear(x)), ((1, 2, 5, 7),)),
    "glu": (lambda m, x: F.glu(m.conv(x), 1), (IMAGE,)),
    "einsum": (lambda m, x, y: torch.einsum("bij,bkj->bik", x, y), ((2, 3, 7), (2, 5, 7))),
    "matmul_2d": (lambda m, x, y: x @ y, ((3, 7), (7, 5))),
    "scalars": (lambda m, x: 2 - (m.conv(x) * 3 + 1) / 4, (IMAGE,)),
    "alpha": (lambda m, x, y: torch.add(x, y, alpha=0.5) - torch.sub(x, 1, alpha=2), (IMAGE, IMAGE)),
    "broadcast": (lambda m, x: x * m.table + m.table.expand(1, 8, 5, 7), (IMAGE,)),
    "expand": (lambda m, x: m.conv(x).mean([2, 3], keepdim=True).expand(1, 8, 2, 3), (IMAGE,)),
    "expand_add": (lambda m, x: x + x.mean([2, 3], keepdim=True).expand_as(x), (IMAGE,)),
    "repeat": (lambda m, x: m.conv(x).repeat(1, 2, 1, 3), (IMAGE,)),
    "roll": (lambda m, x: torch.roll(m.conv(x), (2, -1), (2, 3)), (IMAGE,)),
    "prelu": (lambda m, x: m.prelu(m.conv(x)), (IMAGE,)),
    "dropout": (lambda m, x: F.dropout(m.conv(x), 0.5, m.training), (IMAGE,)),
    "constant_chain": (lambda m, x: x + torch.arange(7.0).sqrt() + torch.ones(7), (IMAGE,)),
    "integer_constant": (lambda m, x: x * torch.arange(7), (IMAGE,)),
    "copies": (lambda m, x: m.conv(x).contiguous().clone().to(torch.float32).detach() + 1, (IMAGE,)),
    "in_place_chain": (lambda m, x: m.conv(x).add_(1).mul_(2).relu_().sub_(0.5), (IMAGE,)),
    "in_place_other_name": (lambda m, x: [y := m.conv(x), y.relu_(), m.conv2(y)][1:], (IMAGE,)),
    "cat_fixed": (lambda m, x: torch.cat([torch.sigmoid(x), torch.tanh(x), 3 * m.conv(x)], 1), (IMAGE,)),
    "cat_same_fixed": (lambda m, x: torch.cat([torch.sigmoid(x), torch.sigmoid(m.conv(x))], 1), (IMAGE,)),
    "maximum": (lambda m, x: torch.maximum(m.conv(x), m.conv2(x)), (IMAGE,)),
    "maximum_constant": (lambda m, x: torch.maximum(m.conv(x), m.table), (IMAGE,)),
    "square": (lambda m, x: m.conv(x) ** 2, (IMAGE,)),
    "division": (lambda m, x: m.conv(x) / (x.abs() + 1), (IMAGE,)),
    "twice": (lambda m, x: torch.cat([y := m.conv(x), y], 1) + torch.cat([y, y], 1), (IMAGE,)),
    "shared_conv": (lambda m, x: m.conv(F.relu(m.conv(x))), (IMAGE,)),
    "only_moves": (lambda m, x: x.permute(0, 2, 3, 1).flatten(1), (IMAGE,)),
    "several_outputs": (lambda m, x: {"a": m.conv(x), "b": [x.mean(1), x]}, (IMAGE,)),
    "reflect": (lambda m, x: F.pad(m.conv(x), (1, 1, 1, 1), mode="reflect"), (IMAGE,)),
    "adaptive_irregular": (lambda m, x: F.adaptive_avg_pool2d(m.conv(x), 3), (IMAGE,)),
    "transposed_groups": (lambda m, x: m.grouped(x), (IMAGE,)),
    "layer_norms": (lambda m, x: F.layer_norm(F.layer_norm(m.conv(x), [7]).flatten(2), [35]), (IMAGE,)),
    "two_inputs": (lambda m, x, y: m.conv(x) - y, (IMAGE, (1, 8, 1, 1))),
}
FUNCTIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "sigmoid": torch.sigmoid,
    "tanh": torch.tanh,
    "hardsigmoid": F.hardsigmoid,
    "hardswish": F.hardswish,
    "hardswish_in_place": lambda x: F.hardswish(x, inplace=True),
    "silu": F.silu,
    "gelu": F.gelu,
    "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
    "elu": F.elu,
    "selu": F.selu,
    "celu": F.celu,
    "mish": F.mish,
    "leaky_relu": F.leaky_relu,
    "exp": torch.exp,
    "abs": torch.abs,
    "neg": torch.neg,
    "softplus": F.softplus,
    "softsign_free": lambda x: torch.sin(x) + torch.erf(x),
    "log_sqrt": lambda x: torch.log(x.abs() + 1) + torch.sqrt(x.abs() + 1) + torch.rsqrt(x.abs() + 1),
    "reciprocal": lambda x: 1 / (x.abs() + 1),
    "log_sigmoid": F.logsigmoid,
    "softmax": lambda x: F.softmax(x, 1),
}


@pytest.mark.turns(17)
@pytest.mark.parametrize("name", CASES)
def test_nothing_stays_in_float(name: str) -> None:
    function, shapes = CASES[name]
    program = quantized(Call(function), *random_inputs(*shapes))
    assert program.float_ops == ()


@pytest.mark.turns(3)
@pytest.mark.parametrize("name", part_of(FUNCTIONS, 2))
def test_functions_are_tables(name: str) -> None:
    module = Call(lambda m, x: FUNCTIONS[name](m.conv(x)))
    inputs = random_inputs(IMAGE)
    program = quantized(module, *inputs)
    assert program.float_ops == ()
    assert noise(program, module, *inputs) < 0.06


@pytest.mark.turns(3)
@pytest.mark.parametrize("name", part_of(zoo.MODELS, 4))
def test_zoo(name: str) -> None:
    entry = zoo.MODELS[name]
    source = capture.load_model(name, input_size=64 if entry.resizable else None)
    program = ptq(source.exported, source.example_inputs)
    check_graph(program)
    assert program.float_ops == ()
    assert program.warnings
    assert not {"relu6", "hardtanh", "batch_norm", "view", "expand"} & set(targets(program))


@pytest.mark.parametrize(
    "clamp", ["conv_relu_inplace", "conv_relu6", "conv_hardtanh_inplace", "conv_clamps", "conv_min_max"]
)
def test_clamp_is_the_range_of_the_layer(clamp: str) -> None:
    program = quantized(Call(CASES[clamp][0]), *random_inputs(IMAGE))
    conv, relu = (n for n in program.nodes if n.op == "call_function" and str(n.target).startswith("aten"))
    assert list(conv.users) == [relu]


def test_clamp_moves_before_pooling() -> None:
    program = quantized(Call(CASES["conv_pool_relu"][0]), *random_inputs(IMAGE))
    assert targets(program) == ["conv2d", "relu", "max_pool2d"]


def test_second_user_keeps_the_range_of_the_layer() -> None:
    program = quantized(Call(CASES["conv_relu_two_users"][0]), *random_inputs(IMAGE))
    conv = next(n for n in program.nodes if "conv2d" in str(n.target))
    assert result_parameters(conv) is not None


def test_fixed_operands_are_requantized_where_ranges_differ() -> None:
    """Sharing 1/256 with a convolution would saturate it."""
    program = quantized(Call(CASES["cat_fixed"][0]), *random_inputs(IMAGE))
    cat = next(n for n in program.nodes if "cat" in str(n.target))
    shared = result_parameters(cat)
    assert shared is not None
    assert shared[0] > 1 / 64
    program = quantized(Call(CASES["cat_same_fixed"][0]), *random_inputs(IMAGE))
    cat = next(n for n in program.nodes if "cat" in str(n.target))
    assert result_parameters(cat) == (1 / 256, -128, -128, 127)


@pytest.mark.parametrize("value", [0.0, 1.5, -7.0, 1e-3])
def test_scalars_are_exact(value: float) -> None:
    """The only value of a constant is a level of its format."""
    program = quantized(Call(lambda m, x: x * value), *random_inputs(IMAGE))
    mul = next(n for n in program.nodes if "mul" in str(n.target))
    constant = mul.args[1]
    held = getattr(program.graph_module, str(constant.args[0].target))
    scale, zero_point, *_ = parameters(constant)
    assert (held.item() - zero_point) * scale == pytest.approx(value, rel=1e-6)


def test_symmetric_wish_reaches_the_producer() -> None:
    """Moves in between pass it on; softmax keeps its own format and is requantized."""
    module = Call(lambda m, x: torch.softmax(m.linear(x) @ m.linear(x).transpose(1, 2), -1) @ m.linear(x))
    inputs = random_inputs((2, 3, 7))
    constraints = QuantizationConstraints(
        symmetric_operands=frozenset({"batch_matmul"}), fixed=frozenset({"softmax"})
    )
    program = quantized(module, *inputs, constraints=constraints)
    products = [n for n in program.nodes if "bmm" in str(n.target)]
    assert all(parameters(operand)[1:] == (0, -127, 127) for p in products for operand in p.args)
    softmax = next(n for n in program.nodes if "softmax" in str(n.target))
    assert result_parameters(softmax) == (1 / 256, -128, -128, 127)
    requantized = [
        n
        for n in program.nodes
        if "quantize_per_tensor" in str(n.target) and "dequantize_per_tensor" in str(n.args[0])
    ]
    assert len([n for n in requantized if str(n.target).startswith("quantized_decomposed.quantize")]) == 1


def test_wish_to_share() -> None:
    program = quantized(
        Call(CASES["mean"][0]),
        *random_inputs(IMAGE),
        constraints=QuantizationConstraints(shared=frozenset({"mean"})),
    )
    mean = next(n for n in program.nodes if "mean" in str(n.target))
    assert result_parameters(mean) == parameters(mean.args[0])


def test_wish_for_one_scale() -> None:
    constraints = (
        QuantizationConstraints(per_tensor_weights=frozenset({"linear"})) | QuantizationConstraints()
    )
    module = Call(lambda m, x: m.linear(m.conv(x)))
    program = ptq(module, random_inputs(IMAGE), constraints=constraints)
    conv, linear = (
        next(n for n in program.nodes if name in str(n.target)) for name in ("aten.conv2d", "aten.linear")
    )
    assert "per_channel" in str(conv.args[1].target)
    assert parameters(linear.args[1])[1:] == (0, -127, 127)
    assert noise(program, module, *random_inputs(IMAGE)) < 0.02


FLOATS: dict[str, tuple[Callable[..., object], list[str], str]] = {
    "computed_weights": (
        lambda m, x: F.conv_transpose2d(x, F.conv2d(x, m.conv.weight)[0, :, None, :3, :3]),
        ["conv_transpose2d"],
        "computed",
    ),
    "infinite": (lambda m, x: m.conv(x) + torch.tensor(-math.inf), ["add"], "not finite"),
    "instance_statistics": (
        lambda m, x: F.batch_norm(m.conv(x), None, None, training=True),
        ["native_batch_norm"],
        "statistics",
    ),
    "between": (
        lambda m, x: torch.logcumsumexp(torch.logcumsumexp(m.conv(x), 1).flatten(2), 1),
        ["logcumsumexp", "reshape", "logcumsumexp"],
        "float",
    ),
    "argmax": (lambda m, x: m.conv(x).long().argmax(1), ["to", "argmax"], "whole numbers of real ones"),
}


@pytest.mark.parametrize("name", FLOATS)
def test_float_ops_are_listed(name: str) -> None:
    function, names, reason = FLOATS[name]
    program = quantized(Call(function), *random_inputs(IMAGE))
    found = [op.op.removeprefix("aten.").rpartition(".")[0] for op in program.float_ops]
    assert sorted(found) == sorted(names), program.float_ops
    assert any(reason in op.reason for op in program.float_ops)
    assert all(op.source.startswith("test_ptq.py:") for op in program.float_ops)


def test_float_in_the_middle_is_quantized_again() -> None:
    program = quantized(
        Call(lambda m, x: m.linear(torch.logcumsumexp(m.linear(x), 1)[..., :7])), *random_inputs((2, 3, 7))
    )
    product = next(n for n in program.nodes if "logcumsumexp" in str(n.target))
    assert result_parameters(product) is not None
    assert [op.op for op in program.float_ops] == ["aten.logcumsumexp.default"]


def test_memory_format_keeps_the_quantized_graph() -> None:
    module = Call(CASES["residual"][0]).eval()
    (x,) = random_inputs(IMAGE)
    first, second = quantized(module, x), quantized(module, x.to(memory_format=torch.channels_last))
    assert [(n.op, str(n.target)) for n in first.nodes] == [(n.op, str(n.target)) for n in second.nodes]


def test_the_model_stays_as_it_was() -> None:
    torch.manual_seed(0)
    module = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Dropout()).train()
    before = {key: value.clone() for key, value in module.state_dict().items()}
    (x,) = random_inputs((1, 3, 7, 7))
    ptq(module, (x,))
    assert module.training
    assert module[2].training
    assert all(torch.equal(before[key], value) for key, value in module.state_dict().items())
