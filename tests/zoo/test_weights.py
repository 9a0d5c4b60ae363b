# SPDX-License-Identifier: Apache-2.0
"""Weights from files: what is loaded, and what is said about files that do not fit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from pillion import zoo
from pillion.errors import PillionError

pytestmark = pytest.mark.torch

Arrays = dict[str, Any]


def arrays_of(model: nn.Module) -> Arrays:
    return {key: value.numpy().copy() for key, value in model.state_dict().items()}


def assert_refused(tmp_path: Path, arrays: Arrays, message: str) -> None:
    """The message names the fault, and the model is untouched."""
    np.savez(tmp_path / "w.npz", **arrays)
    model, _ = zoo.build("linear_bn")
    before = arrays_of(model)
    with pytest.raises(PillionError, match="do not fit the model LinearBn") as caught:
        zoo.load_weights(model, tmp_path / "w.npz")
    assert message in caught.value.here.splitlines()
    assert all(np.array_equal(before[key], value) for key, value in arrays_of(model).items())


@pytest.mark.parametrize("name", ["ds_cnn", "separable_residual"])
def test_saved_weights_come_back(tmp_path: Path, name: str) -> None:
    saved, (x,) = zoo.build(name, seed=3)
    loaded, _ = zoo.build(name)
    zoo.save_weights(saved, tmp_path / "w.npz")
    zoo.load_weights(loaded, str(tmp_path / "w.npz"))
    with torch.no_grad():
        assert torch.equal(saved(x), loaded(x))
    assert [path.name for path in tmp_path.iterdir()] == ["w.npz"]


def test_the_same_weights_give_the_same_file(tmp_path: Path) -> None:
    for name in ("a.npz", "b.npz"):
        zoo.save_weights(zoo.build("linear_bn")[0], tmp_path / name)
    assert (tmp_path / "a.npz").read_bytes() == (tmp_path / "b.npz").read_bytes()


@pytest.mark.parametrize("dtype", [np.float16, np.float64, ">f4"])
def test_other_floats_are_converted(tmp_path: Path, dtype: str) -> None:
    saved = arrays_of(zoo.build("linear_bn", seed=1)[0])
    np.savez_compressed(tmp_path / "w.npz", **{key: value.astype(dtype) for key, value in saved.items()})
    model, _ = zoo.build("linear_bn")
    zoo.load_weights(model, tmp_path / "w.npz")
    want = saved["head.weight"].astype(dtype).astype(np.float32)
    assert np.array_equal(model.state_dict()["head.weight"].numpy(), want)


def test_missing_and_unexpected_keys_are_named(tmp_path: Path) -> None:
    arrays = arrays_of(zoo.build("linear_bn")[0])
    arrays["last.bias"] = arrays.pop("head.bias")
    assert_refused(tmp_path, arrays, "missing: head.bias")
    assert_refused(tmp_path, arrays, "unexpected: last.bias")


def test_long_lists_of_keys_are_cut(tmp_path: Path) -> None:
    arrays = arrays_of(zoo.build("linear_bn")[0])
    extra = {f"x{index}": np.zeros(1, np.float32) for index in range(11)}
    assert_refused(tmp_path, arrays | extra, "unexpected: x0, x1, x2, x3, x4, x5, x6, x7 and 3 more")


def test_a_wrong_shape_is_shown_beside_the_right_one(tmp_path: Path) -> None:
    arrays = arrays_of(zoo.build("linear_bn")[0])
    arrays["head.weight"] = arrays["head.weight"].T
    assert_refused(tmp_path, arrays, "shape: head.weight has (16, 8), the model (8, 16)")


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_numbers_that_are_not_finite(tmp_path: Path, value: float) -> None:
    arrays = arrays_of(zoo.build("linear_bn")[0])
    arrays["norm.running_var"][3] = value
    assert_refused(tmp_path, arrays, "not finite: norm.running_var")


def test_a_float64_too_large_for_float32_is_not_finite(tmp_path: Path) -> None:
    arrays = arrays_of(zoo.build("linear_bn")[0])
    arrays["head.bias"] = arrays["head.bias"].astype(np.float64) + 1e300
    assert_refused(tmp_path, arrays, "not finite: head.bias")


def test_integers_are_not_weights(tmp_path: Path) -> None:
    arrays = arrays_of(zoo.build("linear_bn")[0])
    arrays["head.weight"] = arrays["head.weight"].astype(np.int8)
    assert_refused(tmp_path, arrays, "dtype: head.weight has int8")


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PillionError, match="no file of this name"):
        zoo.load_weights(zoo.build("linear_bn")[0], tmp_path / "none.npz")


@pytest.mark.parametrize(
    "kind", ["empty", "text", "truncated", "single array", "objects", "other member", "folder"]
)
def test_a_file_that_is_something_else(tmp_path: Path, kind: str) -> None:
    path, model = tmp_path / "w.npz", zoo.build("linear_bn")[0]
    zoo.save_weights(model, path)
    write_something_else(path, kind)
    with pytest.raises(PillionError, match=r"is not a file of weights|a folder"):
        zoo.load_weights(model, path)


def write_something_else(path: Path, kind: str) -> None:
    match kind:
        case "empty":
            path.write_bytes(b"")
        case "text":
            path.write_text("weights")
        case "truncated":
            path.write_bytes(path.read_bytes()[:-100])
        case "single array":
            with path.open("wb") as file:
                np.save(file, np.zeros(3))
        case "objects":
            np.savez(path, a=np.array([{}], dtype=object))
        case "other member":
            import zipfile

            with zipfile.ZipFile(path, "a") as archive:
                archive.writestr("readme", "hello")
        case "folder":
            path.unlink()
            path.mkdir()
