# SPDX-License-Identifier: Apache-2.0
"""Nets that compare, choose, and look up by numbers: they compile, and answer what the float model answers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import pillion
from importers.pytorch.compare_select_nets import CASES, net


def flat(results: Any) -> list[torch.Tensor]:
    return list(results) if isinstance(results, (tuple, list)) else [results]


@pytest.mark.turns(18)
@pytest.mark.parametrize("name", CASES)
def test_nets_as_people_write_them(name: str) -> None:
    case = CASES[name]
    module, inputs = net(case)
    with torch.no_grad():
        wanted = flat(module(*inputs))
    program = pillion.compile(module, inputs, target="cortex-m33", name="net")
    for real, got in zip(wanted, program.run(*inputs), strict=True):
        assert tuple(real.shape) == got.shape
        if real.is_floating_point():
            assert got.dtype == np.float32
            noise = float(((real - torch.from_numpy(got)) ** 2).sum())
            signal = float((real**2).sum())
            assert 10 * np.log10(signal / max(noise, 1e-30)) >= case.decibels
        else:
            assert got.dtype == (np.bool_ if real.dtype == torch.bool else np.int32)
            assert float((real.numpy() == got).mean()) >= case.agreement


class Words(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = torch.nn.Embedding(20, 8)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.embed(tokens).sum(-2)


@pytest.mark.parametrize(
    "given", [[1, 2, 19], ([1, 2, 19],), torch.tensor([1, 2, 19])], ids=["list", "tuple", "tensor"]
)
def test_lists_are_example_inputs(given: Any) -> None:
    program = pillion.compile(
        Words(), given, target="cortex-m33", calibrate=[([0, 3, 4],), torch.tensor([5, 6, 7])]
    )
    assert [repr(v) for v in program.graph.inputs] == ["tokens: int32[3]"]


def test_numbers_are_example_inputs() -> None:
    class Scaled(torch.nn.Module):
        def forward(self, x: torch.Tensor, factor: torch.Tensor) -> torch.Tensor:
            return x * factor

    program = pillion.compile(Scaled(), ([1.0, -2.0], 0.5), target="cortex-m33")
    (got,) = program.run(np.float32([1.0, -2.0]), np.float32(0.5))
    assert np.abs(got - [0.5, -1.0]).max() < 0.02


def test_numbers_from_outside_are_clamped() -> None:
    """As the documentation says: nothing outside the table is read, in the reference and in C."""
    program = pillion.compile(Words(), (torch.tensor([0, 7, 19]),), target="cortex-m33")
    for on in ("reference", "host"):
        wild, tame = (program.run(np.int32(x), on=on)[0] for x in ([-5, 2**31 - 1, 7], [0, 19, 7]))
        assert wild.tolist() == tame.tolist()


def test_whole_numbers_of_64_bits_are_taken_as_far_as_they_fit() -> None:
    program = pillion.compile(Words(), (torch.tensor([0, 7, 19]),), target="cortex-m33")
    with pytest.raises(pillion.PillionError, match="does not fit"):
        program.run(np.array([0, 1, 2**40]))


def test_verification_draws_numbers_that_tables_have() -> None:
    from pillion.run.random_inputs import random_samples

    program = pillion.compile(Words(), (torch.tensor([[0, 7, 19]]),), target="cortex-m33")
    drawn = np.concatenate([sample[0].ravel() for sample in random_samples(program.graph, 40, 0)])
    assert (drawn.min(), drawn.max()) == (0, 19)


def test_types_that_no_input_has() -> None:
    class Reals(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.float()

    with pytest.raises(
        pillion.PillionError, match="inputs are of type float32, int64, int32, int16, int8, uint8, bool"
    ):
        pillion.compile(Reals(), (torch.tensor([1, 2], dtype=torch.uint16),), target="cortex-m33")


def test_an_image_of_bytes_is_exact() -> None:
    """Dividing by 255 keeps every level: the same int8 numbers, one for each byte."""

    class Image(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.float() / 255

    every = torch.arange(256, dtype=torch.uint8).reshape(1, 1, 16, 16)
    program = pillion.compile(Image(), (every,), target="cortex-m33")
    (got,) = program.run(every)
    assert np.abs(got - every.numpy() / 255).max() < 1e-6
    assert "float32" not in {
        v.dtype.value for op in program.graph.ops[:-1] for v in (*op.operands, *op.results)
    }


def test_reports_compare_whole_numbers_too() -> None:
    """The float model is run on what the program is given: int32 in the place of int64."""
    module, inputs = net(CASES["gather of the best"])
    program = pillion.compile(module, inputs, target="cortex-m33")
    assert program.floats is not None
    seen = program.floats([x.numpy() for x in inputs])
    assert any(array.dtype == np.int64 for array in seen.values())
    module, inputs = net(CASES["one hot"])
    program = pillion.compile(module, inputs, target="cortex-m33")
    assert program.floats is not None
    assert program.floats([x.numpy().astype(np.int32) for x in inputs])


UNKNOWN: dict[str, Any] = {
    "by a mask": lambda x: x[x > 0],
    "not zero": lambda x: torch.nonzero(x > 0),
    "unique": lambda x: torch.unique(x),
}


@pytest.mark.parametrize("name", UNKNOWN)
def test_sizes_that_depend_on_data_are_refused(name: str) -> None:
    class Some(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> Any:
            return UNKNOWN[name](x)

    with pytest.raises(pillion.PillionError, match="depends on what its operand holds") as refused:
        pillion.compile(Some(), (torch.randn(3, 5),), target="cortex-m33")
    assert "test_compare_select.py:" in refused.value.here


class Recommended(torch.nn.Module):
    """What the refusals of sizes recommend."""

    def forward(self, x: torch.Tensor) -> Any:
        return torch.where(x > 0, x, 0.0), x.topk(2)


def test_recommended_code_compiles() -> None:
    pillion.compile(Recommended(), (torch.randn(3, 5),), target="cortex-m33")


TABLES: dict[str, Any] = {
    "a leaky relu": lambda x: torch.where(x > 0, x, 0.1 * x),
    "a step": lambda x: (x > 0.25).float(),
    "a dead zone": lambda x: x * (x.abs() > 0.5),
    "a band": lambda x: torch.where((x > -0.5) & ~(x >= 0.5), 1.0, -1.0),
    "a fill": lambda x: x.masked_fill(x < 0, 0.125),
}


@pytest.mark.parametrize("name", TABLES)
def test_choices_by_one_number_are_a_table(name: str) -> None:
    """So they run on what has tables, and round once."""

    class Chosen(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> Any:
            return TABLES[name](x)

    x = torch.linspace(-2, 2, 999).reshape(3, 333)
    program = pillion.compile(Chosen(), (x,), target="cortex-m33")
    assert [op.kind for op in program.graph.ops] == ["quantize", "lut", "dequantize"]
    assert program.pte()
    (got,) = program.run(x)
    levels = torch.round(x / (4 / 255)) * (4 / 255)
    near = np.abs(got - TABLES[name](levels).numpy()) < 0.02
    assert near.mean() > 0.99  # but for where the choice is made


ON_HOST = (
    "embedding without padding",
    "numbers and reals",
    "gather of the best",
    "several conditions",
    "topk",
    "attention, heads",
    "log softmax of channels",
)


@pytest.mark.turns(3)
@pytest.mark.parametrize("name", ON_HOST)
def test_c_equals_the_reference(name: str) -> None:
    module, inputs = net(CASES[name])
    program = pillion.compile(module, inputs, target="cortex-m33", name="net")
    pairs = zip(program.run(*inputs), program.run(*inputs, on="host"), strict=True)
    assert all(ours.tobytes() == theirs.tobytes() for ours, theirs in pairs)


def test_training_with_an_embedding() -> None:
    """What was trained is what is compiled, to a step for each op."""
    torch.manual_seed(0)
    module, inputs = net(CASES["embedding without padding"])
    trained = pillion.prepare_qat(module, inputs, target="cortex-m33")
    steps = torch.optim.SGD(trained.parameters(), 0.05)
    for _ in range(3):
        steps.zero_grad()
        trained(*inputs).square().sum().backward()
        steps.step()
    trained.eval()
    wanted = trained(*inputs).detach().numpy()
    (found,) = pillion.compile(trained, inputs, target="cortex-m33").run(*inputs)
    assert np.abs(wanted - found).max() < 0.05


class Bounded(torch.nn.Module):
    """Extremes with a constant on the left, and a comparison of a kept flag."""

    kept: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(4, 4)
        self.register_buffer("kept", torch.eye(1, 5).flip(1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.maximum(torch.tensor([-0.1, -0.2, 0.3, -0.1]), self.layer(x))
        y = torch.minimum(torch.tensor([0.4]), y)
        fires = (y[:, :1] > 0.1) & ~(self.kept.amax(1, keepdim=True) > 0.5)
        self.kept = torch.cat([self.kept[:, 1:], torch.where(fires, 1.0, 0.0)], 1)
        return torch.where(fires, y, -1.0)


@pytest.mark.parametrize("int16", [None, "*"])
def test_constants_stand_on_either_side(int16: str | None) -> None:
    torch.manual_seed(0)
    steps = [torch.randn(1, 4) for _ in range(32)]
    net = Bounded().eval()
    program = pillion.compile(
        net, steps[0], target="cortex-m33", calibrate=[(x,) for x in steps], int16=int16
    )
    given = [[x.numpy()] for x in steps]
    ours = [y[0] for y in program.stream().run(given)]
    assert all(np.array_equal(a, b[0]) for a, b in zip(ours, program.stream("host").run(given), strict=True))
    net.kept = torch.eye(1, 5).flip(1)
    with torch.no_grad():
        wanted = [net(x).numpy() for x in steps]
    noise = sum(float(((a - b) ** 2).sum()) for a, b in zip(wanted, ours, strict=True))
    assert 10 * np.log10(sum(float((a**2).sum()) for a in wanted) / noise) > 30
