# SPDX-License-Identifier: Apache-2.0
"""Calibration files, and what calibration refuses."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from pillion.errors import PillionError
from pillion.importers.torch.calibration_data import load_calibration
from pillion.importers.torch.quantize.annotate import FloatOp
from pillion.importers.torch.quantize.ptq import ptq

EXAMPLE = (torch.zeros(1, 3, 5, 7),)


def images(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize(
    ("shape", "count"),
    [((1, 3, 5, 7), 1), ((3, 5, 7), 1), ((4, 3, 5, 7), 4)],
    ids=["exact", "no_batch", "many"],
)
@pytest.mark.parametrize("suffix", ["npy", "npz"])
def test_one_file(tmp_path: Path, shape: tuple[int, ...], count: int, suffix: str) -> None:
    path = tmp_path / f"x.{suffix}"
    data = images(*shape)
    (np.save if suffix == "npy" else np.savez)(path, data)
    batches = list(load_calibration(path, EXAMPLE))
    assert [x.shape for (x,) in batches] == [torch.Size((1, 3, 5, 7))] * count
    np.testing.assert_array_equal(torch.cat([x for (x,) in batches]).numpy().reshape(data.shape), data)


def test_directory_in_order_of_names(tmp_path: Path) -> None:
    for name, value in (("b", 2.0), ("a", 1.0), ("c", 3.0)):
        np.save(tmp_path / f"{name}.npy", np.full((1, 3, 5, 7), value))
    (tmp_path / "notes.txt").write_text("")
    assert [float(x.mean()) for (x,) in load_calibration(tmp_path, EXAMPLE)] == [1.0, 2.0, 3.0]


def test_several_inputs(tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", a=images(6, 3), b=images(6, 2, 5))
    batches = list(load_calibration(tmp_path / "x.npz", (torch.zeros(2, 3), torch.zeros(2, 2, 5))))
    assert [tuple(t.shape for t in batch) for batch in batches] == [((2, 3), (2, 2, 5))] * 3


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (images(1, 5, 7, 3), "shape [1, 5, 7, 3]"),
        (images(0, 3, 5, 7), "shape [0, 3, 5, 7]"),
        (np.array([["a"]]), "it holds <U1"),
        (np.zeros((1, 3, 5, 7), complex), "complex"),
    ],
)
def test_files_of_the_wrong_shape_are_refused(tmp_path: Path, content: np.ndarray, words: str) -> None:
    np.save(tmp_path / "x.npy", content)
    with pytest.raises(PillionError, match="does not fit") as error:
        list(load_calibration(tmp_path, EXAMPLE))
    assert words in str(error.value)


def test_missing_and_broken_files(tmp_path: Path) -> None:
    with pytest.raises(PillionError, match="no data"):
        load_calibration(tmp_path, EXAMPLE)
    with pytest.raises(PillionError, match="no such path"):
        load_calibration(tmp_path / "none", EXAMPLE)
    for content in (b"", b"PK\x03\x04 broken", b"\x93NUMPY\x01"):
        (tmp_path / "x.npz").write_bytes(content)
        with pytest.raises(PillionError, match="cannot read"):
            list(load_calibration(tmp_path, EXAMPLE))


@pytest.mark.parametrize("suffix", ["npy", "npz"])
def test_files_with_code_are_refused_and_not_run(suffix: str, tmp_path: Path) -> None:
    """NumPy pickles arrays of objects; a pickle can do anything when it is read."""
    touched = tmp_path / "touched"

    class Touches:
        def __reduce__(self) -> tuple[object, ...]:
            return Path.touch, (touched,)

    path = tmp_path / f"x.{suffix}"
    (np.save if suffix == "npy" else np.savez)(path, np.array([Touches()], object))
    with pytest.raises(PillionError, match="cannot read"):
        list(load_calibration(path, EXAMPLE))
    assert not touched.exists()


def test_empty_and_infinite_data() -> None:
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU())
    with pytest.raises(PillionError, match="no calibration data"):
        ptq(model, EXAMPLE, calibrate=[])
    with pytest.raises(PillionError, match="finite"):
        ptq(model, EXAMPLE, calibrate=[(torch.full((1, 3, 5, 7), float("nan")),)])


@pytest.mark.parametrize("samples", [1, 6])
def test_an_output_that_becomes_infinite_is_named(samples: int) -> None:
    """With six samples, the room of outputs is looked for as well."""

    class Logarithm(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return torch.log(x)

    with pytest.raises(PillionError, match="not finite"):
        ptq(Logarithm(), EXAMPLE, [(torch.zeros(1, 3, 5, 7),)] * samples)


def test_a_batch_that_the_model_cannot_compute_is_named() -> None:
    model, batches = nn.Conv2d(3, 2, 1), [(torch.zeros(1, 3, 5, 7),), (torch.zeros(1, 4, 5, 7),)]
    with pytest.raises(PillionError, match="fails on batch 2 of"):
        ptq(model, EXAMPLE, calibrate=batches)


def test_float_ops_are_refused_before_calibration() -> None:
    seen: list[int] = []

    def refuse(ops: Sequence[FloatOp]) -> None:
        assert [op.op for op in ops] == ["aten.logcumsumexp.default"]
        raise KeyError

    class Accumulates(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return torch.logcumsumexp(x.relu(), 1)

    with pytest.raises(KeyError):
        ptq(Accumulates(), EXAMPLE, EXAMPLE, lambda done, total: seen.append(done), refuse=refuse)
    assert seen == []


def test_progress_and_ranges() -> None:
    """Ranges come from all batches, and progress counts them."""
    seen: list[tuple[int, int | None]] = []
    batches = [(torch.full((1, 3, 5, 7), value),) for value in (-1.0, 3.0)]
    program = ptq(
        nn.ReLU(), EXAMPLE, calibrate=batches, progress=lambda done, total: seen.append((done, total))
    )
    assert seen == [(1, 2), (2, 2)]
    assert not program.warnings
    first = next(n for n in program.nodes if "quantize_per_tensor" in str(n.target))
    assert first.args[1] == pytest.approx(4 / 255)
    ptq(nn.ReLU(), EXAMPLE, calibrate=iter(batches), progress=lambda done, total: seen.append((done, total)))
    assert seen[2:] == [(1, None), (2, None)]


def test_bias_fits_32_bits() -> None:
    """A channel of zero weights with a large bias still has a scale in which the bias is an int32."""
    conv = nn.Conv2d(3, 2, 1)
    conv.weight.data[0], conv.bias.data[:] = 0.0, torch.tensor([1000.0, 0.1])
    x = torch.rand(1, 3, 5, 7) * 1e-3
    program = ptq(conv, (x,), calibrate=[(x,)])
    node = next(n for n in program.nodes if "conv2d" in str(n.target))
    scales = getattr(program.graph_module, str(node.args[1].args[1].target))
    assert float((conv.bias.detach() / (scales * node.args[0].args[1])).abs().max()) <= 2**30
