# SPDX-License-Identifier: Apache-2.0
"""Whatever a model, its tensors and its source lines are called, the C that comes out compiles, and answers the reference's
bytes."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections import OrderedDict
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import pillion
from nightly import part_of
from pillion.boards.firmware import C_FLAGS
from pillion.compiler import compile_graph
from pillion.devices.cortex_m import CORES
from pillion.emitters.c.escaping import comment_text, string_literal
from pillion.emitters.pte import emit as emit_pte
from pillion.emitters.tflite import emit as emit_tflite
from pillion.host_io.atomic_files import write_parts
from pillion.importers.pte import read as read_pte
from pillion.importers.tflite import read as read_tflite
from pillion.importers.torch.capture import load_model
from pillion.ir.graph import LONGEST_MODEL_NAME, Graph, model_name
from pillion.ir.types import PerTensor, constant_value
from pillion.ops import Add, Clamp, Op
from pillion.ops.example_values import random_like, value
from pillion.program import Program
from pillion.targets import find_target

pytestmark = pytest.mark.usefixtures("any_sound_plan")

NAMES = (
    *(
        "model/add/y",
        "a.b",
        "a;b",
        "a+b",
        "a-b",
        'a"b',
        "a\\b",
        "a*/b",
        "/*",
        "??/",
        "??/\\",
        "%s%n",
        "{x}",
        "\n",
        "a\\\nb",
    ),
    *(
        "größe",
        "模型",
        "\u202e\u2066",
        "\ud800",
        "\0",
        "\x1b[2J",
        "*/ int main(void) { } /*",
        "$(touch x)",
        "`x`",
        "' x",
    ),
    *(
        "int",
        "main",
        "memcpy",
        "NULL",
        "double",
        "uint8_t",
        "base",
        "arena",
        "op0",
        "inputs",
        "pillion",
        "Pillion",
        "PILLION_model",
    ),
    *("1", "9lives", "_", "__x", "", " ", "x" * 3000, "x" * 2999 + "y", "X" * 3000, "é" * 3000),
)
"""All of them in one model: many of them clean to one."""
MODELS = ("model/add/y", "int", "NULL", "9lives", "", "PILLION", NAMES[-4])


VALUES = tuple(name for name in NAMES if name != "\ud800")
"""A door lets no surrogate in."""


def named_graph(model: str, names: tuple[str, ...] = VALUES) -> Graph:
    """A chain of sums with constants, whose values are called like this; no two of them by one name."""
    rng = np.random.default_rng(0)
    x = value(names[0], (1, 2, 3, 4), 0.1, 3)
    ops: list[Op] = []
    at = x
    for number, name in enumerate(names[1:]):
        held = constant_value(
            f"{name}·", rng.integers(-128, 128, (1, 2, 3, 4)).astype(np.int8), PerTensor(0.1, 3)
        )
        y = value(name, (1, 2, 3, 4), 0.1 + 0.001 * number, 3)
        ops.append(Add(a=at, b=held, y=y, source=f"{name}:{number}"))
        at = y
    return Graph(model, (x,), tuple(ops), (at,))


def written(program: Program, folder: Path) -> Path:
    for path, content in program.files.items():
        write_parts(folder / path, content)
    return folder


def require_same_bytes(program: Program) -> None:
    """The C compiles with every warning an error, for this computer, and answers what the reference answers."""
    data = [random_like(v) for v in program.graph.inputs]
    found, wanted = program.run(*data, on="host"), program.run(*data)
    assert [y.tobytes() for y in found] == [y.tobytes() for y in wanted]


@pytest.mark.turns(3)
@pytest.mark.parametrize("model", part_of(MODELS, 3))
def test_any_names_compile_and_answer(model: str) -> None:
    names = VALUES if model == "model/add/y" else NAMES[:3]
    program = Program(named_graph(model, names), find_target("cortex-m33"))
    require_same_bytes(program)


@pytest.mark.skipif(not shutil.which("arm-none-eabi-gcc"), reason="no compiler for Cortex-M here")
@pytest.mark.nightly
def test_any_names_compile_for_the_chip(tmp_path: Path) -> None:
    folder = written(Program(named_graph("int"), find_target("cortex-m55")), tmp_path)
    command = ("arm-none-eabi-gcc", "-mcpu=cortex-m55", *C_FLAGS, "-Ikernels/include", "-fsyntax-only")
    sources = ("model.c", "weights.c")
    done = subprocess.run((*command, *sources), cwd=folder / "model", capture_output=True, text=True)
    assert not done.returncode, done.stderr


@pytest.mark.nightly
def test_any_names_through_files() -> None:
    """TFLite keeps names, a program of ours its record."""
    chip = find_target("cortex-m33")
    graph = named_graph("n")
    for read in (read_tflite(emit_tflite(graph)), read_pte(emit_pte(graph, CORES["cortex-m33"])).graph):
        program = compile_graph(read, chip)
        assert all(v.name.isascii() and v.name.isprintable() for v in program.graph.values.values())
        require_same_bytes(program)


def test_a_file_of_any_name_becomes_a_model_that_compiles(tmp_path: Path) -> None:
    x, y = value("x", (1, 4), 0.1, 3), value("y", (1, 4), 0.1, 3)
    raw = emit_pte(Graph("g", (x,), (Clamp(x=x, y=y, low=-3, high=5),), (y,)), CORES["cortex-m33"])
    foreign = raw.replace(b"pillion", b"qillion")
    for stem in ("a b", "a;b", "$(touch x)", "größe", "%s%n", "\n"):
        path = tmp_path / f"{stem}.pte"
        path.write_bytes(foreign)
        require_same_bytes(Program(read_pte(path).graph, find_target("cortex-m33")))


NET = """
import torch
Net = lambda: torch.nn.Sequential(torch.nn.Linear(4, 4), Act())
class Act(torch.nn.Module):
    def forward(self, x):
        return x.tanh()
example_inputs = lambda: (torch.ones(1, 4),)
"""


@pytest.mark.parametrize("stem", part_of([b"*_", "größe".encode(), b"a\\", b"\x1b[2J", b"a b;'"], 4))
def test_source_lines_of_any_file(stem: bytes, tmp_path: Path) -> None:
    """The name of the file reaches C as a comment, the manifest and the terminal."""
    path = tmp_path / os.fsdecode(stem + b".py")
    path.write_text(NET)
    source = load_model(f"{path}:Net")
    program = pillion.compile(source.module, source.example_inputs, target="cortex-m33")
    assert any(op.source.endswith(".py:6 1") for op in program.graph)
    assert all(op.source.isprintable() for op in program.graph)
    require_same_bytes(program)


@pytest.mark.turns(3)
@pytest.mark.parametrize("name", ["*/", "größe", "int", 'a"b\\', "x" * 3000])
def test_any_names_of_modules(name: str) -> None:
    """Of classes, of their parts, and of the model."""
    torch.manual_seed(0)
    parts = [("größe", nn.Linear(4, 4)), ("int", nn.ReLU()), ("a b", nn.Linear(4, 3)), ("*_", nn.Sigmoid())]
    module = type(name, (nn.Sequential,), {})(OrderedDict(parts))
    for given in (None, name):
        require_same_bytes(pillion.compile(module, torch.randn(1, 4), target="cortex-m33", name=given))


def test_names_of_models_leave_room_and_stay_different() -> None:
    made = [model_name(name) for name in NAMES]
    assert all(
        re.fullmatch(r"[A-Za-z]\w*", name, re.ASCII) and len(name) <= LONGEST_MODEL_NAME for name in made
    )
    assert model_name("x" * 3000) != model_name("x" * 2999 + "y")


@pytest.mark.parametrize("text", NAMES)
def test_comments_and_strings_stay_unchanged(text: str, tmp_path: Path) -> None:
    source = f"/* {comment_text(text)} */\n/* {comment_text(text * 3)} */\nconst char *const t = {string_literal(text)};\n"
    source += f"const char exact[sizeof({string_literal(text)}) == {len(text.encode('utf-8', 'replace')) + 1} ? 1 : -1];\n"
    (tmp_path / "t.c").write_text(source)
    done = subprocess.run(
        ["cc", "-std=c99", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", "t.c"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert not done.returncode, done.stderr
    assert source.isascii()
