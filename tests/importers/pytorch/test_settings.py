# SPDX-License-Identifier: Apache-2.0
"""Arguments of forward that are no tensors: the program has them inside."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import pillion
from pillion.errors import PillionError, PillionWarning
from pillion.importers.torch.float_model import float_model

pytestmark = pytest.mark.torch


class Axis(nn.Module):
    """The axis is known when it is captured, or not at all."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layer = nn.Linear(7, 5)

    def forward(self, x: Tensor, axis: int, keep: bool = False) -> Tensor:
        return self.layer(x).amax(axis, keepdim=keep)


class Joined(nn.Module):
    def forward(self, parts: tuple[Tensor, ...], axis: int) -> Tensor:
        return torch.cat(parts, axis).relu()


class Perhaps(nn.Module):
    def forward(self, x: Tensor, mask: Tensor | None, size: tuple[int, ...], *more: Tensor) -> Tensor:
        y = x if mask is None else x * mask
        for one in more:
            y = y + one
        return y.expand(size)


class Pair(nn.Module):
    def forward(self, pair: tuple[Tensor, Tensor]) -> Tensor:
        return pair[0] + pair[1]


class Louder(nn.Module):
    def forward(self, x: Tensor, volume: float) -> Tensor:
        return x * volume


A, B = torch.linspace(-1, 1, 42).reshape(2, 3, 7), torch.linspace(-2, 1, 28).reshape(2, 2, 7)
CASES: dict[str, tuple[type[nn.Module], tuple[Any, ...], list[str]]] = {
    "axis": (Axis, (A, 1), ["x"]),
    "axis and flag": (Axis, (A, -1, True), ["x"]),
    "tuple of tensors": (Joined, ((A, B), 1), ["parts_0", "parts_1"]),
    "list of an array": (Joined, ([A.numpy(), B], 1), ["parts_0", "parts_1"]),
    "None": (Perhaps, (A, None, (4, 2, 3, 7)), ["x"]),
    "tensor for None": (Perhaps, (A, A, (2, 3, 7)), ["x", "mask"]),
    "the rest": (Perhaps, (A, None, (2, 3, 7), A, A), ["x", "more_3", "more_4"]),
}


@pytest.mark.parametrize("name", CASES)
def test_settings_are_inside_the_program(name: str) -> None:
    kind, given, names = CASES[name]
    with pytest.warns(PillionWarning, match="no tensors are fixed"):
        program = pillion.compile(kind(), given, target="cortex-m33", calibrate=[given, given])
    assert [v.name for v in program.graph.inputs] == names
    assert program.graph.name == kind.__name__.lower()
    tensors = [torch.as_tensor(x) for x in torch.utils._pytree.tree_leaves(given) if hasattr(x, "shape")]
    as_tensors = torch.utils._pytree.tree_map(
        lambda x: torch.as_tensor(x) if hasattr(x, "shape") else x, given
    )
    wanted = kind()(*as_tensors).detach().numpy()
    (found,) = program.run(*tensors)
    np.testing.assert_allclose(found, wanted, atol=0.03)
    np.testing.assert_array_equal(program.run(*given)[0], found)


def test_nothing_is_fixed_in_a_tuple_of_tensors() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        program = pillion.compile(Pair(), ((A, A),), target="cortex-m33", calibrate=[((A, A),)] * 2)
    assert [v.name for v in program.graph.inputs] == ["pair_0", "pair_1"]


class Named(nn.Module):
    def forward(self, parts: dict[str, Tensor]) -> Tensor:
        return parts["a"] * 2 + parts["b"]


def test_exported_programs_take_nested_arguments(tmp_path: Path) -> None:
    given = ({"a": A, "b": A},)
    exported = torch.export.export(Named(), given)
    torch.export.save(exported, tmp_path / "net.pt2")
    of_file = pillion.compile(
        tmp_path / "net.pt2", target="cortex-m33", calibrate=[[A.numpy(), A.numpy()]] * 2
    )
    in_memory = pillion.compile(exported, given, target="cortex-m33", calibrate=[given, given])
    for program in (of_file, in_memory):
        assert [v.name for v in program.graph.inputs] == ["parts_0", "parts_1"]
        np.testing.assert_allclose(program.run(A, A)[0], A.numpy() * 3, atol=0.03)


def test_a_number_that_may_change_is_an_input() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        program = pillion.compile(Louder(), (A, 2.0), target="cortex-m33", calibrate=[(A, 2.0), (A, 0.5)])
    assert [v.name for v in program.graph.inputs] == ["x", "volume"]
    np.testing.assert_allclose(program.run(A, 1.5)[0], A.numpy() * 1.5, atol=0.04)


def test_samples_have_the_settings_of_the_example_or_none() -> None:
    samples = [(A, 1), (A, 1, 7), A, (A,)]
    with pytest.warns(PillionWarning):
        program = pillion.compile(Axis(), (A, 1), target="cortex-m33", calibrate=samples)
    assert program.run(A)[0].shape == (2, 5)
    with pytest.warns(PillionWarning), pytest.raises(PillionError, match="another setting") as error:
        pillion.compile(Axis(), (A, 1), target="cortex-m33", calibrate=[(A, 2)])
    assert error.value.here == "2 instead of 1"


def test_a_model_without_a_tensor_has_no_input() -> None:
    with pytest.raises(PillionError, match="has no input"):
        pillion.compile(Axis(), (None, 1), target="cortex-m33")


def test_the_float_model_has_the_same_settings() -> None:
    with pytest.warns(PillionWarning):
        found = float_model(Axis(), (A, 1))
    np.testing.assert_allclose(found.outputs([[A.numpy()]])[0][0], Axis()(A, 1).detach().numpy(), atol=1e-6)
