# SPDX-License-Identifier: Apache-2.0
"""Small nets of the kinds that people have, for a core and for a chip with an NPU: the same bytes on this computer as by the
reference, and near to PyTorch."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import pillion
from nightly import in_turn

pytestmark = [
    pytest.mark.torch,
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler"),
]

Shape = tuple[int, ...]


class Call(nn.Module):
    """A function as a module, with the layers that it uses."""

    def __init__(self, function: Callable[..., Any], **layers: Any) -> None:
        super().__init__()
        self.function = function
        for name, layer in layers.items():
            setattr(self, name, layer)

    def forward(self, *inputs: Tensor) -> Any:
        return self.function(self, *inputs)


def sequences() -> nn.Module:
    return nn.Sequential(
        *(nn.Conv1d(3, 8, 5), nn.BatchNorm1d(8), nn.ReLU6()),
        *(nn.Conv1d(8, 8, 3, groups=8), nn.ReLU(), nn.ConvTranspose1d(8, 4, 4, 2, 1), nn.Hardtanh(-0.5, 0.7)),
    )


NETS: dict[str, tuple[Callable[[], nn.Module], tuple[Shape, ...]]] = {
    "sequences": (sequences, ((2, 3, 23),)),
    "one layer twice": (lambda: Call(lambda m, x: m.l(m.l(x)), l=nn.Linear(5, 5)), ((3, 5),)),
    "twins": (
        lambda: Call(lambda m, x, y: (m.c(x) - m.c(y)).relu(), c=nn.Conv2d(3, 7, 3)),
        ((1, 3, 7, 5), (1, 3, 7, 5)),
    ),
    "class token": (
        lambda: Call(
            lambda m, x: m.l(torch.cat([m.p, x], 1)), p=nn.Parameter(torch.randn(1, 1, 6)), l=nn.Linear(6, 3)
        ),
        ((1, 5, 6),),
    ),
    "stacked constant": (
        lambda: Call(lambda m, x: torch.stack([m.p, x], 1), p=nn.Parameter(torch.randn(2, 4))),
        ((2, 4),),
    ),
    "channels of zeros": (
        lambda: Call(lambda m, x: torch.cat([m.c(x), torch.zeros(1, 2, 5, 3)], 1), c=nn.Conv2d(3, 4, 1)),
        ((1, 3, 5, 3),),
    ),
    "gated cell": (lambda: Call(lambda m, x, h: m.g(x, h), g=nn.GRUCell(5, 7)), ((2, 5), (2, 7))),
    "memory cell": (
        lambda: Call(lambda m, x, h, c: m.g(x, (h, c)), g=nn.LSTMCell(5, 7)),
        ((2, 5), (2, 7), (2, 7)),
    ),
}


class WithoutGradients(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4)

    @torch.no_grad()
    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return self.norm(self.conv(x)).relu(), x + 1


NETS["without gradients"] = (WithoutGradients, ((1, 3, 8, 7),))


@pytest.mark.turns(3)
@pytest.mark.parametrize(("name", "target"), in_turn(NETS, ["cortex-m33", "imxrt700"]))
def test_net(name: str, target: str) -> None:
    make, shapes = NETS[name]
    torch.manual_seed(3)
    module = make().eval()
    x = tuple(torch.randn(shape) for shape in shapes)
    program = pillion.compile(module, x, target=target)
    found, here = program.run(*x), program.run(*x, on="host")
    with torch.no_grad():
        wanted = module(*x)
    for theirs, ours, host in zip(
        wanted if isinstance(wanted, tuple) else (wanted,), found, here, strict=True
    ):
        assert np.array_equal(ours, host)
        noise = float(((theirs.numpy() - ours) ** 2).mean())
        assert 10 * np.log10(float((theirs**2).mean()) / noise) > 35


def test_training_of_sequences() -> None:
    torch.manual_seed(3)
    x = (torch.randn(2, 3, 23),)
    net = pillion.prepare_qat(sequences(), x, target="cortex-m33")
    net(*x)
    program = pillion.compile(net.eval(), x, target="cortex-m33")
    assert np.array_equal(program.run(*x)[0], program.run(*x, on="host")[0])


class Cast(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        with torch.autocast("cpu", enabled=x.is_floating_point()):
            return x.float().relu()


def test_whole_numbers_become_real_where_the_model_says_so() -> None:
    x = torch.arange(-3, 5).reshape(2, 4)
    program = pillion.compile(Cast().eval(), (x,), target="cortex-m33")
    assert np.abs(program.run(x)[0] - Cast()(x).numpy()).max() <= 0.02
    assert np.array_equal(program.run(x)[0], program.run(x, on="host")[0])


class Halved(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return (x @ x.t()).float()


@pytest.mark.parametrize("net", [Cast, Halved])
def test_under_autocast_all_is_computed_in_float32(net: type[nn.Module]) -> None:
    x = torch.randn(3, 7, generator=torch.Generator().manual_seed(0))
    program = pillion.compile(net().eval(), (x,), target="cortex-m33")
    wanted = net()(x).numpy()
    assert np.abs(program.run(x)[0] - wanted).max() <= 0.02 * np.abs(wanted).max()
    assert np.array_equal(program.run(x)[0], program.run(x, on="host")[0])
