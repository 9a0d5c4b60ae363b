# SPDX-License-Identifier: Apache-2.0
"""ONNX's own tests of operators: what is read answers what the standard says, the rest is refused."""

from __future__ import annotations

import contextlib
import io
import warnings
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from pillion.errors import PillionError
from pillion.importers.torch.onnx import load_onnx
from pillion.importers.torch.onnx.file_module import KNOWN

onnx = pytest.importorskip("onnx")

OTHERWISE = {
    "test_quantizelinear": "uint8 is int8 less 128",
    "test_quantizelinear_axis": "uint8 is int8 less 128",
    "test_top_k_same_values": "of equal values, PyTorch takes any",
    "test_top_k_same_values_2d": "of equal values, PyTorch takes any",
    "test_top_k_same_values_largest": "of equal values, PyTorch takes any",
    "test_gather_negative_indices": "computed places are not negative",
}
"""Answers that differ on purpose."""
INPUTS = (np.float32, np.int64, np.int32)


PARTS = 4


@cache
def cases() -> list[Any]:
    """Returns ONNX's tests of the operators that are read."""
    from onnx.backend.test.case.node import collect_testcases

    with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found: list[Any] = collect_testcases("")
    return [case for case in found if {node.op_type for node in case.model.graph.node} <= KNOWN]


def read(case: Any, path: Path, most: int) -> tuple[torch.nn.Module, list[torch.Tensor]]:
    """Returns a test's module and its first inputs; others are constants of the file."""
    model = onnx.ModelProto()
    model.CopyFrom(case.model)
    inputs: list[Any] = []
    values = list(model.graph.input)
    del model.graph.input[:]
    for value, given in zip(values, case.data_sets[0][0], strict=False):
        if not isinstance(given, (np.ndarray, np.generic)):
            continue
        array = np.asarray(given)
        if array.dtype in INPUTS and len(inputs) < most:
            inputs.append(torch.from_numpy(array.copy()))
            model.graph.input.append(value)
        else:
            model.graph.initializer.append(onnx.numpy_helper.from_array(array, value.name))
    onnx.save(model, str(path))
    return load_onnx(path)[0], inputs


def answer(case: Any, path: Path) -> str:
    """Says whether a test is read, and how it answers."""
    try:
        try:
            module, inputs = read(case, path, 9)
        except PillionError:
            module, inputs = read(case, path, 1)
    except PillionError:
        return "refused"
    try:
        made = [y.numpy() for y in module(*inputs)]
    except IndexError:
        return "otherwise"
    same = all(
        a.shape == b.shape and np.allclose(a.astype(float), b.astype(float), 1e-3, 1e-5, equal_nan=True)
        for a, b in zip(made, case.data_sets[0][1], strict=False)
    )
    return "same" if same else "otherwise"


@pytest.mark.slow
@pytest.mark.turns(2)
@pytest.mark.parametrize("part", range(PARTS))
def test_operators_follow_the_onnx_standard(part: int, tmp_path: Path) -> None:
    answers = {case.name: answer(case, tmp_path / "case.onnx") for case in cases()[part::PARTS]}
    assert {name for name, kind in answers.items() if kind == "otherwise"} <= set(OTHERWISE)
    assert Counter(answers.values())["same"] > 600 / PARTS
