# SPDX-License-Identifier: Apache-2.0
"""Data as Python programs have it: whatever the form, the same samples with the same labels."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset

from pillion.data.python_data import open_data
from pillion.data.sample import InputSpec
from pillion.errors import PillionError

pytestmark = pytest.mark.torch
WANTED = (InputSpec("x", (1, 3, 5)),)
X = torch.arange(7 * 15.0).reshape(7, 3, 5)
Y = torch.tensor([0, 1, 2, 0, 1, 2, 0])


class Map(Dataset[Any]):
    """A dataset that goes on for ever if it is not asked for its length."""

    def __len__(self) -> int:
        return 7

    def __getitem__(self, number: int) -> Any:
        return X[number % 7], int(Y[number % 7])


class Stream(IterableDataset[Any]):
    def __iter__(self) -> Iterator[Any]:
        return iter(zip(X, Y, strict=True))


FORMS: dict[str, Callable[[], Any]] = {
    "tensors": lambda: (X, Y),
    "arrays": lambda: (X.numpy(), Y.numpy()),
    "dict": lambda: {"y": Y, "inputs": X},
    "pairs": lambda: list(zip(X, Y, strict=True)),
    "pairs with a batch axis": lambda: [(x[None], int(y)) for x, y in zip(X, Y, strict=True)],
    "generator": lambda: ((x.numpy(), y.item()) for x, y in zip(X, Y, strict=True)),
    "dataset": Map,
    "tensor dataset": lambda: TensorDataset(X, Y),
    "stream": Stream,
    "loader": lambda: DataLoader(TensorDataset(X, Y), batch_size=3),
    "loader of one": lambda: DataLoader(Map()),
    "loader of a stream": lambda: DataLoader(Stream(), batch_size=4),
    "dicts": lambda: [{"x": x, "label": y} for x, y in zip(X, Y, strict=True)],
}


@pytest.mark.parametrize("form", FORMS)
def test_samples_with_labels(form: str) -> None:
    found = list(open_data(FORMS[form]()).samples(WANTED))
    assert [int(s.label) for s in found] == Y.tolist()
    np.testing.assert_array_equal(np.concatenate([s.inputs[0] for s in found]), X.numpy())


@pytest.mark.parametrize(
    "form", [lambda: X, lambda: [x for x in X], lambda: (x for x in X), lambda: X.numpy()]
)
def test_samples_without_labels(form: Callable[[], Any]) -> None:
    found = list(open_data(form()).samples(WANTED))
    assert [s.label for s in found] == [None] * 7
    np.testing.assert_array_equal(np.concatenate([s.inputs[0] for s in found]), X.numpy())


def test_samples_of_a_generator_are_asked_for_one_at_a_time() -> None:
    asked: list[int] = []

    def make() -> Iterator[Any]:
        for number in range(1000):
            asked.append(number)
            yield X[0], 0

    samples = open_data(make()).samples(WANTED)
    for _ in range(5):
        next(samples)
    assert len(asked) == 5


def test_a_batch_for_a_program_that_takes_one() -> None:
    wanted = (InputSpec("x", (4, 5)),)
    found = list(open_data([(torch.ones(4, 5), torch.arange(4))]).samples(wanted))
    assert [(int(s.label), s.inputs[0].shape) for s in found] == [(n, (1, 5)) for n in range(4)]
    whole = list(open_data([(torch.ones(4, 5), 3)]).samples(wanted))
    assert [(int(s.label), s.inputs[0].shape) for s in whole] == [(3, (4, 5))]


def test_a_function_in_a_file_makes_samples(tmp_path: Path) -> None:
    file = tmp_path / "data.py"
    file.write_text(
        "import numpy as np\ndef samples():\n    return [(np.ones((3, 5)), k) for k in range(4)]\n"
    )
    source = open_data(f"{file}:samples")
    for _ in range(2):
        assert [int(s.label) for s in source.samples(WANTED)] == [0, 1, 2, 3]
    again = pickle.loads(pickle.dumps(source))
    assert [int(s.label) for s in again.samples(WANTED)] == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("def other(): pass", r"(?s)no function samples.*it has other"),
        ("def samples():\n    1 / 0", "(?s)raised ZeroDivisionError.*data.py:2"),
        (
            "def samples():\n    yield [[1.0] * 15]\n    raise KeyError('gone')",
            "(?s)is no input|raised KeyError.*data.py:3",
        ),
        ("def samples(): return 3", "cannot be gone through"),
        ("def samples(): return [object()]", "(?s)item 1.*a object"),
        ("def samples(a): return []", "raised TypeError"),
        ("import nothing_of_this_name", "ModuleNotFoundError"),
    ],
)
def test_errors_of_data_functions_are_explained(tmp_path: Path, body: str, words: str) -> None:
    (tmp_path / "data.py").write_text(body)
    with pytest.raises(PillionError, match=words):
        list(open_data(f"{tmp_path}/data.py:samples").samples(WANTED))


@pytest.mark.parametrize("given", [None, 3.5j, [None], [("a", 1)], [(X[0], 1, 2)], [torch.zeros(4, 4)]])
def test_objects_that_are_no_data_are_refused(given: Any) -> None:
    with pytest.raises(PillionError):
        list(open_data(given).samples(WANTED))


def test_errors_of_generators_name_their_line(tmp_path: Path) -> None:
    (tmp_path / "data.py").write_text(
        "import numpy as np\ndef samples():\n    yield np.zeros((3, 5)), 0\n    raise KeyError('gone')\n"
    )
    samples = open_data(f"{tmp_path}/data.py:samples").samples(WANTED)
    next(samples)
    with pytest.raises(PillionError, match=r"(?s)raised KeyError.*gone.*data.py:4"):
        next(samples)
