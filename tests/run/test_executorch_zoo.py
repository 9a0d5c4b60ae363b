# SPDX-License-Identifier: Apache-2.0
"""Every model of the zoo as a `.pte`: ExecuTorch's runtime checks the file in full and, with our kernels, gives the reference's bytes."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import pillion
from nightly import runs_all
from pillion import zoo
from pillion.cli import main
from pillion.devices.cortex_m import CORES
from pillion.emitters.pte import emit
from pillion.emitters.pte.file_facts import facts_of
from pillion.emitters.segments import host_delegate_payloads
from pillion.ops import Segment
from pillion.run.verify import random_samples
from pillion.schemas import pte
from pillion.schemas.flatbuffer import read_root_table
from pillion.targets import find_target
from zoo_programs import MODELS, TARGETS, compiled

pytest.importorskip("executorch", reason="pip install 'pillion[executorch]'")
pytestmark = [pytest.mark.slow, pytest.mark.torch]

LARGEST_FILE, LARGEST_ARENA = 3_750_000, 1_600_000
"""Of MobileNetV2 at 224 x 224. ExecuTorch's own flow writes 3,930,624 bytes."""
SECONDS_TO_WRITE = 1.0


def tensors_of(file: bytes) -> list[pte.Tensor]:
    """All tensors of a program."""
    _, _, size, _, _ = pte.HEADER.unpack_from(file, 8)
    plan = read_root_table(pte.Program, file[:size], pte.IDENTIFIER).execution_plan[0]
    return [value.val for value in plan.values if isinstance(value.val, pte.Tensor)]


@pytest.mark.turns(20)
@pytest.mark.parametrize("target", TARGETS if runs_all() else TARGETS[1:])
@pytest.mark.parametrize("name", MODELS)
def test_the_real_runtime_gives_the_references_bytes(name: str, target: str) -> None:
    program = compiled(name, target)
    for sample in random_samples(program.graph, 2, seed=3):
        for got, want in zip(program.run(*sample, on="executorch"), program.run(*sample), strict=True):
            assert (got.shape, got.dtype) == (want.shape, want.dtype)
            np.testing.assert_array_equal(got.view(np.uint8), want.view(np.uint8))


@pytest.mark.parametrize("target", TARGETS if runs_all() else TARGETS[1:])
@pytest.mark.parametrize("name", MODELS)
def test_pte_programs_have_float_tensors_at_the_border_alone(name: str, target: str) -> None:
    program = compiled(name, target)
    file = program.pte()
    real = [t for t in tensors_of(file) if t.scalar_type in (pte.ScalarType.FLOAT32, pte.ScalarType.FLOAT64)]
    borders = (*program.graph.inputs, *program.graph.outputs)
    assert sorted(tuple(t.sizes) for t in real) == sorted(v.shape for v in borders)
    segments = sum(isinstance(op, Segment) for op in program.graph.ops)
    assert facts_of(file).delegate_calls == segments


def test_for_a_core_the_same_graph_is_compiled_as_for_another() -> None:
    module, example = zoo.build("linear_bn")
    texts = {pillion.compile(module, example, target=t, name="net").text() for t in TARGETS[:2]}
    assert len(texts) == 1


@pytest.mark.parametrize("core", CORES)
def test_every_core_has_programs_by_either_name(core: str) -> None:
    program = compiled("separable_residual", f"{core}+int8")
    assert find_target(core) == program.target
    (sample,) = random_samples(program.graph, 1, seed=1)
    np.testing.assert_array_equal(program.run(*sample, on="executorch")[0], program.run(*sample)[0])


@pytest.mark.nightly
def test_the_command_of_the_readme(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    words = "-m mv2 --target cortex-m55+int8 --quantize --intermediates=./i --output=./mv2.pte --json"
    monkeypatch.setattr(sys, "argv", ["pillion", "compile", *words.split()])
    main()
    said, file = json.loads(capsys.readouterr().out), (tmp_path / "mv2.pte").read_bytes()
    assert said["file_bytes"] == len(file) <= LARGEST_FILE
    assert said["arena_bytes"] == facts_of(file).arena_bytes <= LARGEST_ARENA
    assert said["runtime"] == "ExecuTorch 1.5"
    assert (said["kernel_calls"], said["delegate_calls"]) == (facts_of(file).kernel_calls, 0)
    assert any((tmp_path / "i").iterdir())


def test_writing_takes_a_moment() -> None:
    program = compiled("mobilenet_v2", "cortex-m55+int8")
    start = time.process_time()
    file = emit(program.graph, program.target.core, payloads=host_delegate_payloads(program.graph))
    assert time.process_time() - start < SECONDS_TO_WRITE
    assert len(file) > 3_000_000
