# SPDX-License-Identifier: Apache-2.0
"""What Python programs hand to `compile` and `prepare_qat`: taken in every evident form, and otherwise refused in four parts."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, IterableDataset, TensorDataset

import pillion
from pillion.data.python_data import open_data
from pillion.errors import PillionError, PillionWarning

pytestmark = pytest.mark.torch


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.conv = nn.Conv2d(3, 4, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.conv(x).relu()


class Sum(nn.Module):
    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return x + y


class Weighed(nn.Module):
    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return x * 2 + y


class Stream(IterableDataset[Tensor]):
    """A dataset without a length."""

    def __iter__(self) -> Any:
        return iter(SAMPLES.unbind(0))


class Numbered:
    """A dataset that has a length, and answers to any number."""

    def __len__(self) -> int:
        return len(SAMPLES)

    def __getitem__(self, number: int) -> tuple[Tensor, int]:
        return SAMPLES[number % 4], number


class Flat(nn.Module):
    """A model for batches of one, as most are written."""

    def forward(self, x: Tensor) -> Tensor:
        return x.view(1, -1).relu()


class Switched(Net):
    def forward(self, x: Tensor, on: bool = True) -> Tensor:
        return self.conv(x) if on else x


X = torch.linspace(-1, 1, 1 * 3 * 8 * 8).reshape(1, 3, 8, 8)
SAMPLES = torch.linspace(-3, 2, 4 * 3 * 8 * 8).reshape(4, 3, 8, 8)


def compiled(model: Any = None, inputs: Any = (X,), **options: Any) -> pillion.Program:
    return pillion.compile(
        Net() if model is None else model, inputs, **{"target": "cortex-m33", "name": "net", **options}
    )


LABELS = torch.arange(4)
AT_HAND: dict[str, Any] = {
    "dicts": [{"label": 3, "x": x} for x in SAMPLES],
    "dicts with more beside": [{"id": "a", "x": x, "y": LABELS, "z": x + 9} for x in SAMPLES],
    "dicts of other names": [
        {"pixel_values": x, "labels": torch.tensor(3), "path": "a.png"} for x in SAMPLES
    ],
    "a loader of dicts": DataLoader([{"x": x, "y": 1} for x in SAMPLES], 3),  # type: ignore[arg-type]  # a list
    "a dict of all": {"x": SAMPLES, "y": LABELS},
    "all with their labels": (SAMPLES, LABELS),
    "arrays with their labels": (SAMPLES.numpy(), LABELS.numpy()),
    "labels in a column": (SAMPLES, LABELS[:, None]),
    "two batches": (SAMPLES[:3], SAMPLES[3:]),
    "numbers of 16 bits that hold them": list(SAMPLES.half().float().half()),
}


@pytest.mark.turns(2)
@pytest.mark.parametrize("name", AT_HAND)
def test_data_is_taken_as_it_is_at_hand(name: str) -> None:
    samples = SAMPLES.half().float() if "16 bits" in name else SAMPLES
    assert compiled(calibrate=AT_HAND[name]).text() == compiled(calibrate=list(samples)).text()


class Endless(IterableDataset[Tensor]):
    def __iter__(self) -> Any:
        return itertools.cycle(SAMPLES)


ENDLESS: dict[str, Callable[[Path], Any]] = {
    "a generator": lambda folder: itertools.cycle(SAMPLES),
    "a loader": lambda folder: DataLoader(Endless(), 1),
    "a source": lambda folder: open_data(itertools.cycle(SAMPLES)),
    "a function of a file": lambda folder: written(folder, "itertools.cycle(torch.load('samples.pt'))"),
}


def written(folder: Path, expression: str) -> str:
    torch.save(SAMPLES, folder / "samples.pt")
    file = folder / "samples.py"
    file.write_text(f"import itertools, torch\ndef samples():\n    return {expression}\n")
    return f"{file}:samples"


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> int:
    monkeypatch.setattr("pillion.importers.torch.calibration_data.MAX_UNSIZED_SAMPLES", len(SAMPLES))
    monkeypatch.chdir(tmp_path)
    return len(SAMPLES)


@pytest.mark.parametrize("name", ENDLESS)
def test_endless_calibration_data_are_cut_with_a_warning(name: str, few: int, tmp_path: Path) -> None:
    with pytest.warns(PillionWarning, match=f"the first {few} items of data without a length"):
        endless = compiled(calibrate=ENDLESS[name](tmp_path))
    assert endless.text() == compiled(calibrate=list(SAMPLES)).text()


SIZED: dict[str, Callable[[Path], Any]] = {
    "no more than that": lambda folder: iter(SAMPLES),
    "a list": lambda folder: [*SAMPLES, *(SAMPLES * 3)],
    "an array": lambda folder: open_data(torch.cat([SAMPLES, SAMPLES * 3])),
    "a list of a file": lambda folder: written(
        folder, "[*torch.load('samples.pt'), *(3 * torch.load('samples.pt'))]"
    ),
}


@pytest.mark.parametrize("name", SIZED)
@pytest.mark.parametrize("equalize", [False, True])
def test_data_with_an_end_is_taken_whole(name: str, equalize: bool, few: int, tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", PillionWarning)
        found = compiled(calibrate=SIZED[name](tmp_path), tuning=pillion.Tuning(equalize=equalize))
    whole = list(SAMPLES) if name == "no more than that" else [*SAMPLES, *(SAMPLES * 3)]
    assert scale_of_input(found) == scale_of_input(compiled(calibrate=whole))


def scale_of_input(program: pillion.Program) -> float:
    return program.graph.ops[0].results[0].scale


def test_samples_with_fixed_arguments_are_taken_whole(few: int) -> None:
    samples = [(x, True) for x in [*SAMPLES, *SAMPLES]]
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always", PillionWarning)
        compiled(Switched(), (X, True), calibrate=samples)
    assert not any("without a length" in str(each.message) for each in seen)


@pytest.mark.parametrize("batch", [1, 3])
def test_an_axis_of_any_size_has_that_of_the_example(batch: int) -> None:
    net, x = Net().eval(), SAMPLES[:batch]
    sizes = {"x": {0: torch.export.Dim("b")}}
    exported = torch.export.export(net, (SAMPLES[:2],), dynamic_shapes=sizes)
    found = pillion.compile(exported, x, target="cortex-m33", calibrate=SAMPLES)
    fixed = pillion.compile(torch.export.export(net, (x,)), x, target="cortex-m33", calibrate=SAMPLES)
    assert found.text() == fixed.text()
    with pytest.raises(PillionError, match="do not fit the exported program"):
        pillion.compile(exported, x[:, :2], target="cortex-m33")


def test_inputs_are_found_by_their_names(tmp_path: Path) -> None:
    a, b = SAMPLES, SAMPLES * 5
    model, inputs = Weighed(), (X, X)
    wanted = compiled(model, inputs, calibrate=list(zip(a, b, strict=True))).text()
    named = [{"y": y, "label": 1, "x": x} for x, y in zip(a, b, strict=True)]
    np.savez(tmp_path / "named.npz", y=b.numpy(), x=a.numpy())
    for data in (
        named,
        DataLoader(named, 3),
        {"y": b, "x": a},
        (a, b),
        (a, b, LABELS),
        tmp_path / "named.npz",
    ):  # type: ignore[arg-type]  # a list
        assert compiled(model, inputs, calibrate=data).text() == wanted


@pytest.mark.parametrize(
    "inputs", [X, X.numpy(), (X.numpy(),), [X]], ids=["tensor", "array", "arrays", "list"]
)
def test_example_inputs_are_taken_as(inputs: Any) -> None:
    assert compiled(inputs=inputs).text() == compiled().text()


SAME_SAMPLES: dict[str, Any] = {
    "tensors": list(SAMPLES.split(1)),
    "arrays": [(x.numpy(),) for x in SAMPLES.split(1)],
    "arrays of doubles": [x.double().numpy() for x in SAMPLES.split(1)],
    "samples without a batch axis": SAMPLES,
    "lists": [[x] for x in SAMPLES.split(1)],
    "a loader": DataLoader(TensorDataset(SAMPLES)),
    "a loader of a stream": DataLoader(Stream()),
    "a dataset": TensorDataset(SAMPLES),
    "a loader with labels": DataLoader(TensorDataset(SAMPLES, torch.arange(4))),
    "a loader of batches": DataLoader(TensorDataset(SAMPLES, torch.arange(4)), batch_size=3),
    "a dataset without an end of its own": Numbered(),
    "pairs": [(x, 3) for x in SAMPLES.split(1)],
    "a generator without labels": ((x,) for x, *_ in DataLoader(TensorDataset(SAMPLES, torch.arange(4)))),
}


@pytest.mark.turns(3)
@pytest.mark.parametrize("given", SAME_SAMPLES)
def test_calibration_data_are_taken_as(given: str) -> None:
    wanted = compiled(calibrate=[(x,) for x in SAMPLES.split(1)])
    assert compiled(calibrate=SAME_SAMPLES[given]).text() == wanted.text()


@pytest.mark.parametrize("size", [1, 2, 3, 4])
def test_batches_of_any_size_calibrate_a_model_for_one(size: int) -> None:
    loader = DataLoader(TensorDataset(SAMPLES, torch.arange(4)), batch_size=size)
    wanted = compiled(Flat(), calibrate=[(x,) for x in SAMPLES.split(1)])
    assert compiled(Flat(), calibrate=loader).text() == wanted.text()


def test_single_samples_calibrate_a_model_for_batches() -> None:
    """What is left of a batch is filled up with copies, which change no range."""
    two = SAMPLES[:2]

    def scales(given: Any) -> list[float]:
        """With the ranges that were seen: room beyond them depends on how many samples there are."""
        tuning = pillion.Tuning(ranges="minmax")
        values = compiled(inputs=two, calibrate=given, tuning=tuning).graph.values.values()
        return [v.scale for v in values if not v.is_constant and v.is_quantized]

    wanted = scales([SAMPLES[:2], SAMPLES[2:]])
    for given in (list(SAMPLES.split(1)), [SAMPLES[:3], SAMPLES[3:]], SAMPLES):
        assert scales(given) == pytest.approx(wanted, rel=1e-5)


def test_labels_beside_two_inputs() -> None:
    pairs = [(x, 2 * x) for x in SAMPLES.split(1)]
    wanted = compiled(Sum(), (X, X), calibrate=pairs)
    for labelled in ([(x, y, 3) for x, y in pairs], [(pair, 3) for pair in pairs]):
        assert compiled(Sum(), (X, X), calibrate=labelled).text() == wanted.text()


def test_calibration_data_are_taken_from_a_path(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", SAMPLES.numpy())
    wanted = compiled(calibrate=[(x,) for x in SAMPLES.split(1)])
    for path in (tmp_path, str(tmp_path / "x.npy")):
        assert compiled(calibrate=path).text() == wanted.text()


@pytest.mark.filterwarnings("ignore")
def test_compiled_modules_are_unwrapped() -> None:
    given = torch.compile(Net())
    assert compiled(given).text() == compiled().text()
    assert pillion.prepare_qat(given, X, target="cortex-m33").preparation.name == "net"  # type: ignore[arg-type]  # it is a Module


def a_function(x: Tensor) -> Tensor:
    return x.relu()


MODELS: dict[str, tuple[Any, str]] = {
    "class": (Net, "compile(Net(), …)"),
    "function": (a_function, "the function a_function"),
    "nothing": (None, "None"),
    "state dict": (Net().state_dict(), "OrderedDict"),
}


def test_model_files_need_no_example_inputs(tmp_path: Path) -> None:
    path = tmp_path / "net.pt2"
    torch.export.save(torch.export.export(Net().eval(), (X,)), path)
    assert pillion.compile(path, target="cortex-m33").graph.inputs
    with pytest.raises(PillionError, match="says itself what its inputs look like"):
        pillion.compile(path, (X,), target="cortex-m33")
    with pytest.raises(PillionError, match="prepare_qat takes a module"):
        pillion.prepare_qat(path, X, target="cortex-m33")  # type: ignore[arg-type]  # on purpose


@pytest.mark.parametrize("name", MODELS)
def test_objects_that_are_no_model_are_refused(name: str) -> None:
    model, words = MODELS[name]
    with pytest.raises(PillionError, match="compile takes a module") as error:
        pillion.compile(model, (X,), target="cortex-m33")
    assert words in str(error.value)
    with pytest.raises(PillionError, match="prepare_qat takes a module"):
        pillion.prepare_qat(model, (X,), target="cortex-m33")


def test_prepared_modules_are_not_prepared_again() -> None:
    prepared = pillion.prepare_qat(Net(), X, target="cortex-m33")
    with pytest.raises(PillionError, match="prepared for training already"):
        pillion.prepare_qat(prepared, X, target="cortex-m33")
    exported = torch.export.export(Net(), (X,))
    with pytest.raises(PillionError, match="its parameters are constants"):
        pillion.prepare_qat(exported, X, target="cortex-m33")  # type: ignore[arg-type]  # on purpose


WRONG: dict[str, tuple[Callable[[], object], str]] = {
    "no inputs": (lambda: compiled(inputs=None), "None from example_inputs"),
    "dict of inputs": (lambda: compiled(inputs={"x": X}), r"tuple\(inputs.values\(\)\)"),
    "inputs of text": (lambda: compiled(inputs=("x",)), "a str"),
    "empty inputs": (lambda: compiled(inputs=()), "nothing from"),
    "array of objects": (lambda: compiled(inputs=np.array([None])), "not tensors"),
    "array of doubles": (lambda: compiled(inputs=np.zeros((1, 3, 8, 8))), "float64"),
    "other inputs than were exported": (
        lambda: compiled(torch.export.export(Net(), (X,)), X[:, :, 1:]),
        r"float32\[1, 3, 8, 8\].*float32\[1, 3, 7, 8\]",
    ),
    "a number as an argument": (
        lambda: compiled(torch.export.export(Switched(), (X, True)), X),
        "argument `on` .*a program takes tensors",
    ),
    "no target": (lambda: compiled(target=None), "no target `None`"),
    "missing path": (lambda: compiled(calibrate="samples/"), "no data at samples"),
    "number for samples": (lambda: compiled(calibrate=3), "an iterable of samples"),
    "function for samples": (lambda: compiled(calibrate=lambda: [X]), r"calibrate=samples\(\)"),
    "sample of nothing": (lambda: compiled(calibrate=[None]), "sample 1 .* None"),
    "sample of parts of nothing": (lambda: compiled(calibrate=[(X,), (None,)]), "sample 2 .*None"),
    "names of two others": (
        lambda: compiled(calibrate=[{"a": X, "b": X}]),
        r"under the names of forward's arguments: x.*keys a, b.*s\['x'\]",
    ),
    "names of one input of two": (
        lambda: compiled(Sum(), (X, X), calibrate=[{"x": X, "label": 3}]),
        "arguments: x, y.*keys x, label",
    ),
    "bytes for real numbers": (
        lambda: compiled(calibrate=[X.byte()]),
        r"other numbers.*uint8.*x.float\(\) / 255",
    ),
    "something of another shape": (
        lambda: compiled(calibrate=[X.permute(0, 2, 3, 1)]),
        r"shapes \[1, 8, 8, 3\]; the example inputs: \[1, 3, 8, 8\]",
    ),
    "two more than the inputs": (
        lambda: compiled(calibrate=[(X, 3, 4)]),
        r"perhaps a label.*calibrate=\(\(x,\) for x, \*_ in loader\)",
    ),
    "one input of two": (lambda: compiled(Sum(), (X, X), calibrate=[X]), "all inputs of the model"),
}


@pytest.mark.parametrize("name", WRONG)
def test_invalid_arguments_are_refused(name: str) -> None:
    call, words = WRONG[name]
    with pytest.raises(PillionError, match=f"(?s){words}"):
        call()


@pytest.mark.parametrize("option", [{"weights": "net.npz"}, {"input_size": 96}])
def test_weights_and_sizes_beside_a_module_are_refused(option: dict[str, Any]) -> None:
    """They once had no effect."""
    with pytest.raises(PillionError, match="Net has its input size and weights inside"):
        pillion.compile(Net(), SAMPLES[:1], target="cortex-m33", **option)
