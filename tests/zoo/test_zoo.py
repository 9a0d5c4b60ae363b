# SPDX-License-Identifier: Apache-2.0
"""The models: their size, their outputs, and that no random state but the seed has a part in them."""

from __future__ import annotations

import copy
import subprocess
import sys
from functools import cache

import pytest
import torch
from torch import nn

from pillion import zoo
from pillion.errors import PillionError

pytestmark = [pytest.mark.torch, pytest.mark.slow]

SMALL = {
    "mobilenet_v2": 40,
    "mobilenet_v3_small": 40,
    "unet": 40,
    "yolo_two_heads": 64,
}  # enough for what does not depend on the resolution
MACS = {
    "ds_cnn": 2_656_768,
    "resnet8": 12_501_632,
    "mobilenet_v1_025": 7_489_664,
    "deep_autoencoder": 264_192,
    "mobilenet_v2": 300_774_272,
    "mobilenet_v3_small": 56_510_400,
    "unet": 289_603_584,
    "yolo_two_heads": 53_939_200,
    "conv_bn_relu": 16 * 16 * 16 * 27,
    "linear_bn": 32 * 16 + 16 * 8,
    "separable_residual": 16 * 16 * 16 * (27 + 9 + 16) + 160,
}
SHAPES = {
    "ds_cnn": ((1, 1, 49, 10), (1, 12)),
    "resnet8": ((1, 3, 32, 32), (1, 10)),
    "mobilenet_v1_025": ((1, 3, 96, 96), (1, 2)),
    "deep_autoencoder": ((1, 640), (1, 640)),
    "mobilenet_v2": ((1, 3, 224, 224), (1, 1000)),
    "mobilenet_v3_small": ((1, 3, 224, 224), (1, 1000)),
    "unet": ((1, 3, 96, 96), (1, 2, 96, 96)),
    "yolo_two_heads": ((1, 3, 160, 160), (1, 24, 10, 10), (1, 24, 20, 20)),
    "conv_bn_relu": ((1, 3, 16, 16), (1, 16, 16, 16)),
    "linear_bn": ((1, 32), (1, 8)),
    "separable_residual": ((1, 3, 32, 32), (1, 10)),
}
RESIZABLE = [name for name, entry in zoo.MODELS.items() if entry.resizable]


def count_macs(model: nn.Module, x: torch.Tensor) -> int:
    total = 0

    def count(layer: nn.Module, _: object, out: torch.Tensor) -> None:
        nonlocal total
        assert isinstance(layer, nn.Conv2d | nn.Linear)
        total += out.numel() * layer.weight[0].numel()

    for layer in model.modules():
        if isinstance(layer, nn.Conv2d | nn.Linear):
            layer.register_forward_hook(count)
    with torch.no_grad():
        model(x)
    return total


def outputs_of(model: nn.Module, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """All results of a model, of which most have one."""
    y = model(x)
    return y if isinstance(y, tuple) else (y,)


@cache
def small(name: str) -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
    """A model that no test changes."""
    return zoo.build(name, SMALL.get(name))


def bits(model: nn.Module) -> bytes:
    return b"".join(value.numpy().tobytes() for value in model.state_dict().values())


def test_listing_the_models_does_not_import_torch() -> None:
    code = "import sys, pillion.zoo as z; assert z.find('mv2') and 'torch' not in sys.modules"
    path = [entry for entry in sys.path if entry]
    subprocess.run([sys.executable, "-c", f"import sys; sys.path[:0] = {path!r}; {code}"], check=True)


@pytest.mark.turns(4)
@pytest.mark.parametrize("name", zoo.MODELS)
def test_shapes_and_multiply_accumulates(name: str) -> None:
    model, (x,) = zoo.build(name)
    with torch.no_grad():
        assert (tuple(x.shape), *(tuple(y.shape) for y in outputs_of(model, x))) == SHAPES[name]
    assert zoo.MODELS[name].input_shape == tuple(x.shape)
    assert count_macs(model, x) == MACS[name]
    assert not any(layer.training for layer in model.modules())
    assert {value.dtype for value in (*model.parameters(), x)} == {torch.float32}


@pytest.mark.turns(3)
@pytest.mark.parametrize("name", zoo.MODELS)
def test_outputs_depend_on_the_input(name: str) -> None:
    model, _ = small(name)
    with torch.no_grad():
        answers = [outputs_of(model, *x) for x in zoo.random_inputs(name, 16, SMALL.get(name))]
    for several in zip(*answers, strict=True):
        require_dependent(torch.cat(several).flatten(1))


def require_dependent(outputs: torch.Tensor) -> None:
    """Of all inputs and classes."""
    assert outputs.isfinite().all()
    assert len(set(outputs.argmax(1).tolist())) > 1
    assert outputs.std(0).mean() > 0.02  # over the inputs
    assert outputs.std(1).mean() > 0.02  # over the classes
    assert outputs.abs().max() < 50


@pytest.mark.parametrize("name", zoo.MODELS)
def test_zoo_batch_norms_have_statistics_of_their_inputs(name: str) -> None:
    model = copy.deepcopy(small(name)[0])
    norms = [layer for layer in model.modules() if isinstance(layer, nn.BatchNorm1d | nn.BatchNorm2d)]
    spread: list[float] = []
    for norm in norms:
        norm.register_forward_hook(
            lambda layer, _, out: spread.append(float((out - layer.bias.mean()).std()))
        )
    with torch.no_grad():
        model(torch.cat([x for (x,) in zoo.random_inputs(name, 8, SMALL.get(name))]))
    assert len(spread) == len(norms) > 0
    assert all(0.5 < value < 4 for value in spread)


@pytest.mark.parametrize("name", ["resnet8", "deep_autoencoder", "separable_residual", "mobilenet_v3_small"])
def test_a_seed_gives_the_same_bits_whatever_the_threads_and_the_global_generator(name: str) -> None:
    model, (example,) = small(name)
    threads = torch.get_num_threads()
    torch.manual_seed(99)
    state = torch.random.get_rng_state()
    torch.set_num_threads(1 if threads > 1 else 2)
    try:
        again, (x,) = zoo.build(name, SMALL.get(name))
        inputs = zoo.random_inputs(name, 1, SMALL.get(name))
    finally:
        torch.set_num_threads(threads)
    assert bits(again) == bits(model)
    assert torch.equal(torch.random.get_rng_state(), state)
    assert torch.equal(x, example)
    assert torch.equal(inputs[0][0], zoo.random_inputs(name, 1, SMALL.get(name))[0][0])


@pytest.mark.parametrize("name", ["linear_bn", "conv_bn_relu"])
@pytest.mark.parametrize("seed", [-1, 1, 2**40, 2**70])
def test_another_seed_gives_another_model_and_other_inputs(name: str, seed: int) -> None:
    (model, (x,)), (other, (y,)) = zoo.build(name), zoo.build(name, seed=seed)
    assert bits(model) != bits(other)
    assert not torch.equal(x, y)
    assert not torch.equal(zoo.random_inputs(name, 1)[0][0], zoo.random_inputs(name, 1, seed=seed)[0][0])


@pytest.mark.parametrize("name", ["ds_cnn", "resnet8"])
def test_random_inputs_are_nearly_normal_and_a_longer_list_starts_like_a_shorter_one(name: str) -> None:
    short, long = zoo.random_inputs(name, 2), zoo.random_inputs(name, 20)
    assert [torch.equal(a, b) for (a,), (b,) in zip(short, long, strict=False)] == [True, True]
    values = torch.cat([x for (x,) in long])
    assert abs(float(values.mean())) < 0.03
    assert abs(float(values.std()) - 1) < 0.03
    assert not torch.equal(long[0][0], zoo.build(name)[1][0])


@pytest.mark.turns(5)
@pytest.mark.parametrize("name", zoo.MODELS)
def test_every_model_exports_with_static_shapes(name: str) -> None:
    model, inputs = small(name)
    program = torch.export.export(model, inputs, strict=False)
    exported = program.module()(*inputs)
    for ours, wanted in zip(
        exported if isinstance(exported, tuple) else (exported,), outputs_of(model, *inputs), strict=True
    ):
        assert torch.equal(ours, wanted)
    shapes = [node.meta["val"].shape for node in program.graph.nodes if "val" in node.meta]
    assert all(type(side) is int for shape in shapes for side in shape)


@pytest.mark.turns(4)
@pytest.mark.parametrize("name", RESIZABLE)
@pytest.mark.parametrize("size", [1, 37, (33, 71)])
def test_pictures_of_any_size(name: str, size: int | tuple[int, int]) -> None:
    model, (x,) = zoo.build(name, size)
    height, width = (size, size) if isinstance(size, int) else size
    assert tuple(x.shape) == (1, 3, height, width)
    with torch.no_grad():
        assert all(y.isfinite().all() for y in outputs_of(model, x))


def test_names_and_aliases() -> None:
    for alias, name in {
        "mv2": "mobilenet_v2",
        "mv3": "mobilenet_v3_small",
        "mobilenet_v3": "mobilenet_v3_small",
    }.items():
        assert zoo.find(alias) is zoo.find(name) is zoo.MODELS[name]
    assert zoo.find("net.py:Net") is None
    names = [name for entry in zoo.MODELS.values() for name in (entry.name, *entry.aliases)]
    assert len(names) == len(set(names))


def test_an_unknown_name_is_answered_with_the_nearest() -> None:
    with pytest.raises(PillionError, match="no model is called mobilenetv2") as caught:
        zoo.build("mobilenetv2")
    assert caught.value.help == "did you mean mobilenet_v2?"
    assert "resnet8" in caught.value.rule


@pytest.mark.parametrize(("name", "size"), [("ds_cnn", 32), ("deep_autoencoder", 640), ("resnet8", (32, 31))])
def test_a_fixed_input_refuses_another_size(name: str, size: int | tuple[int, int]) -> None:
    with pytest.raises(PillionError, match=f"{name} has a fixed input") as caught:
        zoo.random_inputs(name, 1, size)
    assert str(size) in caught.value.here
    assert "mobilenet_v2" in caught.value.help


def test_a_fixed_input_accepts_its_own_size() -> None:
    assert tuple(zoo.build("ds_cnn", (49, 10))[1][0].shape) == (1, 1, 49, 10)


@pytest.mark.parametrize("size", [0, -3, (8, 0), (8, 8, 8)])
def test_invalid_sizes_are_refused(size: int | tuple[int, int]) -> None:
    with pytest.raises(PillionError, match="not a size of a picture"):
        zoo.build("mv2", size)
