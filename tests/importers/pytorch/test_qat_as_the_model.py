# SPDX-License-Identifier: Apache-2.0
"""A module that is prepared for training is to every loop the model that it was made from: names, classes, modes, files."""

from __future__ import annotations

import copy
import io
import subprocess
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import pillion
from pillion.errors import PillionError
from pillion.importers.torch.train.qat_module import QatModule

TARGET = "cortex-m55"


class Gate(nn.Module):
    """A part with a tensor that is neither parameter nor buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.fixed = torch.linspace(0.5, 1.5, 8).reshape(1, 8, 1, 1)

    def forward(self, x: Tensor) -> Tensor:
        return x * self.fixed


class Net(nn.Module):
    """A model as people write them: parts in parts, a parameter and a buffer of its own, names that could clash."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.num_classes = 4
        self.backbone = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Dropout(0.5))
        self.model, self.ranges = Gate(), nn.Conv2d(8, 8, 1)
        self.table = nn.Parameter(torch.ones(1, 8, 1, 1))
        self.register_buffer("shift", torch.full((1, 8, 1, 1), 0.25))
        self.head = nn.Linear(8, self.num_classes)

    def forward(self, x: Tensor, weight: Tensor, *, relu: bool = True) -> Tensor:
        y = self.ranges(self.model(self.backbone(x)) * self.table + self.shift)
        y = (F.relu(y) if relu else y) * weight
        return self.head(y.mean((2, 3)))


def inputs(seed: int = 0, size: int = 5) -> tuple[Tensor, Tensor]:
    made = torch.Generator().manual_seed(seed)
    return torch.randn(size, 3, 7, 9, generator=made), torch.rand(size, 8, 1, 1, generator=made)


def prepared(target: str = TARGET) -> QatModule:
    return pillion.prepare_qat(Net(), inputs(), target)


def steps(module: nn.Module, count: int = 2) -> None:
    optimizer = torch.optim.SGD([p for p in module.parameters() if p.requires_grad], lr=0.05)
    for seed in range(count):
        optimizer.zero_grad()
        module(*inputs(seed)).square().sum().backward()
        optimizer.step()


def test_prepared_models_keep_names_and_classes() -> None:
    module, model = prepared(), Net()
    parts = dict(module.named_modules())
    for name, part in model.named_modules():
        if name and name.partition(".")[0] != "ranges":  # a method of the module has this name
            assert type(parts[name]) is type(part), name
    names = [name for name, _ in model.named_parameters()]
    found = [name.replace("rounding.ranges", "ranges") for name, _ in module.named_parameters()]
    assert sorted(found) == sorted(names)
    assert isinstance(module.backbone, nn.Sequential)
    assert module.head.weight is dict(module.named_parameters())["head.weight"]
    assert module.num_classes == 4
    assert module.model.fixed is module.rounding.get_buffer("model.fixed")
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = module.nothing


def test_a_part_can_be_frozen_or_learn_alone() -> None:
    module = prepared()
    module.backbone.requires_grad_(False)
    before = {name: p.clone() for name, p in module.named_parameters()}
    steps(module)
    changed = {name for name, p in module.named_parameters() if not torch.equal(p, before[name])}
    assert changed
    assert not any(name.startswith("backbone") for name in changed)
    optimizer = torch.optim.SGD(module.head.parameters(), lr=0.1)
    module(*inputs()).sum().backward()
    held = module.head.bias.clone()
    optimizer.step()
    assert not torch.equal(module.head.bias, held)


def freeze(module: nn.Module) -> None:
    """What recipes for fine-tuning do."""
    for part in module.modules():
        if isinstance(part, nn.BatchNorm2d):
            part.eval()


def test_frozen_norms_keep_their_statistics_and_compute_with_them() -> None:
    module = prepared()
    steps(module)
    freeze(module)
    norm = module.backbone[1]
    before = norm.running_mean.clone(), norm.running_var.clone(), norm.num_batches_tracked.clone()
    steps(module)
    after = norm.running_mean, norm.running_var, norm.num_batches_tracked
    assert all(map(torch.equal, before, after))
    module.load_state_dict(module.state_dict())
    module(*inputs(5))
    assert torch.equal(norm.running_mean, before[0])  # loading is no change of modes
    module.train()
    module(*inputs(5))
    assert not torch.equal(norm.running_mean, before[0])


def test_momentum_may_change_and_statistics_be_computed_anew() -> None:
    module, norm = prepared(), None
    norm = module.backbone[1]
    norm.momentum = 0.0
    module(*inputs(1))
    assert bool((norm.running_mean == 0).all())
    loader = [inputs(seed)[0] for seed in range(3)]

    class Alone(nn.Module):
        """Of two inputs the loader has one."""

        def __init__(self, inner: nn.Module) -> None:
            super().__init__()
            self.inner = inner

        def forward(self, x: Tensor) -> Any:
            return self.inner(x, inputs()[1])

    torch.optim.swa_utils.update_bn(loader, Alone(module))
    means = torch.stack([module.backbone[0](x).mean((0, 2, 3)) for x in loader]).mean(0)
    assert torch.allclose(norm.running_mean, means, atol=0.02)


def test_one_dropout_may_be_off() -> None:
    module = prepared()
    steps(module)
    module.train()
    for part in module.modules():
        if isinstance(part, (nn.Dropout, nn.BatchNorm2d)):
            part.eval()
    for part in module.rounding.children():
        if hasattr(part, "disable_observer"):
            part.disable_observer()
    x = inputs(2)
    assert torch.equal(module(*x), module(*x))
    module.backbone[3].train()
    assert not torch.allclose(module(*x), module(*x))


def test_arguments_have_their_names() -> None:
    module = prepared().eval()
    x, weight = inputs()
    expected = module(x, weight)
    assert torch.equal(module(weight=weight, x=x), expected)
    assert torch.equal(module(x, weight=weight, relu=True), expected)
    with pytest.raises(TypeError, match="weight"):
        module(x=x)
    with pytest.raises(PillionError, match="one way through forward") as caught:
        module(x, weight, relu=False)
    assert caught.value.here == "relu=False"


@pytest.mark.parametrize("mode", [True, False])
def test_a_stored_module_comes_back(tmp_path: Path, mode: bool) -> None:
    module = prepared("imxrt700")
    steps(module)
    freeze(module)
    module.head.weight.requires_grad_(False)
    module.train(mode)
    module.backbone[1].eval()
    torch.save(module, tmp_path / "qat.pt")
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        loaded = torch.load(tmp_path / "qat.pt", weights_only=False)
    assert isinstance(loaded, QatModule)
    assert loaded.training == mode
    assert [p.training for p in loaded.backbone] == [p.training for p in module.backbone]
    assert [p.requires_grad for p in loaded.parameters()] == [p.requires_grad for p in module.parameters()]
    theirs = loaded.state_dict()
    assert theirs.keys() == module.state_dict().keys()
    assert all(torch.equal(value, theirs[key]) for key, value in module.state_dict().items())
    assert torch.equal(loaded.eval()(*inputs(3)), module.eval()(*inputs(3)))
    one = inputs(4, size=1)
    programs = [pillion.compile(m, one, target="imxrt700", progress=False) for m in (module, loaded)]
    assert programs[0].tflite() == programs[1].tflite()
    steps(loaded.train())


def test_weights_go_both_ways() -> None:
    module = prepared()
    steps(module, 3)
    weights = pillion.float_weights(module)
    model = Net()
    assert list(weights) == list(model.state_dict())
    model.load_state_dict(weights)
    assert torch.equal(model.head.weight, module.head.weight)
    assert model.head.weight.data_ptr() != module.head.weight.data_ptr()
    other = prepared()
    assert other.load_state_dict(model.state_dict()).missing_keys == []
    assert torch.equal(other.head.weight, module.head.weight)
    assert torch.equal(other.backbone[1].running_mean, module.backbone[1].running_mean)
    assert not other.is_trained  # weights, no ranges
    with pytest.raises(PillionError, match="not prepared for training"):
        pillion.float_weights(model)  # type: ignore[arg-type]  # on purpose


def test_loading_a_state_dict_names_mismatched_keys() -> None:
    module = prepared()
    state = module.state_dict()
    assert not [key for key in state if key.startswith(("rounding.backbone", "rounding.table"))]
    del state["head.bias"]
    state["extra"] = torch.zeros(1)
    with pytest.raises(RuntimeError) as caught:
        module.load_state_dict(state)
    assert str(caught.value).count("head.bias") == 1
    assert "extra" in str(caught.value)
    found = nn.ModuleDict({"a": module}).load_state_dict({}, strict=False)
    assert "a.head.bias" in found.missing_keys
    assert not [key for key in found.missing_keys if "rounding.head" in key]


def test_a_copy_reads_its_own_tensors() -> None:
    module = prepared()
    steps(module)
    made = copy.deepcopy(module)
    assert made.head is made.rounding.head
    assert made.table is made.rounding.table
    assert made.head.weight is not module.head.weight
    before = {key: value.clone() for key, value in module.state_dict().items()}
    freeze(made)
    steps(made)
    assert all(torch.equal(value, before[key]) for key, value in module.state_dict().items())
    assert module.backbone[1].training
    moved = made.to("meta")
    assert {t.device.type for t in (*moved.parameters(), *moved.buffers())} == {"meta"}
    assert moved.table is moved.rounding.table


def test_assigned_parameters_reach_the_rounding_graph() -> None:
    module = prepared()
    state = {key: value.clone() for key, value in module.state_dict().items()}
    state["table"] = state["table"] * 3
    module.load_state_dict(state, assign=True)
    assert module.table is module.rounding.table
    assert float(module.rounding.table.detach().max()) == 3


def test_torch_compile_leaves_it_as_it_is_at_once() -> None:
    module = prepared()
    began = time.monotonic()
    compiled = torch.compile(module)
    compiled(*inputs()).sum().backward()
    assert module.head.weight.grad is not None
    assert module.is_trained
    assert time.monotonic() - began < 30


def test_another_target_is_named() -> None:
    module = prepared()
    steps(module)
    with pytest.raises(PillionError, match="rounds in another way") as caught:
        pillion.compile(module, inputs(size=1), target="imxrt700", progress=False)
    assert caught.value.here == "prepared for cortex-m55+int8, compiled for imxrt700"
    assert "target='imxrt700'" in caught.value.help


@pytest.mark.nightly
def test_the_first_call_of_a_process_may_be_this_one() -> None:
    code = "import torch, pillion; pillion.prepare_qat(torch.nn.Linear(3, 2), torch.ones(1, 3), 'cortex-m55')"
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)


def test_bytes_in_memory_can_be_stored_too() -> None:
    module = pillion.prepare_qat(nn.Sequential(nn.Linear(3, 2)), torch.ones(2, 3), TARGET)
    stream = io.BytesIO()
    torch.save(module, stream)
    stream.seek(0)
    assert torch.equal(torch.load(stream, weights_only=False)(torch.ones(2, 3)), module(torch.ones(2, 3)))
