# SPDX-License-Identifier: Apache-2.0
"""What loops do beside training, to modules of `prepare_qat`: it works as in float, or is refused where it is done."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils import parametrizations, prune
from torch.optim.swa_utils import AveragedModel

import pillion
from nightly import part_of
from pillion.errors import PillionError
from pillion.importers.torch.train.qat_module import QatModule

pytestmark = pytest.mark.torch
TARGET = "cortex-m55"
X = torch.linspace(-2, 3, 6 * 2 * 5 * 7).reshape(6, 2, 5, 7)
Y = torch.arange(6) % 3


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.body = nn.Sequential(nn.Conv2d(2, 4, 3), nn.BatchNorm2d(4), nn.ReLU())
        self.head = nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.body(x).mean((2, 3)))

    def loss(self, x: Tensor, y: Tensor) -> Tensor:
        return F.cross_entropy(self(x), y)


class Task(nn.Module):
    """A model with its loss, as training frameworks hold it."""

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net, self.loss = net, nn.CrossEntropyLoss()

    def forward(self, x: Tensor) -> Tensor:
        return self.net(x)


@pytest.fixture
def module() -> QatModule:
    """A prepared module that has seen no data."""
    return pillion.prepare_qat(Net(), X[:1], TARGET)


def steps(module: nn.Module, count: int = 2) -> None:
    optimizer = torch.optim.SGD(module.parameters(), lr=0.05)
    for _ in range(count):
        optimizer.zero_grad()
        F.cross_entropy(module(X), Y).backward()
        optimizer.step()


def compiled(module: nn.Module, **options: Any) -> str:
    return pillion.compile(module, X[:1], target=TARGET, progress=False, name="net", **options).text()


def test_a_norm_that_does_not_track_keeps_its_statistics(module: QatModule) -> None:
    steps(module)
    norm: Any = module.body[1]  # type: ignore[index]  # a Sequential
    norm.track_running_stats = False
    before = {key: value.clone() for key, value in norm.state_dict().items() if "num" in key or "run" in key}
    steps(module)
    assert all(torch.equal(norm.state_dict()[key], value) for key, value in before.items())
    in_float = copy.deepcopy(module.origin).train()
    assert torch.allclose(in_float.body[0](X).mean(), module.body[0](X).mean())  # type: ignore[index, operator]  # parts
    norm.track_running_stats = True
    steps(module, 1)
    assert not torch.equal(norm.running_mean, before["running_mean"])


@pytest.mark.parametrize(
    "wrap", part_of([nn.DataParallel, AveragedModel, lambda m: AveragedModel(nn.DataParallel(m))], 3)
)
def test_wrappers_are_taken_off(wrap: Callable[[nn.Module], nn.Module], module: QatModule) -> None:
    wrapped = wrap(module)
    steps(wrapped)
    inner: Any = wrapped
    while not isinstance(inner, QatModule):
        inner = inner.module
    if isinstance(wrapped, AveragedModel):
        wrapped.update_parameters(module)
    assert compiled(wrapped) == compiled(inner)
    assert pillion.float_weights(wrapped).keys() == Net().state_dict().keys()  # type: ignore[arg-type]  # a wrapper
    assert compiled(wrap(Net().eval()), calibrate=X) == compiled(Net().eval(), calibrate=X)
    assert isinstance(pillion.prepare_qat(wrap(Net()), X[:1], TARGET).head, nn.Linear)


def test_a_prepared_part_is_named(module: QatModule) -> None:
    task = Task(module)
    steps(task)
    with pytest.raises(PillionError, match="a part of Task was prepared for training") as caught:
        compiled(task)
    assert caught.value.here == "`net`"
    assert compiled(task.net)


CHANGES: dict[str, tuple[Callable[[Any], object], str]] = {
    "a new head": (lambda m: setattr(m, "head", nn.Linear(4, 3)), "head"),
    "a part in a part": (lambda m: m.body.__setitem__(0, nn.Conv2d(2, 4, 3)), "body.0"),
    "a part more": (lambda m: m.body.append(nn.ReLU()), "body.3"),
    "a part less": (lambda m: m.body.__delitem__(2), "body.2"),
    "pruning": (lambda m: prune.l1_unstructured(m.head, "weight", 0.5), "head"),
    "a parametrization": (lambda m: parametrizations.weight_norm(m.head), "head"),
}


@pytest.mark.turns(4)
@pytest.mark.parametrize("name", CHANGES)
@pytest.mark.parametrize("then", [lambda m: m(X), compiled, copy.deepcopy], ids=["call", "compile", "copy"])
def test_parts_that_would_not_compute_are_refused(
    name: str, then: Callable[[nn.Module], object], module: QatModule
) -> None:
    change, path = CHANGES[name]
    steps(module)
    change(module)
    with pytest.raises(PillionError, match="another part than it was prepared with") as caught:
        then(module)
    assert f"`{path}`" in caught.value.here


def test_weights_may_be_set(module: QatModule) -> None:
    module.head.weight = nn.Parameter(torch.zeros(3, 4))
    with torch.no_grad():
        module.head.bias.zero_()  # type: ignore[operator, union-attr]  # a tensor
    assert float(module.eval()(X).abs().max()) == 0
    copied = copy.deepcopy(module)
    assert float(copied(X).abs().max()) == 0
    assert torch.load(_stored(module), weights_only=False)(X).shape == (6, 3)


def _stored(module: nn.Module) -> Any:
    import io

    stream = io.BytesIO()
    torch.save(module, stream)
    stream.seek(0)
    return stream


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_other_types_of_weights_are_refused_at_once(dtype: torch.dtype, module: QatModule) -> None:
    with pytest.raises(PillionError, match="ranges and weights are float32"):
        module.to(dtype)
    assert module.float().head.weight.dtype == torch.float32
    with torch.autocast("cpu", torch.bfloat16):
        F.cross_entropy(module(X), Y).backward()
    assert compiled(module)


def average(shown: nn.Module, learned: nn.Module) -> None:
    """What loops of one's own do: an average of all that is in the state dict."""
    with torch.no_grad():
        for kept, new in zip(shown.state_dict().values(), learned.state_dict().values(), strict=True):
            kept.copy_(kept * 0.9 + new * 0.1 if kept.is_floating_point() else new)


def test_averages_that_began_before_the_first_batch_are_measured_anew(module: QatModule) -> None:
    mean = copy.deepcopy(module)
    steps(module)
    average(mean, module)
    with pytest.raises(PillionError, match="has learned, but has no ranges") as caught:
        compiled(mean)
    assert "calibrate=batches" in caught.value.help
    program = pillion.compile(mean, X[:1], target=TARGET, progress=False, calibrate=X)
    wanted = Net().eval()
    wanted.load_state_dict(pillion.float_weights(mean))
    found = program.run(X[:1])[0]
    assert float(torch.as_tensor(found).sub(wanted(X[:1])).abs().max()) < 0.05
    # an average that began after it has ranges, and one more calibration is refused
    late = copy.deepcopy(module)
    average(late, module)
    assert compiled(late)
    with pytest.raises(PillionError, match="has its ranges already"):
        compiled(late, calibrate=X)


def test_methods_of_the_model_say_why_they_are_missing(module: QatModule) -> None:
    with pytest.raises(AttributeError, match="`loss` is a method of the model"):
        _ = module.loss
    assert not hasattr(module, "nothing")
